"""A client with a session and its stream, over a connection whose bytes are recorded."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, Self

from support.other_servers.recorded_connections import RecordedEndpoint

from mcp_generated import App
from mcp_runtime.transports.http_server.app import HTTPLimits

VERSION = "2025-11-25"


def head(method: str, session: str = "", *lines: str) -> bytes:
    """Return the head of a request."""
    named = [f"mcp-session-id: {session}", f"mcp-protocol-version: {VERSION}"] if session else []
    accept = "accept: application/json, text/event-stream"
    return "\r\n".join([f"{method} /mcp HTTP/1.1", "host: localhost", accept, *named, *lines, "", ""]).encode()


def post(message: dict[str, Any], session: str = "") -> bytes:
    """Return a POST of a message."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return head("POST", session, "content-type: application/json", f"content-length: {len(body)}") + body


def ping(number: int, session: str) -> bytes:
    return post({"id": number, "method": "ping"}, session)


HELLO = {
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


async def until(is_true: Callable[[], object]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(10):
        while not is_true():
            await asyncio.sleep(0)


async def settled() -> None:
    """Let all be done that can be done now."""
    for _ in range(20):
        await asyncio.sleep(0)


class Listening(RecordedEndpoint):
    """A server, and a client of it with a stream that waits."""

    def __init__(self, kind: str = "ours", keep_alive: float = 100.0, lines: tuple[str, ...] = (), **settings: Any):
        app = App("held")

        @app.tool
        def echo(text: str) -> str:
            return text

        super().__init__(app.asgi(path="/mcp", limits=HTTPLimits(keep_alive=keep_alive)), **settings)
        self.app = app
        self.kind = kind
        self.lines = lines

    async def __aenter__(self) -> Self:
        self.session = await self.open()
        self.reconnect()
        await self.listen()
        return self

    def reconnect(self) -> None:
        """Use a new connection from now on."""
        connection, transport, state = self.connect(self.kind)
        self.connection = connection
        self.transport = transport
        self.state = state

    async def open(self) -> str:
        """Open a session, and return its id."""
        connection, transport, state = self.connect(self.kind)
        connection.data_received(post(HELLO))
        await until(lambda: state.total_requests == 1)
        session = re.search(rb"mcp-session-id: (\S+)", transport.written)
        assert session is not None
        connection.data_received(post({"method": "notifications/initialized"}, session[1].decode()))
        await until(lambda: state.total_requests == 2 and not state.tasks)
        self.leave(connection, transport)
        return session[1].decode()

    async def listen(self) -> None:
        """Open the stream."""
        self.connection.data_received(head("GET", self.session, *self.lines))
        await until(lambda: b"retry" in self.transport.written)
        await settled()

    def leave(self, connection: Any, transport: Any) -> None:
        transport.close()
        connection.connection_lost(None)

    async def change(self) -> None:
        """Announce a change."""
        await self.app.server.notify_tool_list_changed()
        await settled()

    async def end_session(self) -> None:
        """Send a DELETE on another connection."""
        connection, transport, state = self.connect(self.kind)
        connection.data_received(head("DELETE", self.session))
        await until(lambda: state.total_requests == 1)
        assert transport.written.startswith(b"HTTP/1.1 204 ")
        self.leave(connection, transport)
        await settled()
