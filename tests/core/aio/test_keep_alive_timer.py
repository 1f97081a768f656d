"""One timer tells very many streams that nothing was sent for a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clock import LoopClock, settle

from mcp_runtime.transports.http_server.streams import KeepAliveTimer

SECONDS = 1.0


class Silent:
    """Notes when it is told that nothing was sent; it may wait again."""

    def __init__(self, timer: KeepAliveTimer, again: int = 0) -> None:
        self.timer = timer
        self.again = again
        self.called: list[float] = []
        self.began: list[float] = []

    def begin(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        self.timer.begin(self)

    def done(self) -> bool:
        return False

    def set_result(self, result: bool) -> None:
        assert not result
        self.called.append(asyncio.get_running_loop().time())
        if len(self.called) <= self.again:
            self.begin()


async def passed(clock: LoopClock) -> None:
    clock.forward(SECONDS / 10)
    await settle(3)


async def all_called(items: list[Silent], clock: LoopClock) -> None:
    while any(len(item.called) <= item.again for item in items):
        await passed(clock)


async def test_each_is_told_in_its_time_and_once() -> None:
    timer, clock = KeepAliveTimer(SECONDS), LoopClock()
    items: list[Silent] = []
    for number in range(60):
        items.append(Silent(timer, again=number % 2))
        items[-1].begin()
        if number % 10 == 0:
            await passed(clock)
    ended = items[3::7]
    for item in ended:
        timer.end(item)
    rest = [item for item in items if item not in ended]
    await all_called(rest, clock)
    assert not timer.waiting_count and not any(item.called for item in ended)
    for item in rest:
        assert len(item.called) == item.again + 1
        for began, called in zip(item.began, item.called, strict=True):
            assert called - began > SECONDS * 0.99
    first = [item.called[0] for item in rest]
    assert first == sorted(first)


async def test_streams_that_begin_to_wait_together_share_their_deadline() -> None:
    timer = KeepAliveTimer(60.0)
    items = [Silent(timer) for _ in range(100)]
    for item in items:
        item.begin()
    assert len({id(until) for until in timer._deadlines.values()}) == 1
    for item in items:
        timer.end(item)


@pytest.mark.parametrize("seconds", [0.0, float("inf")])
async def test_a_timer_may_tell_at_once_or_never(seconds: float) -> None:
    timer: Any = KeepAliveTimer(seconds)
    items = [Silent(timer) for _ in range(3)]
    for item in items:
        item.begin()
    LoopClock().forward(SECONDS)
    await settle()
    assert [len(item.called) for item in items] == [0 if seconds else 1] * 3
    for item in items:
        timer.end(item)
    if timer._timer is not None:
        timer._timer.cancel()
