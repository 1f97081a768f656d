"""Where a store in SQLite writes: in the event loop, and in a thread when another process writes or much is written."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp_generated.http import SQLiteStore
from mcp_runtime.stores import sqlite_store

LONG = 60.0


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store that has written before: what comes first is written by the thread, which makes the tables."""
    store = SQLiteStore(path)
    try:
        await store.put("first", b"", LONG)
        yield store
    finally:
        await store.close()


async def test_a_change_waits_while_another_process_writes_and_nothing_else_does(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.append("s", [b"1"], LONG))
        following = asyncio.create_task(store.append("s", [b"2"], LONG))
        assert await store.get("first") == b"" and not writing.done()
        other.execute("COMMIT")
        assert await asyncio.gather(writing, following) == [1, 2]
        assert await store.read("s", 0) == [(1, b"1"), (2, b"2")]
        other.close()


async def test_changes_of_one_turn_are_one_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        await store.put("second", b"", LONG)
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN")
        [before] = other.execute("SELECT count(*) FROM records").fetchone()
        await asyncio.gather(*(store.put(f"r{number}", b"", LONG) for number in range(20)))
        assert other.execute("SELECT count(*) FROM records").fetchone() == (before,)  # It reads what was there before.
        other.execute("COMMIT")
        assert other.execute("SELECT count(*) FROM records").fetchone() == (before + 20,)
        other.close()


async def test_the_log_of_sqlite_stays_small(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        for number in range(6 * sqlite_store._COMMITS):
            await store.put(f"record {number}", bytes(4000), LONG)
        assert (tmp_path / "store.db-wal").stat().st_size < 16 << 20


async def test_what_is_large_is_stored_as_well(tmp_path: Path) -> None:
    large = bytes(2 * sqlite_store._LARGE)
    async with opened(tmp_path / "store.db") as store:
        assert await asyncio.gather(store.append("s", [large], LONG), store.append("s", [b"1"], LONG)) == [1, 2]
        await store.drop("s", "of which there is none")
        assert await store.last("s") == 0
