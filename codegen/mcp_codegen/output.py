"""Generated files: written all or not at all, or compared with the files on disk; and text that is safe in a
terminal."""

from __future__ import annotations

import difflib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from .errors import OutputError

Files = Mapping[Path, str]
# Each begins at the last letter of a scheme and ends before the next URL: the text of a server may be long, and a
# search that begins at each of its characters and reads to its end would take the square of its length.
_USER: Final = re.compile(r"""([A-Za-z0-9+.-]://)[^\s/?#'"]*@""")
_QUERY: Final = re.compile(r"""([A-Za-z0-9+.-]://(?:(?!://)[^\s?#'"])*)([?#][^\s'"]*)""")
_KEY: Final = re.compile(r"key|token|secret|pass|pwd|auth|sig|cred|jwt|session|code|api", re.IGNORECASE)
_MAX_BACKUPS: Final = 99
_NEW_FILE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)  # "O_EXCL" follows no link either.
_MARK: Final = "enerated by mcp-codegen"


def write_files(files: Files) -> list[Path]:
    """Write the files that differ and return their paths.

    Each file is written to a temporary file in its folder first. Whatever is raised, the files become what they were.
    Raises OutputError.
    """
    changed = changed_files(files)
    before = {path: path.read_bytes() if path.is_file() else None for path in changed}
    staged: dict[Path, Path] = {}
    folders = [folder for path in changed for folder in missing_folders(path.parent)]
    replaced: list[Path] = []
    try:
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            staged[path] = staged_file(path, files[path].encode())
        for path, temporary in staged.items():
            replaced.append(path)
            temporary.replace(path)
    except BaseException as error:
        _restore({path: before[path] for path in replaced if not staged[path].exists()})
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        for folder in folders:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        if not isinstance(error, OSError):
            raise
        raise OutputError(
            f"{error.filename}: cannot be written: {error.strerror}; nothing was changed, choose another "
            "path or fix its permissions"
        ) from error
    return changed


def changed_files(files: Files) -> list[Path]:
    """Return the paths of the files that differ from those on disk. Raises OutputError for a file that was not
    generated."""
    return [path for path, text in files.items() if _current(path) != text]


def _restore(contents: Mapping[Path, bytes | None]) -> None:
    """Give files the bytes that they had; None for a file that was missing."""
    for path, data in contents.items():
        if data is None:
            path.unlink(missing_ok=True)
        else:
            staged_file(path, data).replace(path)


def staged_file(path: Path, data: bytes, *, private: bool = False) -> Path:
    """Write data to a new file beside a path, whose place it can take in one step, and return where it is.

    No link is followed: the new file takes the place of a link. Its permissions are those of `write_new`. Raises
    OSError, and has left nothing.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")  # A name that nobody can guess.
    write_new(temporary, data, path, private=private)
    return temporary


def write_new(file: Path, data: bytes, like: Path, *, private: bool = False) -> None:
    """Write data to a file that does not exist, and that takes the place of another one.

    It has the permissions of the other file, but for that to run it; without such a file 0600 if it is private, and
    else what the umask allows. Raises OSError, and has left nothing.
    """
    handle = os.open(file, _NEW_FILE, 0o600 if private else 0o666)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
        with suppress(FileNotFoundError):
            status = like.lstat()
            if stat.S_ISREG(status.st_mode):
                os.chmod(file, stat.S_IMODE(status.st_mode) & 0o666)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def replace_user_file(path: Path, text: str) -> None:
    """Replace a file of a user in one step, as `staged_file` does. A new file is private.

    Raises OutputError, and has changed nothing, if it is a link or cannot be written.
    """
    refuse_links(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = staged_file(path, text.encode(), private=True)
        try:
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, UnicodeEncodeError) as error:
        raise OutputError(f"{path}: cannot be written: {error}; nothing was changed") from error


def back_up(path: Path, text: str) -> Path:
    """Store a text beside a file, as a private file whose name is not taken: FILE.bak, FILE.bak2, and so on.

    Return its path, which is that of a backup with the same text if there is one. Raises OutputError.
    """
    for number in range(1, _MAX_BACKUPS + 1):
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            with os.fdopen(os.open(backup, _NEW_FILE, 0o600), "wb") as file:
                file.write(text.encode())
            return backup
        except FileExistsError:
            if not backup.is_symlink() and backup.is_file() and backup.read_bytes() == text.encode():
                return backup
        except OSError as error:
            raise OutputError(f"{backup}: cannot be written: {error}; nothing was changed") from error
    raise OutputError(f"{path}: has {_MAX_BACKUPS} backups already; remove some of them. Nothing was changed")


def refuse_links(*places: Path) -> None:
    """Raise OutputError if one of these files or folders is a link."""
    for place in places:
        if _is_link(place):
            raise OutputError(
                f"{place}: is a link to {os.path.realpath(place)}, and no link is followed; nothing was changed, "
                "pass the path of the file itself"
            )


def folders_between(folder: Path, path: Path) -> list[Path]:
    """Return the folders of a path that are inside of a folder."""
    return [parent for parent in path.parents if folder in parent.parents]


def _is_link(path: Path) -> bool:
    is_junction: Callable[[Path], bool] | None = getattr(os.path, "isjunction", None)  # Windows, from Python 3.12 on.
    return path.is_symlink() or (is_junction is not None and is_junction(path))


def write_new_files(files: Files) -> None:
    """Write files that do not exist yet, all or none. Raises OutputError for one that does."""
    existing = [str(path) for path in files if path.exists()]
    if existing:
        raise OutputError(
            f"{', '.join(existing)}: exists already and is not overwritten; nothing was written, choose another folder"
        )
    write_files(files)


def compare_files(files: Files) -> list[str]:
    """Return a unified diff for each file that differs, from the file on disk to the generated text."""
    diffs: list[str] = []
    for path, text in files.items():
        current = _current(path)
        if current != text:
            before = [] if current is None else current.splitlines(keepends=True)
            lines = difflib.unified_diff(before, text.splitlines(keepends=True), str(path), f"{path} (generated)")
            diffs.append("".join(line if line.endswith("\n") else line + "\n" for line in lines))
    return diffs


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders that do not exist yet, deepest first."""
    chain = [folder, *folder.parents]
    return [path for path in chain if not path.exists()]


def _current(path: Path) -> str | None:
    """Return the text on disk, or None if there is no file. Raises OutputError for a file that was not generated."""
    try:
        text = path.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(
            f"{path}: a file that cannot be read is in the way: {error}; choose another --output"
        ) from error
    if text and _MARK not in text and path.suffix == ".py":
        raise OutputError(f"{path}: was not generated by mcp-codegen and is not overwritten; choose another --output")
    return text


def read_file(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file. Raises OSError for another kind of file, and for one that is too long."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is not a regular file", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(0, f"it has more than {limit} bytes", str(path))
    return data


def open_private(path: Path) -> int:
    """Open a new or emptied file that only its owner can read, and return its descriptor. Raises OSError for a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o600)
    if sys.platform != "win32":
        os.fchmod(file, 0o600)  # The file may have been there.
    return file


def without_secrets(text: str) -> str:
    """Return text without user information, queries and fragments of the URLs in it."""
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def has_secrets(text: str) -> bool:
    """Return True if a URL in a text has user information, or a part of a query that looks like a key."""
    return _USER.search(text) is not None or any(_KEY.search(match[2]) for match in _QUERY.finditer(text))


def plain_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON, with every character that is not printable escaped as JSON escapes it."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def plain(text: str) -> str:
    """Return untrusted text with every non-printable character escaped, so that it cannot control the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
