"""The newest client over servers of the official Python SDK, in both its versions, whatever revision they agree on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.peers import python_peer
from support.project import PEER_DRIVERS

from mcp_generated import REVISIONS
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.session.requests import RequestOptions

pytestmark = pytest.mark.long

SERVER = PEER_DRIVERS / "python_sdk_server.py"


async def everything(python: Path, revisions: Any) -> str:
    """Use what the server has; the revision that was agreed on."""
    steps: list[str | None] = []
    options = RequestOptions(on_progress=lambda progress: steps.append(progress.message), timeout=60)
    async with connect([str(python), str(SERVER)], revisions=revisions) as client:
        assert isinstance(client.server, t.DiscoverResult)
        assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "work"}
        result = await client.call_tool(name="add", arguments={"a": 2, "b": 3})
        assert isinstance(result, t.CallToolResult) and result.content[0] == t.TextContent(text="5")
        await client.call_tool(name="work", options=options)
        read = await client.read_resource(uri="note://one")
        assert isinstance(read, t.ReadResourceResult) and isinstance(read.contents[0], t.TextResourceContents)
        assert read.contents[0].text == "hello"
        prompt = await client.get_prompt(name="question", arguments={"about": "MCP"})
        assert isinstance(prompt, t.GetPromptResult) and len(prompt.messages) == 1
        agreed = client.server.supported_versions[-1]
    assert steps == ["half"]  # Also where the revision has no such property: the SDK sends it all the same.
    return agreed


@pytest.mark.parametrize("sdk", ["mcp==1.30.0", "mcp==2.3.0"])
def test_the_newest_revision_that_both_know_is_spoken(sdk: str) -> None:
    agreed = asyncio.run(everything(python_peer(sdk), "all"))
    assert agreed == ("2025-11-25" if sdk == "mcp==1.30.0" else "2026-07-28")


@pytest.mark.parametrize("older", list(REVISIONS)[:-1])
def test_an_older_revision_is_spoken_where_no_other_is_allowed(older: str) -> None:
    assert asyncio.run(everything(python_peer("mcp==2.3.0"), [older])) == older
