"""A server goes in, and what connects a client to it over HTTP comes out: in process, or on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from uvicorn.server import ServerState

from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import Transport
from mcp_runtime.transports.http_client.connection import HTTPOptions
from mcp_runtime.transports.http_client.transport import HTTPClientTransport


class _Stream(httpx2.AsyncByteStream):
    """What an application sends after the head of its answer. Whoever closes it has left."""

    def __init__(
        self, parts: asyncio.Queue[bytes | None], disconnected: asyncio.Event, task: asyncio.Task[None]
    ) -> None:
        self._parts, self._disconnected, self._task = parts, disconnected, task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part

    async def aclose(self) -> None:
        self._disconnected.set()
        await asyncio.wait([self._task])


class InProcess(httpx2.AsyncBaseTransport):
    """Asks an application, each request in a task of its own."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body, body_sent, disconnected = await request.aread(), False, asyncio.Event()
        started: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def receive() -> dict[str, Any]:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": body}
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.set_result(message)
            elif message.get("body"):
                parts.put_nowait(message["body"])

        async def answer() -> None:
            try:
                await self._app(scope, receive, send)
            finally:
                parts.put_nowait(None)
                if not started.done():
                    started.set_exception(httpx2.RemoteProtocolError("the application sent no answer"))

        headers = [(name.lower(), value) for name, value in request.headers.raw]
        target = request.url.raw_path.partition(b"?")
        scope = {
            "type": "http",
            "method": request.method,
            "path": target[0].decode(),
            "query_string": target[2],
            "headers": headers,
        }
        task = asyncio.create_task(answer())
        try:
            head = await started
        except asyncio.CancelledError:
            disconnected.set()
            raise
        return httpx2.Response(head["status"], headers=head["headers"], stream=_Stream(parts, disconnected, task))


def asking(app: Any) -> httpx2.AsyncClient:
    """A client of an application."""
    return httpx2.AsyncClient(transport=InProcess(app), base_url="http://localhost")


def connecting(server: Any, revision: Revision) -> Callable[[], Awaitable[Transport]]:
    """What connects a client of this revision to a server, over HTTP in process."""

    @asynccontextmanager
    async def reached(app: Any) -> AsyncIterator[tuple[str, HTTPOptions]]:
        yield "http://localhost", HTTPOptions(client=asking(app))

    return _connecting(server, revision, reached)


def connecting_by_socket(server: Any, revision: Revision) -> Callable[[], Awaitable[Transport]]:
    """What connects a client of this revision to a server, over HTTP on a real socket."""

    @asynccontextmanager
    async def reached(app: Any) -> AsyncIterator[tuple[str, HTTPOptions]]:
        async with served_in_process(app) as port:
            yield f"http://127.0.0.1:{port}", HTTPOptions()

    return _connecting(server, revision, reached)


Reached = Callable[[Any], AbstractAsyncContextManager[tuple[str, HTTPOptions]]]


def _connecting(server: Any, revision: Revision, reached: Reached) -> Callable[[], Awaitable[Transport]]:
    async def start() -> Transport:
        app = server.asgi(revisions=[revision.id], legacy_sse=True)
        stack = AsyncExitStack()
        url, reach = await stack.enter_async_context(reached(app))
        path = "/mcp" if revision.http.streamable else "/sse"
        transport: Any = HTTPClientTransport(url + path, revision, reach)
        close = transport.close

        async def closing() -> None:
            await close()
            await app.close()
            await stack.aclose()

        transport.close = closing
        return transport  # type: ignore[no-any-return]

    return start


@asynccontextmanager
async def served_in_process(app: Any) -> AsyncIterator[int]:
    """The port at which uvicorn's parser reads for an application, without the rest of uvicorn, which takes its time
    to begin and to end."""
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    state = ServerState()

    def protocol() -> asyncio.Protocol:
        http_protocol: asyncio.Protocol = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]
        return http_protocol

    listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=10)
