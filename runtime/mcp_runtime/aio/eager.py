"""Start and resume coroutines without waiting for an iteration of the event loop: fast paths.

`task_starter`, `pending_future` and `first_step` are the entry points; with `MCP_FAST_PATHS=0` they use asyncio's own
tasks and futures. Python 3.12 supports eager tasks itself. On Python 3.11 a parked task runs the coroutine: during its
first step, `asyncio.current_task()` is the parked task, so that timeouts and cancel scopes work as usual; the rest runs
inside the parked task. A coroutine that ends in its first step, as most handlers do, needs no task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from types import coroutine
from typing import Any, Final, Protocol, Self, TypeVar
from weakref import getweakrefcount

from . import fast_paths

Coro = Coroutine[Any, Any, None]
T = TypeVar("T")

_BUILT_IN: Final = sys.version_info >= (3, 12)
# The private table of current tasks of asyncio, used on Python 3.11 only: docs/adr/0002.
_CURRENT: Final[dict[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = (
    {} if _BUILT_IN else getattr(asyncio.tasks, "_current_tasks", {})
)
_current_task: Final[Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]] = (
    asyncio.current_task if _BUILT_IN else _CURRENT.get  # Before 3.12, the function is written in Python.
)


class TaskStarter(Protocol):
    """Starts coroutines in one event loop, from inside or outside of a task.

    `defers` says that coroutines begin in the next iteration of the event loop.
    """

    @property
    def defers(self) -> bool: ...

    def start(self, coro: Coro) -> asyncio.Task[None] | None:
        """Start a coroutine. Return its task, or None if it has ended already."""
        ...

    async def close(self) -> None: ...


class ResultFuture(asyncio.Future[T]):
    """A future whose task resumes in a later iteration of the event loop."""

    def set_result_now(self, result: T) -> None:
        """Set the result."""
        self.set_result(result)


def task_starter(loop: asyncio.AbstractEventLoop) -> TaskStarter:
    """Return a starter that runs coroutines at once up to their first wait, or one that creates ordinary tasks."""
    return EagerTaskStarter(loop) if fast_paths.ENABLED else PlainTaskStarter(loop)


def pending_future(loop: asyncio.AbstractEventLoop) -> ResultFuture[Any]:
    """Return a future for one task to await; it resumes the task at once when its result is set, unless it is plain."""
    return InlineFuture(loop=loop) if fast_paths.ENABLED else ResultFuture(loop=loop)


def first_step(coro: Coroutine[Any, Any, T]) -> Awaitable[T]:
    """Run a coroutine in the current task up to its first wait, and return the rest to be awaited in the same task.

    Raises StopIteration with the result if it has no wait, and what the coroutine raises.
    """
    return ResumedCoroutine(coro, coro.send(None)) if fast_paths.ENABLED else coro


class PlainTaskStarter:
    """Starts coroutines as ordinary tasks."""

    defers = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, coro: Coro) -> asyncio.Task[None] | None:
        """Start a coroutine in the next iteration of the event loop."""
        return self._loop.create_task(coro)

    async def close(self) -> None:
        """Do nothing: there is no parked task."""


class EagerTaskStarter:
    """Starts coroutines at once, in the name of a parked task."""

    defers = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parked: _ParkedTask | None = None

    def start(self, coro: Coro) -> asyncio.Task[None] | None:
        """Run a coroutine up to its first wait, or start an ordinary task if no parked task is ready. The parked task
        runs the rest, or raises what the coroutine has raised."""
        if _BUILT_IN:
            return asyncio.Task(coro, loop=self._loop, eager_start=True)  # type: ignore[call-arg]
        parked = self._parked
        if parked is None or not parked.parked:
            if parked is None or parked.done():
                self._parked = _ParkedTask(self._loop)
            return self._loop.create_task(coro)
        references, weak_references = getrefcount(parked), getweakrefcount(parked)
        context, loop, ended = copy_context(), self._loop, False
        current = _CURRENT.get(loop)
        _CURRENT[loop] = parked
        try:
            waits_for = context.run(coro.send, None)
        except StopIteration:
            ended = True
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            parked.end(error)
        else:
            parked.take_over(coro, context, waits_for)
        finally:
            if current is None:
                del _CURRENT[loop]
            else:
                _CURRENT[loop] = current
        if (
            ended
            and not parked.marked
            and getrefcount(parked) == references
            and getweakrefcount(parked) == weak_references
        ):
            return None
        if ended:  # Other code has a reference to this task: it must not run another coroutine.
            parked.end(None)
        self._parked = _ParkedTask(self._loop)
        return None if ended else parked

    async def close(self) -> None:
        """Cancel the parked task."""
        if self._parked is not None:
            self._parked.cancel()
            await asyncio.wait([self._parked])


class _ParkedTask(asyncio.Task[None]):
    """A task that waits for a coroutine to run. `marked` is True after a callback was added or it was cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.parked = self.marked = False
        self._signal: asyncio.Future[None] = loop.create_future()
        self._rest: tuple[Coro, Context, Any] | None = None
        super().__init__(self._park(), loop=loop, context=Context())  # Keeps nothing of the request that began it.

    def add_done_callback(self, *arguments: Any, **named: Any) -> None:
        self.marked = True
        super().add_done_callback(*arguments, **named)

    def cancel(self, msg: Any = None) -> bool:
        self.marked = True
        return super().cancel(msg)

    def take_over(self, coro: Coro, context: Context, waits_for: Any) -> None:
        """Run the rest of a coroutine in its own context, when the future that it waits for is done."""
        self._rest = coro, context, waits_for
        self.end(None)

    def end(self, error: BaseException | None) -> None:
        """Stop waiting; without a coroutine to run, end, with this error if there is one."""
        self.parked = False
        if self._signal.done():  # The task was cancelled meanwhile.
            return
        if isinstance(error, asyncio.CancelledError):
            self._signal.cancel()
        elif error is not None:
            self._signal.set_exception(error)
        else:
            self._signal.set_result(None)

    def _park(self) -> Generator[Any, None, None]:
        self.parked = True
        cancelled: asyncio.CancelledError | None = None
        try:
            yield from self._signal
        except asyncio.CancelledError as error:
            cancelled = error
        self.parked = False
        if self._rest is not None:
            yield from _finish(*self._rest, cancelled)
        elif cancelled is not None:
            raise cancelled


