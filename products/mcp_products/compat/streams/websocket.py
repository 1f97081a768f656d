"""The WebSocket transport of the last 1.x, which the specification does not have: for programs that use it already."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp_runtime.errors import ConnectionClosedError, LocalError
from mcp_runtime.http.asgi import Receive, Scope, Send
from mcp_runtime.session.interfaces import Transport

from .bridges import streams_of
from .message import MessageStream

_PROTOCOL = "mcp"


@dataclass
class WebSocketTransport:
    """A transport over functions that send a text, receive one, and close the connection.

    `receive_text` returns None at the end of the connection.
    """

    send_text: Callable[[str], Awaitable[None]]
    receive_text: Callable[[], Awaitable[str | None]]
    close_connection: Callable[[], Awaitable[None]]
    close_reason = "the peer closed the connection"

    def __post_init__(self) -> None:
        self._unsent: list[bytes] = []

    def send(self, message: bytes, more: bool = False) -> None:
        """Keep a message for `drain`."""
        self._unsent.append(message)

    async def drain(self) -> None:
        """Send what is kept."""
        while self._unsent:
            await self.send_text(self._unsent.pop(0).decode())

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        text = await self.receive_text()
        return None if text is None else text.encode()

    async def close(self) -> None:
        """Close the connection."""
        await self.close_connection()


@asynccontextmanager
async def websocket_client(url: str) -> AsyncGenerator[MessageStream]:
    """Yield the streams of a server at a `ws://` URL. Needs the package `websockets`.

    Raises LocalError without it.
    """
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed
    except ModuleNotFoundError:
        raise LocalError("websocket_client() needs websockets: pip install websockets") from None

    async def start() -> Transport:
        socket: Any = await connect(url, subprotocols=[_PROTOCOL])  # type: ignore[list-item]

        async def receive() -> str | None:
            try:
                text = await socket.recv()
            except ConnectionClosed:
                return None
            return text if isinstance(text, str) else bytes(text).decode()

        async def send(text: str) -> None:
            try:
                await socket.send(text)
            except ConnectionClosed as error:
                raise ConnectionClosedError(str(error)) from None

        return WebSocketTransport(send, receive, socket.close)

    async with streams_of(start) as streams:
        yield streams


@asynccontextmanager
async def websocket_server(
    scope: Scope, receive: Receive, send: Send, security_settings: Any = None
) -> AsyncGenerator[MessageStream]:
    """Accept the connection of an ASGI scope, and yield its streams for `Server.run`.

    Raises ValueError for a scope of another kind, and LocalError for `security_settings`, which have no counterpart.
    """
    if scope["type"] != "websocket":
        raise ValueError("websocket_server(): this is not a WebSocket; add it as the endpoint of a WebSocketRoute")
    if security_settings is not None:
        raise LocalError("websocket_server(): security_settings have no counterpart; use streamable_http_app()")
    ends = False

    async def next_text() -> str | None:
        event = await receive()
        while event["type"] == "websocket.connect":
            event = await receive()
        if event["type"] == "websocket.disconnect":
            return None
        return event.get("text") or (event.get("bytes") or b"").decode()

    async def send_text(text: str) -> None:
        await send({"type": "websocket.send", "text": text})

    async def close() -> None:
        nonlocal ends
        if not ends:
            ends = True
            await send({"type": "websocket.close"})

    async def start() -> Transport:
        await send({"type": "websocket.accept", "subprotocol": _PROTOCOL})
        return WebSocketTransport(send_text, next_text, close)

    async with streams_of(start) as streams:
        yield streams
