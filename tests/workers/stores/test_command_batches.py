"""Commands of a store run one batch at a time, in the order of their calls, whichever way each of them is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from mcp_products.workers.stores.common import CommandBatches
from mcp_runtime.stores import StoreClosedError, StoreUnavailableError

COMMANDS = 300


class Recorder:
    """A store that notes its commands: some batches run at once, some have to wait, and some fail."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ran: list[int] = []
        self.at_once = self.is_sending = 0
        self.batches = CommandBatches[int](self.send, self.send_at_once)

    async def send(self, commands: Sequence[int]) -> list[int]:
        assert not self.is_sending, "one batch at a time"
        self.is_sending = 1
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        self.is_sending = 0
        return self.run(commands)

    def send_at_once(self, commands: Sequence[int]) -> list[int] | None:
        assert not self.is_sending, "one batch at a time"
        if self.random.random() < 0.2:
            return None
        self.at_once += len(commands)
        return self.run(commands)

    def run(self, commands: Sequence[int]) -> list[int]:
        self.ran += commands
        if any(command % 29 == 7 for command in commands):
            raise StoreUnavailableError("the disk is full")
        return [-command for command in commands]


@pytest.mark.parametrize("seed", range(20))
async def test_commands_run_in_the_order_of_their_calls_and_get_their_own_results(seed: int) -> None:
    store, random, called, failed = Recorder(seed), Random(seed), list[int](), list[int]()

    async def call(command: int) -> None:
        called.append(command)
        try:
            assert await store.batches.add(command) == -command
        except StoreUnavailableError:
            failed.append(command)

    calls: list[asyncio.Task[None]] = []
    for command in range(COMMANDS):
        calls.append(asyncio.create_task(call(command)))
        for _ in range(random.choice((0, 1, 1, 2, 6))):
            await asyncio.sleep(0)
    await asyncio.gather(*calls)
    assert store.ran == called and sorted(called) == list(range(COMMANDS))
    assert {command for command in range(COMMANDS) if command % 29 == 7} <= {*failed}
    assert store.at_once > COMMANDS / 10


async def test_a_closed_store_refuses_commands() -> None:
    store = Recorder(1)
    for command in range(20):
        await store.batches.add(command if command % 29 != 7 else 0)
    await store.batches.close()
    with pytest.raises(StoreClosedError):
        await store.batches.add(1)


async def test_what_came_while_a_batch_was_sent_need_not_be_sent_the_same_way() -> None:
    """Otherwise a store with much to do would never write at once again."""
    started, go = asyncio.Event(), asyncio.Event()
    later, at_once = list[list[int]](), list[list[int]]()

    async def send(commands: Sequence[int]) -> Sequence[int]:
        started.set()
        await go.wait()
        later.append([*commands])
        return commands

    def send_at_once(commands: Sequence[int]) -> Sequence[int] | None:
        if not later:
            return None
        at_once.append([*commands])
        return commands

    batches = CommandBatches[int](send, send_at_once)
    calls = [asyncio.ensure_future(batches.add(0))]
    await started.wait()
    calls += [asyncio.ensure_future(batches.add(command)) for command in range(1, 6)]
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(batches.close())
    go.set()
    assert await asyncio.gather(*calls) == [*range(6)]
    await closing
    assert later == [[0]] and at_once == [[1, 2, 3, 4, 5]]
