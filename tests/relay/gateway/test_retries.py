"""A gateway sends again only what cannot have run: lists, and requests for which there was no connection."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text

from mcp_generated import Gateway, RemoteJSONRPCError

CALL, LIST = "tools/call", "tools/list"
TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
PEERS = ("stateless", "stateful")


async def listed(got: Got, write: Write) -> None:
    """Answer a list."""
    await write(reply(result(got, TOOLS)))


async def unknown(got: Got, write: Write) -> None:
    """Answer that there is no such method."""
    await write(reply(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"unknown"}}' % got.body["id"]))


async def cut(got: Got, write: Write) -> None:
    """Close the connection when the whole request has arrived, without an answer."""


async def half(got: Got, write: Write) -> None:
    """Close the connection within the answer."""
    await write(reply(b"x" * 50)[:-20])


async def error_500(got: Got, write: Write) -> None:
    """Answer with an error of the server, and no JSON-RPC."""
    await write(reply(b"out of order", 500, "text/plain"))


async def error_503(got: Got, write: Write) -> None:
    """Answer with an error of a balancer, which does not say that nothing has run."""
    await write(reply(b"out of order", 503, "text/plain"))


class Once:
    """Fails so many times, and then answers."""

    def __init__(self, fault: Any, then: Any, times: int = 1) -> None:
        self.times = times
        self._fault = fault
        self._then = then

    async def __call__(self, got: Got, write: Write) -> None:
        self.times -= 1
        await (self._fault if self.times >= 0 else self._then)(got, write)


def server(kind: str) -> Raw:
    """A server with one tool."""
    return Raw({LIST: listed, "server/discover": discover if kind == "stateless" else unknown})


def gateway_of(raw: Raw) -> Gateway:
    """A gateway before one server."""
    return Gateway({"upstreams": {"shop": {"url": raw.url}}})


FAULTS = {"cut": cut, "half an answer": half, "500": error_500, "503": error_503}


@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_call_that_may_have_run_is_never_sent_again(rev: Rev, kind: str, fault: Any) -> None:
    raw = server(kind)
    async with serving(raw), connect(gateway_of(raw).app, client=rev.package.Client, revisions=[rev.id]) as client:
        assert text(await client.call_tool(name="shop_x")) == "usual"
        raw.answers[CALL] = Once(fault, listed)
        with pytest.raises(RemoteJSONRPCError, match="'shop'"):
            await client.call_tool(name="shop_x")
    assert len(raw.requests_of(CALL)) == 2


@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_list_is_read_again_once(rev: Rev, kind: str, fault: Any) -> None:
    raw = server(kind)
    raw.answers[LIST] = Once(fault, listed)
    async with serving(raw), connect(gateway_of(raw).app, client=rev.package.Client, revisions=[rev.id]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["shop_x"]
        assert len(raw.requests_of(LIST)) == 2
        raw.answers[LIST] = Once(fault, listed, 10)
        assert (await client.list_tools()).tools == []
        assert len(raw.requests_of(LIST)) == 4


@pytest.mark.parametrize("kind", PEERS)
async def test_a_connection_that_cannot_be_opened_is_opened_again_once(kind: str) -> None:
    raw = server(kind)
    usual = raw.answers["server/discover"]
    raw.answers["server/discover"] = Once(error_500, usual)
    async with serving(raw), connect(gateway_of(raw).app) as client:
        assert text(await client.call_tool("shop_x")) == "usual"
    assert len(raw.requests_of(CALL)) == 1


async def test_errors_of_the_server_are_answers_and_not_asked_for_again() -> None:
    raw = server("stateless")
    raw.answers[LIST] = unknown
    async with serving(raw), connect(gateway_of(raw).app) as client:
        assert (await client.list_tools()).tools == []
    assert len(raw.requests_of(LIST)) == 1


SERVER = """
import json, os, sys
ran, faults = sys.argv[1], sys.argv[2].split(",")
with open(ran, "a") as file:
    print("start", file=file)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    with open(ran, "a") as file:
        print(method, file=file)
    count = open(ran).read().split().count(method)
    if f"{method}:{count}" in faults:
        os._exit(3)
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "ran"}]}
    elif id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""


def ran(file: Path, method: str) -> int:
    """Return how often a server has begun with a request."""
    return file.read_text(encoding="utf-8").split().count(method)


def over_stdio(file: Path, *faults: str) -> Gateway:
    """A gateway before a process that exits at its n-th request of a method, as soon as it has read it."""
    table = {"command": sys.executable, "args": ["-c", SERVER, str(file), ",".join(faults)]}
    return Gateway({"upstreams": {"shop": table}})


@pytest.mark.deadline(60)
async def test_a_call_whose_process_has_ended_is_not_sent_again_and_the_next_one_starts_it(tmp_path: Path) -> None:
    file = tmp_path / "ran"
    async with connect(over_stdio(file, "tools/call:1").app) as client:
        with pytest.raises(RemoteJSONRPCError, match="exit code 3"):
            await client.call_tool("shop_x")
        assert ran(file, "tools/call") == 1
        assert text(await client.call_tool("shop_x")) == "ran"
    assert ran(file, "tools/call") == 2 and ran(file, "start") == 2


@pytest.mark.deadline(60)
@pytest.mark.parametrize("fault", ["initialize:1", "tools/list:1"])
async def test_a_process_that_ends_before_it_has_a_call_is_started_again_for_it(tmp_path: Path, fault: str) -> None:
    file = tmp_path / "ran"
    async with connect(over_stdio(file, fault).app) as client:
        assert text(await client.call_tool("shop_x")) == "ran"
    assert ran(file, "tools/call") == 1 and ran(file, "start") == 2


@pytest.mark.deadline(60)
async def test_a_process_that_never_starts_is_started_twice_for_a_call(tmp_path: Path) -> None:
    file = tmp_path / "ran"
    faults = [f"initialize:{number}" for number in range(1, 10)]
    async with connect(over_stdio(file, *faults).app) as client:
        with pytest.raises(RemoteJSONRPCError, match="cannot be reached.*exit code 3"):
            await client.call_tool("shop_x")
    assert ran(file, "start") == 2 and ran(file, "tools/call") == 0


@pytest.mark.deadline(60)
async def test_with_a_lock_the_lists_of_a_call_are_read_again_and_the_call_is_not(tmp_path: Path) -> None:
    file, lock = tmp_path / "ran", tmp_path / "lock.json"
    table: dict[str, Any] = {"command": sys.executable, "args": ["-c", SERVER, str(file), "none"]}
    settings = {"gateway": {"lock": str(lock)}, "upstreams": {"shop": table}}
    await Gateway.write_lock(settings)
    assert json.loads(lock.read_text(encoding="utf-8"))["shop"]["tools"]
    file.unlink()
    table["args"][-1] = "tools/list:1,tools/call:2"
    async with connect(Gateway(settings).app) as client:
        assert text(await client.call_tool("shop_x")) == "ran"
        assert ran(file, "tools/list") == 2
        with pytest.raises(RemoteJSONRPCError, match="exit code 3"):
            await client.call_tool("shop_x")
    assert ran(file, "tools/call") == 2
