"""Conversations without a session: every request says of which revision it is and what its client can do."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import (
    HANDSHAKE,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    Tap,
    among,
    client_of,
    hello,
    server_of,
    wire_to,
)

from mcp_runtime.errors import ProtocolViolationError

META = "io.modelcontextprotocol/"


def served(rev: Rev, **settings: Any) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(f"{ctx.client_info['name']} {sorted(ctx.capabilities)}")

    return server_of(rev, call_tool=call_tool, **settings)


@among(STATELESS)
async def test_a_client_discovers_what_the_server_is(rev: Rev) -> None:
    async with client_of(rev, served(rev, instructions="Call x.")) as client:
        for discovered in (client.server, await client.discover()):
            assert isinstance(discovered, rev.t.DiscoverResult)
            assert discovered.supported_versions == [rev.id]
            assert discovered.capabilities.model_dump() == {"tools": {}} and discovered.instructions == "Call x."
            assert discovered.model_dump()["_meta"][f"{META}serverInfo"] == {"name": "served", "version": "1"}


@among(STATELESS)
async def test_every_request_says_who_asks_and_how(rev: Rev) -> None:
    tap = Tap(served(rev))
    async with client_of(rev, tap, name="me", version="7", capabilities={"sampling": {}}) as client:
        assert (await client.call_tool(name="x")).content[0].text == "me ['sampling']"
    assert tap.methods() == ["server/discover", "tools/call"]
    for message in tap.sent:
        assert message["params"]["_meta"] == {
            f"{META}protocolVersion": rev.id,
            f"{META}clientInfo": {"name": "me", "version": "7"},
            f"{META}clientCapabilities": {"sampling": {}},
        }


@among(STATELESS)
async def test_a_request_that_does_not_say_it_is_refused(rev: Rev) -> None:
    async with wire_to(served(rev)) as wire:
        assert "result" in await wire.request(rev.request(0, "tools/call", {"name": "x"}))
        for id, missing in enumerate(["", "protocolVersion", "clientCapabilities"], start=1):
            request = rev.request(id, "tools/call", {"name": "x"})
            if missing:
                del request["params"]["_meta"][META + missing]
            else:
                del request["params"]["_meta"]
            assert (await wire.request(request))["error"]["code"] == INVALID_PARAMS, missing


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/20")
async def test_another_version_is_refused_with_those_that_are_supported(rev: Rev) -> None:
    async with wire_to(served(rev)) as wire:
        request = rev.request(1, "tools/call", {"name": "x", "_meta": {f"{META}protocolVersion": "2099-01-01"}})
        error = (await wire.request(request))["error"]
        assert error["code"] == rev.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"]
        assert error["data"] == {"supported": [rev.id], "requested": "2099-01-01"}
        assert "result" in await wire.request(rev.request(2, "tools/call", {"name": "x"}))


@among(STATELESS)
async def test_nothing_is_remembered_between_two_requests(rev: Rev) -> None:
    async with wire_to(served(rev)) as wire:
        for id, capabilities in enumerate([{"roots": {}}, {}, {"sampling": {}, "elicitation": {}}]):
            request = rev.request(id, "tools/call", {"name": "x", "_meta": {f"{META}clientCapabilities": capabilities}})
            text = (await wire.request(request))["result"]["content"][0]["text"]
            assert text == f"raw {sorted(capabilities)}"


@among(STATELESS)
async def test_there_is_no_handshake(rev: Rev) -> None:
    assert not hasattr(rev.t, "InitializeRequest")
    async with wire_to(served(rev)) as wire:
        await wire.request(rev.request(0, "server/discover"))
        assert (await wire.request(hello(rev.id, id=1)))["error"]["code"] == METHOD_NOT_FOUND


@among(HANDSHAKE)
async def test_where_there_is_a_handshake_nothing_is_discovered(rev: Rev) -> None:
    assert not hasattr(rev.package.Client, "discover") and not hasattr(rev.t, "DiscoverRequest")
    async with wire_to(served(rev), opened=rev) as wire:
        request = STATELESS[0].request(1, "server/discover")
        assert (await wire.request(request))["error"]["code"] == METHOD_NOT_FOUND


@among(STATELESS)
async def test_what_the_discovered_server_did_not_declare_is_not_asked(rev: Rev) -> None:
    async with client_of(rev, served(rev)) as client:
        with pytest.raises(ProtocolViolationError, match="needs the capability 'server.prompts'"):
            await client.list_prompts()
