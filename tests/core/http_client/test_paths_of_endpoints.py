"""A URL whose path is nearly that of the endpoint: the error names the path that there is, or the form to try."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect
from support.http.raw_server import Got, Raw, Write, reply, serving
from support.http.sockets import listening

from mcp_generated import App, MCPError, v2025_11_25, v2026_07_28

CLIENTS = {"connect": connect, "2025-11-25": v2025_11_25.Client.http, "2026-07-28": v2026_07_28.Client.http}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("served", "asked"), [("/mcp", "/mcp/"), ("/mcp/", "/mcp"), ("/mcp", ""), ("/mcp", "/"), ("/", "/mcp")]
)
async def test_a_server_of_ours_names_its_path(client: str, served: str, asked: str) -> None:
    app = App("x")
    app.add_tool(lambda: 1, name="one")
    async with listening(app.asgi(path=served)) as port:
        with pytest.raises(MCPError, match=f"no endpoint at this path: it is at {served}( |$)"):
            async with CLIENTS[client](f"http://127.0.0.1:{port}{asked}"):
                pass
        async with CLIENTS[client](f"http://127.0.0.1:{port}{served}") as connected:
            assert len((await connected.list_tools()).tools) == 1


async def test_a_mounted_server_names_its_whole_path() -> None:
    inner: Any = App("x").asgi(path="/mcp")

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "root_path": "/apps"} if scope["type"] == "http" else scope, receive, send)

    mounted.close = inner.close  # type: ignore[attr-defined]
    async with listening(mounted) as port:
        with pytest.raises(MCPError, match="it is at /apps/mcp"):
            async with connect(f"http://127.0.0.1:{port}/apps/mcp/"):
                pass


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("asked", "hint"), [("/mcp/", "/mcp"), ("/mcp", "/mcp/"), ("", "/mcp"), ("/", "/mcp"), ("/a?key=secret", "/a/")]
)
async def test_another_server_gets_a_hint_of_the_client(client: str, asked: str, hint: str) -> None:
    async def nothing(got: Got, write: Write) -> None:
        await write(reply(b"<h1>not found</h1>", 404, "text/html"))

    raw = Raw(dict.fromkeys(("initialize", "server/discover", "GET", "notifications/initialized"), nothing))
    async with serving(raw):
        origin = raw.url.removesuffix("/mcp")
        with pytest.raises(MCPError) as caught:
            async with CLIENTS[client](f"{origin}{asked}"):
                pass
    assert f"try {origin}{hint}" in str(caught.value) and "secret" not in str(caught.value)
    assert str(caught.value).endswith(hint) or f"{hint} " in str(caught.value) or f"{hint})" in str(caught.value)
