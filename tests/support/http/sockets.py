"""ASGI applications served on a real socket, and proxies that cut, hold back or drop connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from support.endpoints import Rev
from support.http.asgi_client import BOTH
from support.installation.extras import optional

from mcp_products.hosting.run import listen
from mcp_runtime.http.sse import ServerSentEvent, SSEDecoder

if TYPE_CHECKING:
    import httpx2
    import uvicorn
else:
    httpx2, uvicorn = optional("httpx2"), optional("uvicorn")

Bytes = int


@asynccontextmanager
async def listening(app: Any, port: int = 0, **settings: Any) -> AsyncIterator[int]:
    """The port at which uvicorn serves an application."""
    with listen("127.0.0.1", port) as bound:
        config = uvicorn.Config(app, log_level="error", lifespan="off", **settings)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([bound]))
        try:
            yield int(bound.getsockname()[1])
        finally:
            await app.close()
            server.should_exit = True
            await serving


@dataclass
class Proxy:
    """Passes TCP on to a port. `allowed` says after how many bytes of the server's a connection is cut, None for
    never; a connection on which the server was silent for `idle` seconds is cut too; with `buffers`, what the server
    says is passed on when it has ended its connection, all at once."""

    to: int
    allowed: Callable[[], Bytes | None] = lambda: None
    idle: float | None = None
    buffers: bool = False
    port: int = 0
    cuts: int = 0
    passed: int = 0  # Parts that the server said.
    open: dict[asyncio.StreamWriter, bytes] = field(default_factory=dict)  # With what their clients said last.

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open[writer] = b""
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection("127.0.0.1", self.to)
            up = asyncio.create_task(self._pass(reader, upstream, writer))
            down = asyncio.create_task(self._answer(answers, writer))
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
        except ConnectionError:
            pass  # The server is away, as some tests want it to be.
        finally:
            self.open.pop(writer, None)
            for stream in (writer, upstream):
                if stream is not None:
                    stream.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        while part := await reader.read(65536):
            self.open[client] = part
            writer.write(part)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        remaining = self.allowed()
        held = b""
        while remaining is None or remaining > 0:
            try:
                part = await asyncio.wait_for(
                    reader.read(65536 if remaining is None else min(remaining, 65536)), self.idle
                )
            except TimeoutError:
                self.cuts += 1
                return
            if not part:
                writer.write(held)
                await flushed(writer)
                return
            if remaining is not None:
                remaining -= len(part)
            self.passed += 1
            if self.buffers:
                held += part
            else:
                writer.write(part)
                await writer.drain()
        self.cuts += 1
        await flushed(writer)

    def cut(self, data: bytes = b"") -> int:
        """Cut the connections whose clients said this last. How many there were."""
        writers = [writer for writer, last in self.open.items() if data in last]
        for writer in writers:
            writer.transport.abort()
        return len(writers)


async def flushed(writer: asyncio.StreamWriter) -> None:
    """Send what was written, and the end."""
    with contextlib.suppress(ConnectionError):
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def proxied(proxy: Proxy) -> AsyncIterator[str]:
    """The URL of an endpoint behind a proxy."""
    server = await asyncio.start_server(proxy.connected, "127.0.0.1", 0, backlog=2048)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{proxy.port}/mcp"
    finally:
        server.close()
        proxy.cut()


@dataclass
class Caller:
    """A client on a real socket that knows HTTP and events, and nothing of the protocol but its headers."""

    rev: Rev
    url: str
    http: httpx2.AsyncClient
    session: str | None = None

    async def open(self, url: str) -> None:
        """Open a session over another way to the same server."""
        hello = {"protocolVersion": self.rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        opened = await self.http.post(url, json=self.rev.request(0, "initialize", hello), headers={"accept": BOTH})
        self.session = opened.headers["mcp-session-id"]
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.http.post(url, json=notification, headers=self.headers)).status_code == 202

    @property
    def headers(self) -> dict[str, str]:
        named = {} if self.session is None else {"mcp-session-id": self.session}
        return {"accept": BOTH, "mcp-protocol-version": self.rev.id, "connection": "close", **named}

    async def follow(self, method: str, url: str, after: str = "", body: Any = None) -> list[ServerSentEvent]:
        """The events of one connection, until its end or until it is cut; `after` is where to resume."""
        last = {"last-event-id": after} if after else {}
        events = SSEDecoder()
        received: list[ServerSentEvent] = []
        try:
            async with self.http.stream(method, url, json=body, headers=self.headers | last) as answer:
                assert answer.status_code == 200, await answer.aread()
                async for part in answer.aiter_raw():
                    received += events.feed(part)
        except httpx2.TransportError:
            pass  # It was cut.
        return received

    async def whole(self, body: Any) -> list[Any]:
        """All messages of an exchange, resumed as often as its connection is cut."""
        messages, last = list[Any](), ""
        while not (messages and "id" in messages[-1]):
            received = await self.follow("GET" if last else "POST", self.url, last, None if last else body)
            assert last or received, "the connection was cut before its first event"
            messages += [json.loads(event.data) for event in received if event.data]
            last = received[-1].id if received else last
        return messages
