"""Serve an ASGI application with hypercorn."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from ....http.asgi import Receive, Scope, Send


async def serve_with_hypercorn(
    application: Callable[[Scope, Receive, Send], Awaitable[None]],
    listener: socket.socket,
    until: Callable[[], Awaitable[None]],
    drain: float,
) -> None:
    """Serve with hypercorn in the running event loop."""
    hypercorn: Any = import_module("hypercorn.asyncio")  # Without types: it is not installed where ours are checked.
    config = hypercorn.Config()
    config.bind = [f"fd://{os.dup(listener.fileno())}"]  # hypercorn closes its own.
    config.include_server_header = False
    config.loglevel = "WARNING"
    config.graceful_timeout = drain
    await hypercorn.serve(application, config, shutdown_trigger=until, mode="asgi")
