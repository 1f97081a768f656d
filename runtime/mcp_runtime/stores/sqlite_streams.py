"""Streams in the file of a store in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from ..aio import clock
from .primitives import STREAM_LIMIT, NumberedEntry, number_at

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


def append_to_batch(
    file: sqlite3.Connection | sqlite3.Cursor, stream: str, entries: Sequence[bytes], ttl: float, after: int
) -> int:
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
