"""What connects a client to a server over the transports of `examples/transports`, which users write themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any


def connecting_by(kind: str, server: Any) -> Callable[[], Awaitable[Any]]:
    """What connects a client to a server over "unix" or "websocket"; the server listens until the client closes."""
    if kind == "websocket":
        import_module("websockets")

    async def start() -> Any:
        stack = AsyncExitStack()
        if kind == "unix":
            example = import_module("unix_socket")
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "socket"
            await stack.enter_async_context(example.listening_at(path, [server]))
            connect = example.unix_connector(path)
        else:
            example = import_module("web_socket")
            port = await stack.enter_async_context(example.listening_at("127.0.0.1", 0, [server]))
            connect = example.websocket_connector(f"ws://127.0.0.1:{port}")
        transport = await connect()
        close = transport.close

        async def close_all() -> None:
            await close()
            await stack.aclose()

        transport.close = close_all
        return transport

    return start
