"""Work that many wait for belongs to none of them: it survives whoever began it, and its failure is no one's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_products.auth.http import SharedRequests
from mcp_products.common.shared_works import SharedWorks
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.errors import ConnectionClosedError

USER: ContextVar[str] = ContextVar("user", default="nobody")


async def work() -> str:
    await steps(3)
    return "done"


def asking_shared_work() -> Callable[[], Coroutine[Any, Any, str]]:
    shared: SharedWork[str] = SharedWork("work")
    return lambda: shared.run(work)


def asking_shared_works() -> Callable[[], Coroutine[Any, Any, str]]:
    shared: SharedWorks[str, str] = SharedWorks("work")
    return lambda: shared.run("key", work)


def asking_shared_requests() -> Callable[[], Coroutine[Any, Any, str]]:
    shared: SharedRequests[str, str] = SharedRequests(1, seconds=60, at_once_of_group=1)
    return lambda: shared.run("key", work, "group")


@pytest.mark.parametrize("world", [asking_shared_work, asking_shared_works, asking_shared_requests])
async def test_whoever_waits_may_be_cancelled_at_any_time(world: Any) -> None:
    assert await each_wait(world, "done") == 1  # All that a request does is to wait for the work.


async def test_requests_at_the_same_time_share_one_piece_of_work_and_the_next_begins_another() -> None:
    shared: SharedWork[int] = SharedWork("work")
    begun = 0

    async def counted() -> int:
        nonlocal begun
        begun += 1
        await steps(2)
        return begun

    assert await asyncio.gather(*(shared.run(counted) for _ in range(5))) == [1] * 5
    assert not shared.is_running
    assert await shared.run(counted) == 2


async def test_it_runs_on_when_all_have_left() -> None:
    shared: SharedWork[str] = SharedWork("work")
    ended = asyncio.Event()

    async def long() -> str:
        await steps(5)
        ended.set()
        return "done"

    waiting = [asyncio.create_task(shared.run(long)) for _ in range(3)]
    await steps(1)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    async with asyncio.timeout(10):
        await ended.wait()


async def test_a_failure_goes_to_all_that_wait_and_the_next_one_begins_anew() -> None:
    shared: SharedWork[str] = SharedWork("work")

    async def failing() -> str:
        await steps(2)
        raise OSError("no network")

    outcomes = await asyncio.gather(*(shared.run(failing) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 3
    assert await shared.run(work) == "done"


async def test_work_that_is_ended_is_an_error_of_those_that_wait_and_no_cancellation() -> None:
    shared: SharedWork[None] = SharedWork("reading the tools")
    waiting = [asyncio.create_task(shared.run(asyncio.Event().wait)) for _ in range(2)]  # type: ignore[arg-type]
    await steps(2)
    await shared.close()
    for task in waiting:
        with pytest.raises(ConnectionClosedError, match="reading the tools was ended"):
            await task


async def test_a_deadline_is_one_for_all() -> None:
    shared: SharedWork[None] = SharedWork("work", seconds=0.01)
    waiting = [shared.run(asyncio.Event().wait) for _ in range(3)]  # type: ignore[arg-type]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TimeoutError] * 3


async def test_it_knows_nothing_of_who_began_it() -> None:
    shared: SharedWork[str] = SharedWork("work")

    async def user() -> str:
        return USER.get()

    USER.set("ada")
    assert await shared.run(user) == "nobody"


async def test_keys_that_have_ended_are_forgotten() -> None:
    shared: SharedWorks[int, str] = SharedWorks("work")
    await asyncio.gather(*(shared.run(number, work) for number in range(10)))
    await steps(1)
    assert len(shared) == 0
