"""Start coroutines without waiting for an iteration of the event loop.

Python 3.12 supports eager tasks itself. On Python 3.11 a parked task runs the coroutine: during its first step,
`asyncio.current_task()` is the parked task, so that timeouts and cancel scopes work as usual; the rest runs inside the
parked task. A coroutine that ends in its first step, as most handlers do, needs no task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from sys import getrefcount
from typing import Any, Final
from weakref import getweakrefcount

from mcp_runtime.aio.tasks import Coro, finish_steps

from .switches import ENABLED as ENABLED

_BUILT_IN: Final = sys.version_info >= (3, 12)
# The private table of current tasks of asyncio, used on Python 3.11 only: docs/adr/0002.
_CURRENT: Final[dict[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = (
    {} if _BUILT_IN else getattr(asyncio.tasks, "_current_tasks", {})
)


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
        self._rest: tuple[Coro, Callable[..., Any], Any] | None = None
        super().__init__(self._park(), loop=loop, context=Context())  # Keeps nothing of the request that began it.

    def add_done_callback(self, *arguments: Any, **named: Any) -> None:
        self.marked = True
        super().add_done_callback(*arguments, **named)

    def cancel(self, msg: Any = None) -> bool:
        self.marked = True
        return super().cancel(msg)

    def take_over(self, coro: Coro, context: Context, waits_for: Any) -> None:
        """Run the rest of a coroutine in its own context, when the future that it waits for is done."""
        self._rest = coro, context.run, waits_for
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
            yield from finish_steps(*self._rest, cancelled)
        elif cancelled is not None:
            raise cancelled
