"""Background tasks of a connection, which may run longer than the request that has started them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, Final, Protocol, TypeVar, cast

from .. import products

_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled tasks to end.
Coro = Coroutine[Any, Any, None]
T = TypeVar("T")
Told = Callable[[Any], object]
_ITERATIONS: Final = 20  # Iterations of the event loop in which a response passes all tasks up to the socket.


class BackgroundTasks:
    """The background tasks of one connection."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()
        self._at_end: list[Callable[[], None]] = []
        self._ended = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended

    def add(self, task: asyncio.Future[Any]) -> None:
        """Add a task, which is cancelled when the connection ends, or now if it has ended."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._ended:
            task.cancel()

    def at_end(self, function: Callable[[], None]) -> None:
        """Call a function when the connection has ended: its last requests have been answered by then."""
        self._at_end.append(function)

    def note_end(self) -> None:
        """Call what is to be called when the connection has ended; its tasks go on."""
        functions = self._at_end
        self._at_end = []
        for function in functions:
            function()

    async def end(self) -> None:
        """Cancel all tasks, wait up to 0.4 s for them to end, and call what is to be called at the end."""
        self._ended = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CANCEL_SECONDS)
        self.note_end()


# A lifespan that many connections share.


class SharedLifespan:
    """A lifespan that is started at first use and ended once, both in its own task."""

    def __init__(self, lifespan: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._lifespan = lifespan
        self._state: asyncio.Future[Any] | None = None
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def state(self) -> Any:
        """Return what the lifespan yields; start it if needed. Raises what the lifespan raises.

        It is started for all, in an empty context: who needs it first may be cancelled.
        """
        if self._state is None:
            self._state = asyncio.get_running_loop().create_future()
            self._task = asyncio.get_running_loop().create_task(self._run(self._state), context=Context())
        return self._state.result() if self._state.done() else await asyncio.shield(self._state)

    async def end(self) -> None:
        """End the lifespan, if it was started."""
        self._end.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, state: asyncio.Future[Any]) -> None:
        try:
            async with self._lifespan() as yielded:
                state.set_result(yielded)
                await self._end.wait()
        except BaseException as error:
            if state.done():
                raise
            if isinstance(error, Exception):
                state.set_exception(error)
                return
            reason = RuntimeError(f"the lifespan has raised {type(error).__name__}")
            reason.__cause__ = error
            state.set_exception(reason)
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise


# A gate that pauses readers while there is at least one reason to.


class PauseGate:
    """Counts calls of `pause` and `resume`; readers wait until both are equal."""

    def __init__(self) -> None:
        self._reasons = 0
        self._free = asyncio.Event()
        self._free.set()

    def pause(self) -> None:
        """Pause readers until `resume` is called as often as `pause`."""
        self._reasons += 1
        self._free.clear()

    def resume(self) -> None:
        """Undo one call of `pause`."""
        self._reasons -= 1
        if not self._reasons:
            self._free.set()

    async def wait(self) -> None:
        """Wait while readers are paused."""
        await self._free.wait()


# Start coroutines.


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


def fast_paths() -> Any:
    """Return the product that does what the core does, faster; None if it is not there, or switched off."""
    return products.find("fast")


def task_starter(loop: asyncio.AbstractEventLoop) -> TaskStarter:
    """Return a starter that creates ordinary tasks, or the one of a product, which runs coroutines at once up to their
    first wait."""
    fast = fast_paths()
    return PlainTaskStarter(loop) if fast is None else cast("TaskStarter", fast.EagerTaskStarter(loop))


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


def finish_steps(
    coro: Coroutine[Any, Any, T], run: Callable[..., Any], waits_for: Any, error: BaseException | None
) -> Generator[Any, None, T]:
    """Run a coroutine after its first step, as a task does; a pending cancellation is raised where it waits. Each step
    is run by a function, such as `run` of a context."""
    if error is not None and asyncio.isfuture(waits_for) and waits_for.cancel(*error.args):
        error = None
    while True:
        if error is None and not (asyncio.isfuture(waits_for) and waits_for.done()):
            try:
                yield waits_for
            except BaseException as raised:
                error = raised
        try:
            waits_for = run(coro.send, None) if error is None else run(coro.throw, error)
        except StopIteration as end:
            return cast("T", end.value)
        error = None


go_on: Final[Callable[..., Awaitable[Any]]] = coroutine(finish_steps)


class LongWait(asyncio.Future[None]):
    """What a coroutine waits for that may take days: it may wait without a task."""


@coroutine
def noting_wait(coro: Coroutine[Any, Any, T], on_wait: Told, at_end: Told, noted: Any) -> Generator[Any, None, T]:
    """Run a coroutine in the current task; if it ever waits, tell a function at its first wait, and another at its
    end. Most do not wait: they cost no more than this call."""
    try:
        waits_for = coro.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    on_wait(noted)
    try:
        return (yield from finish_steps(coro, _run_step, waits_for, None))
    finally:
        at_end(noted)


def _run_step(step: Callable[..., Any], *arguments: Any) -> Any:
    return step(*arguments)


def adopted_task(loop: asyncio.AbstractEventLoop, coro: Coro, context: Context, waits_for: Any) -> asyncio.Task[None]:
    """Return a task that runs the rest of a coroutine, which waits for a future, or for the next iteration if that is
    None."""

    async def rest() -> None:
        await go_on(coro, context.run, waits_for, None)

    return loop.create_task(rest(), context=Context())


def begin_at_once(loop: asyncio.AbstractEventLoop, coro: Coro) -> asyncio.Task[None] | None:
    """Run a coroutine up to its first wait, in the name of nobody; return the task that runs the rest, None if it has
    ended. For what has to be done before the caller goes on."""
    context = copy_context()
    try:
        waits_for = context.run(coro.send, None)
    except StopIteration:
        return None
    return adopted_task(loop, coro, context, waits_for)


def end_process(error: BaseException) -> None:
    """Raise in the event loop what ends the process, when a response that was written before has been sent."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # A thread runs the handler: it passes the exception on.
        raise error from None
    _end_after(loop, _ITERATIONS, error)


