"""Directories that are read without leaving them, also if files are replaced by links at the same time."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...errors import LocalError

PathParts = tuple[str, ...]
FileState = tuple[int, int, int, int]  # Device, inode, size and modification time of a file.

MAX_DEPTH: Final = 32
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY_FLAG: Final = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK_FLAG: Final = getattr(os, "O_NONBLOCK", 0)  # Opening a pipe must not block.


class UnservableFileError(ValueError):
    """Raised for a file that cannot be served, such as a link; the message begins with its path."""


class SafeDirectory:
    """A directory whose files are read without following links. Names that begin with a dot are ignored."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Resolve the path. Raises LocalError if it is not a directory, or if the platform lacks `openat`."""
        self.path = Path(path).resolve()
        if os.open not in os.supports_dir_fd:
            raise LocalError(
                "skills cannot be served on this platform: it cannot open files relative to a directory (openat); "
                "run the server on Linux or macOS, or on Windows in WSL"
            )
        if not self.path.is_dir():
            raise LocalError(f"{self.path} is not a directory")

    def read(self, parts: PathParts, max_bytes: int) -> tuple[bytes, FileState]:
        """Return the bytes and the state of a file.

        Raises OSError if it cannot be opened, UnservableFileError if it is not a regular file or exceeds `max_bytes`.
        """
        with self._open(parts[:-1]) as folder:
            file = os.open(parts[-1], _OPEN_FLAGS | _NONBLOCK_FLAG, dir_fd=folder)
            with open(file, "rb") as stream:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise UnservableFileError(f"{'/'.join(parts)} is neither a file nor a directory")
                data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise UnservableFileError(f"{'/'.join(parts)} has more than {max_bytes} bytes")
        return data, _state(status)

    def files(self, below: PathParts = ()) -> Iterator[tuple[PathParts, FileState]]:
        """Yield all files below a directory in the order of their paths. Raises UnservableFileError for other
        entries."""
        files, folders = self.names(below)
        for name, state in sorted({**files, **dict.fromkeys(folders, None)}.items()):
            if state is None:
                yield from self.files((*below, name))
            else:
                yield (*below, name), state

    def names(self, parts: PathParts) -> tuple[dict[str, FileState], list[str]]:
        """Return the files and the directories in a directory. Raises the errors of `files`."""
        if len(parts) > MAX_DEPTH:
            raise UnservableFileError(f"{'/'.join(parts)} is more than {MAX_DEPTH} levels deep")
        files: dict[str, FileState] = {}
        folders: list[str] = []
        with self._open(parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    files[entry.name] = _state(status)
                elif stat.S_ISDIR(status.st_mode):
                    folders.append(entry.name)
                else:
                    kind = "a link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a directory"
                    raise UnservableFileError(f"{'/'.join((*parts, entry.name))} is {kind}")
        return files, sorted(folders)

    @contextmanager
    def _open(self, parts: Sequence[str]) -> Generator[int]:
        """Open a directory one segment at a time, so that no segment follows a link."""
        folder = os.open(self.path, os.O_RDONLY | _DIRECTORY_FLAG)
        try:
            for part in parts:
                child = os.open(part, _OPEN_FLAGS | _DIRECTORY_FLAG, dir_fd=folder)
                os.close(folder)
                folder = child
            yield folder
        finally:
            os.close(folder)


def _state(status: os.stat_result) -> FileState:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
