"""A store in a SQLite file, for the processes of one machine. What it holds survives their end."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..aio import clock, forks
from .command_batches import CommandBatches
from .primitives import (
    ANYTHING,
    STREAM_LIMIT,
    Expected,
    NumberedEntry,
    ReceiveHint,
    StoreClosedError,
    StoreUnavailableError,
)
from .sqlite_file import identity_of, open_database
from .sqlite_records import UnchangedRecords
from .sqlite_streams import Appending, append_to_batch, drop, drop_expired, expired_streams, read_stream

_log: Final = logging.getLogger(__name__)

_BUSY_SECONDS: Final = 10.0  # Seconds to wait for a lock of another process.
_QUICK, _SLOW = 0.002, 0.02  # Seconds between two looks at the file for messages: after one has come, and otherwise.
_QUICK_SECONDS: Final = 0.5  # Seconds after a message for which more are likely.
_MESSAGE_SECONDS: Final = 60.0  # Seconds for which a message is stored: processes read it long before.
_LARGE: Final = 65_536  # Bytes of messages above which a batch is written in the thread.
_COMMITS: Final = 256  # Commits in the event loop, at most, between two in the thread, which empty the log of SQLite.
_LATE: Final = 0.005  # Seconds that a commit in the event loop may take; after a longer one the thread commits,
_PAUSE: Final = 50  # for so many times as long: the event loop waits for a slow disk for a fiftieth of its time.
_CLEAN_SECONDS: Final = 30.0  # Seconds between two deletions of what has expired.
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
    as long. It is written by a thread if another process is writing, if it is large, while the disk is slow, and when
    what has expired is deleted or the log of SQLite is emptied.
    """

    def __init__(self, path: str | Path) -> None:
        """Use a file, which is created with the first command, readable by its owner only.

        Args:
            path: The file. It has to be on a disk of this machine: WAL does not work over a network.
        """
        self._path = path
        self._quick: sqlite3.Connection | None = None  # Reads and writes in the event loop, and does not wait.
        self._appender: sqlite3.Cursor | None = None  # Its cursor for `append_at_once`.
        self._writer: sqlite3.Connection | None = None  # Of the thread; it waits for locks.
        self._listener: sqlite3.Connection | None = None  # Sees the changes of both, and those of other processes.
        self._commits = 0
        self._is_large = False
        self._paused_until = 0.0
        self._thread: ThreadPoolExecutor | None = None
        self._records = UnchangedRecords(path)
        self.tracked = self._records.get  # See `UnchangedRecords`.
        self._batches = CommandBatches[Work](self._send, self._commit_at_once)
        self._receivers: dict[str, list[ReceiveHint]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._version = 0
        self._last_message = 0
        self._forks: int | None = None  # `forks.count` when the file was opened; SQLite allows no use in a child.
        self._file: tuple[int, int] | None = None  # What identifies the file that is open.
        self._quick_until = self._clean_at = 0.0

    # ---- reads, in the event loop ------------------------------------------------------------------------------------

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        row = self._row("SELECT value FROM records WHERE key = ? AND expires > ?", key, clock.wall())
        return None if row is None else row[0]

    async def get_tracked(self, key: str) -> bytes | None:
        """Return the value of a record, which `tracked` knows until it changes."""
        try:
            return self._records.read(key, self._connection())
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error

    async def report(self) -> None:
        """Do nothing: a change is counted before it is committed."""

    async def touch(self, key: str, ttl: float) -> bytes | None:
        """Let the time to live of a record begin anew, if a tenth of it has passed; return its value."""
        now = clock.wall()
        row = self._row("SELECT value, expires FROM records WHERE key = ? AND expires > ?", key, now)
        if row is None:
            return None
        if row[1] < now + 0.9 * ttl:
            await self._batches.run(
                lambda file: file.execute("UPDATE records SET expires = ? WHERE key = ?", (now + ttl, key))
            )
        value: bytes = row[0]
        return value

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        try:
            return read_stream(self._connection(), stream, after, limit)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        row = self._row("SELECT last FROM streams WHERE name = ? AND expires > ?", stream, clock.wall())
        return 0 if row is None else row[0]

    # ---- writes ------------------------------------------------------------------------------------------------------

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one."""

        def work(file: sqlite3.Connection) -> bool:
            if expected is not ANYTHING:
                row = file.execute("SELECT value FROM records WHERE key = ? AND expires > ?", (key, now)).fetchone()
                if (None if row is None else row[0]) != expected:
                    return False
            self._records.change(key)
            file.execute(_PUT, (key, value, now + ttl))
            return True

        now = clock.wall()
        return bool(await self._batches.run(work))

    async def delete(self, key: str) -> bool:
        """Delete a record."""

        def work(file: sqlite3.Connection) -> Any:
            self._records.change(key)
            return file.execute("DELETE FROM records WHERE key = ? RETURNING expires", (key,)).fetchone()

        now = clock.wall()
        row = await self._batches.run(work)
        return row is not None and row[0] > now

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        now = clock.wall()
        row = await self._batches.run(lambda file: file.execute(_COUNT, (key, amount, now + ttl, now)).fetchone())
        value: int = row[0]
        return value

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream."""
        self._is_large = self._is_large or sum(map(len, entries)) > _LARGE
        last: int = await self._batches.run(Appending(stream, entries, ttl, after, token))
        return last

    def append_at_once(self, stream: str, entries: Sequence[bytes], ttl: float, after: int) -> int:
        """Append a few entries to a stream that is small, if nothing else is written. Return 0 if `append` has to."""
        began = clock.monotonic()
        if not self._may_commit(began) or self._forks != forks.count or not self._batches.take_single():
            return 0
        try:
            last = append_to_batch(self._appender or self._new_appender(), stream, entries, ttl, after)
        except (sqlite3.Error, OSError):
            return 0  # `append` waits for another process, or says what has failed.
        self._committed(began)
        return last

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        await self._batches.run(partial(drop, streams))

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel."""
        row = (channel, message, clock.wall() + _MESSAGE_SECONDS)
        statement = "INSERT INTO messages (channel, body, expires) VALUES (?, ?, ?)"
        await self._batches.run(lambda file: file.execute(statement, row))

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        self._require_process()
        if self._timer is None:
            self._last_message = self._last_number()
            self._timer = asyncio.get_running_loop().call_later(_SLOW, self._poll)
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)

    async def close(self) -> None:
        """End subscriptions, and close the file; in a forked process, leave both to its parent."""
        if self._forks not in (None, forks.count):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._receivers.clear()
        await self._batches.close()
        if self._thread is not None:
            self._thread.shutdown()
        for connection in (self._quick, self._writer, self._listener):
            if connection is not None:
                connection.close()
        self._quick = self._appender = self._writer = self._listener = self._thread = None
        self._records.close()

    async def _send(self, commands: Sequence[Work]) -> Sequence[Any]:
        if self._timer is None:
            self._row("SELECT 1")  # It opens the file anew, if it was deleted.
        self._require_process()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "mcp-sqlite-store")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, commands)

    def _commit(self, commands: Sequence[Work]) -> list[Any]:
        """Run commands in one transaction, and return their results."""
        try:
            if self._writer is None:
                self._writer = open_database(self._path, _BUSY_SECONDS)
            more = self._cleaning(self._writer)
            self._writer.execute("BEGIN IMMEDIATE")
            return self._run(self._writer, [*commands, *more])[: len(commands)]
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error

    def _cleaning(self, file: sqlite3.Connection) -> list[Work]:
        """Return what deletes what has expired, from time to time; the lock is not needed to look for it."""
        if clock.monotonic() < self._clean_at:
            return []
        self._clean_at = clock.monotonic() + _CLEAN_SECONDS
        now = clock.wall()
        return [partial(_clean, now, expired_streams(file, now))]

    def _commit_at_once(self, commands: Sequence[Work]) -> list[Any] | None:
        """Do the same in the event loop; return None if that is work for the thread."""
        began = clock.monotonic()
        if not self._may_commit(began):
            self._commits = 0
            self._is_large = False
            return None
        try:
            results = self._commit_here(self._connection(), commands)
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error
        self._committed(began)
        return results

    def _may_commit(self, now: float) -> bool:
        """Return True if the event loop may commit; otherwise that is work for the thread."""
        return not self._is_large and self._commits < _COMMITS and self._paused_until <= now < self._clean_at

    def _committed(self, began: float) -> None:
        self._commits += 1
        if (ended := clock.monotonic()) > began + _LATE:
            self._paused_until = ended + _PAUSE * (ended - began)

    def _commit_here(self, file: sqlite3.Connection, commands: Sequence[Work]) -> list[Any] | None:
        try:
            if len(commands) == 1 and isinstance(command := commands[0], Appending):
                if last := command.append_to_batch(file):
                    return [last]
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return None  # Another process is writing, as a rule. The thread waits for it, or fails and says why.
        return self._run(file, commands)

    def _run(self, file: sqlite3.Connection, commands: Sequence[Work]) -> list[Any]:
        """Run commands in the transaction that has begun, and commit it."""
        try:
            results = [command(file) for command in commands]
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:  # A full disk has ended it already.
                file.execute("ROLLBACK")
            raise
        return results

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of the event loop. It waits for other processes only when it is opened."""
        if self._timer is None:  # Otherwise `_poll` looks at the file.
            self._look_at_file()
        self._require_process()
        if self._quick is None:
            self._quick = open_database(self._path, _BUSY_SECONDS)
            self._file = identity_of(self._path)
            self._quick.execute("PRAGMA busy_timeout = 0")
            self._quick.execute("PRAGMA wal_autocheckpoint = 0")
        return self._quick

    def _require_process(self) -> None:
        """Raise StoreClosedError in a process that was forked after the file was opened."""
        if self._forks != forks.count:
            if self._forks is not None:
                raise StoreClosedError(f"{self._path}: {forks.OTHER_STORE}")
            self._forks = forks.count

    def _new_appender(self) -> sqlite3.Cursor:
        self._appender = self._connection().cursor()
        return self._appender

    def _unavailable(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._path}: {error}")

    def _row(self, statement: str, *values: object) -> Any:
        try:
            rows = self._connection().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        return rows[0] if rows else None

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _news(self, statement: str, *values: object) -> list[Any]:
        try:
            if self._listener is None:
                self._connection()  # So that the file is known.
                self._listener = open_database(self._path, _BUSY_SECONDS)
            return self._listener.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    def _poll(self) -> None:
        """Call the receivers of new messages: `data_version` tells in microseconds whether the file has changed."""
        loop = asyncio.get_running_loop()
        try:
            self._look_at_file()
            if (version := self._news("PRAGMA data_version")[0][0]) != self._version:
                self._version = version
                self._pass_messages(loop)
        except StoreUnavailableError:
            _log.exception("the messages of the store cannot be read")
        delay = _QUICK if loop.time() < self._quick_until else _SLOW
        self._timer = loop.call_later(delay, self._poll)

    def _look_at_file(self) -> None:
        if self._file is not None and identity_of(self._path) != self._file:
            self._open_anew()

    def _open_anew(self) -> None:
        """Use the file that has the name now, or a new one: that which is open was deleted or replaced."""
        _log.warning("%s: the file of the store was deleted or replaced, and is opened anew", self._path)
        if self._writer is not None and self._thread is not None:
            self._thread.submit(self._writer.close)  # After what it does now.
        for connection in (self._quick, self._listener):
            if connection is not None:
                connection.close()
        self._quick = self._appender = self._writer = self._listener = self._file = None
        self._records.close()
        if self._timer is not None:
            self._last_message = self._last_number()
            self._report_gap()

    def _report_gap(self) -> None:
        """Tell the receivers that messages may have been lost."""
        for receivers in list(self._receivers.values()):
            for receive in receivers:
                receive(b"")

    def _last_number(self) -> int:
        [(number,)] = self._news("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'messages'")
        return int(number)

    def _pass_messages(self, loop: asyncio.AbstractEventLoop) -> None:
        statement = "SELECT number, channel, body FROM messages WHERE number > ? ORDER BY number"
        messages = self._news(statement, self._last_message)
        before = messages[0][0] - 1 if messages else self._last_number()
        if before != self._last_message:  # Some have expired, unread, or the file has an older state.
            self._last_message = before
            self._report_gap()
            messages = self._news(statement, self._last_message)
        for number, channel, body in messages:
            self._last_message = number
            for receive in self._receivers.get(channel, ()):
                self._quick_until = loop.time() + _QUICK_SECONDS
                receive(body)


def _clean(now: float, streams: Sequence[str], file: sqlite3.Connection) -> None:
    """Delete what has expired."""
    drop_expired(streams, now, file)
    for table in ("records", "counters", "messages"):
        file.execute(f"DELETE FROM {table} WHERE expires <= ?", (now,))
