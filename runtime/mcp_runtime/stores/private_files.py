"""Files that only their owner can read."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from ..errors import LocalError


def create_private_file(path: str | Path) -> None:
    """Create a file unless it exists, and let only its owner read and change it. Raises LocalError for a link.

    A file that exists is not opened: on POSIX systems, closing a file ends all locks that the process has on it, also
    those of other connections of SQLite, whose file another process may then change as if nobody else had it open.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        return
    except FileExistsError:
        status = os.lstat(path)
    except OSError as error:
        raise LocalError(f"{path}: cannot be created: {error.strerror}") from None
    if stat.S_ISLNK(status.st_mode):
        raise LocalError(f"{path}: cannot be opened, or is a link; choose another path")
    if not stat.S_ISREG(status.st_mode):
        raise LocalError(f"{path}: is not a regular file; choose another path")
    if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
        try:
            os.chmod(path, 0o600)
        except OSError as error:
            raise LocalError(f"{path}: others can read it, which cannot be changed: {error.strerror}") from None
