"""HTTP settings of the official SDK do what they say: event stores, retry intervals, hosts and origins."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from mcp_generated import App, Context
from mcp_generated.compat import (
    EventMessage,
    EventStore,
    FastMCP,
    MCPServer,
    Server,
    StreamableHTTPSessionManager,
    TransportSecuritySettings,
    types,
)
from mcp_generated.http import InMemoryEventStore

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "count", "arguments": {}, "_meta": {"progressToken": "p"}},
}


class Events(EventStore):
    """An event store as the examples of the official SDK write it."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        await asyncio.sleep(0)
        self.messages.append((stream_id, message))
        return str(len(self.messages))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        for number, (_, message) in enumerate(self.messages[int(last_event_id) :]):
            await send_callback(EventMessage(message, str(number)))
        return None


def served(kind: str, **settings: Any) -> Any:
    """Return an ASGI application with a tool that reports progress three times."""
    if kind == "Server":
        server: Any = Server("demo")

        @server.list_tools()
        async def list_tools() -> list[types.Tool]:
            return []

        @server.call_tool()
        async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
            for number in range(3):
                await server.request_context.session.send_progress_notification("p", number + 1)
            return [types.TextContent(type="text", text="done")]

        return server.streamable_http_app(**settings)
    at_constructor = kind in ("FastMCP", "App")
    app: Any = {"FastMCP": FastMCP, "MCPServer": MCPServer, "App": App}[kind](
        "demo", **(settings if at_constructor else {})
    )

    @app.tool()
    async def count(ctx: Context) -> str:
        for number in range(3):
            await ctx.report_progress(number + 1)
        return "done"

    return app.streamable_http_app(**({} if at_constructor else settings))


KINDS = ("FastMCP", "MCPServer", "Server")


async def post(application: Any, *messages: dict[str, Any], **headers: str) -> list[httpx2.Response]:
    """Return the responses to messages of one session."""
    responses: list[httpx2.Response] = []
    own = {**HEADERS, **headers}
    async with application.router.lifespan_context(application):
        transport = httpx2.ASGITransport(app=application)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            for message in messages:
                responses.append(await client.post("/mcp", json=message, headers=own))
                if "mcp-session-id" in responses[-1].headers:
                    own["mcp-session-id"] = responses[-1].headers["mcp-session-id"]
    return responses


@pytest.mark.parametrize("kind", KINDS)
async def test_an_event_store_gets_the_messages_of_streams_in_order(kind: str) -> None:
    store = Events()
    responses = await post(served(kind, event_store=store), INITIALIZE, INITIALIZED, CALL)
    assert [response.status_code for response in responses] == [200, 202, 200]
    messages = [message.model_dump() for _, message in store.messages]
    assert [message["params"]["progress"] for message in messages[:3]] == [1, 2, 3]
    assert messages[3]["result"]["content"][0]["text"] == "done"
    assert len({stream for stream, _ in store.messages}) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_an_event_store_of_this_package_is_taken_as_well(kind: str) -> None:
    class Counting(InMemoryEventStore):
        count = 0

        def add(self, stream: str, number: int, message: bytes) -> None:
            self.count += 1
            super().add(stream, number, message)

    store = Counting()
    await post(served(kind, event_store=store), INITIALIZE, INITIALIZED, CALL)
    assert store.count == 4


async def test_a_session_manager_passes_on_its_event_store_and_its_interval() -> None:
    store = Events()
    server: Any = Server("demo")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return []

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        await server.request_context.session.send_progress_notification("p", 1)
        return [types.TextContent(type="text", text="done")]

    manager = StreamableHTTPSessionManager(server, store, retry_interval=321)
    async with manager.run():
        transport = httpx2.ASGITransport(app=manager)  # type: ignore[arg-type]
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            first = await client.post("/mcp", json=INITIALIZE, headers=HEADERS)
            own = {**HEADERS, "mcp-session-id": first.headers["mcp-session-id"]}
            await client.post("/mcp", json=INITIALIZED, headers=own)
            answer = await client.post("/mcp", json=CALL, headers=own)
    assert "retry: 321" in answer.text and len(store.messages) == 2


@pytest.mark.parametrize("kind", [*KINDS, "App"])
async def test_a_retry_interval_reaches_the_client(kind: str) -> None:
    [*_, answer] = await post(served(kind, retry_interval=123), INITIALIZE, INITIALIZED, CALL)
    assert "retry: 123" in answer.text


@pytest.mark.parametrize("kind", KINDS)
async def test_hosts_and_origins_of_transport_security_are_those_that_are_served(kind: str) -> None:
    security = TransportSecuritySettings(allowed_hosts=["shop.example:*"], allowed_origins=["https://shop.example"])
    statuses = [
        (await post(served(kind, transport_security=security), INITIALIZE, **headers))[0].status_code
        for headers in (
            {"host": "shop.example:8080"},
            {"host": "shop.example", "origin": "https://shop.example"},
            {"host": "other.example"},
            {"host": "shop.example", "origin": "https://other.example"},
        )
    ]
    assert statuses == [200, 200, 421, 403]


@pytest.mark.parametrize("kind", KINDS)
async def test_protection_that_is_off_serves_all_hosts(kind: str) -> None:
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    [response] = await post(served(kind, transport_security=security), INITIALIZE, host="any.example")
    assert response.status_code == 200


def test_a_misspelt_keyword_of_a_low_level_server_is_refused() -> None:
    with pytest.raises(TypeError, match="no keyword argument 'retry_intervall'"):
        served("Server", retry_intervall=5)


async def test_a_low_level_server_has_the_sessions_of_its_application() -> None:
    server: Any = Server("demo")
    application = server.streamable_http_app()
    transport = httpx2.ASGITransport(app=application)
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
    ):
        response = await client.post("/mcp", json=INITIALIZE, headers=HEADERS)
    assert response.status_code == 200 and response.headers["mcp-session-id"]


async def test_the_settings_say_which_headers_are_accepted_and_may_be_changed() -> None:
    shop = TransportSecuritySettings(allowed_hosts=["shop.example:*"])
    local = FastMCP("demo").settings.transport_security
    assert local.enable_dns_rebinding_protection and "127.0.0.1:*" in local.allowed_hosts
    assert "http://localhost:*" in local.allowed_origins and FastMCP("demo").settings.auth is None
    assert FastMCP("demo", host="0.0.0.0").settings.transport_security is None
    assert FastMCP("demo", transport_security=shop).settings.transport_security is shop
    statuses = list[int]()
    for security in (None, local, shop, TransportSecuritySettings(enable_dns_rebinding_protection=False)):
        app = FastMCP("demo")
        app.settings.transport_security = security
        statuses.append((await post(app.streamable_http_app(), INITIALIZE, host="shop.example"))[0].status_code)
    assert statuses == [421, 421, 200, 200]
