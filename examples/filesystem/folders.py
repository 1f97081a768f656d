"""List, read and create files inside allowed folders, and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

MAX_BYTES: Final = 1 << 20  # Of one file.
MAX_ENTRIES: Final = 1000  # Of one listing.


class AccessDeniedError(Exception):
    """The operation is not allowed or not possible. The text gives the reason, for people and models."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of the command line, and the client's roots (None if the client has none).

    A path, with its links resolved, has to be inside both, so that neither `..` nor a link leads out.
    """

    allowed: Sequence[Path]
    roots: Sequence[Path] | None = None

    def resolve_allowed(self, path: str) -> Path:
        """Return the resolved path. Raises AccessDeniedError for a path outside, whether it exists or not."""
        if "\0" in path or not Path(path).is_absolute():
            raise AccessDeniedError("A path has to be absolute.")
        try:
            real = Path(path).resolve()
        except (OSError, RuntimeError):
            raise AccessDeniedError("This path leads nowhere.") from None
        for inside in (self.allowed, self.roots):
            if inside is not None and not any(real.is_relative_to(folder) for folder in inside):
                raise AccessDeniedError("This path is outside of the folders that may be used.")
        return real

    def listing(self, path: str) -> str:
        """Return the entries of a folder, one in a line; names of folders end in a slash."""
        try:
            with os.scandir(self.resolve_allowed(path)) as entries:
                names = sorted(entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in entries)
        except OSError as error:
            raise AccessDeniedError(f"The folder cannot be listed: {error.strerror}.") from None
        return "\n".join(names[:MAX_ENTRIES]) + ("\n…" if len(names) > MAX_ENTRIES else "")

    def read(self, path: str) -> str:
        """Return the text of a file of at most one MiB."""
        # Non-blocking, because opening a named pipe would otherwise wait for its other end.
        with os.fdopen(self._open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise AccessDeniedError("This is not a file.")
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise AccessDeniedError(f"The file is longer than {MAX_BYTES} bytes.")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise AccessDeniedError("The file is not text in UTF-8.") from None

    def create(self, path: str, text: str) -> str:
        """Write a new file. Raises AccessDeniedError if the file exists."""
        content = text.encode()
        if len(content) > MAX_BYTES:
            raise AccessDeniedError(f"The text is longer than {MAX_BYTES} bytes.")
        with os.fdopen(self._open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
        return f"{len(content)} bytes written"

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(self.resolve_allowed(path), flags | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise AccessDeniedError(f"The file cannot be opened: {error.strerror}.") from None


def folder_of_root(uri: str) -> Path | None:
    """Return the folder of a root, or None if it is not a local folder."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    return Path(unquote(parts.path)).resolve()
