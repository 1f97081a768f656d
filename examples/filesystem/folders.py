"""Which paths may be used, and how they are opened so that no link leads out, not even one that is made meanwhile."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

if not hasattr(os, "O_DIRECTORY"):  # Nor `openat`: Windows.
    raise SystemExit(
        "examples/filesystem opens each file below a folder that it holds open, so that no link leads out. This system "
        "cannot do so: run it on Linux, on macOS or in the Windows Subsystem for Linux"
    )

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRIVE: Final = re.compile(r"[A-Za-z]:(?:[\\/]|$)")
# The descriptions of libuv, which the original's messages have.
_DESCRIPTIONS: Final = {
    errno.EACCES: "permission denied",
    errno.EEXIST: "file already exists",
    errno.EISDIR: "illegal operation on a directory",
    errno.ELOOP: "too many symbolic links encountered",
    errno.ENAMETOOLONG: "name too long",
    errno.ENOENT: "no such file or directory",
    errno.ENOTDIR: "not a directory",
    errno.ENOTEMPTY: "directory not empty",
}


class AccessDeniedError(Exception):
    """The operation is not allowed or not possible. The text gives the reason, for people and models."""


def failed(error: OSError, call: str, *paths: str) -> AccessDeniedError:
    """Return the error of a system call, in the form that the original has from Node.js."""
    code = errno.errorcode.get(error.errno or 0, "EIO")
    description = _DESCRIPTIONS.get(error.errno or 0) or (error.strerror or "unknown error").lower()
    return AccessDeniedError(f"{code}: {description}, {call}" + " ->".join(f" '{path}'" for path in paths))


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Return True if an absolute path without `..` is one of the folders, or below one of them."""
    return "\0" not in path and any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


class Folders:
    """The folders that may be used: those of the command line that are inside the client's roots, and vice versa.

    `roots` is None for a client without roots. Without folders of the command line, the roots alone are allowed.
    """

    def __init__(self, command_line: Sequence[str], roots: Sequence[str] | None = None) -> None:
        resolved = [os.path.realpath(folder) for folder in command_line]
        if roots is None:
            # A folder that is a link may be named by either path.
            allowed = [path for both in zip(command_line, resolved, strict=True) for path in both]
        elif not command_line:
            resolved = allowed = [*roots]
        else:
            allowed = [root for root in roots if is_inside(root, resolved)]
            allowed += [folder for folder in resolved if is_inside(folder, roots)]
        self.allowed = [*dict.fromkeys(allowed)]
        self._anchors = sorted(resolved, key=len)

    def resolve(self, requested: str) -> str:
        """Return the path with its links resolved; it need not exist. Raises AccessDeniedError for a path outside."""
        expanded = os.path.expanduser(requested) if requested == "~" or requested.startswith("~/") else requested
        if _DRIVE.match(expanded):
            raise AccessDeniedError(f"Access denied - Windows-style path received on a POSIX host: {requested}")
        absolute = self._absolute(expanded)
        if not is_inside(absolute, self.allowed):
            raise self._outside("path", absolute)
        try:
            real = os.path.realpath(absolute, strict=True)
        except FileNotFoundError:
            return self._resolve_new(absolute)
        except OSError as error:
            raise failed(error, "realpath", absolute) from None
        return self._checked(real)

    @contextmanager
    def parent(self, path: str) -> Generator[tuple[int, str]]:
        """Open the folder of a resolved path from an allowed folder on, and yield its descriptor and the name in it.

        No step follows a link: one that was made since `resolve` is an OSError.
        """
        anchor = next(anchor for anchor in self._anchors if is_inside(path, [anchor]))
        *folders, name = [part for part in path[len(anchor) :].split("/") if part] or ["."]
        descriptor = os.open(anchor, _FOLDER)
        try:
            for folder in folders:
                inner = os.open(folder, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)

    def make_folders(self, path: str) -> None:
        """Create the folders of a resolved path that do not exist."""
        anchor = next(anchor for anchor in self._anchors if is_inside(path, [anchor]))
        current = anchor.rstrip("/")
        for part in path[len(anchor) :].split("/"):
            if part:
                current = f"{current}/{part}"
                with self.parent(current) as (folder, name):
                    try:
                        os.mkdir(name, dir_fd=folder)
                    except FileExistsError:
                        os.close(os.open(name, _FOLDER, dir_fd=folder))

    def _absolute(self, path: str) -> str:
        """Return a path without `..`; one that is not absolute is below the first allowed folder that contains it."""
        candidates = [os.path.normpath(os.path.join(folder, path)) for folder in self.allowed or [os.getcwd()]]
        inside = (candidate for candidate in candidates if is_inside(candidate, self.allowed))
        return re.sub("^/+", "/", next(inside, candidates[0]))

    def _resolve_new(self, absolute: str) -> str:
        """Return the path of something that does not exist. An existing part may be in another Unicode form."""
        folder = max((folder for folder in self.allowed if is_inside(absolute, [folder])), key=len)
        current = os.path.realpath(folder)
        parts = [part for part in absolute[len(folder) :].split("/") if part]
        try:
            for index, part in enumerate(parts):
                names = os.listdir(current)
                same = [part] if part in names else [name for name in names if _composed(name) == _composed(part)]
                if len(same) > 1:
                    raise AccessDeniedError(f"Ambiguous Unicode path component: {part}")
                if not same:
                    return os.path.join(current, *parts[index:])
                current = self._checked(os.path.realpath(os.path.join(current, same[0]), strict=True))
        except FileNotFoundError:
            raise AccessDeniedError(f"Parent directory does not exist: {os.path.dirname(absolute)}") from None
        except OSError as error:
            raise failed(error, "scandir", current) from None
        return current

    def _checked(self, real: str) -> str:
        if not is_inside(real, self.allowed):
            raise self._outside("symlink target", real)
        return real

    def _outside(self, what: str, path: str) -> AccessDeniedError:
        allowed = ", ".join(self.allowed)
        return AccessDeniedError(f"Access denied - {what} outside allowed directories: {path} not in {allowed}")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def folder_of_root(uri: str) -> str | None:
    """Return the resolved folder of a root, or None if it is not a local folder."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    folder = os.path.realpath(unquote(parts.path))
    return folder if os.path.isdir(folder) else None
