"""A low-level server in a program of trio: the server runs in asyncio in a thread of its own, its handlers in trio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from mcp_runtime._lazy import LazyModule

if TYPE_CHECKING:
    from mcp_products.platforms import trio, trio_client
else:  # Imported in programs of trio.
    trio = LazyModule("mcp_products.platforms.trio")
    trio_client = LazyModule("mcp_products.platforms.trio_client")

_THREAD: Final[ContextVar[trio.AsyncioThread | None]] = ContextVar("the thread of a server of trio", default=None)


@dataclass
class _TrioStream:
    """A stream of the trio program, for the thread of the server."""

    _thread: trio.AsyncioThread
    _stream: Any

    async def receive(self) -> Any:
        return await self._thread.run_in_trio(self._stream.receive)

    async def send(self, item: Any) -> None:
        await self._thread.run_in_trio(self._stream.send, item)

    async def aclose(self) -> None:
        await self._thread.run_in_trio(self._stream.aclose)


async def serve_in_trio(serve: Callable[..., Any], server: Any, *streams: Any) -> None:
    """Call an async function with a server and its streams in a thread that runs asyncio, in a task of trio."""
    thread = trio.AsyncioThread()
    token = _THREAD.set(thread)
    try:
        ends = [_TrioStream(thread, item) if hasattr(item, "aclose") else item for item in streams]
        await thread.run(serve, server, *ends)
    finally:
        _THREAD.reset(token)
        await thread.stop()


def call_handler(handler: Callable[..., Awaitable[Any]], *arguments: Any) -> Awaitable[Any]:
    """Call a handler, in trio if that is what the program runs."""
    thread = _THREAD.get()
    return handler(*arguments) if thread is None else trio_client.in_trio(thread, handler)(*arguments)


def enter_lifespan(lifespan: AbstractAsyncContextManager[Any]) -> AbstractAsyncContextManager[Any]:
    """Return a lifespan whose start and end are in one task of trio, if that is what the program runs."""
    thread = _THREAD.get()
    return lifespan if thread is None else _held(thread, lifespan)


@asynccontextmanager
async def _held(thread: trio.AsyncioThread, lifespan: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    loop = asyncio.get_running_loop()
    entered: asyncio.Future[tuple[Any, anyio.Event]] = loop.create_future()

    async def hold() -> None:
        async with lifespan as state:
            left = anyio.Event()
            loop.call_soon_threadsafe(entered.set_result, (state, left))
            await left.wait()

    holding = asyncio.create_task(thread.run_in_trio(hold), name="mcp lifespan")
    waiting: set[asyncio.Future[Any]] = {entered, holding}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            await holding  # It raises why the lifespan has not started.
        state, left = entered.result()
    except BaseException:
        holding.cancel()
        raise
    try:
        yield state
    finally:
        await thread.run_in_trio(left.set)
        await holding
