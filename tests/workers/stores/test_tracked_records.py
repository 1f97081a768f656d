"""Records that a process knows without reading them again, and what others change of them."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from support.stores.homes import SHARED, open_home, place_of
from support.systems import PATIENCE

from mcp_generated.http import SQLiteStore
from mcp_products.workers.stores import tracked_records
from mcp_products.workers.stores import tracked_records as sqlite_records
from mcp_products.workers.stores.redis_connection import RedisPipe, packed
from mcp_products.workers.stores.retries import RetryingStore, TrackingStore
from mcp_runtime.stores import StoreUnavailableError

from .test_redis_pipe import piped

LONG, SOON = 60.0, 5.0  # Seconds: to live, and for a report at most.


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


@asynccontextmanager
async def stores(place: Any) -> AsyncIterator[tuple[TrackingStore, TrackingStore]]:
    """Two openings of one store, which both have a connection."""
    one, other = open_home(place), open_home(place)
    try:
        for store in (one, other):
            await store.put("first", b"1", LONG)
        yield one, other
    finally:
        await one.close()
        await other.close()


async def tracked_value(store: TrackingStore, key: str) -> bytes | None:
    """Read a record until it is known."""
    async with asyncio.timeout(SOON):
        while store.tracked(key) is None:
            await store.get_tracked(key)
            await asyncio.sleep(0)
    return store.tracked(key)


async def forgotten(store: TrackingStore, key: str, former: bytes) -> None:
    """Wait until a former value is not known any more."""
    async with asyncio.timeout(SOON):
        while store.tracked(key) == former:
            await asyncio.sleep(0)


async def test_a_record_is_known_until_another_process_changes_it(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.get_tracked("a") is None and one.tracked("a") is None
        await other.put("a", b"1", LONG)
        for number in range(2, 40):
            former = b"%d" % (number - 1)
            assert await tracked_value(one, "a") == await tracked_value(other, "a") == former
            await other.put("a", b"%d" % number, LONG, expected=former)
            assert other.tracked("a") != former
            await forgotten(one, "a", former)
            assert await one.get_tracked("a") == b"%d" % number
        assert await tracked_value(one, "a") == b"39"
        await other.delete("a")
        await forgotten(one, "a", b"39")
        assert await one.get_tracked("a") is None and one.tracked("a") is None


async def test_a_change_is_known_everywhere_when_it_was_reported(place: Any) -> None:
    """Without a wait: what another process has not read yet is not used either."""
    async with stores(place) as (one, other):
        await one.put("a", b"0", LONG)
        for number in range(1, 200):
            former, value = b"%d" % (number - 1), b"%d" % number
            assert await tracked_value(other, "a") == former
            await one.put("a", value, LONG, expected=former)
            await one.report()
            assert other.tracked("a") in (None, value) and await other.get_tracked("a") == value


@pytest.mark.parametrize("change", ["put", "delete", "touch"])
async def test_a_process_never_knows_what_it_has_changed_itself_before(place: Any, change: str) -> None:
    """Also if a command that reads the record was sent before the change, and is answered after it was called."""
    async with stores(place) as (one, other):
        for number in range(30):
            value = b"%d" % number
            await one.put("a", value, LONG)
            read = asyncio.gather(*(one.get_tracked("a") for _ in range(number % 3)))
            await {"put": lambda: one.put("a", b"new", LONG), "delete": lambda: one.delete("a"),
                   "touch": lambda: one.touch("a", LONG)}[change]()  # fmt: skip
            await read
            assert one.tracked("a") in ((None, value) if change == "touch" else (None, b"new"))
            await other.put("a", b"last", LONG)
            for former in (value, b"new"):
                await forgotten(one, "a", former)
            assert await one.get_tracked("a") == b"last"


async def test_a_former_value_is_never_known_after_a_later_one(place: Any) -> None:
    """While one process writes, another one reads: what it knows does not go back, and ends with the last value."""
    async with stores(place) as (one, other):
        await other.put("a", b"0", LONG)
        seen, done = [0], asyncio.Event()

        async def write() -> None:
            for number in range(1, 200):
                await other.put("a", b"%d" % number, LONG)
                await asyncio.sleep(0)
            done.set()

        async def read() -> None:
            while not done.is_set():
                seen.append(int(one.tracked("a") or await one.get_tracked("a") or b"-1"))
                await asyncio.sleep(0)

        await asyncio.gather(write(), read())
        assert seen == sorted(seen)
        for former in range(199):
            await forgotten(one, "a", b"%d" % former)
        assert await tracked_value(one, "a") == b"199"


@pytest.mark.parametrize("home", ["sqlite", "redis"])  # In a cluster, each connection knows so many.
async def test_only_so_many_records_are_known(home: str, tmp_path: Path) -> None:
    async with stores(place_of(home, tmp_path)) as (one, _):
        keys = [f"k{number}" for number in range(1030)]
        await asyncio.gather(*(one.put(key, b"1", LONG) for key in keys))
        for key in keys:
            await one.get_tracked(key)
        names = [key for key in keys if one.tracked(key) is not None]
        assert names == keys[-len(names) :] and 900 < len(names) <= 1024


async def test_a_store_that_tracks_nothing_is_read_each_time() -> None:
    class Plain:
        def __init__(self) -> None:
            self.reads = 0

        async def get(self, key: str) -> bytes:
            self.reads += 1
            return b"1"

    plain = Plain()
    store = RetryingStore(plain, 1.0)  # type: ignore[arg-type]
    assert [await store.get_tracked("a") for _ in range(2)] == [b"1", b"1"] and store.tracked("a") is None
    assert plain.reads == 2


# ---- SQLite ----------------------------------------------------------------------------------------------------------


async def test_a_record_of_sqlite_is_known_as_long_as_it_lives(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    await store.get("a")  # It is open by then: the record below lives shortly.
    await store.put("a", b"1", 0.3 * PATIENCE)
    assert await tracked_value(store, "a") == b"1"
    await asyncio.sleep(0.35 * PATIENCE)
    assert store.tracked("a") is None and await store.get_tracked("a") is None
    await store.close()


KILLED = """
import asyncio, os, sys
from mcp_products.workers.stores import sqlite as sqlite_store
from mcp_products.workers.stores import tracked_records as sqlite_records
when = sys.argv[2]
def change(self, key, former=sqlite_records.UnchangedRecords.change):
    former(self, key)
    if when == "before the statement":
        os._exit(9)
