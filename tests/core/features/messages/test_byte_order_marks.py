"""The byte order mark of UTF-8 before a message is ignored: some programs on Windows begin what they send with it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, hello
from support.http.in_process import asking
from support.raw_process import RawServer

from mcp_generated import App

BOM = b"\xef\xbb\xbf"
APP = """
from mcp_generated import App
app = App("marked")
@app.tool
def add(a: int, b: int) -> int:
    return a + b
app.run("stdio", revisions=["2025-11-25", "2026-07-28"])
"""
# A server that ends if its client does not read its first line, which begins with the mark.
SERVER = """
import json, sys
result = {"protocolVersion": "VERSION", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
asked = json.loads(sys.stdin.readline())
sys.stdout.buffer.write(b"\\xef\\xbb\\xbf")
for answer in (result, {"tools": []}):
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).encode() + b"\\n")
    sys.stdout.buffer.flush()
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if "id" in asked:
            break
"""


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_server_over_stdio_reads_the_first_message(version: str) -> None:
    rev = Rev(version)
    call = rev.request(1, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    lines = (
        [call] if rev.stateless else [hello(version), {"jsonrpc": "2.0", "method": "notifications/initialized"}, call]
    )
    with RawServer(rev=rev, command=[sys.executable, "-c", APP]) as server:
        server.write(BOM + b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        answers = [server.answer() for line in lines if "id" in line]
    assert answers[-1]["result"]["content"][0]["text"] == "3"
    assert [answer["id"] for answer in answers] == [line["id"] for line in lines if "id" in line]


@among(HANDSHAKE)
async def test_a_client_over_stdio_reads_the_first_message(rev: Rev) -> None:
    command = [sys.executable, "-c", SERVER.replace("VERSION", rev.id)]
    async with connect(command, revisions=[rev.id], timeout=10) as client:
        assert (await client.list_tools()).tools == []


@among(ALL_REVISIONS)
async def test_a_server_over_http_reads_a_message(rev: Rev) -> None:
    app = App("marked")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    asgi = app.asgi(revisions=[rev.id])
    message = rev.request(1, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    head: dict[str, Any] = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if rev.stateless:
        head |= {"mcp-protocol-version": rev.id, "mcp-method": "tools/call", "mcp-name": "add"}
    async with asking(asgi) as web:
        answer = await web.post(
            "/mcp", content=BOM + json.dumps(message if rev.stateless else hello(rev.id)).encode(), headers=head
        )
    assert answer.status_code == 200 and ('"3"' in answer.text or "serverInfo" in answer.text)
    await asgi.close()