def _finish(coro: Coro, context: Context, waits_for: Any, error: BaseException | None) -> Generator[Any, None, None]:
    """Run a coroutine after its first step, as a task does; a pending cancellation is raised where it waits."""
    if error is not None and asyncio.isfuture(waits_for) and waits_for.cancel(*error.args):
        error = None
    while True:
        if error is None and not (asyncio.isfuture(waits_for) and waits_for.done()):
            try:
                yield waits_for
            except BaseException as raised:
                error = raised
        try:
            waits_for = context.run(coro.send, None) if error is None else context.run(coro.throw, error)
        except StopIteration:
            return
        error = None


def adopted_task(loop: asyncio.AbstractEventLoop, coro: Coro, context: Context, waits_for: Any) -> asyncio.Task[None]:
    """Return a task that runs the rest of a coroutine, which waits for a future, or for the next iteration if that is
    None."""
    finish: Callable[..., Awaitable[None]] = coroutine(_finish)

    async def rest() -> None:
        await finish(coro, context, waits_for, None)

    return loop.create_task(rest(), context=Context())


class ResumedCoroutine(Generator[Any, Any, T]):
    """A coroutine after its first step, and the future that it waits for; await it in the same task."""

    def __init__(self, coro: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coro = coro
        self._waits_for = [waits_for]

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._waits_for.pop() if self._waits_for else self._coro.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coro.throw(*error)


class InlineFuture(ResultFuture[T]):
    """A future that resumes its task within `set_result_now`, for one task to await. The task of an ordinary future
    resumes in the next iteration of the event loop, after the loop has polled all descriptors."""

    _wake: tuple[Callable[[Any], object], Context | None] | None = None

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        self._wake = fn, context
        super().add_done_callback(fn, context=context)

    def set_result_now(self, result: T) -> None:
        """Set the result, and resume the task that awaits it, unless another task is running."""
        wake = self._wake
        self._wake = None
        if wake is None or _current_task(self.get_loop()) is not None:
            self.set_result(result)
            return
        callback, context = wake
        self.remove_done_callback(callback)
        self.set_result(result)
        context.run(callback, self) if context is not None else callback(self)
