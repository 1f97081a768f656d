"""Servers of compat list and answer what those of the originals do, in their words, over stdio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.peers import LIMIT, clean, python_peer

pytestmark = pytest.mark.long

ORIGINALS = {
    "mcp==1.30.0": ("from mcp.server.fastmcp import FastMCP as Server", "FastMCP"),
    "mcp==2.3.0": ("from mcp.server.mcpserver import MCPServer as Server", "MCPServer"),
    "fastmcp==4.2.3": ("from fastmcp import FastMCP as Server", "StandaloneFastMCP"),
}
SERVER = """
from typing import Annotated
from pydantic import BaseModel, Field

class Item(BaseModel):
    number: int

server = Server("shop")

@server.tool()
def add(a: int, b: int = 0, free=3) -> int:
    return a + b

@server.tool()
def items(given: list[str], size: Annotated[float, Field(gt=0, description="How big.")] = 1.0) -> list[str]:
    return given

@server.tool()
async def model(item: Item) -> Item:
    return item

@server.tool()
def nothing() -> None: ...

@server.tool()
def counts() -> dict[str, int]:
    return {"a": 1}

@server.tool()
def fail() -> str:
    raise ValueError("secret")

if __name__ == "__main__":
    server.run()
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("add", {"a": 1}), ("add", {"a": "1", "b": 2}), ("add", {"a": 1, "other": 3}), ("add", {"a": "x"}), ("add", {})),
    *(("items", {"given": ["a"]}), ("items", {"given": ["a", 1]}), ("items", {"given": ["a"], "size": 0})),
    *(("model", {"item": {"number": 1, "other": 2}}), ("model", {"item": {}}), ("model", {"item": {"number": "q"}})),
    *(("nothing", {}), ("counts", {}), ("fail", {}), ("none", {})),
]


def answers(python: Path | str, line: str, folder: Path) -> list[Any]:
    """What a server answers to `tools/list` and to each call."""
    program = folder / "server.py"
    program.write_text(line + SERVER)
    information = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": information}
    requests = [("tools/list", {}), *(("tools/call", {"name": name, "arguments": given}) for name, given in CALLS)]
    found = []
    with subprocess.Popen(
        [str(python), str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean()
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for number, (method, given) in enumerate([("initialize", params), *requests]):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": given}) + "\n")
            if number == 0:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
            server.stdin.flush()
            while True:
                answer = json.loads(server.stdout.readline())
                if answer.get("id") == number:
                    break
            found.append(answer["result"])
        server.stdin.close()
        server.wait(LIMIT)
    return found[1:]


def without_details(result: Any) -> Any:
    """Leave out what FastMCP's versions differ in: titles, `_meta`, and references to models."""
    if isinstance(result, dict):
        left_out = ("title", "_meta", "$defs", "m", "item")
        return {key: without_details(value) for key, value in result.items() if key not in left_out}
    return [without_details(item) for item in result] if isinstance(result, list) else result


@pytest.mark.parametrize("original", ORIGINALS)
def test_a_server_of_compat_answers_as_the_original(original: str, tmp_path: Path) -> None:
    line, name = ORIGINALS[original]
    theirs = answers(python_peer(original), line, tmp_path)
    ours = answers(sys.executable, f"from mcp_generated.compat import {name} as Server", tmp_path)
    if name == "StandaloneFastMCP":
        theirs, ours = without_details(theirs), without_details(ours)
    for call, (here, there) in zip(["tools/list", *CALLS], zip(ours, theirs, strict=True), strict=True):
        assert here == there, call
