"""Connections of uvicorn's class for httptools and of ours, without sockets: what they write is recorded."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mcp_products.fast.http import observed
from mcp_products.hosting.limits import ServerConnections
from mcp_runtime.transports.http_server.limits import HTTPLimits


class Transport(asyncio.Transport):
    """A connection that records what is written to it, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    @property
    def written(self) -> bytes:
        """All that was written."""
        return b"".join(self.writes)


class RecordedEndpoint:
    """An application, and connections to it of two classes: uvicorn's and ours."""

    def __init__(self, asgi: Any, **settings: Any) -> None:
        self.asgi = asgi
        self.config = Config(self.asgi, server_header=False, date_header=False, **{"log_level": "warning", **settings})
        self.config.load()
        self.connections = ServerConnections(HTTPLimits())
        self.classes = {"uvicorn": HttpToolsProtocol, "ours": observed(HttpToolsProtocol, self.connections)}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.asgi.close()
        await self.connections.close()

    def connect(self, kind: str = "ours") -> tuple[Any, Transport, ServerState]:
        """Return a new connection of a class, what it writes to, and the state of its server."""
        state, transport = ServerState(), Transport()
        state.default_headers = self.config.encoded_headers
        connection = self.classes[kind](config=self.config, server_state=state, app_state={})
        connection.connection_made(transport)
        return connection, transport, state


def unchunked(data: bytes) -> tuple[bytes, bytes]:
    """Return the head and the body of a response in chunks."""
    head, _, rest = data.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return head, body
