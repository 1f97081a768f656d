"""How many of our functions one `tools/call` passes, from its bytes to the bytes of its result.

Each number is a ceiling: a change that makes a path longer needs a reason, and a shorter one lowers the number here.
The user's handler counts, the models that it makes do not. A coroutine that waits counts again when it goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx2
import pytest

import mcp_runtime
from mcp_generated import App
from mcp_generated import v2025_11_25 as handshake
from mcp_generated import v2026_07_28 as stateless
from mcp_products import fast as fast_paths
from mcp_products.fast.stdio import InlineSelector
from mcp_runtime.protocol import connection as events
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.models import PreSerialized
from mcp_runtime.session.interfaces import FORWARDING
from mcp_runtime.session.requests import PendingRequest
from mcp_runtime.transports.http_client.connection import HTTPOptions
from mcp_runtime.transports.stdio.pipes import PipeTransport

pytestmark = pytest.mark.skipif(not fast_paths.ENABLED, reason="the numbers are those of the fast paths")

RUNTIME = Path(mcp_runtime.__file__).parent
PRODUCTS = Path(fast_paths.__file__).parent.parent
OURS = (str(RUNTIME), str(PRODUCTS), str(Path(handshake.__file__).parent.parent))
# The event loop calls the selector once a turn, whatever there is to do.
EVENT_LOOP = str(PRODUCTS / "fast" / "stdio.py")
HANDLERS = ("call_tool", "add")
# The constructors of models and records do not count, written or generated: they only set attributes.
RECORDS = (*vars(events).values(), *vars(jsonrpc).values(), PendingRequest, PreSerialized)
CONSTRUCTORS = {"WireModel.__init__"} | {
    f"{record.__qualname__}.__init__" for record in RECORDS if isinstance(record, type) and hasattr(record, "__slots__")
}

HEADERS = [(b"host", b"localhost"), (b"accept", b"application/json, text/event-stream")]
HEADERS += [(b"content-type", b"application/json")]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


@pytest.fixture(autouse=True)
def no_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure without OpenTelemetry, which other tests of this process may have imported: trace context costs calls."""
    monkeypatch.delitem(sys.modules, "opentelemetry", raising=False)
    monkeypatch.delitem(sys.modules, "mcp_products.app.context.current", raising=False)  # `get_context` of others.
    monkeypatch.setattr(FORWARDING, "is_on", False)  # Other tests of this process may have a ClientLogHandler.
    for side in ("client", "server"):  # Or they may have set the level of all loggers to DEBUG.
        monkeypatch.setattr(logging.getLogger(f"mcp_runtime.{side}.calls"), "level", logging.WARNING)
        monkeypatch.setattr(logging.getLogger(f"mcp_runtime.{side}.calls"), "_cache", {})


