"""Generated files and folders: written all or not at all, or compared with those on disk; and text that is safe in a
terminal."""

from __future__ import annotations

import ctypes
import difflib
import errno
import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from .errors import OutputError

if sys.platform != "win32":
    import fcntl

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
# Windows renames no folder with an open file.
_IN_USE: Final = ", or end the programs that use its files" if sys.platform == "win32" else ""
_REMEDY: Final = f"choose another path or fix its permissions{_IN_USE}"
_MARK: Final = "enerated by mcp-codegen"

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
def remove(folder):
    def writable(function, path, _):
        if path != folder:  # What is around the folder keeps its mode.
            with suppress(OSError):
                os.chmod(os.path.dirname(path), 0o700)
                function(path)
    shutil.rmtree(folder, onerror=writable)
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
        remove(leftover)
for parent in parents:
    with suppress(OSError):
        os.rmdir(parent)
"""


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
            f"{error.filename2 or error.filename}: cannot be written: {error.strerror}; nothing was changed, choose "
            "another path or fix its permissions"
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
    if _is_special(path):  # Whoever may write to /dev could replace /dev/null.
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    try:
        write_new(temporary, data, path, private=private)
    except OSError as error:
        error.filename = str(path)
        raise
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


def replace_user_file(path: Path, content: str | bytes, *, private: bool = True) -> None:
    """Replace a file of a user in one step, as `staged_file` does. A new file is private, unless it says otherwise.

    Raises OutputError, and has changed nothing, if it is a link or cannot be written.
    """
    refuse_links(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        temporary = staged_file(path, data, private=private)
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


def _is_special(path: Path) -> bool:
    """Return True for a device, a pipe or a socket, and for a link to one."""
    return path.exists() and not path.is_file() and not path.is_dir()


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
    """Return the text on disk, or None if there is no file. Raises OutputError for a file that was not generated, and
    for a device or a pipe, which may have no end."""
    if _is_special(path):
        raise OutputError(f"{path}: is not a regular file, and is not replaced; choose another path")
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


# Folders that are replaced in one step: the new one is made beside the old one, and both change places.
#
# Whatever ends the process, the folder is the old one or the new one, whole. A process of its own waits for the end of
# this one, and removes what is left beside the folder.


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
    with _locked(folders):
        return _write_folders(folders, remove)


def _write_folders(folders: Mapping[Path, Files], remove: Collection[Path]) -> list[Path]:
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
        where = place if any(place.is_relative_to(swap.target) for swap in swaps) else swaps[0].target
        raise OutputError(f"{where}: cannot be written: {error.strerror}; nothing was changed, {_REMEDY}") from error
    return changed


@contextmanager
def _locked(folders: Iterable[Path]) -> Generator[None]:
    """Let no other process change places with these folders meanwhile: one of two would lose what it has written.

    Not where the system has no locks, as on Windows and some file systems.
    """
    parents = {Path(os.path.realpath(folder)).parent for folder in folders}
    with ExitStack() as stack:
        for place in sorted({next(path for path in (parent, *parent.parents) if path.exists()) for parent in parents}):
            with suppress(OSError, NotImplementedError):
                _lock(place, stack)
        yield


def _lock(folder: Path, stack: ExitStack) -> None:
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


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


# A folder for the time of a command, which is deleted at its end, also if that is SIGTERM.


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Yield a new folder, and delete it at the end."""
    with _ended_in_order(), tempfile.TemporaryDirectory(prefix="mcp-codegen-") as name:
        yield Path(name)


@contextmanager
def _ended_in_order() -> Generator[None]:
    """Let SIGTERM, which otherwise ends a process at once, first end what the caller has begun."""
    if threading.current_thread() is not threading.main_thread():  # Others cannot handle signals.
        yield
        return
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if received:
            signal.raise_signal(received[0])
