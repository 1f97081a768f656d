"""A tool asks its client through a proxy, in rounds: the `requestState` of a stateless target is the target's own."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.project import ROOT

from mcp_generated import App, Client, Context

APP = str(ROOT / "examples" / "everything" / "app.py")


def inner_app() -> App:
    inner = App("inner")

    @inner.tool
    async def order(ctx: Context) -> str:
        size = await ctx.elicit("What size?", str)
        colour = await ctx.elicit("What colour?", str)
        return f"{size.action} {colour.action}"

    return inner


@pytest.mark.parametrize("spoken", ["2025-11-25", "2026-07-28"])
async def test_a_tool_of_an_app_asks_twice(spoken: str) -> None:
    asked: list[str] = []

    def answer(params: Any) -> str:
        asked.append(params.message)
        return "decline"

    async with Client(App.proxy(inner_app(), "outer"), elicitation=answer, revisions=[spoken]) as client:
        assert (await client.call_tool("order")).data == "decline decline"
    assert asked == ["What size?", "What colour?"]


@pytest.mark.long
@pytest.mark.parametrize("spoken", ["2025-11-25", "2026-07-28"])
async def test_a_tool_of_a_command_asks(spoken: str) -> None:
    proxy = App.proxy([sys.executable, APP, "stdio"], "outer")
    async with Client(proxy, roots=["."], revisions=[spoken]) as client:
        assert "file://" in (await client.call_tool("list_roots")).data
