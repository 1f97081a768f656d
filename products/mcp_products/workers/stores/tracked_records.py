"""Records that this process has read, and that Redis reports all changes of: client-side caching."""

from __future__ import annotations

import asyncio
import mmap
import os
import select
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from mcp_products.common.caches import BoundedCache
from mcp_products.platforms.private_files import Identity, create_private_file, identity_of
from mcp_runtime.aio import clock

# Records in the file of a store in SQLite that need not be read again while no process changes them.

_COUNTERS: Final = 512  # Records share them, by their keys.
_SIZE: Final = 8  # Bytes of a counter.
_RECORDS: Final = 1024
_SELECT: Final = "SELECT value, expires FROM records WHERE key = ? AND expires > ?"


CHANGES: Final = "-changes"  # What the name of the file with the counters has after that of the store.
# Redis reports changes of the keys whose reading follows `CLIENT CACHING YES`, but not those by this connection.
TRACK: Final = (("HELLO", "3"), ("CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"))
CACHE: Final = ("CLIENT", "CACHING", "YES")
_SILENT_SECONDS: Final = 1.0  # Seconds without any answer of Redis after which reports may be missing.


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
        self._path = Path(f"{path}{CHANGES}")
        self._map: mmap.mmap | None = None
        self._counters: memoryview | None = None
        self._file: Identity | None = None  # What identifies the file that is open.
        self._using = threading.RLock()  # The event loop, and the thread of the store.
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
        with self._using:  # It is not closed in between.
            counters = self._opened(creates=True)
            assert counters is not None, "it was created"
            counters[_counter(key)] = (counters[_counter(key)] | 1) + 2

    def look(self) -> None:
        """Close the file if it was deleted or replaced: other processes count in another one."""
        if self._file is not None and identity_of(self._path) != self._file:
            self.close()

    def close(self) -> None:
        """Close the file. It is opened again when it is used."""
        with self._using:
            self._records.clear()
            if self._counters is not None:
                self._counters.release()
            if self._map is not None:
                self._map.close()
            self._counters = self._map = self._file = None

    def _opened(self, creates: bool = False) -> memoryview | None:
        """Return the counters; None if no process has changed a record yet, unless the file is created for that."""
        if self._counters is None:
            with self._using:
                if self._counters is None:
                    self._open(creates)
        return self._counters

    def _open(self, creates: bool) -> None:
        if creates:
            create_private_file(self._path)
        try:
            descriptor = os.open(self._path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            if creates:
                raise
            return
        try:
            status = os.fstat(descriptor)
            if status.st_size < _COUNTERS * _SIZE:
                if not creates:
                    return
                os.write(descriptor, bytes(_COUNTERS * _SIZE))  # A disk that is full is an error here, not later.
            self._map = mmap.mmap(descriptor, _COUNTERS * _SIZE)
            self._counters = memoryview(self._map).cast("Q")
            self._file = (status.st_dev, status.st_ino)
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


class TrackedRecords:
    """The values of the records that one connection has read last, while Redis reports their changes over it.

    See https://redis.io/docs/latest/develop/reference/client-side-caching/. A change by another process is known as
    soon as its report has arrived. If the connection is cut silently, values are used for another second at most.
    """

    def __init__(self) -> None:
        """Track nothing before `begin`."""
        self._values = BoundedCache[str, bytes](_RECORDS)
        # By the future answer to the command that reads it: a record, and the answer to the command before, `CACHE`.
        self.reads: dict[asyncio.Future[Any], tuple[str, asyncio.Future[Any]]] = {}
        self._has_unread: Callable[[], object] | None = None
        self._received = 0.0

    @property
    def is_on(self) -> bool:
        """True if Redis reports changes."""
        return self._has_unread is not None

    def begin(self, socket: Any) -> None:
        """Track records from now on: Redis has agreed to. `socket` is that of the connection.

        Does nothing on Windows: the Proactor loop takes bytes from a socket before anybody gets them, and does not tell
        whether a report is among them.
        """
        if sys.platform != "win32":
            poll = select.poll()
            poll.register(socket.fileno(), select.POLLIN)
            self._has_unread = partial(poll.poll, 0)  # True if the socket has bytes that were not read yet.

    def end(self) -> None:
        """Forget everything: the connection has ended."""
        self._has_unread = None
        self._values.clear()
        self.reads.clear()

    def received(self) -> None:
        """Remember that Redis has sent something."""
        self._received = clock.monotonic()

    def get(self, key: str) -> bytes | None:
        """Return the value of a record; None if it is not known, or if a report of its change may be on its way."""
        value = self._values.get(key)
        if value is None or self._has_unread is None:
            return None
        if clock.monotonic() > self._received + _SILENT_SECONDS or self._has_unread():
            return None
        return value

    def expect(self, key: str, caching: asyncio.Future[Any], answer: asyncio.Future[Any]) -> None:
        """Wait for the answers to `CACHE`, and to the command that reads a record."""
        self.reads[answer] = (key, caching)

    def answer(self, answer: asyncio.Future[Any], value: object) -> None:
        """Keep the value of a record, unless this connection has changed it since the command."""
        key, caching = self.reads.pop(answer, ("", answer))
        if caching is answer or not isinstance(value, bytes) or not caching.done() or caching.exception() is not None:
            return
        self._values.put(key, value)

    def forget(self, key: str) -> None:
        """Forget a record, before this connection changes it, which ends its tracking."""
        self._values.remove(key)
        for answer in [answer for answer, (name, _) in self.reads.items() if name == key]:
            del self.reads[answer]

    def report(self, message: Sequence[Any]) -> None:
        """Forget the records that a push message of Redis names, or all if it names none."""
        if message[:1] != [b"invalidate"]:
            return
        if message[1] is None:
            self._values.clear()
            self.reads.clear()
        for name in message[1] or ():
            self._values.remove(name.decode())
