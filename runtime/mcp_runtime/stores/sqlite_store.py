"""A store in a SQLite file, for the processes of one machine. What it holds survives their end."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..errors import LocalError
from .command_batches import CommandBatches
from .primitives import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint, StoreUnavailableError
from .private_files import create_private_file, restrict_database

_log: Final = logging.getLogger(__name__)

_BUSY_SECONDS: Final = 10.0  # Seconds to wait for a lock of another process.
_QUICK, _SLOW = 0.002, 0.02  # Seconds between two looks at the file for messages: after one has come, and otherwise.
_QUICK_SECONDS: Final = 0.5  # Seconds after a message for which more are likely.
_MESSAGE_SECONDS: Final = 60.0  # Seconds for which a message is stored: processes read it long before.
_LARGE: Final = 65_536  # Bytes of messages above which a batch is written in the thread.
_COMMITS: Final = 256  # Commits in the event loop, at most, between two in the thread, which empty the log of SQLite.
_CLEAN_SECONDS: Final = 30.0  # Seconds between two deletions of what has expired.
_FORMAT: Final = 2  # The `user_version` of the file; raise it with each change of the tables.
_TABLES: Final = f"""
BEGIN IMMEDIATE;
PRAGMA user_version = {_FORMAT};
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value INTEGER NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, last INTEGER NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    stream TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, token TEXT NOT NULL,
    PRIMARY KEY (stream, number)
);
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, body BLOB NOT NULL, expires REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires);
CREATE INDEX IF NOT EXISTS counters_by_expiry ON counters (expires);
CREATE INDEX IF NOT EXISTS streams_by_expiry ON streams (expires);
COMMIT;
"""
# One statement: another process may make the tables between two.
_STATE: Final = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
_EXPIRED_STREAMS: Final = "SELECT name FROM streams WHERE expires <= ? LIMIT 10000"
_PUT: Final = "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = ?2, expires = ?3"
_COUNT: Final = """
INSERT INTO counters VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET
    value = CASE WHEN expires <= ?4 THEN ?2 ELSE value + ?2 END,
    expires = CASE WHEN expires <= ?4 THEN ?3 ELSE expires END
