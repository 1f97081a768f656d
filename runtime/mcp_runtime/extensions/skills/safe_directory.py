"""A folder goes in: what lies below it is listed and read, and nothing else, whatever is swapped or linked meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...errors import LocalError

PathParts = tuple[str, ...]
FileState = tuple[int, int, int, int]  # Of a file: device, inode, size, time of change. Another one is another file.

MAX_DEPTH: Final = 32
_BELOW: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0)
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)  # What is no file, such as a pipe, is not waited for.


class UnservableFileError(ValueError):
    """Something below the folder that is not served; the message begins with its path."""


class SafeDirectory:
    """A folder, and no way out of it. What begins with a dot is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises LocalError where there is no such folder."""
        self.path = Path(path).resolve()
        if os.open not in os.supports_dir_fd:
            raise LocalError("folders of skills are served where files can be opened below a folder alone: not here")
        if not self.path.is_dir():
            raise LocalError(f"{self.path} is no folder")

    def read(self, parts: PathParts, max_bytes: int) -> tuple[bytes, FileState]:
        """The bytes of a file. Raises FileNotFoundError and the like, and UnservableFileError for what is no file, or has more
        bytes than `most`."""
        with self._open(parts[:-1]) as folder:
            file = os.open(parts[-1], _BELOW | _NO_WAIT, dir_fd=folder)
            with open(file, "rb") as stream:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode):
                    raise UnservableFileError(f"{'/'.join(parts)} is neither a file nor a folder")
                data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise UnservableFileError(f"{'/'.join(parts)} has more than {max_bytes} bytes")
        return data, _state(found)

    def files(self, below: PathParts = ()) -> Iterator[tuple[PathParts, FileState]]:
        """Every file below a folder, in the order of their paths. Raises UnservableFileError for whatever else there is."""
        files, folders = self.names(below)
        for name, found in sorted({**files, **dict.fromkeys(folders, None)}.items()):
            if found is None:
                yield from self.files((*below, name))
            else:
                yield (*below, name), found

    def names(self, parts: PathParts) -> tuple[dict[str, FileState], list[str]]:
        """The files and the folders in a folder. Raises as `files`."""
        if len(parts) > MAX_DEPTH:
            raise UnservableFileError(f"{'/'.join(parts)} lies more than {MAX_DEPTH} levels deep")
        files: dict[str, FileState] = {}
        folders: list[str] = []
        with self._open(parts) as folder, os.scandir(folder) as there:
            for each in there:
                if each.name.startswith("."):
                    continue
                found = each.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    files[each.name] = _state(found)
                elif stat.S_ISDIR(found.st_mode):
                    folders.append(each.name)
                else:
                    what = "a link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a folder"
                    raise UnservableFileError(f"{'/'.join((*parts, each.name))} is {what}")
        return files, sorted(folders)

    @contextmanager
    def _open(self, parts: Sequence[str]) -> Generator[int]:
        """A folder below, opened step by step, so that no step follows a link."""
        at = os.open(self.path, os.O_RDONLY | _FOLDER)
        try:
            for part in parts:
                below = os.open(part, _BELOW | _FOLDER, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _state(found: os.stat_result) -> FileState:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
