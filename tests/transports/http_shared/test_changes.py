"""Streams that open at the same time read the log of changes together, and each gets every change once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_runtime.stores.in_memory import InMemoryStore
from mcp_runtime.transports.http_shared.change_log import Change, ChangeLog
from mcp_runtime.transports.http_shared.worker import Worker


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


async def opened(store: SlowStore, changes: int) -> ChangeLog:
    log = ChangeLog(Worker(store, "test"), Sharing())  # type: ignore[arg-type]
    await log.open()
    for _ in range(changes):
        await log.announce("changed", {})
    return log


async def test_many_streams_that_open_at_once_read_the_log_a_few_times() -> None:
    store = SlowStore()
    log = await opened(store, 3)
    store.reads, readers = 0, [Reader(3) for _ in range(100)]
    await asyncio.gather(*(log.attach(reader, 3) for reader in readers))
    assert 1 <= store.reads <= 3
    await log.announce("changed", {})
    assert all(reader.got == [3, 4] for reader in readers)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_a_stream_gets_what_is_announced_while_it_opens_once(after: int) -> None:
    """Of another worker, whose hint is late, and of this one."""
    store = SlowStore()
    log, other = await opened(store, 2), await opened(store, 0)
    await other.announce("changed", {})
    readers = [Reader(after) for _ in range(5)]

    async def attach(reader: Reader, turn: int) -> None:
        await asyncio.sleep(turn * 0.005)
        await log.attach(reader, after)

    await asyncio.gather(*(attach(reader, turn) for turn, reader in enumerate(readers)), log.announce("changed", {}))
    for reader in readers:
        assert reader.got == list(range(after, 5))


async def test_a_stream_that_is_cancelled_while_it_opens_takes_nothing_from_others() -> None:
    log = await opened(SlowStore(), 1)
    first, second = Reader(1), Reader(1)
    attaching = [asyncio.create_task(log.attach(reader, 1)) for reader in (first, second)]
    await asyncio.sleep(0)
    attaching[0].cancel()
    await attaching[1]
    await log.announce("changed", {})
    assert second.got == [1, 2]
