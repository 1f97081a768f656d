"""Content of a type that a protocol version does not define: the rest of the result arrives, and so does it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import REVISIONS, InvalidResponseError

HOLOGRAM = {"type": "hologram", "data": "x", "depth": 3}
# A server of any version, without any implementation of the protocol: it answers with the result of its argument.
SERVER = """
import json, sys
revision, result = sys.argv[1], json.loads(sys.argv[2])
party = {"name": "raw", "version": "1"}
capabilities = {"tools": {}, "prompts": {}}
opened = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": party}
lasting = {"ttlMs": 0, "cacheScope": "private"}
found = {"resultType": "complete", "supportedVersions": [revision], "capabilities": capabilities, **lasting}
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    answers = {"initialize": opened, "server/discover": found, "tools/call": result, "prompts/get": result}
    if message["method"] == "server/discover" and revision < "2026":
        answers = {}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in answers:
        answer["result"] = answers[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


def command(tmp_path: Path, revision: str, result: dict[str, Any]) -> list[str]:
    (tmp_path / "server.py").write_text(SERVER)
    return [sys.executable, str(tmp_path / "server.py"), revision, json.dumps({"resultType": "complete", **result})]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


RESULT = {"content": [text("before"), HOLOGRAM, text("after")], "isError": False, "_meta": {"shop/id": 1}}


async def test_the_rest_of_a_result_and_the_unknown_content_arrive(tmp_path: Path, revision: str) -> None:
    package = import_module(f"mcp_generated.{REVISIONS[revision]}")
    async with package.Client.stdio(*command(tmp_path, revision, RESULT)) as client:
        result = await client.call_tool("show")
    first, unknown, last = result.content
    assert (first.text, last.text) == ("before", "after")
    assert isinstance(first, package.types.TextContent) and not isinstance(unknown, package.types.TextContent)
    assert (unknown.type, unknown.data, unknown.depth) == ("hologram", "x", 3)
    with pytest.warns(UserWarning, match="UnknownContent"):
        sent = result.model_dump(mode="json")
    assert (sent["content"][1], sent["_meta"]) == (HOLOGRAM, {"shop/id": 1})


@pytest.mark.filterwarnings("error")
async def test_it_arrives_at_a_client_of_all_versions(tmp_path: Path, revision: str) -> None:
    async with connect(command(tmp_path, revision, RESULT)) as client:
        result = await client.call_tool("show")
    assert [block.type for block in result.content] == ["text", "hologram", "text"]


async def test_it_arrives_in_a_message_of_a_prompt(tmp_path: Path, revision: str) -> None:
    messages = [{"role": "user", "content": HOLOGRAM}, {"role": "user", "content": text("after")}]
    package = import_module(f"mcp_generated.{REVISIONS[revision]}")
    async with package.Client.stdio(*command(tmp_path, revision, {"messages": messages})) as client:
        result = await client.get_prompt("show")
    assert [message.content.type for message in result.messages] == ["hologram", "text"]


async def test_any_number_of_unknown_blocks_arrives_each_in_its_place(tmp_path: Path, revision: str) -> None:
    package = import_module(f"mcp_generated.{REVISIONS[revision]}")
    content = [text("0") if number % 7 == 0 else {"type": f"kind{number}", "n": number} for number in range(500)]
    async with package.Client.stdio(*command(tmp_path, revision, {"content": content}), strict=True) as client:
        result = await client.call_tool("show")
    assert [block.type for block in result.content] == [block["type"] for block in content]
    assert [block.n for block in result.content if block.type != "text"] == [n for n in range(500) if n % 7]


@pytest.mark.parametrize("content", [[HOLOGRAM, {"type": "text"}], [HOLOGRAM, {"type": 3}], [{"data": "x"}]])
async def test_content_that_is_wrong_otherwise_is_refused_if_strict(tmp_path: Path, content: list[Any]) -> None:
    async with connect(command(tmp_path, "2025-11-25", {"content": content}), strict=True) as client:
        with pytest.raises(InvalidResponseError, match="content"):
            await client.call_tool("show")
