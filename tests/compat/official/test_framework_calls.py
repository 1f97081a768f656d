"""Names of the official SDK that agent frameworks call as they connect, and the errors that they tell apart."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from mcp_generated.compat import Client, ClientSession, McpError, MCPServer, streamable_http_client, types
from mcp_products.compat.sessions.client import CacheConfig, ListenNotSupportedError
from mcp_products.compat.standalone.components import Tool


async def test_a_client_takes_the_settings_of_a_cache_and_says_on_entering_that_it_does_not_listen() -> None:
    mcp = MCPServer("shop")
    mcp.add_tool(lambda: "x", "say")
    async with Client(mcp, cache=CacheConfig(default_ttl_ms=5)) as client:
        listening = client.listen(tools_list_changed=True, prompts_list_changed=True)
        with pytest.raises(ListenNotSupportedError, match="message_handler"):
            await listening.__aenter__()
        assert (await client.call_tool("say")).content[0].text == "x"


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
