"""Lists of `FastMCPClient` are read to their end; pages without end are an error, as everywhere else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from mcp_generated import App, Client, RemoteError
from mcp_generated.compat import FastMCPClient
from mcp_generated.v2025_11_25 import Server
from mcp_generated.v2025_11_25 import types as t


class Pages(Server):
    """A server whose pages lead to each other as a dict says."""

    after: dict[str | None, str | None] = {}

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        cursor = None if params is None else params.cursor
        tool = t.Tool(name=f"tool-{cursor}", input_schema=t.ToolInputSchema())
        return t.ListToolsResult(tools=[tool], next_cursor=self.after[cursor])


async def names(after: dict[str | None, str | None]) -> list[str]:
    server = Pages(name="pages", version="1")
    server.after = after
    async with FastMCPClient(server) as client:
        return [tool.name for tool in await client.list_tools()]


async def test_a_list_of_many_pages_is_read_to_its_end() -> None:
    numbers = [None, *(str(number) for number in range(300)), None]
    assert len(await names(dict(pairwise(numbers)))) == 301


async def test_pages_that_lead_round_in_a_circle_are_an_error() -> None:
    with pytest.raises(RemoteError, match="the server repeats the cursor 'A'"):
        await names({None: "A", "A": "B", "B": "A"})


class SamePage(Server):
    """A server that ignores cursors, and writes an empty one for none."""

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="tool", input_schema=t.ToolInputSchema())], next_cursor="")


async def test_a_list_whose_server_ignores_cursors_is_read_once() -> None:
    async with FastMCPClient(SamePage(name="same", version="1")) as client:
        assert [tool.name for tool in await client.list_tools()] == ["tool"]
    async with Client(App.proxy(SamePage(name="same", version="1"))) as client:
        assert [tool.name for tool in await client.list_tools()] == ["tool"]
