"""A lifespan that many connections share: started once, at first use, and ended once, before `end` returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_runtime.aio.tasks import SharedLifespan


async def test_it_is_started_once_and_has_ended_when_end_returns() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        events.append("begins")
        await asyncio.sleep(0)
        yield "state"
        for _ in range(3):
            await asyncio.sleep(0)
        events.append("ends")

    shared = SharedLifespan(lifespan)
    assert await asyncio.gather(*(shared.state() for _ in range(3))) == ["state"] * 3
    assert await shared.state() == "state" and events == ["begins"]
    await shared.end()
    assert events == ["begins", "ends"]


async def test_one_that_was_never_used_ends_at_once_and_one_that_fails_fails_for_all() -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    await SharedLifespan(lifespan).end()
    shared = SharedLifespan(lifespan)
    for _ in range(2):
        with pytest.raises(OSError, match="no database"):
            await shared.state()
    await shared.end()


@pytest.mark.parametrize("error", [asyncio.CancelledError("a library"), GeneratorExit()])
async def test_one_that_ends_by_no_ordinary_exception_leaves_nobody_waiting(error: BaseException) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        raise error
        yield

    shared = SharedLifespan(lifespan)
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*(shared.state() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError] * 3


async def test_who_needs_it_first_may_be_cancelled_at_any_time() -> None:
    def world() -> Any:
        @asynccontextmanager
        async def lifespan() -> AsyncIterator[str]:
            await steps(3)
            yield "state"

        return SharedLifespan(lifespan).state

    assert await each_wait(world, "state") == 1
