"""What a server with JSON responses and without sessions cannot do is an error; what it can do works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among, since
from support.http.in_process import asking

from mcp_generated import App, Context
from mcp_generated.http import HTTPOptions


@asynccontextmanager
async def client_of(app: App, rev: Rev, **settings: Any) -> AsyncGenerator[Any]:
    """A client of a revision, over HTTP with settings."""
    endpoint = app.asgi(**settings)
    http = HTTPOptions(client=asking(endpoint))
    try:
        async with rev.package.Client.http("http://localhost/mcp", http=http) as client:
            yield client
    finally:
        await endpoint.close()


@pytest.mark.parametrize("settings", [{}, {"json_response": True}, {"json_response": True, "stateless_http": True}])
@among([rev for rev in ALL_REVISIONS if rev.stateless])
async def test_a_subscription_is_a_stream_also_with_json_responses(rev: Rev, settings: dict[str, Any]) -> None:
    app = App("notes")

    @app.tool
    async def change(ctx: Context) -> str:
        await ctx.info("is not sent with a JSON response")
        await ctx.notify_tool_list_changed()
        await ctx.notify_resource_updated("note://x")
        return "changed"

    @app.resource("note://x")
    def note() -> str:
        return "text"

    async with client_of(app, rev, **settings) as client:
        async with client.listen(tool_list_changed=True, resource_updated=["note://x"]) as changes:
            assert (await client.call_tool("change")).content[0].text == "changed"
            async with asyncio.timeout(5):
                methods = {(await anext(changes)).method for _ in range(2)}
        assert methods == {"notifications/tools/list_changed", "notifications/resources/updated"}


@pytest.mark.parametrize("method", ["enable_components", "disable_components", "reset_visibility"])
@among([rev for rev in since("2025-03-26") if not rev.stateless])
async def test_without_sessions_nothing_is_enabled_for_a_session(rev: Rev, method: str) -> None:
    app = App("shop")

    @app.tool(tags={"admin"})
    def erase() -> str:
        return "erased"

    @app.tool
    async def change(ctx: Context) -> str:
        await getattr(ctx, method)(**({} if method == "reset_visibility" else {"tags": {"admin"}}))
        return "changed"

    async with client_of(app, rev, stateless_http=True) as client:
        refused = await client.call_tool("change")
        assert refused.is_error is True
    async with client_of(app, rev) as client:
        assert (await client.call_tool("change")).content[0].text == "changed"
