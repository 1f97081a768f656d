"""Names of the official SDK that agent frameworks call as they connect, and the errors that they tell apart."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import httpx2
import pytest
from support.http.sockets import listening

from mcp_generated.compat import (
    Client,
    ClientSession,
    Context,
    McpError,
    MCPServer,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
    streamable_http_client,
    types,
)
from mcp_products.compat.sessions.client import (
    CacheConfig,
    ListenNotSupportedError,
    Subscription,
    SubscriptionLost,
    listen,
)
from mcp_products.compat.standalone.components import Tool
from mcp_products.compat.streams.message import SessionMessage

DISCOVERED: Final = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "public",
}


def shop(**settings: Any) -> MCPServer:
    """Return a server with a tool that adds one, and tells the clients."""
    mcp = MCPServer("shop", **settings)

    @mcp.tool()
    async def grow(ctx: Context, uri: str = "") -> str:
        if uri:
            await ctx.notify_resource_updated(uri)
        else:
            mcp.add_tool(lambda: "x", f"tool{len(await mcp.list_tools())}")
        return "done"

    return mcp


@asynccontextmanager
async def over_http(mcp: MCPServer) -> AsyncGenerator[Any]:
    async with (
        listening(mcp.asgi()) as port,
        streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams,
    ):
        yield streams


@pytest.mark.parametrize("target", [lambda mcp: mcp, over_http], ids=["memory", "http"])
async def test_a_client_listens_to_what_the_server_announces(target: Any) -> None:
    async with Client(target(shop())) as client:
        assert client.protocol_version == "2026-07-28"
        async with client.listen(tools_list_changed=True, resource_subscriptions=["data://a"]) as changes:
            assert changes.honored.tools_list_changed and changes.honored.prompts_list_changed is None
            await client.call_tool("grow")
            assert await anext(changes) == ToolsListChanged()
            await client.call_tool("grow", {"uri": "data://a"})
            assert await anext(changes) == ResourceUpdated("data://a")
        assert (await client.call_tool("grow")).content[0].text == "done"


async def test_what_a_server_refuses_is_raised_as_the_context_is_entered() -> None:
    async with Client(shop()) as client:
        with pytest.raises(McpError, match="at most 10000"):
            await client.listen(resource_subscriptions=["data://a"] * 10_001).__aenter__()


@pytest.mark.parametrize("graceful", [True, False])
async def test_a_subscription_ends_with_the_stream_of_its_server(graceful: bool) -> None:
    sending, served = anyio.create_memory_object_stream[Any](9)
    answering, taken = anyio.create_memory_object_stream[Any](9)
    async with served, answering, ClientSession(taken, sending) as session:
        session.adopt(types.DiscoverResult.model_validate(DISCOVERED))
        async with anyio.create_task_group() as group:
            group.start_soon(answer_listen, served, answering, graceful)
            async with listen(session, prompts_list_changed=True) as changes:
                assert [await anext(changes)] == [PromptsListChanged()]
                with pytest.raises(StopAsyncIteration if graceful else SubscriptionLost):
                    await anext(changes)


async def test_a_subscription_that_nobody_reads_ends_with_a_bound() -> None:
    ended = anyio.Event()

    async def send() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    changes = Subscription()
    async with anyio.create_task_group() as group:
        group.start_soon(changes.read, send)
        await anyio.sleep(0)
        for _ in range(2000):
            changes.deliver("notifications/tools/list_changed", {})
        await ended.wait()
    assert [await anext(changes) for _ in range(1000)] == [ToolsListChanged()] * 1000
    with pytest.raises(SubscriptionLost, match="more than 1000 changes were not read"):
        await anext(changes)


async def answer_listen(served: Any, answering: Any, graceful: bool) -> None:
    """Accept a subscription, announce a change, and end the subscription or the connection."""
    asked = (await served.receive()).message
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": asked.id}}
    accepted = {"notifications": {"promptsListChanged": True}}
    for method, params in (
        ("prompts/list_changed", {"_meta": None}),
        ("subscriptions/acknowledged", meta),
        ("resources/updated", meta),
        ("subscriptions/acknowledged", accepted | meta),
        ("prompts/list_changed", meta),
    ):
        sent = types.JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{method}", params=params)
        await answering.send(SessionMessage(sent))
    if graceful:
        await answering.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=asked.id, result=meta)))
    else:
        await answering.aclose()


async def test_an_older_version_has_no_subscriptions() -> None:
    async with Client(shop(), mode="legacy", cache=CacheConfig(default_ttl_ms=5)) as client:
        with pytest.raises(ListenNotSupportedError, match="message_handler"):
            await client.listen(tools_list_changed=True, prompts_list_changed=True).__aenter__()


def test_the_fields_of_an_error_can_be_replaced() -> None:
    error = McpError(-32600, "first")
    error.error = types.ErrorData(code=-32601, message="second", data={"a": 1})
    assert (error.code, error.message, error.data) == (-32601, "second", {"a": 1})
    assert error.error == types.ErrorData(code=-32601, message="second", data={"a": 1})


def forgetful(request: httpx2.Request) -> httpx2.Response:
    """Open sessions, and have lost each one when it is used."""
    body = json.loads(request.content or b"{}")
    if body.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        return httpx2.Response(200, json=answer, headers={"mcp-session-id": "lost"})
    return httpx2.Response(404 if "id" in body else 202)


async def test_sessions_that_a_server_loses_again_and_again_are_a_terminated_session() -> None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(forgetful)) as http:
        async with streamable_http_client("https://x.example/mcp", http_client=http) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                with pytest.raises(McpError, match="Session terminated") as caught:
                    await session.list_tools()
    assert caught.value.code == -32600


@pytest.mark.parametrize(
    ("schema", "value", "text", "structured"),
    [
        (None, "hello", "hello", None),
        (None, {"a": 1}, '{"a":1}', {"a": 1}),
        (None, None, None, None),
        ({"type": "object", "x-fastmcp-wrap-result": True}, 5, "5", {"result": 5}),
    ],
)
def test_the_tool_of_a_framework_makes_a_result_of_a_value(schema: Any, value: Any, text: Any, structured: Any) -> None:
    tool: Any = Tool(name="own", parameters={"type": "object"}, output_schema=schema)
    result = tool.convert_result(value)
    assert [block.text for block in result.content] == ([] if text is None else [text])
    assert result.structured_content == structured
    assert tool.convert_result(result) is result
    assert tool.convert_result(types.CallToolResult(content=[])).content == []
