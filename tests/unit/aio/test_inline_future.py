"""Who waits for an answer goes on as soon as that is there, and cannot tell that from a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from mcp_runtime.aio.eager import InlineFuture

NAME = ContextVar("NAME", default="nobody")


def called_by_the_loop(call: Callable[[], object]) -> asyncio.Future[object]:
    """What a call gives that is made outside of any task, as by whoever reads what came."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    loop.call_soon(lambda: done.set_result(call()))
    return done


def test_who_waits_for_an_instant_goes_on_within_settle() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()
        results: list[object] = []

        async def wait() -> None:
            NAME.set("the one that waits")
            results.append(await instant)
            results.append((NAME.get(), asyncio.current_task() is waiting))
            await asyncio.sleep(0)
            results.append("the end")

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)

        def settle() -> list[object]:
            instant.set_result_now(7)
            return [*results, asyncio.current_task(), NAME.get()]

        assert await called_by_the_loop(settle) == [7, ("the one that waits", True), None, "nobody"]
        await waiting
        assert results[-1] == "the end"

    asyncio.run(scene())


def test_an_instant_that_a_task_settles_is_an_ordinary_future() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()
        results: list[int] = []

        async def wait() -> None:
            results.append(await instant)

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        instant.set_result_now(7)
        assert results == []
        await waiting
        assert results == [7]

    asyncio.run(scene())


def test_an_instant_may_be_settled_before_anybody_waits() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()
        await called_by_the_loop(lambda: instant.set_result_now(7))
        assert await instant == 7

    asyncio.run(scene())


def test_an_exception_after_an_instant_is_that_of_the_task() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()

        async def fail() -> None:
            await instant
            raise LookupError("lost")

        failing = asyncio.create_task(fail())
        await asyncio.sleep(0)
        await called_by_the_loop(lambda: instant.set_result_now(7))
        with pytest.raises(LookupError, match="lost"):
            await failing

    asyncio.run(scene())


def test_a_timeout_and_a_cancellation_end_the_wait_for_an_instant() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await instant
        assert instant.cancelled()

        instant = InlineFuture()
        waiting = asyncio.ensure_future(asyncio.wait_for(instant, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert instant.cancelled()

    asyncio.run(scene())


def test_a_task_that_was_cancelled_takes_note_of_that_and_not_of_the_instant() -> None:
    async def scene() -> None:
        instant: InlineFuture[int] = InlineFuture()
        results: list[object] = []

        async def wait() -> None:
            try:
                results.append(await instant)
            except asyncio.CancelledError:
                results.append("cancelled")

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        assert instant.cancelled(), "whoever settles looks at `done` before"
        await waiting
        assert results == ["cancelled"]

    asyncio.run(scene())
