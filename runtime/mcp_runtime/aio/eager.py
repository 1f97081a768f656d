"""A coroutine goes in, and has run up to where it first waits when its task comes out, or None where it has ended; and
when what it waits for comes in, it goes on at once. Or it runs in the task that is there already: `ResumedCoroutine`.

Python 3.12 can do that by itself. Before, a spare task stands ready: the first step runs in its name, so that
`asyncio.current_task()`, timeouts and cancel scopes know no difference, and what then waits goes on inside it. What
ends in its first step, as most handlers do, costs neither a task nor a turn of the event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any, Final, Self, TypeVar
from weakref import getweakrefcount

Coro = Coroutine[Any, Any, None]
T = TypeVar("T")

_BUILT_IN: Final = sys.version_info >= (3, 12)
# Asyncio's own table of current tasks, which is private and used on Python 3.11 alone: docs/adr/0002.
_CURRENT: Final[dict[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = getattr(asyncio.tasks, "_current_tasks", {})


class EagerTaskStarter:
    """Starts coroutines in one event loop, from inside or outside of a task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parked: _ParkedTask | None = None

    def start(self, coro: Coro) -> asyncio.Task[None] | None:
        """Run a coroutine: at once up to where it first waits, or as an ordinary task where no spare is ready. What it waits
        for then, or how it failed, is left to the spare task."""
        if _BUILT_IN:
            return asyncio.Task(coro, loop=self._loop, eager_start=True)  # type: ignore[call-arg]
        spare = self._parked
        if spare is None or not spare.parked:
            if spare is None or spare.done():
                self._parked = _ParkedTask(self._loop)
            return self._loop.create_task(coro)
        held, watched = getrefcount(spare), getweakrefcount(spare)
        context, loop, ended = copy_context(), self._loop, False
        outer = _CURRENT.get(loop)
        _CURRENT[loop] = spare
        try:
            waits_for = context.run(coro.send, None)
        except StopIteration:
            ended = True
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as fault:
            spare.end(fault)
        else:
            spare.take_over(coro, context, waits_for)
        finally:
            if outer is None:
                del _CURRENT[loop]
            else:
                _CURRENT[loop] = outer
        if ended and not spare.marked and getrefcount(spare) == held and getweakrefcount(spare) == watched:
            return None
        if ended:  # Somebody knows this task: it must not come back as that of another coroutine.
            spare.end(None)
        self._parked = _ParkedTask(self._loop)
        return None if ended else spare

    async def close(self) -> None:
        """End the spare task."""
        if self._parked is not None:
            self._parked.cancel()
            await asyncio.wait([self._parked])


class _ParkedTask(asyncio.Task[None]):
    """A task that waits until it is given something to do. `marked` tells that somebody has left a trace on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.parked = self.marked = False
        self._call: asyncio.Future[None] = loop.create_future()
        self._done_callbacks: tuple[Coro, Context, Any] | None = None
        super().__init__(self._park(), loop=loop)

    def add_done_callback(self, *arguments: Any, **named: Any) -> None:
        self.marked = True
        super().add_done_callback(*arguments, **named)

    def cancel(self, msg: Any = None) -> bool:
        self.marked = True
        return super().cancel(msg)

    def take_over(self, coro: Coro, context: Context, waits_for: Any) -> None:
        """Go on with a coroutine, in its own context, once there is what it waits for."""
        self._done_callbacks = coro, context, waits_for
        self.end(None)

    def end(self, error: BaseException | None) -> None:
        """Wait no longer; without anything to go on with, be done, with this fault if there is one."""
        self.parked = False
        if self._call.done():  # It was cancelled meanwhile.
            return
        if isinstance(error, asyncio.CancelledError):
            self._call.cancel()
        elif error is not None:
            self._call.set_exception(error)
        else:
            self._call.set_result(None)

    def _park(self) -> Generator[Any, None, None]:
        self.parked = True
        cancelled: asyncio.CancelledError | None = None
        try:
            yield from self._call
        except asyncio.CancelledError as fault:
            cancelled = fault
        self.parked = False
        if self._done_callbacks is not None:
            yield from _finish(*self._done_callbacks, cancelled)
        elif cancelled is not None:
            raise cancelled


def _finish(coro: Coro, context: Context, waits_for: Any, error: BaseException | None) -> Generator[Any, None, None]:
    """What a task does with a coroutine after its first step; a cancellation that is due goes where it waits."""
    if error is not None and asyncio.isfuture(waits_for) and waits_for.cancel(*error.args):
        error = None
    while True:
        if error is None:
            try:
                yield waits_for
            except BaseException as raised:
                error = raised
        try:
            waits_for = context.run(coro.send, None) if error is None else context.run(coro.throw, error)
        except StopIteration:
            return
        error = None


class ResumedCoroutine(Generator[Any, Any, T]):
    """A coroutine whose first step was made by hand, and what it waits for since; to be awaited in the same task."""

    def __init__(self, coro: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coro = coro
        self._waits_for = [waits_for]

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._waits_for.pop() if self._waits_for else self._coro.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coro.throw(*error)


class InlineFuture(asyncio.Future[T]):
    """A future whose task goes on within `settle`: any other waits for the next turn of the event loop, for which the
    loop looks at all its descriptors. For one task to await."""

    _wake: tuple[Callable[[Any], object], Context | None] | None = None

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        self._wake = fn, context
        super().add_done_callback(fn, context=context)

    def set_result_now(self, result: T) -> None:
        """Set the result. Inside of another task, which has to come to its own wait first, that is all."""
        wake, self._wake = self._wake, None
        if wake is None or asyncio.current_task(self.get_loop()) is not None:
            self.set_result(result)
            return
        callback, context = wake
        self.remove_done_callback(callback)
        self.set_result(result)
        context.run(callback, self) if context is not None else callback(self)
