"""A lock that only one process has, on each system; it ends when the file is closed."""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt

    def lock_file(descriptor: int) -> None:
        """Wait until no other process has the lock."""
        while True:
            with suppress(OSError):  # It gives up after ten seconds.
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def lock_file(descriptor: int) -> None:
        """Wait until no other process has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)