sqlite_records.UnchangedRecords.change = change
def run(self, file, commands, former=sqlite_store.SQLiteStore._run):
    if when == "before the commit":
        commands = [*commands, lambda file: os._exit(9)]
    former(self, file, commands)
    os._exit(9)
sqlite_store.SQLiteStore._run = run
asyncio.run(sqlite_store.SQLiteStore(sys.argv[1]).put("a", b"2", 60.0))
"""


@pytest.mark.parametrize(
    ("when", "value"), [("before the statement", b"1"), ("before the commit", b"1"), ("after the commit", b"2")]
)
async def test_a_process_that_is_killed_while_it_changes_a_record(tmp_path: Path, when: str, value: bytes) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    await store.put("a", b"1", LONG)
    assert await tracked_value(store, "a") == b"1"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "s.db"), when], timeout=60)
    assert killed.returncode == 9
    assert store.tracked("a") is None and await store.get_tracked("a") == value
    assert await tracked_value(store, "a") == value
    await store.close()


async def test_a_record_is_not_known_while_another_process_may_be_changing_it(tmp_path: Path) -> None:
    store, path = SQLiteStore(tmp_path / "s.db"), tmp_path / "s.db"
    await store.put("a", b"1", LONG)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        assert await store.get_tracked("a") == b"1" and store.tracked("a") is None
        file.execute("COMMIT")
    assert await tracked_value(store, "a") == b"1"
    await store.close()


async def test_the_file_of_changes_is_private(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    assert await store.get_tracked("a") is None
    assert not (tmp_path / "s.db-changes").exists()  # Nothing has changed yet.
    await store.put("a", b"1", LONG)
    status = (tmp_path / "s.db-changes").stat()
    assert status.st_size == 4096 and (sys.platform == "win32" or status.st_mode & 0o077 == 0)
    await store.close()


@pytest.mark.parametrize("singles", [0, 12], ids=["thread", "event loop"])
async def test_a_change_that_cannot_be_counted_is_not_made(
    tmp_path: Path, singles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    for _ in range(singles + 1):
        await store.count("c", 1, LONG)  # A counter is not a record: there is no file yet.

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sqlite_records, "create_private_file", full)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        await store.put("a", b"1", LONG)
    monkeypatch.undo()
    assert await store.get("a") is None
    await store.put("a", b"2", LONG)
    assert await tracked_value(store, "a") == b"2"
    await store.close()


# ---- Redis -----------------------------------------------------------------------------------------------------------

CACHED = b"+OK\r\n$1\r\nv\r\n"


async def tracking(pipe: RedisPipe) -> None:
    """Connect, and wait until the answer to `CLIENT TRACKING` has been handled."""
    await pipe.add(("GET", "first"))
    await asyncio.sleep(0.01)


async def read(pipe: RedisPipe, scripted: Any, answer: bytes) -> Any:
    scripted.answer = lambda part: answer
    return await pipe.get_tracked("a")


async def test_a_record_is_known_until_redis_reports_a_change() -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        assert await read(pipe, scripted, CACHED) == b"v" and pipe.records.get("a") == b"v"
        assert scripted.received[-1] == packed(("CLIENT", "CACHING", "YES")) + packed(("GET", "a"))
        report = b">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n"
        scripted.answer = lambda part: report + b":1\r\n"
        assert await pipe.add(("GET", "b")) == 1 and pipe.records.get("a") is None


@pytest.mark.parametrize("report", [b">2\r\n$10\r\ninvalidate\r\n_\r\n", b">2\r\n$10\r\ninvalidate\r\n*-1\r\n"])
async def test_nothing_is_known_after_redis_was_emptied(report: bytes) -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        await read(pipe, scripted, CACHED)
        scripted.answer = lambda part: report + b":1\r\n"
        assert await pipe.add(("GET", "b")) == 1 and pipe.records.get("a") is None


async def test_other_push_messages_change_nothing() -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        await read(pipe, scripted, CACHED)
        scripted.answer = lambda part: b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\na\r\n>0\r\n:1\r\n"
        assert await pipe.add(("GET", "b")) == 1 and pipe.records.get("a") == b"v"


async def test_a_record_without_a_value_is_not_known() -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        assert await read(pipe, scripted, b"+OK\r\n_\r\n") is None and pipe.records.get("a") is None


async def test_nothing_is_known_without_the_consent_of_redis() -> None:
    async with piped() as (pipe, scripted):
        scripted.answer = lambda part: b"-ERR unknown command\r\n" * 2 + b":1\r\n" * (part.count(b"*") - 2)
        await tracking(pipe)
        assert await read(pipe, scripted, b"$1\r\nv\r\n") == b"v"
        assert pipe.records.get("a") is None and b"CACHING" not in scripted.received[-1]


async def test_a_record_whose_tracking_is_refused_is_not_known() -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        assert await read(pipe, scripted, b"-NOPERM no\r\n$1\r\nv\r\n") == b"v" and pipe.records.get("a") is None


async def test_nothing_is_known_when_the_connection_is_lost() -> None:
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        await read(pipe, scripted, CACHED)
        scripted._writer.transport.abort()
        await asyncio.sleep(0.01)
        assert pipe.records.get("a") is None and not pipe.records.is_on


async def test_nothing_is_known_while_redis_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked_records, "_SILENT_SECONDS", 0.2)
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        await read(pipe, scripted, CACHED)
        assert pipe.records.get("a") == b"v"
        await asyncio.sleep(0.25)
        assert pipe.records.get("a") is None
        scripted.answer = lambda part: b":1\r\n"
        await pipe.add(("GET", "b"))
        assert pipe.records.get("a") == b"v"


async def test_nothing_is_known_while_bytes_of_redis_are_unread() -> None:
    """The report of a change may be among them: another connection of the same event loop may be served first."""
    async with piped() as (pipe, scripted):
        await tracking(pipe)
        await read(pipe, scripted, CACHED)
        scripted.sender.write(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nb\r\n")
        for _ in range(1000):  # The bytes arrive while this function does not return to the event loop.
            if pipe.records.get("a") is None:
                break
        assert pipe.records.get("a") is None
        await asyncio.sleep(0.05)
        assert pipe.records.get("a") == b"v"
