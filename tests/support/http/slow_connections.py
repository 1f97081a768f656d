"""A server of the test's event loop as `run("http")` makes it, and raw connections that read or do not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.clock import LoopClock
from support.endpoints import HANDSHAKE, STATELESS, Rev
from support.feature_cells.bridge.bridge_processes import with_our_packages
from support.processes import free_port

from mcp_generated import App, Context, Gateway
from mcp_generated.http import HTTPLimits
from mcp_products.hosting.run import serve_http
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import BridgeSettings
from mcp_products.relay.upstream.target import target_of_entry

REV = STATELESS[-1]
LARGE = 9_000_000  # Bytes of a response; sockets of both ends hold several megabytes.


def app() -> App:
    served = App("attacked")

    @served.tool()
    def echo(text: str) -> str:
        return text

    @served.tool()
    def large(half: bool = True) -> str:
        return "x" * (LARGE // 2 if half else LARGE)  # Since 2025-06-18 the result has it twice.

    @served.tool()
    async def stream(ctx: Context) -> str:
        for step in range(LARGE // 100_000):
            await ctx.report_progress(step, message="x" * 100_000)
            await asyncio.sleep(0)
        return "read"

    @served.tool()
    async def wait(ctx: Context) -> str:
        await ctx.report_progress(1)
        await asyncio.Event().wait()
        return "never"

    @served.custom_route("/upload", methods=["POST"])
    async def upload(request: Any) -> Any:
        from starlette.responses import JSONResponse

        return JSONResponse(len(await request.body()))

    return served


class Requests:
    """The requests of a client of one revision, in its session where there are sessions. Each call has another id."""

    def __init__(self, rev: Rev) -> None:
        self.rev = rev
        self.path = "/mcp"  # Over HTTP+SSE each conversation has its own.
        self.session: str | None = None
        self._last = 0

    def of(self, message: dict[str, Any], padding: int = 0) -> tuple[bytes, bytes]:
        """The head and the body of a message; with padding, the Content-Length is larger than the body."""
        body = json.dumps(message).encode()
        lines = [
            f"POST {self.path} HTTP/1.1",
            "host: 127.0.0.1",
            "accept: application/json, text/event-stream",
            "content-type: application/json",
            f"content-length: {len(body) + padding}",
        ]
        if self.rev.stateless:
            lines += [f"mcp-method: {message['method']}", f"mcp-name: {message['params']['name']}"]
        if self.session is not None:
            lines.append(f"mcp-session-id: {self.session}")
        if self.rev.stateless or (self.session is not None and self.rev.id >= "2025-06-18"):
            lines.append(f"mcp-protocol-version: {self.rev.id}")
        return "\r\n".join([*lines, "", ""]).encode(), body

    def call(self, tool: str, arguments: dict[str, Any] | None = None, padding: int = 0) -> tuple[bytes, bytes]:
        """The head and the body of a call; with padding, the Content-Length is larger than the body."""
        self._last += 1
        if tool == "large" and self.rev.id < "2025-06-18":
            arguments = {"half": False}
        params = {"name": tool, "arguments": arguments or {}, "_meta": {"progressToken": self._last}}
        return self.of(self.rev.request(self._last, "tools/call", params), padding)

    def echo(self) -> bytes:
        return b"".join(self.call("echo", {"text": "hi"}))

    def incomplete(self, path: str = "/mcp") -> bytes:
        """A request of which ten bytes are missing."""
        head, body = self.call("echo", {"text": "hi"}, padding=10)
        return head.replace(b"/mcp", path.encode()) + body


call, echo, incomplete = (own := Requests(REV)).call, own.echo, own.incomplete


class ClockedServer:
    """A server of this event loop, the clock of which can be set forward, and what its client requests."""

    def __init__(self, port: int, rev: Rev) -> None:
        self.port = port
        self.clock = LoopClock()
        self.requests = Requests(rev)

    async def open(self) -> None:
        """Open the session of the client, where there are sessions."""
        rev = self.requests.rev
        if rev.stateless:
            return
        info = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        with await self.connect() as raw:
            await raw.send(b"".join(self.requests.of(rev.request("hello", "initialize", info))))
            found = re.search(rb"(?i)mcp-session-id: (\S+)", await raw.until(b"serverInfo"))
            assert found is not None, raw.received
            self.requests.session = found[1].decode()
        with await self.connect() as raw:
            await raw.send(b"".join(self.requests.of({"jsonrpc": "2.0", "method": "notifications/initialized"})))
            assert b" 202 " in await raw.until(b"\r\n")

    async def converse(self, buffer: int | None = None) -> Conversation:
        """Open a conversation over HTTP+SSE: a stream with this receive buffer, and posts."""
        conversation = Conversation(self, await self.connect(buffer=buffer))
        await conversation.open()
        return conversation

    async def connect(self, address: str = "127.0.0.1", buffer: int | None = None) -> RawSocket:
        sock = socket.socket()
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        sock.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return RawSocket(sock)

    async def pass_time(self, seconds: float) -> None:
        """Let so many seconds pass, and the server notice each of them."""
        for _ in range(round(seconds)):
            self.clock.forward(1)
            for _ in range(5):
                await asyncio.sleep(0)

    async def serves(self, address: str = "127.0.0.1") -> bool:
        """Whether another client's call is answered."""
        with await self.connect(address) as other:
            await other.send(self.requests.echo())
            return b'"hi"' in await other.until(b'"hi"')


