"""What programs of trio and of anyio do other than programs of asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from mcp_runtime.errors import ConnectionClosedError

# An asyncio event loop in a thread of its own, for programs that run trio.

T = TypeVar("T")

_END: Final = object()


class _Outcome(Generic[T]):
    """The end of a coroutine that another event loop runs."""

    value: T

    def __init__(self) -> None:
        self.error: BaseException | None = ConnectionClosedError("the event loop has ended")

    def unwrap(self) -> T:
        """Return the result of the coroutine, or raise its exception."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # It refers to this frame.
        return self.value


class AsyncioThread:
    """An asyncio event loop in a thread of its own. Tasks of trio run coroutines in it, and it runs functions in trio.

    Contextvars go along in both directions.
    """

    def __init__(self) -> None:
        """Start the thread. Call this in a task of trio."""
        import trio

        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._ended = trio.Event()
        self._is_stopped = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="mcp asyncio", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True in the thread of the event loop."""
        return threading.get_ident() == self._thread.ident

    async def run(self, function: Callable[..., Coroutine[Any, Any, T]], /, *arguments: Any, **keywords: Any) -> T:
        """Run a coroutine function in the event loop, and return its result, in a task of trio.

        Cancelling cancels the coroutine, and waits for its end. Raises what the coroutine raises, and
        ConnectionClosedError if the event loop has ended.
        """
        outcome, ended = _Outcome[T](), self._trio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def run() -> None:
            try:
                outcome.value = await function(*arguments, **keywords)
                outcome.error = None
            except asyncio.CancelledError:
                outcome.error = ConnectionClosedError("the client was closed during the call")
                raise
            except BaseException as error:  # SystemExit ends the trio program, not the event loop.
                outcome.error = error

        def start() -> None:
            if (sniffio := sys.modules.get("sniffio")) is not None:  # In anyio's programs the contextvar says "trio".
                sniffio.current_async_library_cvar.set("asyncio")
            tasks.append(self._loop.create_task(run()))
            tasks[0].add_done_callback(lambda _: self._call_in_trio(ended.set))

        if self._is_stopped:
            raise ConnectionClosedError("the connection is closed")
        self._call_in_asyncio(start)
        try:
            await ended.wait()
        except self._trio.Cancelled:
            self._call_in_asyncio(lambda: tasks[0].cancel())
            with self.shielded():
                await ended.wait()
            if not isinstance(outcome.error, ConnectionClosedError):
                return outcome.unwrap()  # It has ended before: no result is lost, and trio cancels what comes next.
            raise
        return outcome.unwrap()

    async def run_in_trio(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Call a function, or an `async def`, in a task of trio, and return its result, in the event loop.

        Cancelling cancels the task of trio, and waits for its end.
        """
        outcome, ended = _Outcome[Any](), self._loop.create_future()
        scope = self._trio.CancelScope()
        context = contextvars.copy_context()

        async def run() -> None:
            try:
                with scope:
                    result = function(*arguments)
                    outcome.value = await result if inspect.isawaitable(result) else result
                    outcome.error = None
            except Exception as error:
                outcome.error = error
            finally:
                with suppress(ConnectionClosedError):
                    self._call_in_asyncio(partial(_settle, ended))

        spawn = partial(self._trio.lowlevel.spawn_system_task, run, context=context)
        if not self._call_in_trio(spawn):
            raise ConnectionClosedError("the trio program has ended")
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            if self._call_in_trio(scope.cancel):
                await ended
            raise
        if scope.cancelled_caught:
            raise asyncio.CancelledError
        return outcome.unwrap()

    def iterate(self, items: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Return the items of an asynchronous generator of the event loop, for a task of trio."""

        async def next_item() -> Any:
            return await anext(items, _END)

        async def iterate() -> AsyncGenerator[T]:
            try:
                while (item := await self.run(next_item)) is not _END:
                    yield item
            finally:
                with self.shielded(), suppress(ConnectionClosedError):
                    await self.run(items.aclose)

        return iterate()

    def shielded(self) -> AbstractContextManager[Any]:
        """Return a context manager whose body trio does not cancel."""
        return self._trio.CancelScope(shield=True)

    async def stop(self) -> None:
        """Cancel all tasks of the event loop, close it, and wait for the end of its thread."""
        self._is_stopped = True
        with suppress(ConnectionClosedError):
            self._call_in_asyncio(self._loop.stop)
        with self.shielded():
            await self._ended.wait()
        self._thread.join()

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
        self._call_in_trio(self._ended.set)

    def _call_in_asyncio(self, callback: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            raise ConnectionClosedError("the connection is closed") from None

    def _call_in_trio(self, callback: Callable[[], object]) -> bool:
        """Call a function in the thread of trio; False if the program has ended."""
        try:
            self._token.run_sync_soon(callback)
        except self._trio.RunFinishedError:
            return False
        return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def run_in_asyncio_thread(
    function: Callable[..., Coroutine[Any, Any, T]], /, *arguments: Any, **keywords: Any
) -> T:
    """Run a coroutine function in an asyncio event loop of its own thread, in a task of trio."""
    thread = AsyncioThread()
    try:
        return await thread.run(function, *arguments, **keywords)
    finally:
        await thread.stop()
