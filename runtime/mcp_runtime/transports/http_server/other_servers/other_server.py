"""An ASGI server that `server=` names, with the methods of uvicorn's that `run` calls."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, Final, Protocol

from ....errors import LocalError
from ....http.asgi import Receive, Scope, Send
from ..app import MCPASGIApp
from ..http_limits import HTTPLimits

_NAMES: Final = ("hypercorn", "granian")
_OF_CONNECTIONS: Final = ("head_timeout", "write_timeout", "max_connections", "max_connections_per_address")
_LEAVE_SECONDS: Final = 0.5  # Seconds in which a proxy notices that this process is not ready.
_SIGNALS: Final = ("SIGINT", "SIGTERM")


class ServeApplication(Protocol):
    """Serves an ASGI application until a function returns."""

    async def __call__(
        self,
        application: Callable[[Scope, Receive, Send], Awaitable[None]],
        listener: socket.socket,
        until: Callable[[], Awaitable[None]],
        drain: float,
    ) -> None:
        """Serve.

        Args:
            application: The application.
            listener: The listening socket.
            until: Returns when the server has to end.
            drain: Seconds for requests to complete at the end.
        """
        ...


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
    for field in fields(HTTPLimits):
        if field.name in _OF_CONNECTIONS and limits is not None:
            if getattr(limits, field.name) != getattr(default, field.name):
                raise LocalError(
                    f"run(): HTTPLimits({field.name}=…) holds with uvicorn only: leave it out, or leave out "
                    f"server={name!r}"
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
        self._serve = _server(name)
        self._signal: int | None = None
        self._ended = asyncio.Event()
        self.on_start: Callable[[], Awaitable[None]]
        """Is called when requests are served."""
        self.on_signal: Callable[[int], None]
        """Is called with a signal that ends the server."""

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on a listening socket until SIGINT or SIGTERM, in an event loop of its own."""
        factory: Any = None
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
        try:
            await self._serve(self._lifespan_observed, sockets[0], self._until_ended, self._drain)
        finally:
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
        else:
            await self._application.close()

    async def _lifespan_observed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call `on_start` when the application has started."""
        if scope["type"] != "lifespan":
            return await self._application(scope, receive, send)

        async def observed(message: Any) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete":
                await self.on_start()

        await self._application(scope, receive, observed)


def _server(name: str) -> ServeApplication:
    if name == "hypercorn":
        from .with_hypercorn import serve_with_hypercorn

        return serve_with_hypercorn
    from .with_granian import serve_with_granian

    return serve_with_granian
