"""What was not declared is neither sent nor served, in both directions; what is overridden is declared by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    METHOD_NOT_FOUND,
    Rev,
    among,
    clause,
    client_of,
    raw_server,
    server_of,
    wire_to,
)

from mcp_runtime.errors import ProtocolViolationError

# What a client asks, the capability it needs, the call that asks it, and its params on the wire.
Gate = tuple[str, str, str, dict[str, Any]]
GATES: list[Gate] = [
    ("tools/list", "tools", "list_tools", {}),
    ("tools/call", "tools", "call_tool", {"name": "x"}),
    ("prompts/list", "prompts", "list_prompts", {}),
    ("prompts/get", "prompts", "get_prompt", {"name": "x"}),
    ("resources/list", "resources", "list_resources", {}),
    ("resources/templates/list", "resources", "list_resource_templates", {}),
    ("resources/read", "resources", "read_resource", {"uri": "test://x"}),
]
SESSION_GATES: list[Gate] = [
    ("resources/subscribe", "resources.subscribe", "subscribe", {"uri": "test://x"}),
    ("resources/unsubscribe", "resources.subscribe", "unsubscribe", {"uri": "test://x"}),
    ("logging/setLevel", "logging", "set_level", {"level": "info"}),
]

CASES = [(rev, gate) for rev in ALL_REVISIONS for gate in GATES + ([] if rev.stateless else SESSION_GATES)]


@clause("2024-11-05/lifecycle/14", "2025-03-26/lifecycle/15", "draft/lifecycle/15")
@clause("2024-11-05/lifecycle/19", "2025-03-26/lifecycle/24", "draft/lifecycle/24")
@clause("2024-11-05/prompts/12", "2025-03-26/prompts/13", "draft/prompts/13")
@pytest.mark.parametrize(("rev", "gate"), CASES, ids=[f"{rev}-{gate[0]}" for rev, gate in CASES])
async def test_what_a_server_did_not_declare_is_neither_asked_nor_served(rev: Rev, gate: Gate) -> None:
    method, capability, call, params = gate
    async with client_of(rev, server_of(rev)) as client:
        with pytest.raises(
            ProtocolViolationError, match=f"'{method}' in {rev} needs the capability 'server.{capability}'"
        ):
            await getattr(client, call)(**params)
    async with wire_to(server_of(rev), opened=rev) as wire:
        answer = await wire.request(rev.request(1, method, params))
        assert answer["error"]["code"] == METHOD_NOT_FOUND
        assert "error" in await wire.request(rev.request(2, method, params))


OVERRIDES = [
    (["list_tools"], {"tools": {}}),
    (["list_prompts"], {"prompts": {}}),
    (["read_resource"], {"resources": {}}),
    (["get_prompt", "call_tool", "list_resources"], {"tools": {}, "prompts": {}, "resources": {}}),
    ([], {}),
]


@clause("2024-11-05/tools/05", "2025-03-26/tools/05", "draft/tools/05")
@clause("2024-11-05/prompts/01", "2025-03-26/prompts/01", "draft/prompts/01")
@clause("2024-11-05/resources/01", "2025-03-26/resources/01", "draft/resources/01")
@pytest.mark.parametrize(("methods", "capabilities"), OVERRIDES)
@among(ALL_REVISIONS)
async def test_overriding_a_method_declares_its_capability(
    rev: Rev, methods: list[str], capabilities: dict[str, Any]
) -> None:
    async def handle(ctx: Any, params: Any) -> Any: ...

    async with client_of(rev, server_of(rev, **dict.fromkeys(methods, handle))) as client:
        assert client.server.capabilities.model_dump() == capabilities


@among(HANDSHAKE)
async def test_overriding_subscribe_declares_it_beside_what_is_given_by_hand(rev: Rev) -> None:
    async def subscribe(ctx: Any, params: Any) -> Any: ...

    capabilities = {"resources": {"listChanged": True}, "logging": {}}
    async with client_of(rev, server_of(rev, capabilities, subscribe=subscribe)) as client:
        declared = client.server.capabilities.model_dump()
    assert declared == {"resources": {"subscribe": True, "listChanged": True}, "logging": {}}


@among(ALL_REVISIONS)
async def test_a_declared_feature_without_its_handler_is_refused_as_not_served(rev: Rev) -> None:
    async with wire_to(server_of(rev, {"tools": {}}), opened=rev) as wire:
        answer = await wire.request(rev.request(1, "tools/list"))
    assert answer["error"]["code"] == METHOD_NOT_FOUND


@clause("2024-11-05/lifecycle/14", "2025-03-26/lifecycle/15", "draft/lifecycle/15")
@among(HANDSHAKE)
async def test_a_notification_that_was_not_declared_is_not_heard(rev: Rev) -> None:
    notifications: list[str] = []

    async def on_tool_list_changed(ctx: Any, params: Any) -> None:
        notifications.append("changed")

    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, on_tool_list_changed=on_tool_list_changed).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    wire.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert (await wire.request(rev.request(1, "ping")))["result"] == {}
    assert notifications == []
    await client.close()


@among(ALL_REVISIONS)
async def test_a_method_that_nobody_knows_is_refused_and_an_unknown_notification_is_silence(rev: Rev) -> None:
    async with wire_to(server_of(rev), opened=rev) as wire:
        wire.send({"jsonrpc": "2.0", "method": "notifications/nobody_knows", "params": {"x": 1}})
        answer = await wire.request(rev.request(1, "nobody/knows"))
    assert answer["error"]["code"] == METHOD_NOT_FOUND
