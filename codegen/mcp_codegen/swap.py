"""Folders that are replaced in one step: the new one is made beside the old one, and both change places.

Whatever ends the process, the folder is the old one or the new one, whole. A process of its own waits for the end of
this one, and removes what is left beside the folder.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from .errors import OutputError
from .output import Files, changed_files, folders_between, missing_folders, refuse_links, write_files, write_new

_CURRENT_FOLDER: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS.
_NO_EXCHANGE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
# Reads until the other process has ended. Unless that one has written that it is done, puts each old folder back into
# its place; removes the rest.
_REMOVER: Final = """
import json, os, shutil, sys
from contextlib import suppress
def identity(path):
    with suppress(OSError):
        status = os.lstat(path)
        return [status.st_dev, status.st_ino]
def writable(function, path, _):
    with suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        function(path)
received = b""
with suppress(BaseException):
    received = sys.stdin.buffer.read()
swaps, parents = json.loads(sys.argv[1])
for staged, old, folder, before in swaps:
    aside = staged + ".new"
    with suppress(OSError):
        if received != b"done" and before is None and not os.path.lexists(staged):
            os.rename(folder, aside)
        for place in (staged, old):
            if received != b"done" and before is not None and identity(place) == before:
                if os.path.lexists(folder):
                    os.rename(folder, aside)
                os.rename(place, folder)
for staged, old, folder, before in swaps:
    for leftover in (staged, old, staged + ".new"):
        shutil.rmtree(leftover, onerror=writable)
for parent in parents:
    with suppress(OSError):
        os.rmdir(parent)
"""


@dataclass(frozen=True, slots=True)
class _Swap:
    """One folder to replace: what is written and removed, and the paths of the new and of the old one beside it."""

    target: Path
    new: Files
    removed: frozenset[Path]
    staged: Path
    old: Path

    def identity(self) -> tuple[int, int] | None:
        """Return what tells the folder from the one that takes its place; None if there is none yet."""
        try:
            status = self.target.lstat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def write_folder(folder: Path, files: Files) -> list[Path]:
    """Write the files of a folder that differ, in one step, and return their paths. Other files of it stay.

    A folder that cannot be replaced, because it is a mount point or the current folder, gets its files one by one.
    Raises OutputError, and then nothing has changed.
    """
    return write_folders({folder: files})


def write_folders(folders: Mapping[Path, Files], remove: Collection[Path] = ()) -> list[Path]:
    """Write the files of several folders that differ, and return their paths. Files and folders of `remove` go.

    No folder is inside of another. Whatever ends the process, all folders are the old ones or all are the new ones,
    each whole. One that cannot be replaced, because it is a mount point or the current folder, gets its files one by
    one, and so do the others then. Raises OutputError, and then nothing has changed.
    """
    files = {path: text for texts in folders.values() for path, text in texts.items()}
    changed, obsolete = changed_files(files), [path for path in remove if os.path.lexists(path)]
    for folder, texts in folders.items():
        for path in texts:
            refuse_links(*folders_between(folder, path))
    swaps = [swap for folder in folders if (swap := _swap(folder, files, changed, obsolete)).new or swap.removed]
    if any(Path.cwd().is_relative_to(swap.target) or os.path.ismount(swap.target) for swap in swaps):
        return _write_one_by_one(files, obsolete)
    try:
        for swap in swaps:
            _check_writable(swap.target, swap.new)
        with _staging(swaps) as complete:
            for swap in swaps:
                _stage(swap.target, swap.staged, swap.new, swap.removed)
            for swap in swaps:
                _exchange(swap.staged, swap.target, swap.old)
            complete()
    except _UnlinkableError:
        return _write_one_by_one(files, obsolete)
    except OSError as error:
        place = Path(error.filename or swaps[0].target)
        inside = any(place.is_relative_to(swap.target) for swap in swaps)
        raise OutputError(
            f"{place if inside else swaps[0].target}: cannot be written: {error.strerror}; nothing was changed, choose "
            "another path or fix its permissions"
        ) from error
    return changed


def _swap(folder: Path, files: Files, changed: list[Path], obsolete: list[Path]) -> _Swap:
    target = Path(os.path.realpath(folder))
    name = f".{target.name}.{secrets.token_hex(8)}"
    return _Swap(
        target,
        {target / path.relative_to(folder): files[path] for path in changed if path.is_relative_to(folder)},
        frozenset(target / path.relative_to(folder) for path in obsolete if path.is_relative_to(folder)),
        target.with_name(f"{name}.tmp"),
        target.with_name(f"{name}.old"),
    )


def _write_one_by_one(files: Files, obsolete: list[Path]) -> list[Path]:
    changed = write_files(files)
    for path in obsolete:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return changed


def _check_writable(target: Path, new: Files) -> None:
    """Raise OSError for a folder that is read-only, although its parent is not."""
    for parent in {path.parent for path in new}:
        existing = next(folder for folder in (parent, *parent.parents) if folder.exists())
        if existing.is_relative_to(target) and not os.access(existing, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


class _UnlinkableError(Exception):
    """A file that stays has no second name in the staged folder: another user's, or an immutable one."""


