"""Folders that may be used go in; files inside of them, and of nothing else, can be listed, read and written."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LONGEST: Final = 1 << 20  # Bytes of one file.
MOST: Final = 1000  # Entries of one listing.


class Denied(Exception):
    """This cannot be done; the text says why, for people and models to read."""


@dataclass(frozen=True, slots=True)
class Folders:
    """What the command line allows, and what the client's roots allow; None where the client has no roots to tell.

    A path has to be inside of both once its links are followed, so that neither `..` nor a link leads out.
    """

    allowed: Sequence[Path]
    roots: Sequence[Path] | None = None

    def place(self, path: str) -> Path:
        """Where a path really is. Raises Denied for one that is outside, without telling whether it is there."""
        if "\0" in path or not Path(path).is_absolute():
            raise Denied("A path has to be absolute.")
        try:
            real = Path(path).resolve()
        except (OSError, RuntimeError):
            raise Denied("This path leads nowhere.") from None
        for inside in (self.allowed, self.roots):
            if inside is not None and not any(real.is_relative_to(folder) for folder in inside):
                raise Denied("This path is outside of the folders that may be used.")
        return real

    def listing(self, path: str) -> str:
        """The entries of a folder, a line each; those of folders end in a slash."""
        try:
            with os.scandir(self.place(path)) as entries:
                names = sorted(each.name + "/" * each.is_dir(follow_symlinks=False) for each in entries)
        except OSError as fault:
            raise Denied(f"The folder cannot be listed: {fault.strerror}.") from None
        return "\n".join(names[:MOST]) + ("\n…" if len(names) > MOST else "")

    def read(self, path: str) -> str:
        """The text of a file of at most a megabyte."""
        # Without waiting, because opening a named pipe would wait for its other end for ever.
        with os.fdopen(self._open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Denied("This is not a file.")
            content = file.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise Denied(f"The file is longer than {LONGEST} bytes.")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise Denied("The file is not text in UTF-8.") from None

    def create(self, path: str, text: str) -> str:
        """Write a new file; one that exists is left as it is."""
        content = text.encode()
        if len(content) > LONGEST:
            raise Denied(f"The text is longer than {LONGEST} bytes.")
        with os.fdopen(self._open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
        return f"{len(content)} bytes written"

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(self.place(path), flags | os.O_NOFOLLOW, 0o644)
        except OSError as fault:
            raise Denied(f"The file cannot be opened: {fault.strerror}.") from None


def folder_of(uri: str) -> Path | None:
    """The folder that a root means; None for what is no folder of this machine."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        return None
    return Path(unquote(parts.path)).resolve()
