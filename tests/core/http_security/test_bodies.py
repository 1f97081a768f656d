"""JSON-RPC messages in the bodies of requests on real sockets: malformed ones, ids, keys, and errors of handlers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.http.raw_client import ENDPOINTS, PARSERS, SESSIONS, STATELESS_REVISION, RawClient, address, call, entered
from support.matrices import long_after

endpoints = pytest.mark.parametrize("endpoint", ENDPOINTS)
both = pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])


@both
@endpoints
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"5",
        b"null",
        b'"x"',
        b"{}{}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing',
        b"\xff\xfe{\x00}\x00",
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":NaN}}}',
        b'{"Jsonrpc":"2.0","Id":1,"Method":"tools/call"}',
        b"[" * 100_000,
        b'{"a":' * 10_000,
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":{},"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"tools/call"}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/call"}',
        b'{"id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}',
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
@pytest.mark.fault("1.2/01")
@pytest.mark.advisory("CVE-2025-53366")
async def test_what_is_no_message_is_refused_and_runs_nothing(
    endpoint: str, protocol_version: str, body: bytes
) -> None:
    """CVE-2025-53366: a request that is not valid must not end the server."""
    client = await _client(endpoint, protocol_version)
    before = (await client.status())["echoed"]
    answer = await client.request(body, mcp_method="tools/call", mcp_name="echo")
    assert answer.status in (200, 400, 413) and answer.json["error"]["code"] in (-32700, -32600, -32602)
    assert answer.status != 200 or body.startswith(b'{"jsonrpc":"2.0","id":1')
    assert (answer.status == 413) == (b"9" * 5000 in body)  # A message that is too large, and no other.
    assert (await client.status())["echoed"] == before


_clients: dict[tuple[str, str], RawClient] = {}


async def _client(endpoint: str, protocol_version: str) -> RawClient:
    if (endpoint, protocol_version) not in _clients:
        _clients[endpoint, protocol_version] = await entered(address(endpoint), protocol_version)
    return _clients[endpoint, protocol_version]


@both
@endpoints
@pytest.mark.fault("1.2/03")
async def test_ids_come_back_as_they_were(endpoint: str, protocol_version: str) -> None:
    client = await _client(endpoint, protocol_version)
    ids: list[Any] = [0, -1, "", "é\u2028", "1", 1, 2**53 - 1, 2**63 - 1, "x" * 1024]
    for id in ids:
        answer = await client.request(call(id, "echo"))
        assert answer.json["id"] == id and type(answer.json["id"]) is type(id)
    for id in (2**63, 10**30):
        answer = await client.request(call(id, "echo"))
        assert answer.json.get("id") == id or "error" in answer.json
    answer = await client.request(call("x" * 65536, "echo"))
    assert answer.status == 400 and "id" not in answer.json


@both
@endpoints
@pytest.mark.advisory("CVE-2026-27896")
async def test_keys_in_another_case_are_other_keys(endpoint: str, protocol_version: str) -> None:
    """CVE-2026-27896: `Method` and `param\u017f` are not `method` and `params`."""
    client = await _client(endpoint, protocol_version)
    before = (await client.status())["echoed"]
    good = call(1, "echo")
    folded = {"ID": "id", "Method": "method", "JSONRPC": "jsonrpc"}
    for wrong, right in folded.items():
        body = {wrong if key == right else key: value for key, value in good.items()}
        answer = await client.request(body, mcp_method="tools/call", mcp_name="echo")
        assert answer.status in (202, 400)
    named = {**good, "params": {"Name": "echo", "\u017fame": "echo"}}
    answer = await client.request(named, mcp_method="tools/call", mcp_name="echo")
    assert "error" in answer.json
    assert (await client.status())["echoed"] == before


@both
@endpoints
@pytest.mark.fault("1.2/14", "1.3/18")
async def test_a_fault_of_a_handler_tells_nothing_of_the_inside(endpoint: str, protocol_version: str) -> None:
    client = await _client(endpoint, protocol_version)
    answer = await client.request(call(1, "raise"))
    assert answer.json["error"]["message"] == "internal error" and b"hunter2" not in answer.body


@both
@pytest.mark.parametrize("endpoint", long_after(len(PARSERS), ENDPOINTS))
@pytest.mark.fault("1.5/06")
async def test_many_calls_at_once_are_each_answered_once(endpoint: str, protocol_version: str) -> None:
    client = await _client(endpoint, protocol_version)
    before = (await client.status())["echoed"]
    texts = await asyncio.gather(*(client.call(number, "echo", text=str(number)) for number in range(300)))
    assert texts == [str(number) for number in range(300)]
    assert (await client.status())["echoed"] - before == 300
