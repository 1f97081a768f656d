"""Where a store in SQLite writes: in the event loop, and in a thread when another process writes or much is written."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from mcp_generated.http import SQLiteStore
from mcp_products.workers.stores import sqlite as sqlite_store
from mcp_products.workers.stores import sqlite as sqlite_streams
from mcp_runtime.aio import clock

LONG = 60.0
# It takes the lock that a writer needs, says so, and keeps it until its input ends.
WRITER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN IMMEDIATE")
print("writing", flush=True)
sys.stdin.read()
file.execute("COMMIT")
"""
CHANGES: dict[str, Callable[[SQLiteStore], Awaitable[Any]]] = {
    "put": lambda store: store.put("a", b"1", LONG),
    "compared put": lambda store: store.put("a", b"1", LONG, expected=None),
    "touch": lambda store: store.touch("brief", LONG),
    "delete": lambda store: store.delete("first"),
    "count": lambda store: store.count("c", 1, LONG),
    "append": lambda store: store.append("s", [b"1"], LONG, after=0),
    "later append": lambda store: store.append("open", [b"2"], LONG, after=1),
    "drop": lambda store: store.drop("open"),
    "publish": lambda store: store.publish("news", b"1"),
}


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store that has written before: what comes first is written by the thread, which makes the tables."""
    store = SQLiteStore(path)
    try:
        await store.put("first", b"", LONG)
        await store.put("brief", b"", LONG / 3)  # To touch it is a change.
        await store.append("open", [b"1"], LONG, after=0)
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("change", CHANGES)
async def test_the_event_loop_goes_on_while_another_process_writes(tmp_path: Path, change: str) -> None:
    async with opened(tmp_path / "store.db") as store:
        command = [sys.executable, "-c", WRITER, str(tmp_path / "store.db")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdin is not None and other.stdout is not None
            assert other.stdout.readline().strip() == b"writing"
            writing = asyncio.ensure_future(CHANGES[change](store))
            began = time.perf_counter()
            await asyncio.wait([writing], timeout=0.02)
            assert not writing.done() and await store.get("first") == b""
            took = time.perf_counter() - began
            assert took < sqlite_store._BUSY_SECONDS / 2, "the event loop has waited for the lock"
            other.stdin.close()
            await writing
        assert other.returncode == 0


def noting(threads: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that notes in which thread it runs."""

    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return function(*arguments)

    return noted


@pytest.mark.parametrize("table", ["records", "streams"])
async def test_a_slow_disk_makes_the_event_loop_wait_once(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit takes twice as long as it may, on a clock that stands still otherwise."""
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def commit(*arguments: Any) -> Any:
            nonlocal now
            now += 2 * sqlite_store._LATE
            return function(*arguments)

        return commit

    async with opened(tmp_path / "store.db") as store:
        threads: list[int] = []
        for name in ("_commit_here", "_commit"):
            monkeypatch.setattr(store, name, noting(threads, slow(getattr(store, name))))
        for number in range(5):
            name = f"{number}"
            await (store.put(name, b"", LONG) if table == "records" else store.append(name, [b""], LONG))
        assert [thread == threading.get_ident() for thread in threads] == [True, False, False, False, False]


async def test_a_change_waits_while_another_process_writes_and_nothing_else_does(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.append("s", [b"1"], LONG))
        following = asyncio.create_task(store.append("s", [b"2"], LONG))
        assert await store.get("first") == b"" and not writing.done()
        other.execute("COMMIT")
        numbers = await asyncio.gather(writing, following)
        assert await store.read("s", 0) == [*zip(numbers, (b"1", b"2"), strict=True)]
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


async def test_changes_that_come_together_are_made_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_LATE", LONG)  # A busy machine is not a slow disk.
    async with opened(tmp_path / "store.db") as store:
        for turn in range(3):
            numbers = await asyncio.gather(*(store.append(f"{turn}", [b"%d" % n], LONG) for n in range(40)))
            assert await store.read(f"{turn}", 0) == [(number, b"%d" % n) for n, number in enumerate(numbers)]
        transactions = 0
        file = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        version = file.execute("PRAGMA data_version").fetchone()
        changes = [asyncio.ensure_future(store.count("c", 1, LONG)) for _ in range(40)]
        while not changes[-1].done():
            await asyncio.sleep(0)
            transactions += version != (version := file.execute("PRAGMA data_version").fetchone())
        file.close()
        assert [change.result() for change in changes] == [*range(1, 41)] and transactions == 1


async def test_the_log_of_sqlite_stays_small(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as store:
        for number in range(6 * sqlite_store._COMMITS):
            await store.put(f"record {number}", bytes(4000), LONG)
        assert (tmp_path / "store.db-wal").stat().st_size < 16 << 20


async def test_what_is_large_is_stored_as_well(tmp_path: Path) -> None:
    large = bytes(2 * sqlite_store._LARGE)
    async with opened(tmp_path / "store.db") as store:
        numbers = await asyncio.gather(store.append("s", [large], LONG), store.append("s", [b"1"], LONG))
        assert await store.read("s", 0) == [*zip(numbers, (large, b"1"), strict=True)]
        await store.drop("s", "of which there is none")
        assert await store.last("s") == 0


async def test_what_has_expired_is_deleted_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_CLEAN_SECONDS", 0.0)
    async with opened(tmp_path / "s.db") as store:
        for ttl, name in ((LONG, "long"), (0.001, "brief")):
            await store.put(name, b"1", ttl)
            await store.count(name, 1, ttl)
            await store.append(name, [b"1"], ttl, after=0)  # In the row of the stream,
            await store.append(name, [b"2"], ttl, token="t")  # and in one of its own.
        await asyncio.sleep(0.01)
        await store.put("last", b"1", LONG)
        rows = rows_of(tmp_path / "s.db")
    assert rows["records"] >= {"first", "long", "last"}
    assert all("brief" not in names for table, names in rows.items() if table != "records")
    assert rows["streams"] == {"open", "long"} and rows["entries"] == rows["counters"] == {"long"}


async def test_a_stream_that_lives_on_meanwhile_is_not_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as store:
        for name in ("ended", "alive"):
            await store.append(name, [b"1"], 0.001, after=0)
        await asyncio.sleep(0.01)
        file, now = sqlite3.connect(tmp_path / "s.db", isolation_level=None), time.time()
        expired = sqlite_streams.expired_streams(file, now)
        await store.append("alive", [b"2"], LONG, after=0)
        sqlite_streams.drop_expired(expired, now, file)
        file.close()
        assert sorted(expired) == ["alive", "ended"]
        assert await store.read("alive", 0) == [(1, b"2")]
        assert rows_of(tmp_path / "s.db")["streams"] == {"open", "alive"}


def rows_of(path: Path) -> dict[str, set[str]]:
    """The keys of the rows of each table."""
    keys = {"records": "key", "counters": "key", "streams": "name", "entries": "stream"}
    with closing(sqlite3.connect(path)) as file:
        return {table: {row[0] for row in file.execute(f"SELECT {key} FROM {table}")} for table, key in keys.items()}
