"""What the tools do with files and folders, by descriptors that `Folders` opens."""

from __future__ import annotations

import math
import os
import secrets
import stat
import string
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, NamedTuple

from folders import AccessDeniedError, Folders, failed
from glob_patterns import glob_matcher
from line_diffs import Edit, EditError, apply_edits, unified_diff

MAX_BYTES: Final = 10 << 20  # Of one file, or of the lines that are read of it.
MAX_ENTRIES: Final = 100_000  # Of one listing, search or tree.
_BLOCK: Final = 1 << 16
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The order of ASCII characters in the root collation of Unicode.
_ORDER: Final = {
    character: number
    for number, character in enumerate("\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$" + string.digits)
}


class Entry(NamedTuple):
    """An entry of a folder; a link is not a folder."""

    name: str
    is_folder: bool


class FileOperations:
    """The operations on resolved paths. All raise AccessDeniedError."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders

    # ---- reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _file(self, path: str) -> Generator[BinaryIO]:
        """Open a file; what is not a regular file is refused."""
        try:
            with self._folders.parent(path) as (folder, name):
                # Non-blocking, because opening a named pipe would otherwise wait for its other end.
                flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, dir_fd=folder)
        except OSError as error:
            raise failed(error, "open", path) from None
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            directory = "EISDIR: illegal operation on a directory, read"
            raise AccessDeniedError(directory if stat.S_ISDIR(mode) else f"This is not a file: {path}")
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self._file(path) as file:
            return _limited(file.read(MAX_BYTES + 1))

    def head(self, path: str, count: int) -> str:
        """Return the first lines of a file, without the last line end."""
        with self._file(path) as file:
            content = b""
            for _ in range(count):
                line = file.readline(MAX_BYTES + 1 - len(content))
                content = _limited(content + line)
                if not line:
                    break
        return content.decode(errors="replace").removesuffix("\n")

    def tail(self, path: str, count: int) -> str:
        """Return the last lines of a file. What follows the last line end is a line, even if it is empty."""
        with self._file(path) as file:
            start = file.seek(0, os.SEEK_END)
            content = b""
            while start > 0 and content.count(b"\n") < count:
                size = min(_BLOCK, start)
                start = file.seek(start - size)
                content = _limited(file.read(size) + content)
        return "\n".join(content.decode(errors="replace").replace("\r\n", "\n").split("\n")[-count:])

    def info(self, path: str) -> str:
        """Return size, times, kind and permissions, one in a line. Times are in the time zone of this process."""
        try:
            with self._folders.parent(path) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            raise failed(error, "stat", path) from None
        values = {
            "size": status.st_size,
            # Where Python cannot tell the time of the creation, it is that of the last change of the metadata.
            "created": _date(getattr(status, "st_birthtime", status.st_ctime)),
            "modified": _date(status.st_mtime),
            "accessed": _date(status.st_atime),
            "isDirectory": str(stat.S_ISDIR(status.st_mode)).lower(),
            "isFile": str(stat.S_ISREG(status.st_mode)).lower(),
            "permissions": f"{status.st_mode & 0o777:03o}",
        }
        return "\n".join(f"{name}: {value}" for name, value in values.items())

    # ---- listing ----------------------------------------------------------------------------------------------------

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a folder in the order of their bytes."""
        try:
            with self._folders.parent(path) as (folder, name):
                descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                with os.scandir(descriptor) as scanned:
                    entries = [Entry(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scanned]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise failed(error, "scandir", path) from None
        return sorted(_counted(entries), key=lambda entry: os.fsencode(entry.name))

    def sizes(self, path: str, by_size: bool) -> str:
        """Return the entries of a folder with their sizes, and the total. A link has the size of what it leads to."""
        sized = [(entry, self._size(f"{path.rstrip('/')}/{entry.name}")) for entry in self.entries(path)]
        sized.sort(key=lambda item: -item[1] if by_size else _collation(item[0].name))
        lines = [
            f"{_kind(entry)} {entry.name:30} {'' if entry.is_folder else format_size(size).rjust(10)}"
            for entry, size in sized
        ]
        files = [size for entry, size in sized if not entry.is_folder]
        total = f"Total: {len(files)} files, {len(sized) - len(files)} directories"
        return "\n".join([*lines, "", total, f"Combined size: {format_size(sum(files))}"])

    def _size(self, path: str) -> int:
        try:
            real = self._folders.resolve(path)
            with self._folders.parent(real) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
        except (AccessDeniedError, OSError):  # A link that leads nowhere, or out.
            return 0

    def tree(self, path: str, excluded: Sequence[str]) -> list[dict[str, Any]]:
        """Return the entries of a folder and of those below it, without those that a pattern excludes."""
        patterns = [form for pattern in excluded for form in _tree_patterns(pattern)]
        return self._tree(path, "", patterns, [])

    def _tree(self, path: str, inside: str, patterns: Sequence[str], seen: list[str]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        for entry in self.entries(path):
            relative = inside + entry.name
            if any(glob_matcher(pattern)(relative) for pattern in patterns):
                continue
            seen.append(relative)
            item: dict[str, Any] = {"name": entry.name, "type": "directory" if entry.is_folder else "file"}
            if entry.is_folder:
                item["children"] = self._tree(f"{path.rstrip('/')}/{entry.name}", f"{relative}/", patterns, seen)
            result.append(item)
        _counted(seen)
        return result

    def search(self, path: str, pattern: str, excluded: Sequence[str]) -> list[str]:
        """Return the paths below a folder that match; folders that cannot be read are left out."""
        start = path.rstrip("/")
        matching: list[str] = []
        folders, visited = [iter(self.entries(path))], [start]
        while folders:
            entry = next(folders[-1], None)
            if entry is None:
                folders.pop()
                visited.pop()
                continue
            full = f"{visited[-1]}/{entry.name}"
            relative = full[len(start) + 1 :]
            if any(glob_matcher(one)(relative) for one in excluded) or not self._is_usable(full):
                continue
            if glob_matcher(pattern)(relative):
                matching.append(full)
            if entry.is_folder:
                with suppress(AccessDeniedError):
                    folders.append(iter(self.entries(full)))
                    visited.append(full)
        return _counted(matching)

    def _is_usable(self, path: str) -> bool:
        """Return False for a link that leads nowhere, or out."""
        try:
            self._folders.resolve(path)
        except AccessDeniedError:
            return False
        return True

    # ---- writing ----------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> None:
        """Create a file, or replace its content at once; an existing one keeps its permissions."""
        content = _limited(text.encode(errors="replace"))
        try:
            with self._folders.parent(path) as (folder, name):
                try:
                    with os.fdopen(os.open(name, _NEW_FILE, 0o666, dir_fd=folder), "wb") as file:
                        file.write(content)
                except FileExistsError:
                    self._replace(path, folder, name, content)
        except OSError as error:
            raise failed(error, "open", path) from None

    def _replace(self, path: str, folder: int, name: str, content: bytes) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise AccessDeniedError(f"This is not a file: {path}")
        temporary = f"{name}.{secrets.token_hex(16)}.tmp"
        with os.fdopen(os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder), "wb") as file:
            try:
                os.fchmod(file.fileno(), status.st_mode & 0o777)
                file.write(content)
                file.flush()
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise

    def edit(self, path: str, edits: Sequence[Edit], dry_run: bool) -> str:
        """Replace texts of a file, and return the diff. A dry run writes nothing."""
        before = self.read(path).decode(errors="replace").replace("\r\n", "\n")
        try:
            after = apply_edits(before, edits)
        except EditError as error:
            raise AccessDeniedError(str(error)) from None
        if not dry_run:
            self.write(path, after)
        return unified_diff(path, before, after)

    def make_folder(self, path: str) -> None:
        """Create a folder, and the folders that it is in."""
        try:
            self._folders.make_folders(path)
        except NotADirectoryError:
            raise AccessDeniedError(f"EEXIST: file already exists, mkdir '{path}'") from None
        except OSError as error:
            raise failed(error, "mkdir", path) from None

    def move(self, source: str, destination: str) -> None:
        """Move or rename a file or a folder. What exists is never replaced."""
        if source in self._folders.allowed:
            raise AccessDeniedError(f"Access denied - an allowed directory cannot be moved: {source}")
        try:
            with self._folders.parent(source) as old, self._folders.parent(destination) as new:
                try:
                    os.stat(new[1], dir_fd=new[0], follow_symlinks=False)
                except FileNotFoundError:
                    _move(*old, *new)
                else:
                    raise FileExistsError
        except FileExistsError:
            raise AccessDeniedError(f"Destination already exists: {destination}") from None
        except OSError as error:
            raise failed(error, "rename", source, destination) from None


def _move(source_folder: int, source: str, folder: int, name: str) -> None:
    """Move a file by a second link to it, which cannot replace a file that was made meanwhile; else rename."""
    if stat.S_ISREG(os.stat(source, dir_fd=source_folder, follow_symlinks=False).st_mode):
        with suppress(PermissionError):  # A file system without links, or a file of somebody else.
            os.link(source, name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(source, dir_fd=source_folder)
            return
    os.rename(source, name, src_dir_fd=source_folder, dst_dir_fd=folder)


def _limited(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise AccessDeniedError(f"This is longer than {MAX_BYTES} bytes; read a part of it with `head` or `tail`.")
    return content


def _counted(items: list[Any]) -> list[Any]:
    if len(items) > MAX_ENTRIES:
        raise AccessDeniedError(f"There are more than {MAX_ENTRIES} entries; choose a folder further down.")
    return items


def _kind(entry: Entry) -> str:
    return "[DIR]" if entry.is_folder else "[FILE]"


def listing(entries: Sequence[Entry]) -> str:
    """Return the entries of a folder, one in a line."""
    return "\n".join(f"{_kind(entry)} {entry.name}" for entry in entries)


def format_size(size: int) -> str:
    """Return a number of bytes for people, such as `1.50 KB`."""
    if size < 1024:
        return f"{size} B"
    power = min(int(math.log(size, 1024)), 4)
    return f"{size / 1024**power:.2f} {('B', 'KB', 'MB', 'GB', 'TB')[power]}"


def _collation(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return the key of a name in the order of dictionaries: letters of both cases together, lower case first."""
    return [(_ORDER.get(character, len(_ORDER)), character.casefold()) for character in name], name.swapcase()


def _tree_patterns(pattern: str) -> list[str]:
    """Return the patterns that a pattern of `directory_tree` stands for: a plain name is meant in every folder."""
    return [pattern] if "*" in pattern else [pattern, f"**/{pattern}", f"**/{pattern}/**"]


def _date(seconds: float) -> str:
    """Return a time as JavaScript prints it."""
    local = time.localtime(math.floor(seconds))
    zone = "Coordinated Universal Time" if local.tm_zone == "UTC" else local.tm_zone
    return time.strftime("%a %b %d %Y %H:%M:%S GMT%z", local) + f" ({zone})"
