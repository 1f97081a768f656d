"""The store of workers that were given none: a file in a temporary folder, which is deleted when the last one ends."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

if sys.platform != "win32":
    import fcntl

_URL: Final = "sqlite:///"
_FILE: Final = "store.db"


class TemporaryStore:
    """The store as one process sees it: the supervisor, which makes the folder, or a worker.

    Each of them has a shared lock of the folder. The system releases it when a process is killed, so that who gets an
    exclusive lock is the last one.
    """

    def __init__(self, folder: Path) -> None:
        """Use the store in a folder."""
        self.url = f"{_URL}{folder}/{_FILE}"
        self._folder = folder
        self._lock = os.open(folder, os.O_RDONLY)
        self._try_lock(exclusive=False)

    @classmethod
    def create(cls) -> TemporaryStore:
        """Return a store in a new folder."""
        return cls(Path(tempfile.mkdtemp(prefix="mcp-")))

    @classmethod
    def of_worker(cls, url: str) -> TemporaryStore:
        """Return the store of a worker, which ends with SIGTERM: its server raises it once more when it has ended."""
        store = cls(Path(url.removeprefix(_URL)).parent)
        signal.signal(signal.SIGTERM, store._on_end)
        return store

    def release(self) -> None:
        """Delete the folder if no other process has it."""
        if self._try_lock(exclusive=True):
            self.delete()

    def delete(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _try_lock(self, exclusive: bool) -> bool:
        """Return False if another process has the folder, or if the file system knows no locks."""
        with suppress(OSError):
            if sys.platform != "win32":
                fcntl.flock(self._lock, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                return True
        return False

    def _on_end(self, number: int, frame: FrameType | None) -> None:
        self.release()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
