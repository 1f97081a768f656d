"""Records in the file of a store in SQLite that need not be read again while no process changes them."""

from __future__ import annotations

import mmap
import os
import sqlite3
import threading
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from ..aio import clock
from ..aio.bounded_cache import BoundedCache
from .private_files import create_private_file

_COUNTERS: Final = 512  # Records share them, by their keys.
_SIZE: Final = 8  # Bytes of a counter.
_RECORDS: Final = 1024
_SELECT: Final = "SELECT value, expires FROM records WHERE key = ? AND expires > ?"


class _Record(NamedTuple):
    value: bytes
    number: int  # Of its counter.
    changes: int


class UnchangedRecords:
    """The values of the records that were read last, and counters of changes in a file that all processes map.

    A counter is odd when a record may have changed since a process read it, which its next reader makes even: it grows
    with each change and with each first reading. Both happen while the process has the lock of SQLite for writing, and
    a change is counted before it is committed. So a process that is killed leaves an odd counter, which costs a read.
    """

    def __init__(self, path: str | Path) -> None:
        """Use the file beside that of a store, which is created with the first change."""
        self._path = Path(f"{path}-changes")
        self._map: mmap.mmap | None = None
        self._counters: memoryview | None = None
        self._opening = threading.Lock()
        self._records = BoundedCache[str, _Record](_RECORDS)

    def get(self, key: str) -> bytes | None:
        """Return the value of a record, if it was read and has not changed since."""
        record = self._records.get(key)
        if record is None or self._counters is None:
            return None
        return record.value if record.changes == self._counters[record.number] else None

    def read(self, key: str, file: sqlite3.Connection) -> bytes | None:
        """Return the value of a record of the file, which has no transaction."""
        counters, number = self._opened(), _counter(key)
        if counters is None:
            return _row(file, key)[0]
        if counters[number] % 2 and _lock(file):
            try:
                counters[number] += 1
            finally:
                file.execute("COMMIT")
        count = counters[number]
        value, expires = _row(file, key)
        if value is not None and count % 2 == 0 and counters[number] == count:
            self._records.put(key, _Record(value, number, count), ttl=expires - clock.wall())
        return value

    def change(self, key: str) -> None:
        """Count a change of a record, in the transaction that makes it."""
        counters = self._opened(creates=True)
        assert counters is not None, "it was created"
        counters[_counter(key)] = (counters[_counter(key)] | 1) + 2

    def close(self) -> None:
        """Close the file."""
        self._records.clear()
        if self._counters is not None:
            self._counters.release()
        if self._map is not None:
            self._map.close()
        self._counters = self._map = None

    def _opened(self, creates: bool = False) -> memoryview | None:
        """Return the counters; None if no process has changed a record yet, unless the file is created for that."""
        if self._counters is None:
            with self._opening:  # The event loop, and the thread of the store.
                if self._counters is None:
                    self._open(creates)
        return self._counters

    def _open(self, creates: bool) -> None:
        if creates:
            create_private_file(self._path)
        try:
            descriptor = os.open(self._path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            return
        try:
            if os.fstat(descriptor).st_size < _COUNTERS * _SIZE:
                if not creates:
                    return
                os.write(descriptor, bytes(_COUNTERS * _SIZE))  # A disk that is full is an error here, not later.
            self._map = mmap.mmap(descriptor, _COUNTERS * _SIZE)
            self._counters = memoryview(self._map).cast("Q")
        finally:
            os.close(descriptor)


def _counter(key: str) -> int:
    return crc32(key.encode()) % _COUNTERS


def _row(file: sqlite3.Connection, key: str) -> tuple[bytes | None, float]:
    rows = file.execute(_SELECT, (key, clock.wall())).fetchall()
    return rows[0] if rows else (None, 0.0)


def _lock(file: sqlite3.Connection) -> bool:
    """Begin a transaction that writes; return False if another process or thread has one."""
    try:
        file.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True