class RawSocket:
    """A connection that reads only when it is told to."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = b""

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def read(self) -> bool:
        """Read what has come; return False at the end of the connection."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self.sock, 2**20)
        except ConnectionError:
            return False
        self.received += data
        return bool(data)

    async def until(self, text: bytes) -> bytes:
        """What has come by the time that a text or the end has."""
        while text not in self.received and await self.read():
            pass
        return self.received

    async def ends(self, most: int | None = None) -> bytes:
        """What comes until the server ends the connection, or, of one that may stay open, until it is so many bytes."""
        while (most is None or len(self.received) < most) and await self.read():
            pass
        return self.received

    async def is_open(self) -> bool:
        """Whether the server has ended the connection, after all that has arrived is read."""
        while True:
            try:
                data = self.sock.recv(65_536)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            self.received += data


class Conversation:
    """A client of HTTP+SSE: a stream that is read when it is told to, and posts on connections of their own."""

    def __init__(self, server: ClockedServer, stream: RawSocket) -> None:
        self.server = server
        self.stream = stream
        self.requests = Requests(server.requests.rev)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.sock.close()

    async def open(self) -> None:
        """Get the path of the posts, and shake hands."""
        await self.stream.send(b"GET /sse HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n")
        while (found := re.search(rb"data: ?(\S+)\r?\n\r?\n", self.stream.received)) is None:
            assert await self.stream.read(), self.stream.received
        self.requests.path = found[1].decode()
        info: dict[str, Any] = {"protocolVersion": self.requests.rev.id, "capabilities": {}}
        hello = {**info, "clientInfo": {"name": "raw", "version": "1"}}
        await self.post(b"".join(self.requests.of(self.requests.rev.request("hello", "initialize", hello))))
        while b"serverInfo" not in self.stream.received:  # A relay may say that its server has not started in time.
            assert b'"error"' not in self.stream.received and await self.stream.read(), self.stream.received
        await self.post(b"".join(self.requests.of({"jsonrpc": "2.0", "method": "notifications/initialized"})))

    async def post(self, data: bytes) -> None:
        """Post a message, which is accepted."""
        with await self.server.connect() as raw:
            await raw.send(data)
            assert b" 202 " in await raw.until(b"\r\n")

    async def answers(self) -> bool:
        """Whether a call is answered on the stream."""
        before = self.stream.received.count(b'"hi"')
        errors = self.stream.received.count(b'"error"')
        await self.post(self.requests.echo())
        while self.stream.received.count(b'"hi"') == before:
            if self.stream.received.count(b'"error"') > errors or not await self.stream.read():
                return False
        return True


def _running(
    kind: str, port: int, limits: HTTPLimits, settings: dict[str, Any], legacy_sse: bool
) -> Coroutine[Any, Any, None]:
    """Serve the app itself, or a relay before it, whose upstream is the app in a process of its own."""
    if kind == "server":
        return app().run_async("http", port=port, limits=limits, uvicorn=settings, legacy_sse=legacy_sse)
    command = with_our_packages(sys.executable, "-c", "from support.http.slow_connections import app; app().run()")
    entry = {"command": command[0], "args": command[1:], "env": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    if kind == "gateway":
        gateway = Gateway({"upstreams": {"attacked": {**entry, "prefix": "", "max_bytes": 4 * LARGE}}})
        running: Coroutine[Any, Any, None] = gateway.app.run_async(
            "http", port=port, limits=limits, uvicorn=settings, legacy_sse=legacy_sse
        )
        return running
    target = replace(target_of_entry(entry), max_bytes=4 * LARGE)
    services = Bridge(target, "mcp_generated", BridgeSettings()).services()
    return serve_http(services, port=port, limits=limits, uvicorn=settings, legacy_sse=legacy_sse)


@asynccontextmanager
async def server(
    parser: str, tls: tuple[Path, Path] | None = None, kind: str = "server", rev: Rev = REV, **limits: Any
) -> AsyncIterator[ClockedServer]:
    """A server, a bridge or a gateway as `run("http")` makes it, with TLS if there is a certificate and its key, and a
    session of a client where there are sessions. The oldest revision is served over HTTP+SSE, by `converse`."""
    port = free_port()
    settings: dict[str, Any] = {"http": parser, "timeout_graceful_shutdown": 0}
    if tls is not None:
        settings |= {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    over_sse = rev is HANDSHAKE[0]
    serving = asyncio.ensure_future(_running(kind, port, HTTPLimits(**limits), settings, over_sse))
    running_server = ClockedServer(port, rev)
    try:
        while True:
            with contextlib.suppress(OSError):
                (await running_server.connect()).sock.close()
                break
            await asyncio.sleep(0.001)
        for _ in range(5):  # `create_server` listens before it returns, and the server has started after that.
            await asyncio.sleep(0)
        if tls is None and not over_sse:
            await running_server.open()
        yield running_server
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
