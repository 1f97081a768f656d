"""Streams that open at the same time read the log of changes together, and each gets every change once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_products.workers.sessions.changes import Change, ChangeLog
from mcp_products.workers.sessions.worker import Worker
from mcp_products.workers.stores.memory import InMemoryStore


class SlowStore(InMemoryStore):
    """A store whose answers take a while, and that counts what is read."""

    reads = 0

    async def read(self, *arguments: Any, **named: Any) -> Any:
        self.reads += 1
        entries = await super().read(*arguments, **named)
        await asyncio.sleep(0.01)
        return entries


class Sharing:
    """The announcements of a server, of which there are none."""

    def relay(self, send: Any) -> bool:
        return False


class Reader:
    """A stream with the numbers of the changes that it has got."""

    def __init__(self, after: int) -> None:
        self.got = [after]

    def put_change(self, change: Change) -> None:
        if change[0] > self.got[-1]:  # As streams do.
            self.got.append(change[0])

    def begin_before(self, number: int) -> None:
        raise AssertionError("the time of the store does not go back here")


async def opened(store: SlowStore, changes: int) -> ChangeLog:
    log = ChangeLog(Worker(store, "test"), Sharing())  # type: ignore[arg-type]
    await log.open()
    for _ in range(changes):
        await log.announce("changed", {})
    return log


async def numbers_of(store: SlowStore) -> list[int]:
    """The numbers of all changes, after that of none."""
    return [0, *(number for number, _ in await store.read("test:changes:", 0))]


async def test_many_streams_that_open_at_once_read_the_log_a_few_times() -> None:
    store = SlowStore()
    log = await opened(store, 3)
    last = log.last
    store.reads = 0
    readers = [Reader(last) for _ in range(100)]
    await asyncio.gather(*(log.attach(reader, last) for reader in readers))
    assert 1 <= store.reads <= 3
    await log.announce("changed", {})
    assert log.last > last and all(reader.got == [last, log.last] for reader in readers)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_stream_gets_what_is_announced_while_it_opens_once(after: int) -> None:
    """Of another worker, whose hint is late, and of this one."""
    store = SlowStore()
    log, other = await opened(store, 2), await opened(store, 0)
    await other.announce("changed", {})
    before = (await numbers_of(store))[after]
    readers = [Reader(before) for _ in range(5)]

    async def attach(reader: Reader, turn: int) -> None:
        await asyncio.sleep(turn * 0.005)
        await log.attach(reader, before)

    await asyncio.gather(*(attach(reader, turn) for turn, reader in enumerate(readers)), log.announce("changed", {}))
    numbers = await numbers_of(store)
    assert len(numbers) == 5
    for reader in readers:
        assert reader.got == numbers[after:]


async def test_a_stream_that_is_cancelled_while_it_opens_takes_nothing_from_others() -> None:
    log = await opened(SlowStore(), 1)
    before = log.last
    first, second = Reader(before), Reader(before)
    attaching = [asyncio.create_task(log.attach(reader, before)) for reader in (first, second)]
    await asyncio.sleep(0)
    attaching[0].cancel()
    await attaching[1]
    await log.announce("changed", {})
    assert log.last > before and second.got == [before, log.last]
