"""A message with too many values, or a number that is too long, is refused at once on every transport."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import App, Gateway, MCPError, RemoteJSONRPCError

SERVER = """
from mcp_generated import App

app = App("values")

@app.tool
def count(values: dict[str, int]) -> int:
    return len(values)

if __name__ == "__main__":
    app.run("stdio")
"""
TOO_MANY = 200_000  # Members of an object, each of which counts as four values.


@asynccontextmanager
async def target(over: str, folder: Path) -> AsyncIterator[Any]:
    """Yield what a client connects to."""
    (folder / "server.py").write_text(SERVER)
    command = [sys.executable, str(folder / "server.py")]
    if over == "stdio":
        yield command
        return
    names: dict[str, Any] = {"__name__": "server"}
    exec(SERVER, names)
    if over == "memory":
        yield names["app"]
        return
    upstream = {"command": command[0], "args": command[1:], "prefix": ""}
    app = {
        "http": lambda: names["app"],
        "proxy": lambda: App.proxy(command),
        "gateway": lambda: Gateway({"upstreams": {"values": upstream}}).app,
    }[over]()
    if over == "http":
        async with listening(app.asgi()) as port:
            yield f"http://127.0.0.1:{port}/mcp"
    else:
        yield app


@pytest.mark.long
@pytest.mark.deadline(60)
@pytest.mark.parametrize("id", ["2024-11-05", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("over", ["memory", "stdio", "http", "proxy", "gateway"])
async def test_a_request_that_cannot_be_read_is_refused_at_once(over: str, id: str, tmp_path: Path) -> None:
    if over == "http" and id == "2024-11-05":
        pytest.skip("it has another transport")
    async with target(over, tmp_path) as served, connect(served, revisions=[id], timeout=30) as client:
        for _ in range(2):
            with pytest.raises(RemoteJSONRPCError, match="a message has at most .* values"):
                await client.call_tool("count", {"values": {f"k{number}": 1 for number in range(TOO_MANY)}})
        with pytest.raises(MCPError, match="out of range"):  # To convert it to another revision fails here.
            await client.call_tool("count", {"values": {"a": 10**5000}})
        result = await client.call_tool("count", {"values": {"a": 1}})
        assert result.content[0].text == "1"  # type: ignore[union-attr]
