"""Client and server write to each other at once more than a pipe holds: neither waits for the other to read."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among
from support.project import ROOT

from mcp_generated import ConnectionClosedError
from mcp_products.json_rpc.peer import Peer
from mcp_products.json_rpc.rows import RequestRow
from mcp_runtime.transports.stdio import lines
from mcp_runtime.transports.stdio.client import start_server

AT_ONCE, SIZE = 16, 1 << 19  # Eight times what either end has in memory before it stops to read.
MODES = pytest.mark.parametrize("mode", ["", "threads"])
ECHO = [sys.executable, str(ROOT / "examples/echo/server.py"), "stdio"]

# A server that reads a message, writes the answer and all else, and only then reads the next one.
ONE_BY_ONE = """
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif message["method"] == "tools/call":
        text = message["params"]["arguments"]["text"]
        if message["params"]["name"] == "ask":
            for number in range(int(text)):
                print(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}))
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = None
    outcome = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"""
# A server that reads nothing, and writes requests for ever.
DEAF = """
while True:
    print('{"jsonrpc": "2.0", "id": 1, "method": "ping"}', flush=True)
"""


async def all_answered(client: Any) -> bool:
    """Whether calls that are sent at once each get their own text back."""
    texts = [f"{number} " + "x" * SIZE for number in range(AT_ONCE)]
    async with asyncio.timeout(60):
        results = await asyncio.gather(*(client.call_tool(name="echo", arguments={"text": text}) for text in texts))
    return [result.content[0].text for result in results] == texts


@pytest.mark.long
@MODES
@among(ALL_REVISIONS)
async def test_a_server_of_ours_gets_and_gives_much_at_once(
    rev: Rev, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_STDIO", mode)
    async with rev.package.Client.stdio(*ECHO, env={"MCP_STDIO": mode}, stderr=lambda line: None) as client:
        assert await all_answered(client)


@MODES
async def test_a_server_that_reads_only_when_it_has_written_is_read(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_STDIO", mode)
    async with connect([sys.executable, "-c", ONE_BY_ONE]) as client:
        assert await all_answered(client)


@pytest.mark.long
@MODES
async def test_a_server_that_asks_much_before_it_reads_gets_its_answers(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_STDIO", mode)
    async with asyncio.timeout(60), connect([sys.executable, "-c", ONE_BY_ONE]) as client:
        result: Any = await client.call_tool(name="ask", arguments={"text": "100000"})
        assert result.content[0].text == "100000"
        assert await all_answered(client)


@MODES
async def test_what_a_server_never_reads_has_a_limit_that_the_error_names(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_STDIO", mode)
    monkeypatch.setattr(lines, "MAX_UNSENT", 4 << 20)
    child = start_server((sys.executable, "-c", "import time; time.sleep(1000)"), None, None, None)
    try:
        with pytest.raises(ConnectionClosedError, match="the server does not read: 4 MiB of messages wait for it"):
            for _ in range(100):
                child.send(b"x" * (1 << 18))
                await asyncio.sleep(0)
    finally:
        await child.close(timeout=0)


@pytest.mark.long
async def test_a_server_that_only_writes_requests_gets_answers_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_UNSENT", 2 << 20)
    refused: list[object] = []
    send = lines.LineTransport.send

    def counted(self: lines.LineTransport, message: bytes, more: bool = False) -> None:
        try:
            send(self, message, more)
        except ConnectionClosedError:
            refused.append(message)
            raise

    monkeypatch.setattr(lines.LineTransport, "send", counted)
    child = start_server((sys.executable, "-c", DEAF), None, None, None)
    try:
        async with asyncio.timeout(60):
            child.set_receiver(lambda data: answer(child, data))
            while len(refused) < 1000:
                await asyncio.sleep(0)
    finally:
        await child.close(timeout=0)


def answer(child: Any, data: bytes | None) -> None:
    if data is not None:
        try:
            child.send(b'{"jsonrpc":"2.0","id":1,"result":{}}' * 100)
        except ConnectionClosedError:
            return


async def test_a_peer_of_another_protocol_is_read_while_it_is_written_to() -> None:
    row = RequestRow("echo", str, str)
    program = "import json, sys\nfor line in sys.stdin.buffer:\n    message = json.loads(line)\n" + (
        '    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]}), flush=True)\n'
    )

    class Asking(Peer):
        async def ask(self, text: str) -> Any:
            return await self._send_request(row, text)

    async with asyncio.timeout(60), Asking().start(sys.executable, "-c", program) as peer:
        texts = ["x" * SIZE] * AT_ONCE
        assert await asyncio.gather(*(peer.ask(text) for text in texts)) == texts
