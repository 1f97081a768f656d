"""The revision of a conversation: the client offers one, the server takes it or names another, to take or leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INVALID_PARAMS,
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

from mcp_runtime.bindings.client import negotiate
from mcp_runtime.bindings.server import services_of
from mcp_runtime.errors import LocalError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.transports import memory


def named(rev: Rev) -> Any:
    """A server whose tool says of which revision it is."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(f"{rev} {ctx.revision.id}")

    return server_of(rev, call_tool=call_tool)


def clients(revs: list[Rev], *servers: Any) -> list[Any]:
    return [client_of(rev, memory.connect_in_memory(services_of(servers))) for rev in revs]


@clause("2024-11-05/lifecycle/09", "2025-03-26/lifecycle/10", "draft/lifecycle/09", "versioning/01")
@among(ALL_REVISIONS)
async def test_a_server_of_every_revision_takes_what_each_client_offers(rev: Rev) -> None:
    async with rev.package.Client.memory(*map(named, ALL_REVISIONS)) as client:
        assert (await client.call_tool(name="x")).content[0].text == f"{rev} {rev}"
        if not rev.stateless:
            assert client.server.protocol_version == rev.id


@clause("2024-11-05/lifecycle/10", "2025-03-26/lifecycle/11", "draft/lifecycle/10")
@clause("2024-11-05/lifecycle/11", "2025-03-26/lifecycle/12", "draft/lifecycle/11")
@pytest.mark.parametrize("offer", ["1999-01-01", "2099-01-01", "", "2024-11-05 "])
@among(HANDSHAKE)
async def test_a_server_answers_an_unknown_offer_with_its_newest_revision(rev: Rev, offer: str) -> None:
    servers = [named(supported) for supported in HANDSHAKE if supported.id <= rev.id]
    async with wire_to(*servers) as wire:
        assert (await wire.request(hello(offer)))["result"]["protocolVersion"] == rev.id


@clause("2024-11-05/lifecycle/12", "2025-03-26/lifecycle/13", "draft/lifecycle/12")
@clause("2024-11-05/lifecycle/18", "2025-03-26/lifecycle/23", "draft/lifecycle/23")
@among(HANDSHAKE)
async def test_a_client_leaves_a_server_whose_revision_it_does_not_speak(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    request = await wire.receive()
    result = {"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
    with pytest.raises(LocalError, match=f"the server supports '1999-01-01', this client {rev}"):
        await opening
    assert await wire.receive() is None


@clause("2024-11-05/lifecycle/18", "2025-03-26/lifecycle/23", "draft/lifecycle/23")
@among(HANDSHAKE)
async def test_a_server_that_refuses_the_offer_with_an_error_is_an_error_with_its_data(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    request = await wire.receive()
    data = {"supported": ["1999-01-01"], "requested": rev.id}
    error = {"code": INVALID_PARAMS, "message": "Unsupported protocol version", "data": data}
    wire.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    with pytest.raises(RemoteJSONRPCError) as caught:
        await opening
    assert (caught.value.code, caught.value.data) == (INVALID_PARAMS, data)
    assert await wire.receive() is None


COMBINATIONS = [
    (ours, theirs) for ours in range(1, len(ALL_REVISIONS) + 1) for theirs in range(1, len(ALL_REVISIONS) + 1)
]


@clause("2024-11-05/lifecycle/08", "2025-03-26/lifecycle/09", "draft/lifecycle/08")
@clause("2024-11-05/lifecycle/11", "2025-03-26/lifecycle/12", "draft/lifecycle/11", "versioning/01")
@pytest.mark.parametrize(("ours", "theirs"), COMBINATIONS)
async def test_two_sides_meet_at_the_newest_revision_that_both_speak(ours: int, theirs: int) -> None:
    """Each side speaks all revisions up to one of its own."""
    supported, servers = ALL_REVISIONS[:ours], [named(rev) for rev in ALL_REVISIONS[:theirs]]
    client = await negotiate(*clients(supported, *servers))
    agreed = ALL_REVISIONS[min(ours, theirs) - 1]
    try:
        assert isinstance(client, agreed.package.Client) and client.revision.id == agreed.id
        result = await client.call_tool(name="x")  # type: ignore[attr-defined]
        assert isinstance(result, agreed.t.CallToolResult)
        assert result.content[0].text == f"{agreed} {agreed}"
    finally:
        await client.close()


@clause("2024-11-05/lifecycle/08", "2025-03-26/lifecycle/09", "draft/lifecycle/08")
async def test_the_newest_revision_of_the_client_is_offered() -> None:
    tap = Tap(named(HANDSHAKE[0]))
    client = await negotiate(*(client_of(rev, tap) for rev in HANDSHAKE))
    assert tap.sent[0]["params"]["protocolVersion"] == HANDSHAKE[-1].id
    assert client.revision.id == HANDSHAKE[0].id
    await client.close()


async def test_sides_that_have_no_revision_in_common_part_with_an_error() -> None:
    with pytest.raises(LocalError, match="the server supports '2024-11-05', this client 2025-03-26, 2025-06-18"):
        await negotiate(*clients(ALL_REVISIONS[1:3], named(ALL_REVISIONS[0])))
    with pytest.raises(LocalError, match="does not support 2026-07-28"):
        await negotiate(*clients(ALL_REVISIONS[4:], named(ALL_REVISIONS[0])))


@clause("2024-11-05/lifecycle/13", "2025-03-26/lifecycle/14", "draft/lifecycle/14", "versioning/01")
async def test_after_an_older_revision_was_agreed_nothing_newer_is_said() -> None:
    """A client of 2025-11-25 and a server of all before it meet at 2024-11-05: no elicitation, in either direction."""
    oldest, newest = HANDSHAKE[0], HANDSHAKE[-1]

    async def on_elicit(ctx: Any, params: Any) -> Any:
        raise AssertionError("it is not to be asked")

    wire, connect = raw_server()
    candidates = [client_of(oldest, connect), client_of(newest, connect, on_elicit=on_elicit)]
    opening = asyncio.create_task(negotiate(*candidates))
    initialize = await wire.welcome(oldest, {"tools": {}, "completions": {}, "tasks": {"list": {}}})
    client: Any = await opening
    assert initialize["params"]["protocolVersion"] == newest.id and client.revision.id == oldest.id
    answer = await wire.request(newest.request(1, "elicitation/create", {"message": "?", "requestedSchema": {}}))
    assert answer["error"]["code"] == METHOD_NOT_FOUND
    with pytest.raises(ProtocolViolationError, match="is not sent by the client"):
        await client._send_request(newest.package.methods.FromClient.LIST_TASKS, {}, None)
    await client.close()
