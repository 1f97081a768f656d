"""Plain functions run in worker threads: in order of their calls, together if they block, and only if still awaited."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcp_products.fast.worker_threads import LoopState, QuickThreads
from mcp_runtime.aio.threads import CALLER, WorkerThreads, call_soon_in_loop


@pytest.fixture(params=[WorkerThreads, QuickThreads])
def threads_class(request: pytest.FixtureRequest) -> type[WorkerThreads]:
    """The plain threads, and those that an event loop waits for."""
    found: type[WorkerThreads] = request.param
    return found


async def settled(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_a_thousand_calls_give_each_caller_its_own_result(threads_class: type[WorkerThreads]) -> None:
    workers = threads_class()
    assert await asyncio.gather(*(workers.run(pow, number, 2) for number in range(1000))) == [
        number**2 for number in range(1000)
    ]


@pytest.mark.parametrize("count", [2, 31, 32])
async def test_functions_that_block_run_at_the_same_time(threads_class: type[WorkerThreads], count: int) -> None:
    workers, barrier = threads_class(), threading.Barrier(count)
    places = await asyncio.gather(*(workers.run(barrier.wait, 10) for _ in range(count)))
    assert sorted(places) == list(range(count))


async def test_a_quick_function_does_not_wait_for_one_that_blocks(threads_class: type[WorkerThreads]) -> None:
    workers, go = threads_class(), threading.Event()
    blocked = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(5)]
    await asyncio.sleep(0)
    assert await asyncio.gather(*(workers.run(str, number) for number in range(100))) == [*map(str, range(100))]
    assert not any(task.done() for task in blocked)
    go.set()
    assert await asyncio.gather(*blocked) == [True] * 5


async def test_a_result_does_not_wait_for_the_function_after_it(threads_class: type[WorkerThreads]) -> None:
    """One thread takes both; the second blocks before the event loop has heard of the first."""
    workers, go = threads_class(), threading.Event()
    first, second = (asyncio.create_task(workers.run(function)) for function in (threading.get_ident, go.wait))
    await asyncio.wait_for(first, 5)
    assert not second.done()
    go.set()
    assert await second


async def test_a_cancelled_call_that_has_not_begun_never_begins(threads_class: type[WorkerThreads]) -> None:
    workers, go, ran = threads_class(), threading.Event(), list[int]()
    blocked = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(32)]
    waiting = [asyncio.create_task(workers.run(ran.append, number)) for number in range(4)]
    await asyncio.sleep(0.05)  # Every thread is blocked by now.
    for task in waiting[1:3]:
        task.cancel()
    await asyncio.wait(waiting[1:3])
    go.set()
    await asyncio.gather(*blocked, waiting[0], waiting[3])
    assert ran == [0, 3]


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError(), ExceptionGroup("x", [KeyError("y")])])
async def test_an_exception_reaches_the_caller_and_the_thread_goes_on(
    threads_class: type[WorkerThreads], error: Exception
) -> None:
    def fail() -> None:
        raise error

    workers = threads_class()
    results = await asyncio.gather(workers.run(fail), workers.run(int, "7"), return_exceptions=True)
    assert type(results[0]) is type(error) and results[1] == 7


async def test_stop_iteration_becomes_a_runtime_error(threads_class: type[WorkerThreads]) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads_class().run(next, iter(()))


async def test_a_function_sees_the_context_variables_of_its_caller_and_changes_none(
    threads_class: type[WorkerThreads],
) -> None:
    variable = contextvars.ContextVar[str]("variable", default="unset")
    workers = threads_class()

    def swap(value: str) -> str:
        seen = variable.get()
        variable.set(value)
        return seen

    async def call(value: str) -> tuple[str, str]:
        variable.set(value)
        return await workers.run(swap, f"changed {value}"), variable.get()

    results = await asyncio.gather(*(call(str(number)) for number in range(50)))
    assert results == [(str(number), str(number)) for number in range(50)] and variable.get() == "unset"


async def test_threads_end_when_there_is_nothing_to_do(
    threads_class: type[WorkerThreads], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_runtime.aio.threads._IDLE_SECONDS", 0.01)
    monkeypatch.setattr("mcp_products.fast.worker_threads.IDLE_THREAD_SECONDS", 0.01)
    workers = threads_class()
    first = await workers.run(threading.current_thread)
    await settled(lambda: not first.is_alive())
    second = await workers.run(threading.current_thread)
    assert second is not first and await workers.run(int, "3") == 3


def test_event_loops_in_several_threads_share_the_workers(threads_class: type[WorkerThreads]) -> None:
    workers, results = threads_class(), dict[int, list[int]]()

    def serve(start: int) -> None:
        async def main() -> list[int]:
            numbers = range(start, start + 200)
            return list(await asyncio.gather(*(workers.run(abs, -number) for number in numbers)))

        results[start] = asyncio.run(main())

    threads = [threading.Thread(target=serve, args=(start,)) for start in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {start: [*range(start, start + 200)] for start in (0, 1000, 2000)}


def test_an_event_loop_that_has_ended_does_not_disturb_the_thread(threads_class: type[WorkerThreads]) -> None:
    workers, go = threads_class(), threading.Event()

    async def leave() -> None:
        task: asyncio.Task[Any] = asyncio.create_task(workers.run(go.wait, 10))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(leave())
    go.set()
    assert asyncio.run(workers.run(int, "5")) == 5


async def test_functions_of_one_client_that_block_leave_threads_to_the_others(
    threads_class: type[WorkerThreads],
) -> None:
    workers, go = threads_class(), threading.Event()

    async def run(client: str, function: Callable[..., Any], *arguments: Any) -> Any:
        CALLER.set(lambda: client)
        return await workers.run(function, *arguments)

    attackers = [f"attacker {number}" for number in range(16)]
    blocked = [asyncio.create_task(run(client, go.wait, 30)) for client in attackers for _ in range(40)]
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(run("user", str, number)) for number in range(50)]
    assert await asyncio.wait_for(asyncio.gather(*tasks), 10) == [*map(str, range(50))]
    assert not any(task.done() for task in blocked)
    go.set()
    assert await asyncio.gather(*blocked) == [True] * len(blocked)
    assert await run("user", str, 1) == "1"


async def test_a_client_that_leaves_gives_up_its_place(threads_class: type[WorkerThreads]) -> None:
    workers, go, ran = threads_class(), threading.Event(), list[int]()
    blocked = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(32)]
    waiting = [asyncio.create_task(workers.run(ran.append, number)) for number in range(100)]
    await asyncio.sleep(0)
    for task in waiting[:99]:
        task.cancel()
    await asyncio.wait(waiting[:99])
    go.set()
    await asyncio.gather(*blocked, waiting[99])
    assert ran == [99]


async def test_a_function_that_needs_the_event_loop_gets_it(threads_class: type[WorkerThreads]) -> None:
    """The event loop waits shortly for functions, alone or together; these end only when it goes on."""
    workers = threads_class()
    await workers.run(int)  # A thread is idle from now on.
    loop = asyncio.get_running_loop()
    for count in (1, 1, 1, 40, 40):
        events = [threading.Event() for _ in range(count)]
        calls = [asyncio.ensure_future(workers.run(event.wait, 10)) for event in events]
        for event in events:
            loop.call_soon(loop.call_soon, event.set)
        assert await asyncio.gather(*calls) == [True] * count


async def test_quick_and_slow_functions_in_any_order_give_their_own_results(threads_class: type[WorkerThreads]) -> None:
    workers, chance = threads_class(), random.Random(18)

    def work(number: int, seconds: float) -> int:
        time.sleep(seconds)
        if not number % 7:
            raise KeyError(number)
        return number

    for start in range(0, 2000, 50):
        count = chance.choice((1, 2, 30))
        calls = [
            asyncio.ensure_future(workers.run(work, start + number, chance.choice((0, 0, 0, 0, 0.0001, 0.0003, 0.001))))
            for number in range(count)
        ]
        if chance.random() < 0.3:
            calls[-1].cancel()
            await asyncio.wait(calls[-1:])
            del calls[-1]
        results = await asyncio.gather(*calls, return_exceptions=True)
        numbers = range(start, start + len(calls))
        assert [result.args[0] if isinstance(result, KeyError) else result for result in results] == [*numbers]
        assert [isinstance(result, KeyError) for result in results] == [not number % 7 for number in numbers]


async def test_a_function_that_is_alone_and_quick_costs_no_turn_of_the_event_loop() -> None:
    workers, turns = QuickThreads(), 0
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(count)

    await workers.run(int)
    count()
    at_once = 0
    for _ in range(200):
        before = turns
        await workers.run(int)
        at_once += turns == before
        await asyncio.sleep(0)
    assert at_once  # Not always: another process may have the processor for longer than the event loop waits.


async def test_after_a_slow_function_an_iteration_waits_for_one_function_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"_WAIT_SECONDS": 10, "_QUICK_SECONDS": 10, "_PAUSE_SECONDS": (0.0, 0.0)}
    for name, value in limits.items():
        monkeypatch.setattr(f"mcp_products.fast.worker_threads.{name}", value)
    workers, waits = QuickThreads(), list[object]()
    wait = LoopState.wait

    def counted(self: LoopState, work: Any, *arguments: Any) -> bool:
        waits.append(work)
        return wait(self, work, *arguments)

    for _ in range(100):
        await workers.run(int)
        await asyncio.sleep(0)
    monkeypatch.setattr(LoopState, "wait", counted)
    monkeypatch.setattr("mcp_products.fast.worker_threads._QUICK_SECONDS", 0)  # All functions are slow from now on.
    results = await asyncio.gather(*(workers.run(str, number) for number in range(20)))
    assert results == [*map(str, range(20))]
    assert 1 <= len(waits) <= 2


async def test_a_function_begins_at_once_where_a_thread_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mcp_products.fast.worker_threads._STALL_SECONDS", 3600.0
    )  # Only a stall would start a thread then.
    workers = QuickThreads()
    async with asyncio.timeout(10):
        for number in range(3):
            assert await workers.run(str, number) == str(number)


def test_no_more_threads_are_started_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_products.fast.worker_threads.MAX_THREADS", 4)
    started: list[object] = []

    class Thread:
        def __init__(self, **settings: Any) -> None:
            assert settings["daemon"]

        def start(self) -> None:
            started.append(self)

    monkeypatch.setattr("threading.Thread", Thread)
    workers = QuickThreads()
    for count in (3, 1, 5):
        workers._employ(count)
    assert len(started) == 4


async def test_callbacks_that_a_function_gives_to_the_event_loop_come_before_its_result(
    threads_class: type[WorkerThreads],
) -> None:
    threads, loop, called = threads_class(), asyncio.get_running_loop(), list[int]()
    for number in range(100):
        await threads.run(call_soon_in_loop, loop, called.append, number)
        assert len(called) == number + 1
