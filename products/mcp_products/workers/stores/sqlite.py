"""A store in a SQLite file, for the processes of one machine. What it holds survives their end."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from mcp_products.platforms.private_files import Identity, create_private_file, identity_of, restrict_database
from mcp_runtime.aio import clock
from mcp_runtime.errors import LocalError
from mcp_runtime.stores import (
    ANYTHING,
    STREAM_LIMIT,
    Expected,
    NumberedEntry,
    ReceiveHint,
    StoreUnavailableError,
    number_at,
)

from .common import CommandBatches, OneProcess, Receivers
from .tracked_records import CHANGES, UnchangedRecords

# The file of a store in SQLite: its tables, and how it is opened.

_FORMAT: Final = 4  # The `user_version` of the file; raise it with each change of the tables.
_PAGE: Final = 2048  # Bytes of a page: a change writes each page that it touches to the log.
_LOOK_SECONDS: Final = 0.002  # Seconds between two attempts to write a log.
# Most streams are small: their entries are in `batch`, as `sqlite_streams` packs them. Each call writes one, so streams
# have no index of the times at which they expire.
_TABLES: Final = f"""
BEGIN IMMEDIATE;
PRAGMA user_version = {_FORMAT};
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (key TEXT PRIMARY KEY, value INTEGER NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS streams (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, expires REAL NOT NULL, batch BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS entries (
    stream TEXT NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, token TEXT NOT NULL,
    PRIMARY KEY (stream, number)
);
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, body BLOB NOT NULL, expires REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires);
CREATE INDEX IF NOT EXISTS counters_by_expiry ON counters (expires);
COMMIT;
"""
# One statement: another process may make the tables between two.
_STATE: Final = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"


# SQLite opens these by their names. Two processes with different ones share the file and see nothing of each other.
_PARTS: Final = ("-wal", "-shm")
_OPENINGS: Final = 10  # Attempts to open a file that is replaced meanwhile.

Files = tuple[Identity | None, ...]  # What identifies a file and its parts.

_BATCH: Final = 4096  # Bytes of the first entries above which the next ones are rows of their own: a change copies all.
_SIZE: Final = 4  # Bytes of the size before each entry of a batch.
_CREATE: Final = "INSERT OR IGNORE INTO streams (name, last, expires, batch) VALUES (?, ?, ?, ?)"
# Entries of a stream that are rows of their own follow those of the batch.
_EXTEND: Final = f"""
UPDATE streams SET last = ?1, expires = ?2, batch = CAST(batch || ?3 AS BLOB)
WHERE name = ?4 AND last = ?5 AND expires > ?6 AND length(batch) + length(?3) <= {_BATCH}
    AND NOT EXISTS (SELECT 1 FROM entries WHERE stream = ?4)
"""
# Deletes what is older than the last entries, whose numbers may have gaps.
_TRIM: Final = f"""
DELETE FROM entries WHERE stream = ?1 AND number <=
    (SELECT number FROM entries WHERE stream = ?1 ORDER BY number DESC LIMIT 1 OFFSET {STREAM_LIMIT})
"""
_log: Final = logging.getLogger("mcp_runtime.workers.stores.sqlite")

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
_OpenedT = TypeVar("_OpenedT")


def files_of(path: str | Path) -> Files:
    """Return what identifies the file of a store and the parts beside it, which have these names now."""
    return tuple(identity_of(f"{path}{part}") for part in ("", *_PARTS))


def open_known(path: str | Path, timeout: float) -> tuple[sqlite3.Connection, Files]:
    """Return a connection as `open_database` does, and which files it has opened. Raises OSError if the file is
    replaced again and again."""
    for attempt in range(_OPENINGS):
        _create(path)
        before = identity_of(path)
        try:
            connection = open_database(path, timeout)
        except sqlite3.OperationalError as error:
            # Another process has just created the file, and has deleted what was beside it: the parts of this opening.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_IOERR or attempt == _OPENINGS - 1:
                raise
            continue
        files = files_of(path)
        if files[0] == before:  # Otherwise the file may have been replaced in between.
            return connection, files
        connection.close()
    raise FileNotFoundError(errno.ENOENT, "the file is deleted or replaced again and again")


def open_database(path: str | Path, timeout: float) -> sqlite3.Connection:
    """Return a connection to the file of a store, which is created if there is none. Raises sqlite3.Error, OSError, and
    LocalError for a file that is not a store.

    Args:
        path: The file.
        timeout: Seconds for which each statement waits for a lock of another connection.
    """
    _create(path)
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        version, tables = connection.execute(_STATE).fetchone()
        if version != _FORMAT and (tables or version):
            raise LocalError(f"{path}: is not a store of this version; remove the file, or choose another path")
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        _use_wal(connection, timeout)
        connection.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            connection.executescript(_TABLES)
        restrict_database(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: str | Path) -> None:
    """Create the file unless it exists. What is beside a new one belongs to a file that was deleted before."""
    if create_private_file(path):
        for part in (*_PARTS, CHANGES):
            with suppress(FileNotFoundError):
                os.unlink(f"{path}{part}")


def _use_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Write a log. SQLite does not wait for another process that opens a new file at the same time."""
    until = clock.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if clock.monotonic() >= until:
                raise
            time.sleep(_LOOK_SECONDS)


# Streams in the file of a store in SQLite.


def append_to_batch(file: sqlite3.Connection, stream: str, entries: Sequence[bytes], ttl: float, after: int) -> int:
    """Append to the batch of a stream in one statement, which may be its own transaction. Return the number of the last
    entry; 0 if that is not possible."""
    parts: list[bytes] = []
    now = clock.wall()
    for entry in entries:
        parts += (len(entry).to_bytes(_SIZE, "big"), entry)
    batch = b"".join(parts)
    if len(batch) > _BATCH or not entries:
        return 0
    last = after + len(entries)
    if after:
        changed = file.execute(_EXTEND, (last, now + ttl, batch, stream, after, now))
    else:
        changed = file.execute(_CREATE, (stream, last, now + ttl, batch))
    return last if changed.rowcount == 1 else 0


class Appending:
    """Entries that are appended to a stream in the transaction of a connection; see `Store.append`."""

    __slots__ = ("_stream", "_entries", "_ttl", "_after", "_token")

    def __init__(self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None, token: str) -> None:
        """Take the arguments of `Store.append`."""
        self._stream = stream
        self._entries = entries
        self._ttl = ttl
        self._after = after
        self._token = token

    def append_to_batch(self, file: sqlite3.Connection) -> int:
        """Append to the batch of the stream, if it has one writer only; see the function."""
        if self._token or self._after is None:
            return 0
        return append_to_batch(file, self._stream, self._entries, self._ttl, self._after)

    def __call__(self, file: sqlite3.Connection) -> int:
        """Append the entries, and return the number of the last one."""
        return self.append_to_batch(file) or self._append(file)

    def _append(self, file: sqlite3.Connection) -> int:
        stream, entries, now = self._stream, self._entries, clock.wall()
        row = file.execute("SELECT last, expires FROM streams WHERE name = ?", (stream,)).fetchone()
        if row is not None and row[1] <= now:
            drop([stream], file)
            return self(file)
        last = 0 if row is None else row[0]
        if not entries:
            file.execute("UPDATE streams SET expires = ? WHERE name = ?", (now + self._ttl, stream))
            return max(last, self._after or 0)
        if self._token:
            statement = "SELECT max(number) FROM entries WHERE stream = ? AND number > ? AND token = ?"
            number = file.execute(statement, (stream, self._after or 0, self._token)).fetchone()[0]
            if number is not None:
                return int(number)
        number = max(last, self._after or 0)
        if self._after is None or self._token:
            number = max(number, number_at(now) - len(entries))
        else:
            entries = entries[number - self._after :]
        file.executemany(
            "INSERT INTO entries VALUES (?, ?, ?, ?)",
            [(stream, number, body, self._token) for number, body in enumerate(entries, number + 1)],
        )
        last = number + len(entries)
        if row is None:
            file.execute(_CREATE, (stream, last, now + self._ttl, b""))
        else:
            file.execute("UPDATE streams SET last = ?, expires = ? WHERE name = ?", (last, now + self._ttl, stream))
        if last > STREAM_LIMIT:
            file.execute(_TRIM, (stream,))
        return last


def read_stream(file: sqlite3.Connection, stream: str, after: int, limit: int) -> list[NumberedEntry]:
    """Return the stored entries of a stream that follow a number, at most `limit` of them."""
    statement = "SELECT last, batch FROM streams WHERE name = ? AND expires > ?"
    rows: list[Any] = file.execute(statement, (stream, clock.wall())).fetchall()
    if not rows:
        return []
    [(last, batch)] = rows
    first = list(enumerate(_unpacked(batch), 1))
    if first and last > STREAM_LIMIT:
        others = file.execute("SELECT count(*) FROM entries WHERE stream = ?", (stream,)).fetchone()[0]
        first = first[max(len(first) + others - STREAM_LIMIT, 0) :]
    first = [entry for entry in first if entry[0] > after]
    statement = "SELECT number, body FROM entries WHERE stream = ? AND number > ? ORDER BY number LIMIT ?"
    return [*first, *file.execute(statement, (stream, after, limit))][:limit]


def drop(streams: Sequence[str], file: sqlite3.Connection) -> None:
    """Delete streams."""
    names = [(stream,) for stream in streams]
    file.executemany("DELETE FROM streams WHERE name = ?", names)
    file.executemany("DELETE FROM entries WHERE stream = ?", names)


def expired_streams(file: sqlite3.Connection, now: float) -> list[str]:
    """Return the names of streams that have expired, of which there may be more."""
    return [name for (name,) in file.execute("SELECT name FROM streams WHERE expires <= ? LIMIT 10000", (now,))]


def drop_expired(streams: Sequence[str], now: float, file: sqlite3.Connection) -> None:
    """Delete those of the streams that are still expired."""
    statement = "SELECT 1 FROM streams WHERE name = ? AND expires <= ?"
    drop([name for name in streams if file.execute(statement, (name, now)).fetchone() is not None], file)


def _unpacked(batch: bytes) -> list[bytes]:
    entries: list[bytes] = []
    at = 0
    while at < len(batch):
        begin = at + _SIZE
        at = begin + int.from_bytes(batch[at:begin], "big")
        entries.append(batch[begin:at])
    return entries


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
        self._writer: sqlite3.Connection | None = None  # Of the thread; it waits for locks.
        self._listener: sqlite3.Connection | None = None  # Sees the changes of both, and those of other processes.
        self._commits = 0
        self._is_large = False
        self._paused_until = 0.0
        self._thread: ThreadPoolExecutor | None = None
        self._records = UnchangedRecords(path)
        self.tracked = self._records.get  # See `UnchangedRecords`.
        self._batches = CommandBatches[Work](self._send, self._commit_at_once)
        self._receivers = Receivers()
        self._timer: asyncio.TimerHandle | None = None
        self._version = 0
        self._last_message = 0
        self._process = OneProcess(f"{path}: ")  # SQLite allows no use in a child.
        self._files: Files | None = None  # Those that are open.
        self._has_opened = False  # True if the file was a store at least once.
        self._is_anew = False  # True if messages of a file before may not have been read.
        self._is_deaf = False  # True while no messages can be read.
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
            await self._batches.add(
                lambda file: file.execute("UPDATE records SET expires = ? WHERE key = ?", (now + ttl, key))
            )
        value: bytes = row[0]
        return value

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        try:
            return read_stream(self._connection(), stream, after, limit)
        except (sqlite3.Error, OSError) as error:
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
        return bool(await self._batches.add(work))

    async def delete(self, key: str) -> bool:
        """Delete a record."""

        def work(file: sqlite3.Connection) -> Any:
            self._records.change(key)
            return file.execute("DELETE FROM records WHERE key = ? RETURNING expires", (key,)).fetchone()

        now = clock.wall()
        row = await self._batches.add(work)
        return row is not None and row[0] > now

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        now = clock.wall()
        row = await self._batches.add(lambda file: file.execute(_COUNT, (key, amount, now + ttl, now)).fetchone())
        value: int = row[0]
        return value

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream."""
        self._is_large = self._is_large or sum(map(len, entries)) > _LARGE
        last: int = await self._batches.add(Appending(stream, entries, ttl, after, token))
        return last

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        await self._batches.add(partial(drop, streams))

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel."""
        row = (channel, message, clock.wall() + _MESSAGE_SECONDS)
        statement = "INSERT INTO messages (channel, body, expires) VALUES (?, ?, ?)"
        await self._batches.add(lambda file: file.execute(statement, row))

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        self._process.require()
        if self._timer is None:
            self._last_message = self._last_number()
            self._timer = asyncio.get_running_loop().call_later(_SLOW, self._poll)
        self._receivers.add(channel, receive)

    async def close(self) -> None:
        """End subscriptions, and close the file; in a forked process, leave both to its parent."""
        if self._process.is_parent:
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
        self._quick = self._writer = self._listener = self._thread = None
        self._records.close()

    async def _send(self, commands: Sequence[Work]) -> Sequence[Any]:
        if self._timer is None:
            self._row("SELECT 1")  # It opens the file anew, if it was deleted.
        self._process.require()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "mcp-sqlite-store")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._commit, commands)

    def _commit(self, commands: Sequence[Work]) -> list[Any]:
        """Run commands in one transaction, and return their results."""
        try:
            if self._writer is None:
                self._writer = self._opened(open_database)
            more = self._cleaning(self._writer)
            self._writer.execute("BEGIN IMMEDIATE")
            return self._run(self._writer, [*commands, *more])[: len(commands)]
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error

    def _close_writer(self) -> None:
        """Close the connection of the thread, which alone does so: a command of it may wait for a lock."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

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
        except BaseException as error:
            if file.in_transaction:  # A full disk has ended it already.
                file.execute("ROLLBACK")
            if isinstance(error, LocalError):
                raise self._unavailable(error) from error
            raise
        return results

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of the event loop. It waits for other processes only when it is opened."""
        if self._timer is None:  # Otherwise `_poll` looks at the file.
            self._look_at_file()
        self._process.require()
        if self._quick is None:
            quick, files = self._opened(open_known)
            self._quick = quick
            self._files = files
            quick.execute("PRAGMA busy_timeout = 0")
            quick.execute("PRAGMA wal_autocheckpoint = 0")
        return self._quick

    def _opened(self, open_file: Callable[[str | Path, float], _OpenedT]) -> _OpenedT:
        """Return what a function opens. What is wrong with the path is a LocalError the first time only: a file that
        was a store before may be one again."""
        try:
            opened = open_file(self._path, _BUSY_SECONDS)
        except LocalError as error:
            if not self._has_opened:
                raise
            raise self._unavailable(error) from error
        self._has_opened = True
        return opened

    def _unavailable(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._path}: {error}")

    def _row(self, statement: str, *values: object) -> Any:
        try:
            rows = self._connection().execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error
        return rows[0] if rows else None

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _news(self, statement: str, *values: object) -> list[Any]:
        try:
            if self._listener is None:
                self._connection()  # So that the file is known.
                self._listener = self._opened(open_database)
            return self._listener.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise self._unavailable(error) from error

    def _poll(self) -> None:
        """Call the receivers of new messages: `data_version` tells in microseconds whether the file has changed."""
        loop = asyncio.get_running_loop()
        try:
            self._look_at_file()
            if self._is_anew:
                self._last_message = self._last_number()
                self._is_anew = False
                self._receivers.note_gap()
            if (version := self._news("PRAGMA data_version")[0][0]) != self._version:
                self._version = version
                self._pass_messages(loop)
            self._is_deaf = False
        except StoreUnavailableError as error:
            if not self._is_deaf:
                _log.warning("the messages of the store cannot be read, which is tried again: %s", error)
            self._is_deaf = True
        finally:  # Whatever is raised, the next messages are read.
            delay = _QUICK if loop.time() < self._quick_until else _SLOW
            self._timer = loop.call_later(delay, self._poll)

    def _look_at_file(self) -> None:
        self._records.look()
        if self._files is not None and (now := files_of(self._path)) != self._files:
            self._open_anew(now)

    def _open_anew(self, now: Files) -> None:
        """Use the files that have the names now, or new ones: what is open was deleted or replaced."""
        _log.warning("%s: the file of the store was deleted or replaced, and is opened anew", self._path)
        if self._files is not None and now[0] == self._files[0]:
            # What others write to their parts may destroy this file, and then be read by anybody: it is lost as well.
            with suppress(OSError):
                os.unlink(self._path)
        if self._thread is not None:
            self._thread.submit(self._close_writer)  # After what it does now.
        for connection in (self._quick, self._listener):
            if connection is not None:
                connection.close()
        self._quick = self._listener = self._files = None
        self._records.close()
        self._version = 0
        self._is_anew = True

    def _last_number(self) -> int:
        [(number,)] = self._news("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'messages'")
        return int(number)

    def _pass_messages(self, loop: asyncio.AbstractEventLoop) -> None:
        statement = "SELECT number, channel, body FROM messages WHERE number > ? ORDER BY number"
        messages = self._news(statement, self._last_message)
        before = messages[0][0] - 1 if messages else self._last_number()
        if before != self._last_message:  # Some have expired, unread, or the file has an older state.
            self._last_message = before
            self._receivers.note_gap()
            messages = self._news(statement, self._last_message)
        for number, channel, body in messages:
            self._last_message = number
            if self._receivers.receive(channel, body):
                self._quick_until = loop.time() + _QUICK_SECONDS


def _clean(now: float, streams: Sequence[str], file: sqlite3.Connection) -> None:
    """Delete what has expired."""
    drop_expired(streams, now, file)
    for table in ("records", "counters", "messages"):
        file.execute(f"DELETE FROM {table} WHERE expires <= ?", (now,))
