"""A server writes what is not a message: the client goes on, answers none of it, and fails what it can tell is lost."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.clients import connect
from support.matrices import long_after

from mcp_generated import InvalidResponseError

# Answers `initialize` and calls. The arguments of a call say what to write before the result, and instead of it; the
# text of a result is the number of lines that were neither requests nor notifications.
PROGRAM = """
import json, sys
out, answers = sys.stdout.buffer, 0
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "method" not in message:
        answers += 1
    if "id" not in message or "method" not in message:
        continue
    id, arguments = message["id"], message.get("params", {}).get("arguments", {})
    out.write(arguments.get("junk", "").encode("latin-1") * arguments.get("times", 1))
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": str(answers)}]}
    elif message["method"] == "ping":
        result = {}
    else:
        result = None
    answer = json.dumps({"jsonrpc": "2.0", "id": id, "result": result})
    if result is None:
        answer = json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
    instead = arguments.get("instead")
    if instead:
        answer = instead.replace("ID", json.dumps(id)).replace("PADDING", "x" * arguments["padding"])
    out.write(answer.encode("latin-1") + b"\\n")
    out.flush()
"""
JUNK = {
    "text": "starting up\n",
    "JSON that is not a message": '{"level": "info"}\n',
    "a list": "[1, 2]\n",
    "no UTF-8": "\xff\xfe\n",
    "a response to nothing": '{"jsonrpc":"2.0","id":99,"result":{}}\n',
    "an error without an id": '{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}\n',
    "neither a result nor an error": '{"jsonrpc":"2.0","id":99}\n',
}
INSTEAD = {
    "too long, the id first": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"PADDING"}]}}',
    "too long, the id last": '{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"PADDING"}]},"id":ID}',
    "too long an error": '{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"PADDING"}}',
    "no UTF-8": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xff"}]}}',
    "neither a result nor an error": '{"jsonrpc":"2.0","id":ID}',
}


def server() -> Any:
    return connect([sys.executable, "-c", PROGRAM], stderr=lambda line: None)


@pytest.mark.parametrize("what", long_after(1, JUNK))
async def test_thousands_of_lines_of_junk_deadlock_nothing_and_get_no_answer(what: str) -> None:
    async with asyncio.timeout(60), server() as client:
        for _ in range(2):
            result = await client.call_tool(name="x", arguments={"junk": JUNK[what], "times": 30_000})
        assert result.content[0].text == "0"


@pytest.mark.parametrize("what", INSTEAD)
async def test_a_call_fails_at_once_whose_answer_cannot_be_used(what: str) -> None:
    async with asyncio.timeout(60), server() as client:
        with pytest.raises(InvalidResponseError):
            arguments = {"instead": INSTEAD[what], "padding": 9_000_000 if "PADDING" in INSTEAD[what] else 0}
            await client.call_tool(name="x", arguments=arguments)
        assert (await client.call_tool(name="x", arguments={})).content[0].text == "0"