@contextmanager
def _staging(swaps: Sequence[_Swap]) -> Generator[Callable[[], None]]:
    """Make the new folders, which are removed in any case. Yield the function to call once all have changed places."""
    parents = [folder for swap in swaps for folder in missing_folders(swap.target.parent)]
    places = [[str(swap.staged), str(swap.old), str(swap.target), swap.identity()] for swap in swaps]
    arguments = json.dumps([places, [str(folder) for folder in dict.fromkeys(parents)]])
    remover = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _REMOVER, arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert remover.stdin is not None
    pipe = remover.stdin.fileno()
    try:
        for swap in swaps:
            swap.staged.mkdir(parents=True)
        yield partial(_write_done, pipe)
    finally:
        remover.stdin.close()
        remover.wait()


def _write_done(pipe: int) -> None:
    os.write(pipe, b"done")


def _stage(target: Path, staged: Path, new: Files, removed: Collection[Path]) -> None:
    """Fill the staged folder with the files of the target, but those that are new or removed."""
    linked = _can_link(staged)
    for place, folders, names in os.walk(target):
        folders[:] = [name for name in folders if Path(place) / name not in removed]
        copied = staged / Path(place).relative_to(target)
        copied.mkdir(exist_ok=True)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*names, *links):
            source, copy = Path(place) / name, copied / name
            if source in removed:
                continue
            if source not in new:
                _copy(source, copy, linked)
            elif linked and not source.is_symlink():
                os.link(source, copy)  # Fails for an immutable file, which could not be removed afterwards.
                copy.unlink()
    for path, text in new.items():
        written = staged / path.relative_to(target)
        written.parent.mkdir(parents=True, exist_ok=True)
        write_new(written, text.encode(), path)
    for place, folders, _ in os.walk(target):
        folders[:] = [name for name in folders if Path(place) / name not in removed]
        shutil.copystat(place, staged / Path(place).relative_to(target))


def _can_link(folder: Path) -> bool:
    """Return True if the file system has hard links."""
    first, second = folder / "first", folder / "second"
    first.touch()
    with suppress(OSError):
        os.link(first, second)
    has_links = second.exists()
    for path in (first, second):
        path.unlink(missing_ok=True)
    return has_links


def _copy(source: Path, copy: Path, linked: bool) -> None:
    if source.is_symlink():
        copy.symlink_to(source.readlink())
    elif linked:
        try:
            os.link(source, copy)
        except PermissionError as error:
            raise _UnlinkableError from error
    else:
        shutil.copy2(source, copy)


def _exchange(staged: Path, target: Path, old: Path) -> None:
    """Put the staged folder in the place of the target."""
    if not os.path.lexists(target):
        staged.rename(target)
        return
    if _exchange_names(staged, target):
        return
    target.rename(old)
    try:
        staged.rename(target)
    except BaseException:
        old.rename(target)
        raise


def _exchange_names(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; return False where the system cannot. Raises OSError."""
    if sys.platform == "win32":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    if hasattr(library, "renameat2"):
        code = library.renameat2(_CURRENT_FOLDER, paths[0], _CURRENT_FOLDER, paths[1], ctypes.c_uint(_EXCHANGE))
    elif hasattr(library, "renamex_np"):
        code = library.renamex_np(paths[0], paths[1], ctypes.c_uint(_EXCHANGE))
    else:
        return False
    number = ctypes.get_errno()
    if code and number not in _NO_EXCHANGE:
        raise OSError(number, os.strerror(number), str(second))
    return not code