RETURNING value
"""

Work = Callable[[sqlite3.Connection], Any]


class SQLiteStore:
    """A store in a file. Other processes get messages within 20 ms.

    The changes of one turn of the event loop are one transaction, which is written there: a thread takes several times
    as long. It is written by a thread if another process is writing, if it is large, and when what has expired is
    deleted or the log of SQLite is emptied.
    """

    def __init__(self, path: str | Path) -> None:
        """Use a file, which is created with the first command, readable by its owner only.

        Args:
            path: The file. It has to be on a disk of this machine: WAL does not work over a network.
        """
        self._path = path
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None  # Of the thread; it waits for locks.
        self._quick: sqlite3.Connection | None = None  # Writes in the event loop, and does not wait.
        self._commits, self._is_large = 0, False
        self._thread: ThreadPoolExecutor | None = None
        self._batches = CommandBatches[Work](self._send, self._commit_at_once)
        self._receivers: dict[str, list[ReceiveHint]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._version = self._last_message = 0
        self._quick_until = self._cleaned = 0.0

    # ---- reads, in the event loop ------------------------------------------------------------------------------------

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        row = self._row("SELECT value FROM records WHERE key = ? AND expires > ?", key, time.time())
        return None if row is None else row[0]

    async def touch(self, key: str, ttl: float) -> bytes | None:
        """Let the time to live of a record begin anew, if a tenth of it has passed; return its value."""
        now = time.time()
        row = self._row("SELECT value, expires FROM records WHERE key = ? AND expires > ?", key, now)
        if row is None:
            return None
        if row[1] < now + 0.9 * ttl:
            await self._write(
                lambda file: file.execute("UPDATE records SET expires = ? WHERE key = ?", (now + ttl, key))
            )
        value: bytes = row[0]
        return value

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        if not await self.last(stream):
            return []
        statement = "SELECT number, body FROM entries WHERE stream = ? AND number > ? ORDER BY number LIMIT ?"
        return self._rows(statement, stream, after, limit)

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        row = self._row("SELECT last FROM streams WHERE name = ? AND expires > ?", stream, time.time())
        return 0 if row is None else row[0]

    # ---- writes ------------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one."""

        def work(file: sqlite3.Connection) -> bool:
            if expected is not ANYTHING:
                row = file.execute("SELECT value FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
                if (None if row is None else row[0]) != expected:
                    return False
            file.execute(_PUT, (key, value, now + ttl))
            return True

        now = time.time()
        return bool(await self._write(work))

    async def delete(self, key: str) -> bool:
        """Delete a record."""
        statement, now = "DELETE FROM records WHERE key = ? RETURNING expires", time.time()
        row = await self._write(lambda file: file.execute(statement, (key,)).fetchone())
        return row is not None and row[0] > now

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        now = time.time()
        row = await self._write(lambda file: file.execute(_COUNT, (key, amount, now + ttl, now)).fetchone())
        value: int = row[0]
        return value

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream."""
        self._is_large = self._is_large or sum([len(entry) for entry in entries]) > _LARGE
        last: int = await self._write(partial(_append, stream, entries, ttl, after, token))
        return last

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        await self._write(partial(_drop, streams))

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel."""
        row = (channel, message, time.time() + _MESSAGE_SECONDS)
        statement = "INSERT INTO messages (channel, body, expires) VALUES (?, ?, ?)"
        await self._write(lambda file: file.execute(statement, row))

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        if self._timer is None:
            self._last_message = self._rows("SELECT coalesce(max(number), 0) FROM messages")[0][0]
            self._timer = asyncio.get_running_loop().call_later(_SLOW, self._poll)
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)

    async def close(self) -> None:
        """End subscriptions, and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        self._receivers.clear()
        await self._batches.close()
        if self._thread is not None:
            self._thread.shutdown()
        for connection in (self._reader, self._quick, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._quick = self._writer = self._thread = None

    async def _write(self, work: Work) -> Any:
        return await self._batches.add(work)

    async def _send(self, commands: Sequence[Work]) -> Sequence[Any]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "mcp-sqlite-store")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, commands)

    def _commit(self, commands: Sequence[Work]) -> list[Any]:
        """Run commands in one transaction, and return their results."""
        try:
            if self._writer is None:
                self._writer = self._open()
            self._writer.execute("BEGIN IMMEDIATE")
            return self._run(self._writer, commands, cleans=True)
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{self._path}: {error}") from error

    def _commit_at_once(self, commands: Sequence[Work]) -> list[Any] | None:
        """Do the same in the event loop; return None if that is work for the thread."""
        self._commits += 1
        if self._is_large or self._commits >= _COMMITS or time.time() >= self._cleaned + _CLEAN_SECONDS:
            self._commits, self._is_large = 0, False
            return None
        try:
            if self._quick is None:
                self._quick = self._open(0.0)
                self._quick.execute("PRAGMA wal_autocheckpoint = 0")
            self._quick.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return None  # Another process is writing, as a rule. The thread waits for it, or fails and says why.
        try:
            return self._run(self._quick, commands)
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{self._path}: {error}") from error

    def _run(self, file: sqlite3.Connection, commands: Sequence[Work], cleans: bool = False) -> list[Any]:
        """Run commands in the transaction that has begun, and commit it."""
        try:
            results = [command(file) for command in commands]
            if cleans:
                self._clean(file)
            file.execute("COMMIT")
        except BaseException:
            file.execute("ROLLBACK")
            raise
        return results

    def _clean(self, file: sqlite3.Connection) -> None:
        """Delete what has expired, from time to time."""
        now = time.time()
        if now < self._cleaned + _CLEAN_SECONDS:
            return
        self._cleaned = now
        _drop([name for (name,) in file.execute(_EXPIRED_STREAMS, (now,))], file)
        for table in ("records", "counters", "messages"):
            file.execute(f"DELETE FROM {table} WHERE expires <= ?", (now,))

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _open(self, timeout: float = _BUSY_SECONDS) -> sqlite3.Connection:
        create_private_file(self._path)
        connection = sqlite3.connect(
            self._path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            version, tables = connection.execute(_STATE).fetchone()
            if version != _FORMAT and (tables or version):
                raise LocalError(f"{self._path}: is no store of this version; remove the file, or choose another path")
            _use_wal(connection, timeout)
            connection.execute("PRAGMA synchronous = NORMAL")
            if not tables:
                connection.executescript(_TABLES)
            restrict_database(self._path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, statement: str, *values: object) -> list[Any]:
        try:
            if self._reader is None:
                self._reader = self._open()
            return self._reader.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"{self._path}: {error}") from error

    def _row(self, statement: str, *values: object) -> Any:
        rows = self._rows(statement, *values)
        return rows[0] if rows else None

    def _poll(self) -> None:
        """Call the receivers of new messages: `data_version` tells in microseconds whether the file has changed."""
        loop = asyncio.get_running_loop()
        try:
            if (version := self._rows("PRAGMA data_version")[0][0]) != self._version:
                self._version = version
                self._pass_messages(loop)
        except StoreUnavailableError:
            _log.exception("the messages of the store cannot be read")
        delay = _QUICK if loop.time() < self._quick_until else _SLOW
        self._timer = loop.call_later(delay, self._poll)

    def _pass_messages(self, loop: asyncio.AbstractEventLoop) -> None:
        statement = "SELECT number, channel, body FROM messages WHERE number > ? ORDER BY number"
        for number, channel, body in self._rows(statement, self._last_message):
            self._last_message = number
            for receive in self._receivers.get(channel, ()):
                self._quick_until = loop.time() + _QUICK_SECONDS
                receive(body)


def _use_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Write a log. SQLite does not wait for another process that opens a new file at the same time."""
    until = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() >= until:
                raise
            time.sleep(_QUICK)


def _append(
    stream: str, entries: Sequence[bytes], ttl: float, after: int | None, token: str, file: sqlite3.Connection
) -> int:
    now = time.time()
    row = file.execute("SELECT last, expires FROM streams WHERE name = ?", (stream,)).fetchone()
    if row is not None and row[1] <= now:
        _drop([stream], file)
        row = None
    last = 0 if row is None else row[0]
    if token:
        statement = "SELECT max(number) FROM entries WHERE stream = ? AND number > ? AND token = ?"
        if (number := file.execute(statement, (stream, after or 0, token)).fetchone()[0]) is not None:
            return int(number)
    elif after is not None:
        last = max(last, after)
        entries = entries[last - after :]
    file.executemany(
        "INSERT INTO entries VALUES (?, ?, ?, ?)",
        [(stream, number, body, token) for number, body in enumerate(entries, last + 1)],
    )
    last += len(entries)
    file.execute("INSERT OR REPLACE INTO streams VALUES (?, ?, ?)", (stream, last, now + ttl))
    if last > STREAM_LIMIT:
        file.execute("DELETE FROM entries WHERE stream = ? AND number <= ?", (stream, last - STREAM_LIMIT))
    return last


def _drop(streams: Sequence[str], file: sqlite3.Connection) -> None:
    names = [(stream,) for stream in streams]
    file.executemany("DELETE FROM streams WHERE name = ?", names)
    file.executemany("DELETE FROM entries WHERE stream = ?", names)
