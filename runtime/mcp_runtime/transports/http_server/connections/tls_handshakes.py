"""A deadline for TLS handshakes: uvicorn sees a connection when its handshake is complete, and sets none itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from uvicorn import Server


def with_handshake_deadline(server_class: type[Server], seconds: float) -> type[Server]:
    """Return a class of servers that cut a connection whose TLS handshake takes longer than so many seconds."""

    async def startup(self: Server, sockets: list[socket.socket] | None = None) -> None:
        with _handshake_deadline(seconds):
            await server_class.startup(self, sockets)

    return type(f"TLS{server_class.__name__}", (server_class,), {"startup": startup})


@contextmanager
def _handshake_deadline(seconds: float) -> Generator[None, None, None]:
    """Let the servers with TLS that the running event loop creates meanwhile cut a handshake after so many seconds."""
    loop = cast(Any, asyncio.get_running_loop())
    create_server = loop.create_server

    async def create_with_deadline(*arguments: Any, **settings: Any) -> asyncio.Server:
        if settings.get("ssl") is not None:
            settings.setdefault("ssl_handshake_timeout", seconds)
        server: asyncio.Server = await create_server(*arguments, **settings)
        return server

    loop.create_server = create_with_deadline
    try:
        yield
    finally:
        del loop.create_server
