"""What a server tells without being asked: that lists have changed, and that a watched resource has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, METHOD_NOT_FOUND, STATELESS, Rev, among, clause, client_of, server_of, wire_to

from mcp_runtime.errors import ProtocolViolationError

FEATURES = ["tools", "prompts", "resources"]
by_feature = pytest.mark.parametrize("feature", FEATURES)


def notifying(rev: Rev, feature: str, capabilities: dict[str, Any]) -> Any:
    """A server whose tool tells that a list has changed."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        await getattr(ctx, f"notify_{feature[:-1]}_list_changed")()
        return rev.text("told")

    return server_of(rev, capabilities, call_tool=call_tool)


@clause("2024-11-05/tools/06", "2025-03-26/tools/06", "draft/tools/06")
@clause("2024-11-05/prompts/02", "2025-03-26/prompts/02", "draft/prompts/02")
@clause("2024-11-05/resources/02", "2025-03-26/resources/02", "draft/resources/02")
@by_feature
@among(HANDSHAKE)
async def test_a_server_that_declares_it_tells_that_a_list_has_changed(rev: Rev, feature: str) -> None:
    notified = asyncio.Event()

    async def on_list_changed(ctx: Any, params: Any) -> None:
        notified.set()

    server = notifying(rev, feature, {feature: {"listChanged": True}})
    async with client_of(rev, server, **{f"on_{feature[:-1]}_list_changed": on_list_changed}) as client:
        assert getattr(client.server.capabilities, feature).list_changed is True
        await client.call_tool(name="x")
        await notified.wait()


@clause("2024-11-05/lifecycle/14", "2025-03-26/lifecycle/15", "draft/lifecycle/15")
@by_feature
@among(HANDSHAKE)
async def test_a_server_that_does_not_declare_it_cannot_tell(rev: Rev, feature: str) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        with pytest.raises(ProtocolViolationError, match=rf"needs the capability 'server.{feature}.listChanged'"):
            await getattr(ctx, f"notify_{feature[:-1]}_list_changed")()
        return rev.text("refused")

    async with client_of(rev, server_of(rev, {feature: {}}, call_tool=call_tool)) as client:
        assert (await client.call_tool(name="x")).content[0].text == "refused"


class Watched:
    """A server with one counter, of which subscribers hear; `changed` counts for all of them."""

    def __init__(self, rev: Rev) -> None:
        self.rev = rev
        self.watching: dict[str, Any] = {}
        handlers = {"subscribe": self.subscribe, "unsubscribe": self.unsubscribe, "read_resource": self.read_resource}
        self.server = server_of(rev, {"resources": {"subscribe": True}}, **handlers)

    async def subscribe(self, ctx: Any, params: Any) -> Any:
        self.watching[params.uri] = ctx
        return self.rev.t.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: Any) -> Any:
        del self.watching[params.uri]
        return self.rev.t.EmptyResult()

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        return self.rev.t.ReadResourceResult(contents=[])

    async def changed(self, uri: str) -> None:
        if uri in self.watching:
            await self.watching[uri].notify_resource_updated(uri=uri)


@among(HANDSHAKE)
async def test_a_client_hears_of_a_resource_from_subscribing_to_unsubscribing(rev: Rev) -> None:
    uris: asyncio.Queue[str] = asyncio.Queue()

    async def on_resource_updated(ctx: Any, params: Any) -> None:
        uris.put_nowait(params.uri)

    watched = Watched(rev)
    async with client_of(rev, watched.server, on_resource_updated=on_resource_updated) as client:
        assert client.server.capabilities.resources.subscribe is True
        await watched.changed("test://a")
        assert await client.subscribe(uri="test://a") == rev.t.EmptyResult()
        await watched.changed("test://a")
        await watched.changed("test://b")
        assert await uris.get() == "test://a"
        await client.unsubscribe(uri="test://a")
        await watched.changed("test://a")
        await client.ping()
    assert uris.empty()


@among(HANDSHAKE)
async def test_without_the_capability_nothing_is_watched(rev: Rev) -> None:
    async def read_resource(ctx: Any, params: Any) -> Any:
        with pytest.raises(ProtocolViolationError, match="needs the capability 'server.resources.subscribe'"):
            await ctx.notify_resource_updated(uri=params.uri)
        return rev.t.ReadResourceResult(contents=[])

    server = server_of(rev, read_resource=read_resource)
    async with client_of(rev, server) as client:
        with pytest.raises(ProtocolViolationError, match="needs the capability 'server.resources.subscribe'"):
            await client.subscribe(uri="test://a")
        assert await client.read_resource(uri="test://a")
    async with wire_to(server, opened=rev) as wire:
        answer = await wire.request(rev.request(1, "resources/subscribe", {"uri": "test://a"}))
        assert answer["error"]["code"] == METHOD_NOT_FOUND


@among(HANDSHAKE)
async def test_a_handler_of_a_notification_that_fails_ends_nothing(rev: Rev) -> None:
    async def failing(ctx: Any, params: Any) -> None:
        raise ValueError("a bug of the client")

    server = notifying(rev, "tools", {"tools": {"listChanged": True}})
    async with client_of(rev, server, on_tool_list_changed=failing) as client:
        for _ in range(2):
            assert (await client.call_tool(name="x")).content[0].text == "told"


@among(STATELESS)
async def test_without_sessions_there_is_no_subscribing_to_one_resource(rev: Rev) -> None:
    assert not hasattr(rev.package.Client, "subscribe") and not hasattr(rev.t, "SubscribeRequest")
    async with wire_to(server_of(rev, {"resources": {"subscribe": True}})) as wire:
        answer = await wire.request(rev.request(1, "resources/subscribe", {"uri": "test://a"}))
        assert answer["error"]["code"] == METHOD_NOT_FOUND
