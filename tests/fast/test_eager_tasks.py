"""Coroutines run at once up to where they first wait, and cannot tell that from a task of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from mcp_products.fast.tasks import EagerTaskStarter

Scene = Callable[[EagerTaskStarter], Awaitable[None]]
NAME = ContextVar("NAME", default="nobody")


def play(scene: Scene) -> None:
    """Run a scene with a starter that is ready, and see that nothing is left behind."""

    async def run() -> None:
        starter = EagerTaskStarter(asyncio.get_running_loop())
        await ready(starter)
        await asyncio.wait_for(scene(starter), 10)
        await starter.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


async def ready(starter: EagerTaskStarter) -> None:
    """Let the first coroutine be started, and what it leaves come to rest."""

    async def nothing() -> None: ...

    for _ in range(3):
        starter.start(nothing())
        await asyncio.sleep(0)


def started(starter: EagerTaskStarter, work: Any) -> asyncio.Task[None]:
    task = starter.start(work)
    assert task is not None
    return task


def test_what_does_not_wait_has_ended_when_start_comes_back() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        done: list[int] = []

        async def work(number: int) -> None:
            done.append(number)

        for number in range(5):
            task = starter.start(work(number))
            assert task is None or task.done()
        assert done == [0, 1, 2, 3, 4]

    play(scene)


def test_what_waits_goes_on_in_the_task_it_began_in() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        seen: list[object] = []
        go = asyncio.Event()

        async def work() -> None:
            seen.append(asyncio.current_task())
            await go.wait()
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

        outer = asyncio.current_task()
        task = started(starter, work())
        assert asyncio.current_task() is outer and seen == [task]
        go.set()
        await task
        assert seen == [task, task, task]

    play(scene)


def test_many_that_wait_at_once_all_end() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        go = asyncio.Event()
        ended: list[int] = []

        async def work(number: int) -> None:
            await go.wait()
            ended.append(number)

        tasks = [started(starter, work(number)) for number in range(20)]
        go.set()
        await asyncio.wait(tasks)
        assert sorted(ended) == list(range(20)) and len(set(tasks)) == 20

    play(scene)


def test_a_timeout_that_begins_in_the_first_step_ends_the_wait() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended: list[str] = []

        async def work() -> None:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                ended.append("out of time")
            await asyncio.sleep(0)
            ended.append("and on")

        await started(starter, work())
        assert ended == ["out of time", "and on"]

    play(scene)


def test_cancel_scopes_and_task_groups_of_anyio_work_from_the_first_step_on() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended: list[str] = []

        async def work() -> None:
            with anyio.move_on_after(0.01) as scope:
                await anyio.sleep_forever()
            ended.append(f"moved on {scope.cancelled_caught}")
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            ended.append("group")

        for _ in range(3):
            await started(starter, work())
        assert ended == ["moved on True", "group"] * 3

    play(scene)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_cancellation_arrives_where_the_coroutine_waits(turns: int) -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as cancelled:
                await asyncio.sleep(0)  # It may still wait for something while it ends.
                ended.append(f"cancelled {cancelled.args}")
                raise

        task = started(starter, work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel("enough")
        await asyncio.wait([task])
        assert ended == ["cancelled ('enough',)"] and task.cancelled()

    play(scene)


@pytest.mark.parametrize("wait", [lambda: asyncio.sleep(0), lambda: asyncio.sleep(60)], ids=["turn", "future"])
def test_who_cancels_itself_is_cancelled_at_its_first_wait(wait: Callable[[], Awaitable[None]]) -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended: list[str] = []

        async def work() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            ended.append("goes on")
            await wait()
            ended.append("never")

        task = started(starter, work())
        await asyncio.wait([task])
        assert task.cancelled() and ended == ["goes on"]

    play(scene)


def test_a_cancellation_may_be_refused() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("not yet")

        task = started(starter, work())
        task.cancel()
        await task
        assert ended == ["not yet"] and not task.cancelled()

    play(scene)


def test_the_context_of_one_coroutine_is_not_that_of_the_next() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        seen: list[str] = []

        async def work(name: str, waits: bool) -> None:
            seen.append(NAME.get())
            NAME.set(name)
            if waits:
                await asyncio.sleep(0)
            seen.append(NAME.get())

        for name, waits in (("one", False), ("two", True), ("three", False), ("four", True)):
            task = starter.start(work(name, waits))
            if task is not None:
                await task
            await asyncio.sleep(0)
        assert seen == ["nobody", "one", "nobody", "two", "nobody", "three", "nobody", "four"]
        assert NAME.get() == "nobody"

    play(scene)


@pytest.mark.parametrize("waits", [False, True])
def test_an_exception_is_that_of_the_task(waits: bool) -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        async def work() -> None:
            if waits:
                await asyncio.sleep(0)
            raise LookupError("lost")

        task = started(starter, work())
        with pytest.raises(LookupError, match="lost"):
            await task
        await ready(starter)
        other = started(starter, asyncio.sleep(0, None))
        await other
        assert other is not task

    play(scene)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_not_held_back(kind: type[BaseException]) -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        async def work() -> None:
            raise kind

        with pytest.raises(kind):
            starter.start(work())
        assert asyncio.current_task() is not None

    play(scene)


def test_a_task_that_somebody_knows_does_not_come_back_as_another() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        tasks: list[asyncio.Task[Any]] = []
        finished: list[object] = []

        async def keeps() -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)

        async def listens() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.add_done_callback(finished.append)

        for _ in range(3):
            starter.start(keeps())
            await ready(starter)
        assert len(set(tasks)) == 3 and all(task.done() for task in tasks)
        starter.start(listens())
        await ready(starter)
        assert len(finished) == 1

    play(scene)


def test_it_works_without_a_task_around_it() -> None:
    async def scene(starter: EagerTaskStarter) -> None:
        ended = asyncio.Event()

        async def work() -> None:
            assert asyncio.current_task() is not None
            await asyncio.sleep(0)
            ended.set()

        asyncio.get_running_loop().call_soon(lambda: starter.start(work()))
        await ended.wait()
        await asyncio.sleep(0)

    play(scene)