class Trace:
    """The calls of our functions while it is open."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> Trace:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and (is_ours(code) or (code.co_filename == __file__ and code.co_name in HANDLERS)):
            self.calls.append(f"{Path(code.co_filename).name}: {code.co_qualname}")

    def assert_limit(self, ceiling: int) -> None:
        """Assert that no more than so many of our functions were called, and list them if there were more."""
        assert any("call_tool" in call or "add" in call for call in self.calls), "the tool was not called"
        assert len(self.calls) <= ceiling, f"{len(self.calls)} calls:\n" + "\n".join(self.calls)


def is_ours(code: CodeType) -> bool:
    """Return whether a function counts."""
    return code.co_filename.startswith(OURS) and code.co_filename != EVENT_LOOP and code.co_qualname not in CONSTRUCTORS


def server_of(package: Any) -> Any:
    """Return a server of a revision with one tool."""
    types = package.types

    class Server(package.Server):  # type: ignore[misc]
        async def list_tools(self, ctx: Any, params: Any) -> Any:
            return types.ListToolsResult(tools=[])

        async def call_tool(self, ctx: Any, params: Any) -> Any:
            return types.CallToolResult(content=[types.TextContent(text="3")])

    return Server(name="hops", version="1")


def message(method: str, params: dict[str, Any], id: int | None = None) -> bytes:
    """Return the bytes of a request, or of a notification where there is no id."""
    fields = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(fields if id is None else {**fields, "id": id}).encode()


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


def test_stdio() -> None:
    traces = [Trace() for _ in range(5)]  # A full pipe or a late reader costs a few calls more.

    async def run() -> None:
        to_server, from_client = os.pipe()
        to_client, from_server = os.pipe()
        transport = PipeTransport(to_server, from_server, readers=readers)
        serving = asyncio.create_task(server_of(handshake).serve(transport))

        async def read() -> bytes:
            return await asyncio.get_running_loop().run_in_executor(None, os.read, to_client, 65536)

        async def request(id: int) -> Any:
            await asyncio.sleep(0.05)
            os.write(from_client, message("tools/call", {"name": "add", "arguments": {}}, id) + b"\n")
            return json.loads(await read())

        os.write(from_client, message("initialize", HELLO, 0) + b"\n")
        await read()
        os.write(from_client, message("notifications/initialized", {}) + b"\n")
        for id in range(1, 4):
            assert "result" in await request(id)
        for id, trace in enumerate(traces, 9):
            with trace:
                await request(id)
        os.close(from_client)
        await serving
        os.close(to_client)

    readers = InlineSelector(False)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(readers)) as runner:
        runner.run(run())
    min(traces, key=lambda trace: len(trace.calls)).assert_limit(24)


async def post(app: Any, body: bytes, *headers: tuple[bytes, bytes]) -> tuple[dict[bytes, bytes], bytes]:
    """Send one POST to an ASGI application in process; return the headers and the body of its response."""
    parts = [{"type": "http.request", "body": body}]
    sent: list[Any] = []

    async def receive() -> Any:
        if parts:
            return parts.pop()
        await asyncio.Event().wait()

    async def send(event: Any) -> None:
        sent.append(event)

    await app(
        {"type": "http", "method": "POST", "path": "/mcp", "headers": [*HEADERS, *headers], "query_string": b""},
        receive,
        send,
    )
    return dict(sent[0]["headers"]), b"".join(event.get("body", b"") for event in sent)


async def traced(request: Callable[[int], Awaitable[Any]]) -> Trace:
    """Return the calls of one request after a few like it."""
    for id in range(1, 4):
        await request(id)
    with (trace := Trace()):
        await request(9)
    return trace


async def test_http_with_a_session() -> None:
    app = server_of(handshake).asgi(revisions=["2025-11-25"])
    headers, _ = await post(app, message("initialize", HELLO, 0))
    session = (b"mcp-session-id", headers[b"mcp-session-id"])
    version = (b"mcp-protocol-version", b"2025-11-25")
    await post(app, message("notifications/initialized", {}), session, version)

    async def request(id: int) -> None:
        _, body = await post(app, message("tools/call", {"name": "add", "arguments": {}}, id), session, version)
        assert b'"text":"3"' in body

    trace = await traced(request)
    await app.close()
    trace.assert_limit(34)


async def call_stateless(app: Any, id: int) -> bytes:
    """Call a tool without a session."""
    head = [(b"mcp-protocol-version", b"2026-07-28"), (b"mcp-method", b"tools/call"), (b"mcp-name", b"add")]
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    return (await post(app, message("tools/call", params, id), *head))[1]


async def test_stateless_http() -> None:
    app = server_of(stateless).asgi(revisions=["2026-07-28"])

    async def request(id: int) -> None:
        assert b'"text":"3"' in await call_stateless(app, id)

    trace = await traced(request)
    await app.close()
    trace.assert_limit(40)


async def test_an_app() -> None:
    app = App("hops")

    @app.tool()
    async def add(a: int, b: int) -> str:
        return str(a + b)

    asgi = app.asgi()

    async def request(id: int) -> None:
        assert b'"text":"3"' in await call_stateless(asgi, id)

    trace = await traced(request)
    await asgi.close()
    trace.assert_limit(51)


async def test_a_plain_function_of_an_app_in_an_older_version() -> None:
    app = App("hops")

    @app.tool()
    def add(a: int, b: int) -> str:
        return str(a + b)

    asgi = app.asgi()
    headers, _ = await post(asgi, message("initialize", HELLO, 0))
    session = (b"mcp-session-id", headers[b"mcp-session-id"])
    version = (b"mcp-protocol-version", b"2025-11-25")
    await post(asgi, message("notifications/initialized", {}), session, version)
    traces = [Trace() for _ in range(20)]  # Some calls wait longer for the thread than the event loop does.
    for id, trace in enumerate(traces):
        body = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, id)
        with trace:
            assert b'"text":"3"' in (await post(asgi, body, session, version))[1]
        await asyncio.sleep(0)
    await asgi.close()
    shortest = min(traces, key=lambda trace: len(trace.calls))
    shortest.calls.append("add, in its thread")
    shortest.assert_limit(69)


class Body(httpx2.AsyncByteStream):
    """The body of a response in one piece."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


async def test_a_client_over_http() -> None:
    """The server is a fixed response, so only the client's functions count."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        sent = json.loads(request.content)
        result = {"resultType": "complete", "content": [{"type": "text", "text": "3"}]}
        if sent["method"] == "server/discover":
            capabilities = {"tools": {}}
            result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            result |= {"serverInfo": {"name": "fixed", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}
        if sent["method"] == "tools/list":
            result = {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "private"}
        body = json.dumps({"jsonrpc": "2.0", "id": sent["id"], "result": result}).encode()
        return httpx2.Response(200, headers={"content-type": "application/json"}, stream=Body(body))

    web = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
    async with web, stateless.Client.http("http://localhost/mcp", http=HTTPOptions(client=web)) as client:

        async def request(_: int) -> None:
            result = await client.call_tool(name="add", arguments={"a": 1, "b": 2})
            assert result.content[0].text == "3"  # type: ignore[union-attr]

        trace = await traced(request)
    trace.assert_limit(62)  # Two of them send a request again that the server has not begun with.
