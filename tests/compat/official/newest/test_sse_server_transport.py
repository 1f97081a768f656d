"""`SseServerTransport` of the official SDK: the routes of its documentation serve its clients and ours."""

from __future__ import annotations

import asyncio
import json
from operator import attrgetter
from typing import Any
from uuid import UUID

import httpx2
import pytest
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from support.http.sockets import listening
from support.peers import clean, python_peer

from mcp_generated.compat import (
    ClientSession,
    Server,
    SseServerTransport,
    TransportSecuritySettings,
    sse_client,
    types,
)
from mcp_products.compat.streams.message import SessionMessage

OFFICIAL_CLIENT = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.sse import sse_client

async def main():
    async with sse_client(sys.argv[1]) as streams, ClientSession(*streams) as session:
        await session.initialize()
        result = await session.call_tool("add", {"a": 1, "b": 2})
        print(json.dumps(result.content[0].text))

asyncio.run(main())
"""


class Application:
    """The program of the official SDK's documentation, and what of it has ended."""

    def __init__(self, endpoint: str = "/messages/", prefix: str = "", **settings: Any) -> None:
        self.server: Any = Server("demo")
        self.transport = SseServerTransport(endpoint, **settings)
        self.ended = asyncio.Event()

        @self.server.list_tools()
        async def list_tools() -> list[types.Tool]:
            return [types.Tool(name="add", inputSchema={"type": "object"})]

        @self.server.call_tool()
        async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
            agent = self.server.request_context.request.headers["user-agent"]
            text = f"{arguments['a'] + arguments['b']} {'httpx' in agent}"
            return [types.TextContent(type="text", text=text)]

        async def handle_sse(request: Request) -> Response:
            async with self.transport.connect_sse(request.scope, request.receive, request._send) as streams:
                await self.server.run(streams[0], streams[1], self.server.create_initialization_options())
            self.ended.set()
            return Response()

        self._prefix = prefix
        self._stream = Route("/sse", endpoint=handle_sse, methods=["GET"])
        self.mount(Mount(endpoint, app=self.transport.handle_post_message))

    def mount(self, messages: Route | Mount) -> None:
        """Receive messages by a route."""
        routes = [self._stream, messages]
        self._app = Starlette(routes=[Mount(self._prefix, routes=routes)] if self._prefix else routes)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """End: the connections have ended with their clients."""


@pytest.mark.parametrize("endpoint", ["/messages/", "messages"])
@pytest.mark.parametrize("prefix", ["", "/api"])
async def test_a_session_of_ours_calls_a_tool(endpoint: str, prefix: str) -> None:
    app = Application(endpoint if endpoint.startswith("/") else f"/{endpoint}", prefix)
    async with listening(app) as port:
        url = f"http://127.0.0.1:{port}{prefix}/sse"
        async with sse_client(url) as streams, ClientSession(*streams) as session:
            await session.initialize()
            assert [tool.name for tool in (await session.list_tools()).tools] == ["add"]
            result: Any = await session.call_tool("add", {"a": 1, "b": 2})
            assert result.content[0].text == "3 True"
        await app.ended.wait()


async def test_a_framework_puts_messages_into_connections_itself() -> None:
    """Subclasses of the official transport receive the POSTs, and find the connection in a private table."""
    app = Application()
    writers = attrgetter("_read_stream_writers")(app.transport)
    message = TypeAdapter[Any](types.JSONRPCMessage)

    async def receive_message(request: Request) -> Response:
        writer = writers.get(UUID(hex=request.query_params["session_id"]))
        if writer is None:
            return Response(status_code=404)
        await writer.send(ValueError("is not a message"))
        await writer.send(SessionMessage(message.validate_json(await request.body())))
        return Response(status_code=202)

    app.mount(Route("/messages/", endpoint=receive_message, methods=["POST"]))
    async with listening(app) as port, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        async with sse_client(f"http://127.0.0.1:{port}/sse") as streams, ClientSession(*streams) as session:
            await session.initialize()
            result: Any = await session.call_tool("add", {"a": 1, "b": 2})
            assert result.content[0].text == "3 True"
        assert (await web.post(f"/messages/?session_id={'0' * 32}", content=b"{}")).status_code == 404


async def test_the_stream_names_its_charset_as_that_of_the_official_sdk() -> None:
    async with listening(Application()) as port, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        async with web.stream("GET", "/sse", headers={"accept": "text/event-stream"}) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"


@pytest.mark.long
@pytest.mark.parametrize("release", ["mcp==1.30.0", "mcp==2.3.0"])
async def test_the_official_client_calls_a_tool(release: str) -> None:
    async with listening(Application()) as port:
        command = [str(python_peer(release)), "-c", OFFICIAL_CLIENT, f"http://127.0.0.1:{port}/sse"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=clean())
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == "3 True"


async def test_other_hosts_long_bodies_and_unknown_sessions_are_refused() -> None:
    settings = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*"])
    app = Application(security_settings=settings, max_request_body_size=100)
    async with listening(app) as port, httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        json_type = {"content-type": "application/json"}
        unknown = await web.post("/messages/?session_id=1", content=b"{}", headers=json_type)
        other = await web.post("/messages/", content=b"{}", headers={**json_type, "host": "evil.example"})
        method = await web.get("/messages/")
        async with sse_client(f"http://127.0.0.1:{port}/sse") as streams, ClientSession(*streams) as session:
            with pytest.raises(Exception, match="413|longer"):
                await asyncio.wait_for(session.initialize(), 20)
    assert (unknown.status_code, other.status_code, method.status_code) == (404, 421, 405)


@pytest.mark.parametrize("endpoint", ["https://example.com/messages", "//example.com/", "/m?x=1", "/m#x"])
def test_what_is_no_path_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="write one such as '/messages/'"):
        SseServerTransport(endpoint)


async def test_what_is_no_http_request_is_refused() -> None:
    transport: Any = SseServerTransport("/messages/")
    with pytest.raises(ValueError, match="HTTP request"):
        async with transport.connect_sse({"type": "websocket"}, None, None):
            pytest.fail("it has been accepted")
