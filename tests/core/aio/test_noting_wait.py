"""A coroutine that ends at once is told from one that waits, and nothing else about it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from mcp_runtime.aio.tasks import noting_wait

T = TypeVar("T")


async def at_once() -> str:
    return "result"


async def after_two_waits() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "result"


async def told_to(told: list[str], work: Coroutine[Any, Any, T]) -> T:
    return await noting_wait(work, lambda to: to.append("first wait"), lambda to: to.append("end"), told)


@pytest.mark.parametrize(("work", "waits"), [(at_once, []), (after_two_waits, ["first wait", "end"])])
async def test_the_first_wait_and_the_end_after_it_are_told_once(work: Any, waits: list[str]) -> None:
    told: list[str] = []
    assert await told_to(told, work()) == "result"
    assert told == waits


async def test_an_exception_before_a_wait_and_after_one_comes_through() -> None:
    async def fails(*turns: Coroutine[Any, Any, None]) -> None:
        for turn in turns:
            await turn
        raise ValueError(len(turns))

    told: list[str] = []
    with pytest.raises(ValueError, match="0"):
        await told_to(told, fails())
    assert told == []
    with pytest.raises(ValueError, match="1"):
        await told_to(told, fails(asyncio.sleep(0)))
    assert told == ["first wait", "end"]


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

    told: list[str] = []
    task = asyncio.ensure_future(told_to(told, stubborn()))
    await began.wait()
    task.cancel()
    assert await task == "result" and seen == ["cancelled"]
    assert told == ["first wait", "end"]
