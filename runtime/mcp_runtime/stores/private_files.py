"""Files that only their owner can read."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from ..errors import LocalError


def create_private_file(path: str | Path) -> None:
    """Create a file unless it exists, and let only its owner read and change it. Raises LocalError for a link."""
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, flags, 0o600)
    except OSError as error:
        raise LocalError(f"{path}: cannot be opened, or is a link: {error.strerror}") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise LocalError(f"{path}: is not a regular file; choose another path")
        if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(file, 0o600)
    finally:
        os.close(file)
