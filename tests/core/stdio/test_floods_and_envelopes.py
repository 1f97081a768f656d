"""Floods and broken envelopes, for each revision: work and memory stay in bounds, and errors have its codes only."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, client_of, raw_server, server_of, wire_to

import mcp_runtime
from mcp_runtime.errors import InvalidResponseError, MCPError
from mcp_runtime.protocol.connection import Connection, MessageRejected, RequestReceived, ResponseReceived

AT_ONCE = 1024  # As runtime/mcp_runtime/session/handlers.py has it.
WORD = (1 << 61) - 1  # Integers that differ by this have the same hash.
PROTOCOLS_OWN = range(-32768, -31999)  # JSON-RPC 2.0 §5.1: reserved for codes that are defined.


def probe(rev: Rev, id: Any) -> dict[str, Any]:
    """What any side that is asked answers at once."""
    return rev.request(id, "server/discover" if rev.stateless else "ping")


# ---- floods ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
@among(HANDSHAKE)
async def test_twenty_thousand_requests_of_a_server_are_worked_on_a_few_at_a_time(rev: Rev) -> None:
    started = 0
    go_on, many = asyncio.Event(), asyncio.Event()

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        nonlocal started
        started += 1
        if started == AT_ONCE:
            many.set()
        await go_on.wait()
        return rev.t.ListRootsResult(roots=[])

    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, on_list_roots=on_list_roots).__aenter__())
    await wire.welcome(rev)
    client = await opening
    line = json.dumps(rev.request("ID", "roots/list"))
    for number in range(20_000):
        wire.send(line.replace('"ID"', str(number)).encode())
    await many.wait()
    for _ in range(100):  # Turns of the loop in which more would begin, if any did.
        await asyncio.sleep(0)
    assert started == AT_ONCE
    go_on.set()
    answered = [(await wire.receive())["id"] for _ in range(20_000)]
    assert sorted(answered) == list(range(20_000)) and started == 20_000
    await client.close()


@among(STATELESS)
async def test_requests_of_a_server_where_there_are_none_begin_nothing(rev: Rev) -> None:
    peer = Connection(rev.revision, "client", local_capabilities={"roots": {}})
    for number in range(20_000):
        event = peer.receive(b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}' % number)
        assert isinstance(event, MessageRejected)
    assert not peer.in_flight


@pytest.mark.long
@among(ALL_REVISIONS)
async def test_fifty_thousand_notifications_leave_nothing_in_memory(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any: ...

    notifications = [
        {"method": "notifications/cancelled", "params": {"requestId": "gone"}},
        {"method": "notifications/progress", "params": {"progressToken": "gone", "progress": 1}},
        {"method": "notifications/nobody_knows", "params": {"x": "y"}},
        {"method": "notifications/cancelled"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **notification}).encode() for notification in notifications]
    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:

        async def flood(times: int) -> int:
            """How many blocks of memory there are afterwards."""
            for _ in range(times):
                for line in lines * 250:
                    wire.transport.send(line)
                assert "result" in await wire.request(probe(rev, 1))
            return sys.getallocatedblocks()

        before = await flood(10)
        assert await flood(40) - before < 5_000


@pytest.mark.long
@among(ALL_REVISIONS)
def test_a_hundred_thousand_keys_and_values_that_collide_take_time_in_proportion(rev: Rev) -> None:
    peer = Connection(rev.revision, "server", local_capabilities={})
    peer.negotiated(rev.revision, {})
    many: list[dict[str, Any]] = [
        {f"k{number}": number for number in range(100_000)},
        {str(WORD * number): number for number in range(100_000)},
        {"x": [WORD * number for number in range(100_000)]},
    ]
    for id, keys in enumerate(many):
        request = probe(rev, id)
        request["params"] = {"_meta": {**keys, **(rev.meta() if rev.stateless else {})}}
        line = json.dumps(request).encode()
        before = time.process_time()
        assert isinstance(peer.receive(line), RequestReceived)
        assert time.process_time() - before < 4


# ---- answers that nobody waits for ----------------------------------------------------------------------------------


@among(ALL_REVISIONS)
def test_an_answer_counts_once_and_only_for_who_asked(rev: Rev) -> None:
    peer = Connection(rev.revision, "client", local_capabilities={})
    peer.negotiated(rev.revision, {"tools": {}})
    row: Any = rev.revision.table("client_to_server")["tools/list"]
    if not rev.stateless:
        opening: Any = rev.revision.table("client_to_server")["notifications/initialized"]
        (
            peer.send_notification(opening, None)
            if peer.phase.value == "during the handshake"
            else peer.enter_phase(_open())
        )
    peer.send_request(7, row, {"_meta": rev.meta()} if rev.stateless else {})
    more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if rev.stateless else {}
    for id in (8, "8", "07.0", " 7x", 7.5, None):
        event = peer.receive(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": [], **more}}).encode())
        assert isinstance(event, MessageRejected) and event.reply is None
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"tools": [], **more}}).encode()
    assert isinstance(event := peer.receive(line), ResponseReceived) and not isinstance(event.outcome, MCPError)
    assert isinstance(event := peer.receive(line), MessageRejected) and event.reply is None


def _open() -> Any:
    from mcp_runtime.protocol.lifecycle import Phase

    return Phase.OPEN


# ---- what an envelope has to have -----------------------------------------------------------------------------------

_META = "io.modelcontextprotocol/"


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities", "clientInfo"])
@among(STATELESS)
async def test_metadata_that_a_request_has_to_carry_is_asked_for(rev: Rev, missing: str) -> None:
    async with wire_to(server_of(rev)) as wire:
        request = probe(rev, 1)
        del request["params"]["_meta"][_META + missing]
        answer = await wire.request(request)
    if missing == "clientInfo":
        assert "result" in answer
    else:
        assert answer["error"]["code"] == -32602 and missing in answer["error"]["message"]


@pytest.mark.parametrize(("type", "fine"), [("complete", True), (None, True), ("nobody_knows", False), (5, False)])
@among(STATELESS)
def test_a_result_without_a_type_is_complete_and_of_an_unknown_one_invalid(rev: Rev, type: Any, fine: bool) -> None:
    peer = Connection(rev.revision, "client", local_capabilities={})
    peer.negotiated(rev.revision, {"tools": {}})
    row: Any = rev.revision.table("client_to_server")["tools/call"]
    peer.send_request(1, row, {"name": "x", "_meta": rev.meta()})
    result = {"content": []} | ({} if type is None else {"resultType": type})
    event = peer.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
    assert isinstance(event, ResponseReceived) and isinstance(event.outcome, InvalidResponseError) is not fine


# ---- codes ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_runtime_itself_has_no_code_but_those_of_json_rpc() -> None:
    codes: set[int] = set()
    for path in Path(mcp_runtime.__file__).parent.rglob("*.py"):
        if path.parent.name == "compat":
            continue  # It has the constants of the official SDK.
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.UnaryOp)
                and isinstance(node.op, ast.USub)
                and isinstance(node.operand, ast.Constant)
            ):
                value = node.operand.value
                codes |= {-value} if type(value) is int and -value in PROTOCOLS_OWN else set()
    assert codes == {-32700, -32600, -32601, -32602, -32603}


@among(ALL_REVISIONS)
async def test_whatever_is_wrong_the_code_is_one_that_the_revision_has(rev: Rev) -> None:
    async def failing(ctx: Any, params: Any) -> Any:
        raise ValueError("no")

    async def wrong(ctx: Any, params: Any) -> Any:
        return 5

    handlers = {"call_tool": failing, "list_tools": wrong, "read_resource": failing, "get_prompt": wrong}
    messages: list[Any] = [
        *(
            rev.request(1, method)
            for method in ("nobody/knows", "tools/call", "tools/list", "initialize", "roots/list")
        ),
        *(rev.request(1, method, {"name": "x"}) for method in ("tools/call", "prompts/get", "completion/complete")),
        *(rev.request(1, "resources/read", {"uri": uri}) for uri in ("test://x", "no uri", 5)),
        *(rev.request(1, "tools/list", {"cursor": cursor}) for cursor in ("x", 5)),
        *({"jsonrpc": "2.0", "id": id, "method": "tools/list"} for id in (1, None, 1.5, [], True)),
        *(b"{", b"[]", b"[1]", b"1", b"{}", b"\xff", b"[" * 1000, b'{"jsonrpc":"1.0","id":1,"method":"x"}'),
        {**rev.request(1, "tools/list"), "params": 5},
    ]
    if rev.stateless:
        messages.append(rev.request(1, "tools/list", {"_meta": {f"{_META}protocolVersion": "1900-01-01"}}))
    allowed_codes = {value for value in rev.revision.constants.values() if isinstance(value, int)}
    codes: set[int] = set()
    async with wire_to(server_of(rev, **handlers), opened=rev) as wire:
        for message in messages:
            wire.send(message, probe(rev, "next"))
            answers: list[Any] = []
            while not answers or answers[-1].get("id") != "next":
                answer = await wire.receive()
                answers += answer if isinstance(answer, list) else [answer]
            codes |= {one["error"]["code"] for one in answers if "error" in one}
    assert codes <= allowed_codes and len(codes) >= 5
