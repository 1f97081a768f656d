"""An ASGI server that `server=` names, with the methods of uvicorn's that `run` calls."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError
from mcp_runtime.http.asgi import ASGIApp, Receive, Scope, Send
from mcp_runtime.transports.http_server.app import MCPASGIApp
from mcp_runtime.transports.http_server.limits import HTTPLimits

_NAMES: Final = ("hypercorn", "granian")
_OF_CONNECTIONS: Final = ("head_timeout", "write_timeout", "max_connections", "max_connections_per_address")
_LEAVE_SECONDS: Final = 0.5  # Seconds in which a proxy notices that this process is not ready.
_ASK_AGAIN_SECONDS: Final = 0.01
_REACHED_AT: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # Windows connects to no unspecified address.
_SIGNALS: Final = ("SIGINT", "SIGTERM")
_ACCEPTING: Final = f"{__package__}.accepting"
_BACKLOG: Final = 4096
_AT_ONCE: Final = 100_000  # Requests at the same time; an open stream is one.


def check_other_server(name: str, settings: Mapping[str, Any]) -> None:
    """Raise LocalError if a server is not installed, or if a setting does not work with it."""
    if find_spec(name) is None:
        raise LocalError(f"run(): server={name!r} needs {name}: pip install 'mcp-generated[{name}]'")
    if settings.get("uvicorn") is not None:
        raise LocalError(f"run(): uvicorn= has settings of uvicorn: leave it out, or leave out server={name!r}")
    if name == "granian" and settings.get("workers", 1) > 1:
        raise LocalError(
            "run(): workers= shares a listening socket, which server='granian' cannot use: leave out server=, or start "
            "granian with its own --workers and app.asgi(store=…)"
        )
    limits, default = settings.get("limits"), HTTPLimits()
    for limit in _OF_CONNECTIONS if limits is not None else ():
        if getattr(limits, limit) != getattr(default, limit):
            raise LocalError(
                f"run(): HTTPLimits({limit}=…) holds with uvicorn only: leave it out, or leave out server={name!r}"
            )


class OtherServer:
    """Serves with another server than uvicorn, and ends on a signal when requests are complete, as uvicorn does."""

    def __init__(self, name: str, application: MCPASGIApp, is_shared: bool, drain: float) -> None:
        """Create the server.

        Args:
            name: The name of the package of the server.
            application: The application.
            is_shared: Whether other workers can go on with streams.
            drain: Seconds for requests to complete after a signal.
        """
        self._application = application
        self._is_shared = is_shared
        self._drain = drain
        self._serve = serve_with_hypercorn if name == "hypercorn" else serve_with_granian
        self._signal: int | None = None
        self._ended = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self.on_start: Callable[[], Awaitable[None]]
        """Is called when requests are served."""
        self.on_signal: Callable[[int], None]
        """Is called with a signal that ends the server."""

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on a listening socket until SIGINT or SIGTERM, in an event loop of its own."""
        factory: Any = load(_ACCEPTING).AcceptingLoop if hasattr(asyncio, "IocpProactor") else None
        with suppress(ImportError):
            import uvloop

            factory = uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self.serve(sockets))

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on a listening socket until SIGINT or SIGTERM, which is raised again at the end."""
        loop = asyncio.get_running_loop()
        numbers = [getattr(signal, name) for name in _SIGNALS]
        before = [signal.signal(number, lambda got, _: loop.call_soon_threadsafe(self._end, got)) for number in numbers]
        host: str = sockets[0].getsockname()[0]
        port: int = sockets[0].getsockname()[1]
        application = partial(self._lifespan_observed, _REACHED_AT.get(host, host), port)
        try:
            await self._serve(application, sockets[0], self._until_ended, self._drain)
        finally:
            if self._starting is not None:
                self._starting.cancel()
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
        if self._signal is not None:
            signal.raise_signal(self._signal)

    def _end(self, number: int) -> None:
        self._signal = number
        self.on_signal(number)
        self._ended.set()

    async def _until_ended(self) -> None:
        """Return when the server has to end, after streams have ended that it would wait for."""
        await self._ended.wait()
        if self._is_shared:
            self._application.hand_over()
            await asyncio.sleep(_LEAVE_SECONDS)
            self._application.hand_over()  # Clients have come back meanwhile.
        else:
            await self._application.close()

    async def _lifespan_observed(self, host: str, port: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Call `on_start` when the application has started and connections to it are accepted."""
        if scope["type"] != "lifespan":
            return await self._application(scope, receive, send)

        async def observed(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                self._starting = asyncio.ensure_future(self._start(host, port))

        await self._application(scope, receive, observed)

    async def _start(self, host: str, port: int) -> None:
        """Call `on_start` as soon as a connection is accepted: granian listens after the application has started."""
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except OSError:
                await asyncio.sleep(_ASK_AGAIN_SECONDS)
            else:
                writer.close()
                return await self.on_start()


# Serve an ASGI application with granian, embedded in this process.


async def serve_with_granian(
    application: ASGIApp, listener: socket.socket, until: Callable[[], Awaitable[None]], drain: float
) -> None:
    """Serve with granian in the running event loop, at the address of the listening socket, which is closed.

    Args:
        application: The application.
        listener: The listening socket.
        until: Returns when the server has to end.
        drain: Seconds for requests to complete at the end.
    """
    host, port = listener.getsockname()[:2]
    listener.close()  # granian listens itself.
    logging.getLogger("_granian").setLevel(logging.ERROR)
    # Without types: it is not installed where ours are checked.
    granian, constants = import_module("granian.server.embed"), import_module("granian.constants")
    server: Any = granian.Server(
        application,
        address=host,
        port=port,
        interface=constants.Interfaces.ASGI,
        http=constants.HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_AT_ONCE,
        log_enabled=False,
    )
    server.workers_kill_timeout = drain
    serving = asyncio.ensure_future(server.serve())
    ended = asyncio.ensure_future(until())
    try:
        await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
        server.stop()
        with suppress(TimeoutError):  # After `drain` seconds, when granian has cancelled what runs.
            await serving
    finally:
        ended.cancel()


# Serve an ASGI application with hypercorn.


async def serve_with_hypercorn(
    application: ASGIApp, listener: socket.socket, until: Callable[[], Awaitable[None]], drain: float
) -> None:
    """Serve with hypercorn in the running event loop; the arguments are those of `serve_with_granian`."""
    hypercorn: Any = import_module("hypercorn.asyncio")  # Without types: it is not installed where ours are checked.
    config = hypercorn.Config()
    config.bind = [f"fd://{os.dup(listener.fileno())}"]  # hypercorn closes its own.
    config.include_server_header = False
    config.loglevel = "WARNING"
    config.graceful_timeout = drain
    await hypercorn.serve(application, config, shutdown_trigger=until, mode="asgi")
