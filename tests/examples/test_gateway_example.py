"""The gateway of examples/gateway: what its file shows of three servers, and what its program adds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.project import ROOT

from mcp_generated import RemoteJSONRPCError

PROGRAM = str(ROOT / "examples" / "gateway" / "office.py")


@pytest.mark.long
async def test_clients_see_three_servers_by_the_rules_of_the_file(tmp_path: Path) -> None:
    words = [sys.executable, PROGRAM, str(tmp_path)]
    async with connect(words, env=dict(os.environ), cwd=str(ROOT)) as client:
        tools = {tool.name: tool async for tool in client.iter_tools()}
        assert tools.keys() == {"servers", "shop_query", "notes_find", "steps_think"}
        assert tools["notes_find"].description == "Find people, places and things that the office knows."
        assert "total" not in tools["steps_think"].model_dump()["inputSchema"]["properties"]
        sql = {"sql": "SELECT name FROM products WHERE price > 90"}
        result: Any = await client.call_tool("shop_query", sql)
        assert json.loads(result.content[0].text)["rows"] == [["Pan"], ["Kettle"]]
        thought: Any = await client.call_tool("steps_think", {"thought": "one", "number": 1, "more": True})
        assert json.loads(thought.content[0].text)["total"] == 3
        for hidden in ("notes_remember", "notes_forget", "notes_search"):
            with pytest.raises(RemoteJSONRPCError, match="unknown tool"):
                await client.call_tool(hidden, {"names": []})
        states: Any = await client.call_tool("servers", {})
        assert json.loads(states.content[0].text) == {"shop": "ok", "notes": "ok", "steps": "ok"}
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [line["upstream"] for line in lines] == ["shop", "steps", "notes", "notes", "notes"]
    assert json.loads((tmp_path / "gateway.lock.json").read_text()).keys() == {"shop", "notes", "steps"}
