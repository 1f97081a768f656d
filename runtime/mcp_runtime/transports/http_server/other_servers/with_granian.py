"""Serve an ASGI application with granian, embedded in this process."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from ....http.asgi import Receive, Scope, Send

_BACKLOG: Final = 4096
_AT_ONCE: Final = 100_000  # Requests at the same time; an open stream is one.


async def serve_with_granian(
    application: Callable[[Scope, Receive, Send], Awaitable[None]],
    listener: socket.socket,
    until: Callable[[], Awaitable[None]],
    drain: float,
) -> None:
    """Serve with granian in the running event loop, at the address of the listening socket, which is closed."""
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
