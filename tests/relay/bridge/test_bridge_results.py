"""Results of an upstream over HTTP that pass a bridge as bytes."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.feature_cells.bridge.raw_clients import RawClient, running
from support.http.raw_answers import raw_server

from mcp_generated.v2025_11_25 import methods
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.upstream.target import Target

INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
RESULTS = {
    "as bytes": (b'{"jsonrpc":"2.0","id":%d,"result":{"a": 1.50}}', b'{"a": 1.50}'),
    "with spaces": (b'{"jsonrpc": "2.0", "id": %d, "result": {"a": 1.50}}', b'{"a": 1.50}'),
    "id last": (b'{"result":{"a": 1.50},"jsonrpc":"2.0","id":%d}', b'{"a": 1.50}'),
    "over several lines": (b'{\n "jsonrpc":"2.0",\n "id":%d,\n "result":{\n"a": 1.50}}', b'{"a":1.5}'),
    "with a line end in the result": (b'{"jsonrpc":"2.0","id":%d,"result":{"a":\r\n1.50}}', b'{"a":1.5}'),
}


def http(content: bytes, kind: bytes = b"application/json") -> bytes:
    """Return a response with a body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(content), content)


@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("form", RESULTS)
async def test_results_pass_as_bytes_unless_they_would_break_a_line(form: str, stream: bool) -> None:
    line, expected = RESULTS[form]
    content = line % 2
    if stream:
        content = b"".join(b"data: %b\n" % part for part in content.splitlines()) + b"\n"
    kind = b"text/event-stream" if stream else b"application/json"
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "result": INFO}).encode()
    no_stream = b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"
    accepted = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    async with raw_server(http(opening), accepted, no_stream, http(content, kind)) as server:
        async with running(Bridge(Target(url=server.url), "mcp_generated")) as connect:
            client: RawClient = await connect()
            await client.initialize(methods.REVISION.id)
            async with asyncio.timeout(20):
                while len(server.heads) < 3:
                    await asyncio.sleep(0.01)
            answer = await client.request("acme/x")
        assert answer.endswith(b'"result":%b}' % expected) and b"\n" not in answer and b"\r" not in answer
