"""The echo example reads its arguments itself, and accepts what its schemas describe."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.project import ROOT

from mcp_generated import RemoteJSONRPCError

EXAMPLE = runpy.run_path(str(ROOT / "examples" / "echo" / "server.py"))
echo, INVALID_PARAMS = EXAMPLE["echo"], EXAMPLE["INVALID_PARAMS"]

WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "true for a number": ("slow", {"seconds": True}),
    "false for a number": ("slow", {"seconds": False}),
    "text for a number": ("slow", {"seconds": "0"}),
    "null for a number": ("slow", {"seconds": None}),
    "a number for text": ("echo", {"text": 1}),
    "true for text": ("echo", {"text": True}),
    "nothing": ("echo", {}),
}


@among(ALL_REVISIONS)
async def test_values_of_another_type_are_refused(rev: Rev) -> None:
    async with rev.package.Client.memory(echo(rev.package)) as client:
        for name, (tool, arguments) in WRONG.items():
            with pytest.raises(RemoteJSONRPCError) as refused:
                await client.call_tool(name=tool, arguments=arguments)
            assert refused.value.code == INVALID_PARAMS, name
        for tool, arguments, text in (("slow", {"seconds": 0}, "waited 0 s"), ("echo", {"text": "true"}, "true")):
            result = await client.call_tool(name=tool, arguments=arguments)
            assert result.content[0].text == text
