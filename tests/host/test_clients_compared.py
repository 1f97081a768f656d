"""Rows of the tables in docs/clients.md that no other test has, such as pings, facts and the client of FastMCP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.peers import python_peer

from mcp_generated import App, Client, LocalError
from mcp_generated.compat import Client as OfficialClient

SERVER = """
from mcp_generated import App

app = App("shop")

@app.tool()
def add(a: int, b: int) -> int:
    return a + b

app.run()
"""
FASTMCP = """
import asyncio, json, sys
from fastmcp import Client

async def main():
    command, *arguments = json.loads(sys.argv[1])
    entry = {"command": command, "args": arguments, "env": {"PYTHONPATH": sys.argv[2]}}
    async with Client({"mcpServers": {"shop": entry}}) as client:
        print(repr((await client.call_tool("add", {"a": 1, "b": 2})).data))

asyncio.run(main())
"""


def shop() -> App:
    app = App("shop", "Sell.", version="1.2")

    @app.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return app


@among(ALL_REVISIONS)
async def test_a_ping_and_the_facts_of_the_server_are_there_in_each_version(rev: Rev) -> None:
    client = Client(shop(), revisions=[rev.id])
    async with client:
        assert await client.ping() is None  # type: ignore[func-returns-value]
        facts = client.server
        assert (facts.name, facts.version, facts.instructions) == ("shop", "1.2", "Sell.")
        assert facts.capabilities.tools is not None and client.protocol_version == rev.id


async def test_the_compatible_client_goes_on_with_what_is_known_of_the_server() -> None:
    async with OfficialClient(shop()) as client:
        known = client.session.discover_result
    async with OfficialClient(shop(), mode="2026-07-28", prior_discover=known) as client:
        assert client.server_info.name == "shop" and client.server_capabilities.tools is not None
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    with pytest.raises(ValueError, match="prior_discover needs mode="):
        OfficialClient(shop(), prior_discover=known)


@pytest.mark.exhaustive
def test_the_client_of_fastmcp_has_the_value_of_a_tool(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    words = f'["{sys.executable}", "{tmp_path / "server.py"}"]'
    command = [str(python_peer("fastmcp==4.1.2")), "-c", FASTMCP, words, ":".join(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "3", done.stderr


@pytest.mark.parametrize("keyword", ["prior_discover", "elicitation_handler", "read_timeout_seconds"])
def test_a_keyword_of_another_client_names_the_line_to_write(keyword: str) -> None:
    settings: Any = {keyword: object()}
    with pytest.raises((TypeError, LocalError)) as raised:
        Client(shop(), **settings)
    assert keyword in str(raised.value)
