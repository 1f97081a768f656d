"""What every home of a store does alike: the same tests against memory, SQLite and a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.stores.homes import HOMES, open_home, place_of
from support.systems import PATIENCE

from mcp_runtime.stores import STREAM_LIMIT, StoreUnavailableError

BRIEF = 0.05 * PATIENCE  # Seconds to live for what shall expire.
LONG = 60.0


@pytest.fixture(params=HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


@asynccontextmanager
async def stores(place: Any, count: int = 2) -> AsyncIterator[list[Any]]:
    """Several openings of one store, as several workers have them."""
    opened = [open_home(place) for _ in range(count)]
    try:
        yield opened
    finally:
        for store in opened:
            await store.close()


async def test_a_record_is_read_where_it_was_not_written(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await other.get("a") is None
        assert await one.put("a", b"\x00\xff value", LONG) is True
        assert (await one.get("a"), await other.get("a"), await other.get("b")) == (b"\x00\xff value",) * 2 + (None,)
        assert (await other.delete("a"), await one.delete("a"), await one.get("a")) == (True, False, None)


async def test_a_record_changes_only_from_the_expected_value(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.put("a", b"1", LONG, expected=b"0") is False
        assert await one.get("a") is None
        assert await one.put("a", b"1", LONG, expected=None) is True
        assert await other.put("a", b"2", LONG, expected=None) is False
        assert await other.put("a", b"2", LONG, expected=b"1") is True
        assert await one.put("a", b"3", LONG, expected=b"1") is False
        assert await one.get("a") == b"2"


async def test_of_many_that_expect_the_same_one_changes_it(place: Any) -> None:
    async with stores(place, 4) as workers:
        await workers[0].put("a", b"0", LONG)
        results = await asyncio.gather(
            *(store.put("a", b"%d" % number, LONG, expected=b"0") for number, store in enumerate(workers * 5, 1))
        )
        assert sorted(results) == [False] * 19 + [True]


async def test_records_and_streams_and_counters_expire(place: Any) -> None:
    async with stores(place) as (one, other):
        await one.put("a", b"1", BRIEF)
        first = await one.append("s", [b"1"], BRIEF)
        assert await one.count("c", 5, BRIEF) == 5
        while await other.get("a") is not None or await other.last("s"):
            await asyncio.sleep(0.01)
        assert (await one.touch("a", LONG), await one.delete("a"), await one.read("s", 0)) == (None, False, [])
        while await other.count("c", 1, BRIEF) != 1:
            await asyncio.sleep(0.01)
        number = await one.append("s", [b"new"], LONG)
        assert number > first and await other.read("s", 0) == [(number, b"new")]
        assert await one.put("a", b"2", LONG, expected=None) is True


async def test_a_touched_record_lives_on(place: Any) -> None:
    async with stores(place) as (one, other):
        for store in (one, other):
            await store.get("a")  # It is open by then: the record below lives shortly.
        await one.put("a", b"1", 10 * BRIEF)
        assert await other.touch("a", LONG) == b"1"
        await asyncio.sleep(11 * BRIEF)
        assert (await one.get("a"), await one.touch("b", LONG)) == (b"1", None)


async def test_counters_of_several_workers_are_one(place: Any) -> None:
    async with stores(place, 3) as workers:
        values = await asyncio.gather(*(store.count("c", 2, LONG) for store in workers * 4))
        assert sorted(values) == [*range(2, 26, 2)]
        assert await workers[0].count("c", -24, LONG) == 0


async def test_the_numbers_of_entries_grow_whoever_appends(place: Any) -> None:
    async with stores(place, 3) as workers:
        await asyncio.gather(*(store.append("s", [b"%d" % n, b"%d" % n], LONG) for n, store in enumerate(workers * 4)))
        entries = await workers[1].read("s", 0)
        numbers = [number for number, _ in entries]
        assert len(numbers) == 24 and numbers == sorted({*numbers})
        assert all(entries[at][1] == entries[at + 1][1] for at in range(0, 24, 2)), "a batch was divided"
        assert all(numbers[at] + 1 == numbers[at + 1] for at in range(0, 24, 2)), "the numbers of a batch have gaps"
        assert await workers[2].read("s", numbers[19], 2) == entries[20:22]
        assert await workers[0].read("s", numbers[-1]) == []
        assert (await workers[0].last("s"), await workers[0].last("t")) == (numbers[-1], 0)
        await workers[0].drop("s")
        assert (await workers[1].read("s", 0), await workers[1].last("s")) == ([], 0)


@pytest.mark.parametrize("token", ["", "t"])
async def test_what_is_appended_after_a_loss_follows_what_was_read_before(place: Any, token: str) -> None:
    async with stores(place) as (one, other):
        for round in range(20):
            named = {"token": f"{token}{round}"} if token else {}
            before = await one.append("s", [b"%d" % number for number in range(40)], LONG, **named)
            await other.drop("s")
            after = await other.append("s", [b"new"], LONG, **({"token": f"n{round}"} if token else {}))
            assert after > before and await one.read("s", before) == [(after, b"new")]
            await one.drop("s")


async def test_every_number_is_above_the_one_that_its_writer_knows(place: Any) -> None:
    """Whatever the clock says: that of a store that has taken over may be behind."""
    ahead = 3 * 10**14
    async with stores(place) as (one, other):
        assert await one.append("s", [b"1", b"2"], LONG, after=ahead, token="a") == ahead + 2
        assert await other.append("s", [b"3"], LONG, token="b") == ahead + 3
        assert await other.append("s", [b"4"], LONG) == ahead + 4
        assert await other.append("s", [b"3"], LONG, token="b") == ahead + 3
        assert [number for number, _ in await one.read("s", ahead)] == [ahead + 1, ahead + 2, ahead + 3, ahead + 4]


async def test_a_stream_that_is_appended_nothing_lives_on(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.append("s", [], LONG, after=0) == 0
        assert (await other.read("s", 0), await other.last("s")) == ([], 0)
        assert await one.append("s", [b"1"], 10 * BRIEF, after=0) == 1
        number = await one.append("t", [b"1"], 10 * BRIEF)
        assert await other.append("s", [], LONG, after=1) == 1
        assert await other.append("t", [], LONG) == number
        await asyncio.sleep(11 * BRIEF)
        assert (await one.read("s", 0), await other.read("t", 0)) == ([(1, b"1")], [(number, b"1")])
        assert await one.append("s", [b"2"], LONG, after=1) == 2


async def test_a_repeated_append_of_the_only_writer_appends_nothing_twice(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.append("s", [b"1", b"2"], LONG, after=0) == 2
        assert await one.append("s", [b"1", b"2"], LONG, after=0) == 2
        assert await one.append("s", [b"2", b"3"], LONG, after=1) == 3
        assert await other.read("s", 0) == [(1, b"1"), (2, b"2"), (3, b"3")]
        assert await one.append("lost", [b"5"], LONG, after=4) == 5
        assert await other.read("lost", 0) == [(5, b"5")]


async def test_a_repeated_append_of_one_of_several_writers_appends_nothing_twice(place: Any) -> None:
    async with stores(place) as (one, other):
        second = await one.append("s", [b"1", b"2"], LONG, token="a")
        third = await other.append("s", [b"3"], LONG, after=0, token="b")
        assert await one.append("s", [b"1", b"2"], LONG, token="a") == second
        assert await other.append("s", [b"3"], LONG, after=second, token="b") == third
        fourth = await one.append("s", [b"4"], LONG, after=second, token="c")
        assert await one.append("s", [b"5"], LONG, after=fourth) == fourth + 1
        numbers = [second - 1, second, third, fourth, fourth + 1]
        assert numbers == sorted({*numbers})
        assert await other.read("s", 0) == [(number, b"%d" % at) for at, number in enumerate(numbers, 1)]


async def test_a_second_subscription_of_a_function_changes_nothing(place: Any) -> None:
    async with stores(place, 1) as (one,):
        received: list[bytes] = []
        for _ in range(2):
            await one.subscribe("news", received.append)
        for number in range(3):
            await one.publish("news", b"%d" % number)
        while b"2" not in received:
            await asyncio.sleep(0.001)
        assert received == [b"0", b"1", b"2"]


async def test_of_a_long_stream_the_last_entries_are_stored(place: Any) -> None:
    async with stores(place) as (one, other):
        await one.append("s", [b"%d" % number for number in range(1, STREAM_LIMIT + 1)], LONG)
        last = await one.append("s", [b"x", b"y"], LONG)
        entries = await other.read("s", 0, 2 * STREAM_LIMIT)
        assert (entries[0][1], entries[-1], len(entries)) == (b"3", (last, b"y"), STREAM_LIMIT)


@pytest.mark.parametrize("first", [1, 3, STREAM_LIMIT - 2])
@pytest.mark.parametrize("size", [1, 200, 5000])
async def test_entries_are_the_same_however_they_were_divided(place: Any, first: int, size: int) -> None:
    """Those of the first command, and of those that follow, small and large, up to more than are stored."""
    bodies = [b"%d" % number * size for number in range(1, 7)]
    async with stores(place) as (one, other):
        assert await one.append("s", bodies[:1] * first, LONG, after=0) == first
        assert await one.append("s", bodies[1:3], LONG, after=first) == first + 2
        assert await other.append("s", bodies[3:5], LONG, after=first + 2) == first + 4
        assert await other.append("s", bodies[5:], LONG, after=first + 4) == first + 5
        expected = list(enumerate([*bodies[:1] * first, *bodies[1:]], 1))[-STREAM_LIMIT:]
        assert await other.read("s", 0) == expected
        assert await one.read("s", first - 1, 2) == [entry for entry in expected if entry[0] >= first][:2]
        assert await one.read("s", first, 4) == expected[-5:-1]
        await one.drop("s")
        await one.drop()
        assert (await other.read("s", 0), await one.append("s", [b"new"], LONG, after=0)) == ([], 1)


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x01", bytes(range(256)), bytes(70_000)])
async def test_entries_may_have_any_bytes(place: Any, body: bytes) -> None:
    async with stores(place) as (one, other):
        assert await one.append("s", [body, b"", body], LONG, after=0) == 3
        assert await one.append("s", [b"", body], LONG, after=3) == 5
        assert await other.read("s", 0) == list(enumerate([body, b"", body, b"", body], 1))


@pytest.mark.parametrize("size", [10, 700, 5000])
async def test_the_entries_of_the_only_writer_are_in_order(place: Any, size: int) -> None:
    """A writer that appends one entry after another, and repeats some as after a failure, while others come between."""
    bodies = [b"%d" % number * size for number in range(20)]
    async with stores(place) as (one, other):
        for number, body in enumerate(bodies):
            assert await one.append("s", [body], LONG, after=number) == number + 1
            assert await other.append("s", [body], LONG, after=number) == number + 1
            assert await other.append("s", [*bodies[:number][-2:], body], LONG, after=max(0, number - 2)) == number + 1
        assert await other.read("s", 0) == list(enumerate(bodies, 1))
        assert await other.append("s", [b"other"], LONG, after=20) == 21
        assert await one.append("s", [b"own"], LONG, after=21) == 22
        assert await one.append("s", [b"late"], LONG, after=20) == 22
        assert await one.append("s", [b"late", b"more", b"last"], LONG, after=20) == 23
        assert await other.read("s", 20) == [(21, b"other"), (22, b"own"), (23, b"last")]


async def test_a_stream_that_has_expired_begins_anew(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.append("s", [b"1"], BRIEF, after=0) == 1
        await asyncio.sleep(2 * BRIEF)
        assert await one.append("s", [b"2"], LONG, after=1) == 2
        assert await other.read("s", 0) == [(2, b"2")]


async def test_each_append_lets_a_stream_live_on(place: Any) -> None:
    async with stores(place) as (one, other):
        assert await one.append("s", [b"1"], 10 * BRIEF, after=0) == 1
        assert await one.append("s", [b"2"], LONG, after=1) == 2
        await asyncio.sleep(11 * BRIEF)
        assert await other.read("s", 0) == [(1, b"1"), (2, b"2")]
        assert await one.append("s", [b"3"], BRIEF, after=2) == 3
        await asyncio.sleep(2 * BRIEF)
        assert await other.read("s", 0) == []


async def test_the_messages_of_a_channel_reach_its_subscribers_in_order(place: Any) -> None:
    async with stores(place, 3) as (one, two, three):
        received: list[tuple[str, bytes]] = []
        await one.publish("news", b"before")
        await two.subscribe("news", lambda message: received.append(("two", message)))
        await three.subscribe("news", lambda message: received.append(("three", message)))
        await three.subscribe("other", lambda message: received.append(("other", message)))
        for number in range(50):
            await one.publish("news", b"%d" % number)
        await two.publish("other", b"\x00\xfe")
        while len(received) < 101:
            await asyncio.sleep(0.001)
        assert [body for name, body in received if name == "two"] == [b"%d" % number for number in range(50)]
        assert [body for name, body in received if name == "three"] == [b"%d" % number for number in range(50)]
        assert [body for name, body in received if name == "other"] == [b"\x00\xfe"]


@pytest.mark.parametrize("home", ["sqlite", "redis"])
async def test_a_closed_store_refuses_commands_and_what_is_stored_remains(home: str, tmp_path: Path) -> None:
    place = place_of(home, tmp_path)
    async with stores(place, 1) as (one,):
        writing = asyncio.ensure_future(one.put("a", b"1", LONG))
        await asyncio.sleep(0)
    assert await writing is True
    with pytest.raises(StoreUnavailableError, match="closed"):
        await one.put("a", b"2", LONG)
    async with stores(place, 1) as (again,):
        assert await again.get("a") == b"1"
