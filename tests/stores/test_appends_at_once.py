"""Entries that a store in SQLite appends without a wait: the same entries as `append`, or none."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_generated.http import InMemoryStore, SQLiteStore
from mcp_runtime.aio import fast_paths
from mcp_runtime.stores import command_batches, sqlite_store

LONG = 60.0
BEFORE = 2 * command_batches.SINGLES  # Changes, one after the other, after which the next one is made at once.


async def changed_before(store: SQLiteStore) -> SQLiteStore:
    """The store after so many changes that the next one is made at once."""
    for number in range(BEFORE):
        await store.put("first", b"%d" % number, LONG)
    return store


@pytest.mark.parametrize("seed", range(8))
async def test_what_is_appended_at_once_is_what_append_appends(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small and large entries, commands that are repeated, streams that are dropped and begin anew."""
    monkeypatch.setattr(sqlite_store, "_LATE", LONG)  # A busy machine is no slow disk.
    draw, at_once = random.Random(seed), 0
    store, model = await changed_before(SQLiteStore(tmp_path / "s.db")), InMemoryStore()
    for _ in range(300):
        stream = draw.choice("abc")
        if draw.random() < 0.2:
            await store.drop(stream)
            await model.drop(stream)
        last = await model.last(stream)
        after = draw.choice([last, last, last, max(last - 2, 0), 0])
        sizes = draw.choices([0, 1, 10, 100, 1000, 5000], [1, 1, 1, 2, 2, 1], k=draw.randint(1, 3))
        entries = [bytes([draw.randrange(256)]) * size for size in sizes]
        number = store.append_at_once(stream, entries, LONG, after)
        at_once += bool(number)
        number = number or await store.append(stream, entries, LONG, after)
        assert number == await model.append(stream, entries, LONG, after)
        assert await store.read(stream, 0) == await model.read(stream, 0)
    assert at_once > 20, "the test has tried nothing"
    await store.close()


async def another_writer(store: SQLiteStore, path: Path) -> None:
    """Let another connection write."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.01, other.close)


async def long_log(store: SQLiteStore, path: Path) -> None:
    """Commit so often that the thread has to empty the log."""
    store._commits = sqlite_store._COMMITS


async def slow_disk(store: SQLiteStore, path: Path) -> None:
    """Let the disk be slow."""
    store._paused_until = float("inf")


async def end(store: SQLiteStore, path: Path) -> None:
    """Close the store."""
    await store.close()


@pytest.mark.parametrize("happens", [another_writer, long_log, slow_disk, end])
async def test_nothing_is_appended_at_once_when_that_may_wait(tmp_path: Path, happens: Callable[..., Any]) -> None:
    path = tmp_path / "s.db"
    store = await changed_before(SQLiteStore(path))
    await happens(store, path)
    assert store.append_at_once("s", [b"1"], LONG, 0) == 0
    if happens is end:
        return
    assert await store.read("s", 0) == []
    assert await store.append("s", [b"1"], LONG, 0) == 1
    await store.close()


async def test_nothing_overtakes_a_command_that_waits(tmp_path: Path) -> None:
    store = await changed_before(SQLiteStore(tmp_path / "s.db"))
    singles = store._batches._singles
    singles._unwatched = 0
    earlier = asyncio.ensure_future(store.append("s", [b"earlier"], LONG, 0))
    await asyncio.sleep(0)
    singles._unwatched = 1
    assert store.append_at_once("s", [b"later"], LONG, 1) == 0
    assert await earlier == 1
    assert store.append_at_once("s", [b"later"], LONG, 1) == 2
    await store.close()


async def test_without_fast_paths_each_append_waits_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_paths, "ENABLED", False)
    store = await changed_before(SQLiteStore(tmp_path / "s.db"))
    assert store.append_at_once("s", [b"1"], LONG, 0) == 0
    await store.close()
