"""One handler object behind one endpoint, over a real socket: clients of every revision that has streamable HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, server_of, since

from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.session.requests import RequestOptions


@asynccontextmanager
async def endpoint() -> AsyncIterator[str]:
    """The URL of a server of the newest revision, which serves all."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.progress(1)
        return t.CallToolResult(content=[t.TextContent(text=params.name), t.ResourceLink(name="n", uri="u:x")])

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    app = server_of(ALL_REVISIONS[-1], call_tool=call_tool).asgi(path="/mcp")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize("rev", since("2025-03-26"), ids=str)
def test_a_client_of_each_revision_is_served(rev: Rev) -> None:
    async def talk() -> None:
        steps: list[float] = []
        async with endpoint() as url, rev.package.Client.http(url) as client:
            options = RequestOptions(on_progress=lambda progress: steps.append(progress.progress))
            text, link = (await client.call_tool(name="hi", options=options)).content
            assert text.text == "hi" and steps == [1]
            assert link.type == ("resource_link" if rev.id >= "2025-06-18" else "text")

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_the_newest_client_speaks_an_older_revision_where_no_other_is_allowed() -> None:
    async def talk() -> None:
        async with endpoint() as url, connect(url, revisions=["2025-06-18"]) as client:
            assert isinstance(client.server, t.DiscoverResult) and client.server.supported_versions == ["2025-06-18"]
            result = await client.call_tool(name="hi")
            assert isinstance(result, t.CallToolResult) and result.content[0] == t.TextContent(text="hi")

    asyncio.run(asyncio.wait_for(talk(), 30))
