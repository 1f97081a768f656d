"""Files that only their owner can read: by their mode, on Windows by an access control list."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from mcp_runtime.errors import LocalError

_OWNER_RIGHTS: Final = "*S-1-3-4"  # Stands for whoever owns the file, in any language of Windows.
_ICACLS_SECONDS: Final = 60.0
_NTFS: Final = "choose a path on an NTFS disk of this machine"


Identity = tuple[int, int]  # What identifies a file, whatever its name.


def identity_of(path: str | Path) -> Identity | None:
    """Return what identifies a file; None if there is none of this name."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def create_private_file(path: str | Path) -> bool:
    """Create a file unless it exists, and let only its owner read and change it; return True if it is new. Raises
    LocalError for a link, and FileNotFoundError if it is deleted meanwhile.

    A file that exists is not opened: on POSIX systems, closing a file ends all locks that the process has on it, also
    those of other connections of SQLite, whose file another process may then change as if nobody else had it open.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            restrict_to_owner(str(path))
        except LocalError:
            os.unlink(path)  # Others could read it, and the next attempt would use it.
            raise
        return True
    except FileExistsError:
        status = os.lstat(path)
    except OSError as error:
        raise LocalError(f"{path}: cannot be created: {error.strerror}") from None
    if stat.S_ISLNK(status.st_mode):
        raise LocalError(f"{path}: cannot be opened, or is a link; choose another path")
    if not stat.S_ISREG(status.st_mode):
        raise LocalError(f"{path}: is not a regular file; choose another path")
    restrict_to_owner(str(path))
    if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
        try:
            os.chmod(path, 0o600)
        except OSError as error:
            raise LocalError(f"{path}: others can read it, which cannot be changed: {error.strerror}") from None
    return False


def replace_private_file(path: Path, text: str, remedy: str = _NTFS) -> None:
    """Replace a file in one step by one that only its owner can read. Whatever is raised, the old one stays whole.

    A link is not followed: the new file takes its place. Raises OSError, and LocalError as `restrict_to_owner` does.
    """
    # mkstemp creates the file with mode 0600, so others cannot read it at any moment.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            restrict_to_owner(name, remedy)
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def restrict_database(path: str | Path) -> None:
    """On Windows, let only the owner read the two files beside an open SQLite file in WAL mode. Raises LocalError if
    that is not possible.

    Elsewhere, SQLite gives them the mode of the file itself.
    """
    if sys.platform == "win32":
        for name in (f"{path}-wal", f"{path}-shm"):
            if os.path.exists(name):
                restrict_to_owner(name)


def restrict_to_owner(path: str, remedy: str = _NTFS) -> None:
    """On Windows, let only the owner of a file read and change it. Raises LocalError if that is not possible.

    Elsewhere, the mode of the file does so.
    """
    if sys.platform == "win32":
        import subprocess

        icacls = os.path.join(os.environ.get("SYSTEMROOT") or "C:\\Windows", "System32", "icacls.exe")
        command = [icacls, path, "/inheritance:r", "/grant:r", f"{_OWNER_RIGHTS}:F"]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_ICACLS_SECONDS, creationflags=subprocess.CREATE_NO_WINDOW
            )
            refused = done.returncode != 0
        except (OSError, subprocess.SubprocessError):
            refused = True
        if refused:
            raise LocalError(f"{path}: icacls cannot prevent other users from reading it; {remedy}")
