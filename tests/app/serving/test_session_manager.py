"""`StreamableHTTPSessionManager` of the official SDK serves a low-level server in the form that it is given."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mcp_generated import LocalError
from mcp_generated.compat import Server, StreamableHTTPSessionManager, types


@pytest.mark.parametrize("json_response", [False, True])
async def test_a_session_manager_of_the_official_sdk_answers_in_the_form_that_it_is_given(json_response: bool) -> None:
    server: Any = Server("demo")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return []

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        await server.request_context.session.send_progress_notification("token", 1.0)
        return [types.TextContent(type="text", text="done")]

    manager = StreamableHTTPSessionManager(server, json_response=json_response, stateless=True)
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    params = {"name": "x", "arguments": {}, "_meta": {"progressToken": "token"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with manager.run():
        transport = httpx2.ASGITransport(app=manager)  # type: ignore[arg-type]
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as web:
            response = await web.post("/mcp", json=message, headers=headers)
    assert response.status_code == 200 and "done" in response.text
    media_type = response.headers["content-type"].split(";")[0]
    assert media_type == ("application/json" if json_response else "text/event-stream")
    assert "mcp-session-id" not in response.headers


def test_a_session_manager_refuses_what_it_cannot_do() -> None:
    with pytest.raises(LocalError, match="retry_interval must be"):
        StreamableHTTPSessionManager(Server("demo"), retry_interval=-1)
