"""The handshake: who opens it, what each side says of itself, and what may be said before it is done."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    hello,
    raw_server,
    server_of,
    wire_to,
)

from mcp_runtime.errors import InvalidResponseError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import Connection, MessageRejected, RequestReceived

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def tooled(rev: Rev, **settings: Any) -> Any:
    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult(tools=[])

    return server_of(rev, list_tools=list_tools, **settings)


@clause("2024-11-05/lifecycle/02", "2025-03-26/lifecycle/02", "draft/lifecycle/02")
@clause("2024-11-05/lifecycle/04", "2025-03-26/lifecycle/05", "draft/lifecycle/04")
@clause("2024-11-05/lifecycle/07", "2025-03-26/lifecycle/08", "draft/lifecycle/07")
@among(HANDSHAKE)
async def test_a_client_opens_with_initialize_and_then_says_initialized(rev: Rev) -> None:
    tap = Tap(tooled(rev))
    async with client_of(rev, tap, name="me", version="7", capabilities={"roots": {"listChanged": True}}) as client:
        await client.list_tools()
    assert tap.methods() == ["initialize", "notifications/initialized", "tools/list"]
    assert tap.sent[0]["params"] == {
        "protocolVersion": rev.id,
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": {"name": "me", "version": "7"},
    }
    assert tap.sent[1] == INITIALIZED


@clause("2024-11-05/lifecycle/03", "2025-03-26/lifecycle/04", "draft/lifecycle/03")
@clause("2024-11-05/tools/05", "2025-03-26/tools/05", "draft/tools/05")
@among(HANDSHAKE)
async def test_a_server_answers_with_its_capabilities_and_its_name(rev: Rev) -> None:
    async with wire_to(tooled(rev, instructions="List them first.")) as wire:
        answer = await wire.request(hello(rev.id))
    assert answer["result"] == {
        "protocolVersion": rev.id,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "served", "version": "1"},
        "instructions": "List them first.",
    }


@among(ALL_REVISIONS)
async def test_instructions_reach_the_client_and_are_absent_without(rev: Rev) -> None:
    async with client_of(rev, tooled(rev, instructions="List them first.")) as client:
        assert client.server.instructions == "List them first."
    async with client_of(rev, tooled(rev)) as client:
        assert client.server.instructions is None and "instructions" not in client.server.model_dump()


@among(HANDSHAKE)
async def test_each_side_knows_who_the_other_is(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(f"{ctx.client_info['name']} {ctx.client_info['version']} {ctx.capabilities['sampling']}")

    server = server_of(rev, call_tool=call_tool)
    async with client_of(rev, server, name="me", version="7", capabilities={"sampling": {}}) as client:
        assert (client.server.server_info.name, client.server.server_info.version) == ("served", "1")
        assert (await client.call_tool(name="x")).content[0].text == "me 7 {}"


@clause("2024-11-05/lifecycle/01", "2025-03-26/lifecycle/01", "draft/lifecycle/01")
@among(HANDSHAKE)
async def test_a_server_serves_nothing_before_it_has_answered_the_handshake(rev: Rev) -> None:
    async with wire_to(tooled(rev)) as wire:
        assert (await wire.request(rev.request(1, "tools/list")))["error"]["code"] == INVALID_REQUEST
        assert "result" in await wire.request(hello(rev.id))
        assert (await wire.request(rev.request(4, "unknown")))["error"]["code"] == METHOD_NOT_FOUND
        assert (await wire.request(rev.request(5, "tools/list")))["result"] == {"tools": []}
        wire.send(INITIALIZED)
        assert (await wire.request(rev.request(3, "tools/list")))["result"] == {"tools": []}


@among(HANDSHAKE)
def test_a_request_before_the_answer_to_initialize_is_refused_and_one_after_it_is_not(rev: Rev) -> None:
    peer = Connection(rev.revision, "server", local_capabilities={"tools": {}})
    request: Any = peer.receive(json.dumps(hello(rev.id)).encode())
    early = json.dumps(rev.request(1, "tools/list")).encode()
    assert isinstance(peer.receive(early), MessageRejected)
    peer.negotiated(rev.revision, {"roots": {}, "sampling": {}})
    assert isinstance(peer.receive(early), MessageRejected)
    peer.send_result(request, rev.t.InitializeResult.model_validate(_result(rev)))
    assert isinstance(peer.receive(early), RequestReceived)
    assert peer.send_request(2, rev.package.methods.FromServer.LIST_ROOTS, {})


@among(HANDSHAKE)
async def test_a_conversation_is_opened_once(rev: Rev) -> None:
    async with wire_to(tooled(rev), opened=rev) as wire:
        assert (await wire.request(hello(rev.id, id=2)))["error"]["code"] == INVALID_REQUEST
        assert "result" in await wire.request(rev.request(3, "tools/list"))


@among(HANDSHAKE)
async def test_messages_in_the_same_breath_as_the_handshake_are_understood(rev: Rev) -> None:
    async with wire_to(tooled(rev)) as wire:
        wire.send(hello(rev.id), INITIALIZED, rev.request(2, "tools/list"))
        assert [(await wire.receive())["id"] for _ in range(2)] == ["hello", 2]


@among(HANDSHAKE)
async def test_a_bad_opening_is_refused_and_a_good_one_may_follow(rev: Rev) -> None:
    async with wire_to(tooled(rev)) as wire:
        for id, params in enumerate([{}, {"protocolVersion": 5}, hello(rev.id)["params"] | {"clientInfo": {}}]):
            answer = await wire.request(rev.request(id, "initialize", params))
            assert answer["error"]["code"] in (INVALID_PARAMS, INVALID_REQUEST)
        assert "result" in await wire.request(hello(rev.id))


@clause("2024-11-05/lifecycle/05", "2025-03-26/lifecycle/06", "draft/lifecycle/05")
@among(HANDSHAKE)
def test_a_client_sends_only_pings_before_the_answer_to_its_opening(rev: Rev) -> None:
    rows = rev.package.methods.FromClient
    peer = Connection(rev.revision, "client", local_capabilities={})
    peer.send_request(peer.next_id(), rows.INITIALIZE, hello(rev.id)["params"])
    assert peer.send_request(peer.next_id(), rows.PING, {})
    for row in vars(rows).values():
        method = getattr(row, "method", "ping")
        if method in ("ping", "initialize", "notifications/cancelled"):
            continue
        with pytest.raises(ProtocolViolationError):
            peer.send_request(peer.next_id(), row, {}) if hasattr(row, "result") else peer.send_notification(row, {})


@clause("2024-11-05/lifecycle/06", "2025-03-26/lifecycle/07", "draft/lifecycle/06")
@among(HANDSHAKE)
def test_a_server_sends_only_pings_and_log_messages_before_initialized(rev: Rev) -> None:
    rows = rev.package.methods.FromServer
    peer = Connection(rev.revision, "server", local_capabilities={"logging": {}, "tools": {"listChanged": True}})
    peer.receive(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    request: Any = peer.receive(json.dumps(hello(rev.id)).encode())
    peer.negotiated(rev.revision, {"roots": {}, "sampling": {}, "elicitation": {}})
    peer.send_result(request, rev.t.InitializeResult.model_validate(_result(rev)))
    assert peer.send_request(1, rows.PING, {})
    assert peer.send_notification(rows.LOGGING_MESSAGE, {"level": "info", "data": "hello"})
    for row in (rows.LIST_ROOTS, rows.CREATE_MESSAGE):
        with pytest.raises(ProtocolViolationError, match="cannot be sent during the handshake"):
            peer.send_request(2, row, {})
    with pytest.raises(ProtocolViolationError, match="cannot be sent during the handshake"):
        peer.send_notification(rows.TOOL_LIST_CHANGED, {})
    peer.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert peer.send_request(3, rows.LIST_ROOTS, {}) and peer.send_notification(rows.TOOL_LIST_CHANGED, {})


def _result(rev: Rev) -> dict[str, Any]:
    return {"protocolVersion": rev.id, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


@clause("2024-11-05/lifecycle/04", "2025-03-26/lifecycle/05", "draft/lifecycle/04")
@pytest.mark.parametrize("answer", ["error", "nonsense"])
@among(HANDSHAKE)
async def test_after_a_failed_opening_the_client_says_nothing_and_leaves(rev: Rev, answer: str) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    request = await wire.receive()
    error = {"error": {"code": -32603, "message": "out of order"}}
    wire.send({"jsonrpc": "2.0", "id": request["id"]} | (error if answer == "error" else {"result": {}}))
    with pytest.raises(RemoteJSONRPCError if answer == "error" else InvalidResponseError):
        await opening
    assert await wire.receive() is None


@among(ALL_REVISIONS)
async def test_features_outside_the_standard_are_declared_by_both_sides(rev: Rev) -> None:
    theirs: list[Any] = []
    special = {"experimental": {"com.example/special": {"depth": 3}}}

    async def call_tool(ctx: Any, params: Any) -> Any:
        theirs.append(ctx.capabilities["experimental"])
        return rev.text("x")

    server = server_of(rev, special, call_tool=call_tool)
    async with client_of(rev, server, capabilities=special) as client:
        assert client.server.capabilities.experimental == special["experimental"]
        await client.call_tool(name="x")
    assert theirs == [special["experimental"]]
