"""How a client identifies itself to servers: as the program, or else as this package with its version."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context

OWN = {"name": "mcp-generated", "version": version("mcp-generated")}


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, OWN),
        ({"name": "shop"}, {"name": "shop", "version": "0"}),
        ({"name": "shop", "version": "3.1"}, {"name": "shop", "version": "3.1"}),
        ({"version": "3.1"}, {"name": "mcp-generated", "version": "3.1"}),
    ],
)
@pytest.mark.parametrize("revisions", ["all", ["2025-11-25"]])
async def test_a_server_sees_the_program_or_this_package(settings: Any, seen: dict[str, str], revisions: Any) -> None:
    app = App("server")

    @app.tool
    def who(ctx: Context) -> dict[str, Any]:
        return dict(ctx.client_info)

    async with connect(app, revisions=revisions, **settings) as client:
        assert (await client.call_tool("who")).structured_content == seen