def _end_after(loop: asyncio.AbstractEventLoop, iterations: int, error: BaseException) -> None:
    if not iterations:
        raise error
    loop.call_soon(_end_after, loop, iterations - 1, error)


# The seam of other event loops: programs of trio, and of anyio on asyncio.


class ForeignLoop(Protocol):
    """What a task of trio calls, because clients and servers are written for asyncio."""

    async def enter(self, client: Any, *parts: Any) -> Any:
        """Connect a client in an asyncio event loop of its own thread. It stays there until it is closed.

        Args:
            client: A client, or a client of several servers.
            parts: The clients of the servers.
        """
        ...

    async def run_in_asyncio_thread(
        self, function: Callable[..., Coroutine[Any, Any, T]], /, *arguments: Any, **keywords: Any
    ) -> T:
        """Run a coroutine function in an asyncio event loop of its own thread."""
        ...


def is_trio_task() -> bool:
    """Return True if a task of trio calls this function."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def foreign_loop() -> ForeignLoop | None:
    """Return what a task of trio calls; None in asyncio. Raises LocalError where the product is not there."""
    return cast("ForeignLoop", products.require("foreign_loop", "a program of trio")) if is_trio_task() else None


def shielded_from_scopes() -> AbstractContextManager[Any]:
    """Return a context manager for a task of asyncio, whose body the cancel scopes of anyio do not cancel.

    A cancelled scope of anyio cancels each wait of a task, not only the first one as asyncio does. Without
    this, a client would not wait for the end of its connection and of its server.
    """
    if "anyio._backends._asyncio" not in sys.modules:  # The program does not use anyio, or not on asyncio.
        return nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)
