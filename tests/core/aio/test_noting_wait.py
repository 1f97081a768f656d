"""A coroutine that ends at once is told from one that waits, and nothing else about it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mcp_runtime.aio.tasks import noting_wait


async def at_once() -> str:
    return "result"


async def after_two_waits() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "result"


@pytest.mark.parametrize(("work", "waits"), [(at_once, 0), (after_two_waits, 1)])
async def test_the_first_wait_is_noted_once(work: Any, waits: int) -> None:
    noted: list[asyncio.Task[Any] | None] = []
    assert await noting_wait(work(), lambda: noted.append(asyncio.current_task())) == "result"
    assert noted == [asyncio.current_task()] * waits


async def test_an_exception_before_a_wait_and_after_one_comes_through() -> None:
    async def fails(*turns: Coroutine[Any, Any, None]) -> None:
        for turn in turns:
            await turn
        raise ValueError(len(turns))

    noted: list[int] = []
    with pytest.raises(ValueError, match="0"):
        await noting_wait(fails(), lambda: noted.append(0))
    with pytest.raises(ValueError, match="1"):
        await noting_wait(fails(asyncio.sleep(0)), lambda: noted.append(1))
    assert noted == [1]


async def test_a_cancellation_reaches_what_waits_which_may_go_on() -> None:
    began, seen = asyncio.Event(), list[str]()

    async def stubborn() -> str:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
        await asyncio.sleep(0)
        return "result"

    task = asyncio.ensure_future(noting_wait(stubborn(), lambda: None))
    await began.wait()
    task.cancel()
    assert await task == "result" and seen == ["cancelled"]
