"""A request that is cancelled at its n-th wait, for every n: what it shares with others must go on without it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Final

MANY: Final = 300  # Waits that no request of these tests has.
PATIENCE: Final = 20.0  # Seconds in which the others have to be answered on a machine that does much else.

Ask = Callable[[], Coroutine[Any, Any, Any]]


def cancel_this_task() -> None:
    """Cancel the task that runs."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine that waits runs in a task"
    task.cancel("reset by the client")


class CancelledAt:
    """Awaits a coroutine, and does something at the n-th wait: it cancels its task. `waits` counts them."""

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, act: Callable[[], None] = cancel_this_task) -> None:
        self._coro = coro
        self._number = number
        self._act = act
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            try:
                waits_for = self._coro.send(None) if error is None else self._coro.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            self.waits += 1
            if self.waits == self._number:
                self._act()
            try:
                yield waits_for
            except BaseException as raised:
                error = raised


async def cancelled_at(number: int, ask: Ask) -> bool:
    """Ask, and be cancelled at this wait. Return False if there are fewer."""
    asking = CancelledAt(ask(), number)

    async def run() -> Any:
        return await asking

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done(), f"what was cancelled at its wait {number} has not ended"
    if not task.cancelled():
        task.exception()
    return asking.waits >= number


async def each_wait(world: Callable[[], Any], expected: Any, others: int = 2) -> int:
    """Cancel a request at each of its waits, while others run that ask for the same, and before another one.

    Args:
        world: Returns a function that asks for what is shared, or an asynchronous context manager of it: a new world
            for each wait.
        expected: What it returns to those that are not cancelled; or checks that, if it is a function.
        others: The number of requests beside the one that is cancelled: of them, one begins before it.

    Return the number of waits.
    """
    for number in range(1, MANY):
        async with _entered(world()) as ask:
            beside = [asyncio.create_task(ask()) for _ in range(others // 2)]
            cancelling = asyncio.create_task(cancelled_at(number, ask))
            beside += [asyncio.create_task(ask()) for _ in range(others - others // 2)]
            was_cancelled = await cancelling
            for task in beside:
                await _check(task, expected, number)
            await _check(asyncio.create_task(ask()), expected, number)
        if not was_cancelled:
            return number - 1
    raise AssertionError("the request never ends")


@asynccontextmanager
async def _entered(world: Any) -> AsyncIterator[Ask]:
    if hasattr(world, "__aenter__"):
        async with world as ask:
            yield ask
    else:
        yield await world if inspect.isawaitable(world) else world


async def _check(task: asyncio.Task[Any], expected: Any, number: int) -> None:
    await asyncio.wait([task], timeout=PATIENCE)
    assert task.done(), f"another request is not answered after one was cancelled at its wait {number}"
    assert not task.cancelled(), f"another request was cancelled with the one that was cancelled at its wait {number}"
    assert task.exception() is None, f"cancelled at wait {number}: {task.exception()!r}"
    result = task.result()
    if callable(expected):
        checked = expected(result)
        assert checked, (number, result)
    else:
        assert result == expected, (number, result)


async def steps(number: int) -> None:
    """Wait so many times."""
    for _ in range(number):
        await asyncio.sleep(0)
