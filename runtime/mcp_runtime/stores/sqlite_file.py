"""The file of a store in SQLite: its tables, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from ..aio import clock
from ..errors import LocalError
from .private_files import create_private_file, restrict_database

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


def identity_of(path: str | Path) -> tuple[int, int] | None:
    """Return what identifies a file, whatever its name; None if there is none of this name."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_database(path: str | Path, timeout: float) -> sqlite3.Connection:
    """Return a connection to the file of a store, which is created if there is none. Raises sqlite3.Error, and
    LocalError for a file that is no store.

    Args:
        path: The file.
        timeout: Seconds for which each statement waits for a lock of another connection.
    """
    create_private_file(path)
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        version, tables = connection.execute(_STATE).fetchone()
        if version != _FORMAT and (tables or version):
            raise LocalError(f"{path}: is no store of this version; remove the file, or choose another path")
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
