"""Folders that are replaced in one step: the new one is made beside the old one, and both change places.

Whatever ends the process, the folder is the old one or the new one, whole. A process of its own waits for the end of
this one, and removes what is left beside the folder.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .errors import OutputError
from .output import Files, changed_files, missing_folders, write_files

_CURRENT_FOLDER: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS.
_NO_EXCHANGE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
# Reads until the other process has ended, then puts the old folder back if it is missing, and removes the rest.
_REMOVER: Final = """
import os, shutil, sys
from contextlib import suppress
staged, old, folder, *parents = sys.argv[1:]
with suppress(BaseException):
    sys.stdin.buffer.read()
if not os.path.lexists(folder):
    with suppress(OSError):
        os.rename(old, folder)
def writable(function, path, _):
    with suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        function(path)
for leftover in (staged, old):
    shutil.rmtree(leftover, onerror=writable)
for parent in parents:
    with suppress(OSError):
        os.rmdir(parent)
"""


def write_folder(folder: Path, files: Files) -> list[Path]:
    """Write the files of a folder that differ, in one step, and return their paths. Other files of it stay.

    A folder that cannot be replaced, because it is a mount point or the current folder, gets its files one by one.
    Raises OutputError, and then nothing has changed.
    """
    changed = changed_files(files)
    if not changed:
        return changed
    target = Path(os.path.realpath(folder))
    if Path.cwd().is_relative_to(target) or os.path.ismount(target):
        return write_files(files)
    new = {target / path.relative_to(folder): files[path] for path in changed}
    try:
        _check_writable(target, new)
        with _staging(target) as (staged, old):
            _stage(target, staged, new)
            _exchange(staged, target, old)
    except _UnlinkableError:
        return write_files(files)
    except OSError as error:
        place = Path(error.filename or target)
        shown = place if place.is_relative_to(target) else target
        raise OutputError(
            f"{shown}: cannot be written: {error.strerror}; nothing was changed, choose another path or fix its "
            "permissions"
        ) from error
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
def _staging(target: Path) -> Generator[tuple[Path, Path]]:
    """Yield the paths of the new folder and of the old one during the exchange, which are removed in any case."""
    name = f".{target.name}.{secrets.token_hex(8)}"
    staged, old = target.with_name(f"{name}.tmp"), target.with_name(f"{name}.old")
    parents = missing_folders(target.parent)
    command = [sys.executable, "-I", "-S", "-c", _REMOVER, str(staged), str(old), str(target), *map(str, parents)]
    remover = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        staged.mkdir(parents=True)
        yield staged, old
    finally:
        assert remover.stdin is not None
        remover.stdin.close()
        remover.wait()


def _stage(target: Path, staged: Path, new: Files) -> None:
    """Fill the staged folder with the files of the target, but those that are new."""
    linked = _can_link(staged)
    for place, folders, names in os.walk(target):
        copied = staged / Path(place).relative_to(target)
        copied.mkdir(exist_ok=True)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in (*names, *links):
            source, copy = Path(place) / name, copied / name
            if source not in new:
                _copy(source, copy, linked)
            elif linked and not source.is_symlink():
                os.link(source, copy)  # Fails for an immutable file, which could not be removed afterwards.
                copy.unlink()
    for path, text in new.items():
        written = staged / path.relative_to(target)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(text.encode())
    for place, _, _ in os.walk(target):
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
