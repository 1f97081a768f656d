"""A client listens, over any revision: an iterator, also a synchronous one, yields what its server changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, client_of, raw_server, server_of

from mcp_generated import v2026_07_28
from mcp_runtime.errors import ConnectionClosedError, LocalError, RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

t = v2026_07_28.types
ALL = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}
WATCHING = {**ALL, "resources": {"listChanged": True, "subscribe": True}}


def changing(rev: Rev, capabilities: dict[str, Any] = WATCHING) -> Any:
    return server_of(rev, capabilities, read_resource=lambda ctx, params: None)


async def change(server: Any) -> None:
    """All that can change of a server does."""
    await server.notify_tool_list_changed()
    await server.notify_prompt_list_changed()
    await server.notify_resource_list_changed()
    for name in ("a", "b"):
        await server.notify_resource_updated(uri=f"test://{name}")


async def next_changes(stream: Any, number: int) -> list[Any]:
    return [await anext(stream) for _ in range(number)]


@among(ALL_REVISIONS)
async def test_a_client_hears_what_it_has_chosen_and_nothing_else(rev: Rev) -> None:
    server = changing(rev)
    async with client_of(rev, server) as client:
        async with client.listen(tool_list_changed=True, resource_updated=["test://b"]) as stream:
            assert stream.acknowledged == {"tool_list_changed": True, "resource_updated": ["test://b"]}
            await change(server)
            tools, resource = await next_changes(stream, 2)
            assert isinstance(tools, rev.t.ToolListChangedNotification)
            assert isinstance(resource, rev.t.ResourceUpdatedNotification) and resource.params.uri == "test://b"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@among(ALL_REVISIONS)
async def test_the_newest_client_hears_the_same_of_servers_of_every_revision(rev: Rev) -> None:
    server = changing(rev)
    async with connect(server) as client, client.listen(resource_updated=["test://a"]) as stream:
        assert stream.acknowledged == {"resource_updated": ["test://a"]}
        await change(server)
        async for resource in stream:
            assert isinstance(resource, t.ResourceUpdatedNotification) and resource.params.uri == "test://a"
            break
        async with client.listen() as lists:
            await change(server)
            kinds = {type(change) for change in await next_changes(lists, 3)}
        assert kinds == {
            t.ToolListChangedNotification,
            t.PromptListChangedNotification,
            t.ResourceListChangedNotification,
        }


@among(ALL_REVISIONS)
async def test_a_client_of_every_revision_hears_of_the_newest_server(rev: Rev) -> None:
    server = changing(STATELESS[-1])
    kind = rev.package.Client
    async with kind.memory(server, revisions="all") as client, client.listen(tool_list_changed=True) as stream:
        await change(server)
        assert isinstance(await anext(stream), rev.t.ToolListChangedNotification)


@among(ALL_REVISIONS)
async def test_what_a_server_does_not_declare_is_not_honoured(rev: Rev) -> None:
    server = changing(rev, {"tools": {"listChanged": True}, "resources": {}, "prompts": {}})
    async with client_of(rev, server) as client:
        async with client.listen(tool_list_changed=True, prompt_list_changed=True, resource_updated=["x:y"]) as stream:
            assert stream.acknowledged == {"tool_list_changed": True}


@among(ALL_REVISIONS)
async def test_changes_that_nobody_took_yet_are_told_once(rev: Rev) -> None:
    server = changing(rev)
    async with client_of(rev, server) as client, client.listen(tool_list_changed=True) as stream:
        async with client.listen(prompt_list_changed=True) as other:
            for _ in range(3):
                await server.notify_tool_list_changed()
            await server.notify_prompt_list_changed()
            await anext(other)
        assert isinstance(await anext(stream), rev.t.ToolListChangedNotification)
        await stream.close()
        assert [change async for change in stream] == []


@among(HANDSHAKE)
async def test_a_resource_is_watched_as_long_as_somebody_listens(rev: Rev) -> None:
    requests: list[str] = []

    async def subscribe(ctx: Any, params: Any) -> Any:
        requests.append(f"+{params.uri}")
        return rev.t.EmptyResult()

    async def unsubscribe(ctx: Any, params: Any) -> Any:
        requests.append(f"-{params.uri}")
        return rev.t.EmptyResult()

    server = server_of(rev, WATCHING, subscribe=subscribe, unsubscribe=unsubscribe)
    async with client_of(rev, server) as client:
        async with client.listen(resource_updated=["test://a"]):
            async with client.listen(resource_updated=["test://a", "test://b"]):
                pass
            assert requests == ["+test://a", "+test://b", "-test://b"]
        assert requests[-1] == "-test://a"


@among(ALL_REVISIONS)
async def test_the_iteration_ends_with_an_error_where_the_conversation_does(rev: Rev) -> None:
    async with client_of(rev, changing(rev)) as client, client.listen() as stream:
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ConnectionClosedError):
            await waiting


@among(ALL_REVISIONS)
async def test_listening_needs_a_conversation_and_can_be_done_once(rev: Rev) -> None:
    client = client_of(rev, changing(rev))
    with pytest.raises(ConnectionClosedError):
        await client.listen().__aenter__()
    with pytest.raises(LocalError, match="async with"):
        await anext(client.listen())
    with pytest.raises(LocalError, match="pass a list of URIs, not"):
        client.listen(resource_updated="test://a")
    async with client:
        stream = client.listen()
        async with stream:
            with pytest.raises(LocalError, match="already"):
                await stream.__aenter__()


@among(ALL_REVISIONS)
def test_the_synchronous_twin_hears_the_same(rev: Rev) -> None:
    server = changing(rev)
    with rev.package.SyncClient.memory(server) as client, client.listen(tool_list_changed=True) as stream:
        assert stream.acknowledged == {"tool_list_changed": True}
        client._run(server.notify_tool_list_changed())
        for change in stream:
            assert isinstance(change, rev.t.ToolListChangedNotification)
            break


# ---- a server of ours on a wire -------------------------------------------------------------------------------------


@asynccontextmanager
async def open_to_a_raw_server(rev: Rev) -> AsyncIterator[tuple[Any, Any]]:
    """A client without sessions, and the end of the wire on which its server is played."""
    wire, connect = raw_server()
    client = client_of(rev, connect, connect_options=RequestOptions(timeout=None))
    opening = asyncio.create_task(client.__aenter__())
    request = await wire.receive()
    result = {"resultType": "complete", "supportedVersions": [rev.id], "capabilities": ALL, "ttlMs": 0}
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {**result, "cacheScope": "private"}})
    await opening
    try:
        yield client, wire
    finally:
        await client.close()


def notice(method: str, id: Any, **params: Any) -> dict[str, Any]:
    meta = {"io.modelcontextprotocol/subscriptionId": id}
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": meta}}


@among(STATELESS)
async def test_what_is_of_another_subscription_or_was_not_chosen_is_not_heard(rev: Rev) -> None:
    async with open_to_a_raw_server(rev) as (client, wire):
        entering = asyncio.create_task(client.listen(tool_list_changed=True).__aenter__())
        request = await wire.receive()
        assert request["method"] == "subscriptions/listen"
        assert request["params"]["notifications"] == {"toolsListChanged": True}
        id = request["id"]
        wire.send(notice("subscriptions/acknowledged", str(id), notifications={}))
        wire.send(notice("tools/list_changed", id))  # Too early: nothing comes before it was acknowledged.
        wire.send(notice("subscriptions/acknowledged", id, notifications={k: True for k in ("toolsListChanged", "x")}))
        stream = await entering
        assert stream.acknowledged == {"tool_list_changed": True}
        wire.send(notice("tools/list_changed", str(id)), notice("prompts/list_changed", id))
        wire.send(notice("tools/list_changed", id, of="mine"))
        assert (await anext(stream)).params.model_extra == {"of": "mine"}
        result = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        wire.send({"jsonrpc": "2.0", "id": id, "result": result})
        assert [change async for change in stream] == []  # An orderly end.
        await stream.close()


@among(STATELESS)
async def test_who_listens_no_longer_says_so_and_a_refusal_is_an_error(rev: Rev) -> None:
    async with open_to_a_raw_server(rev) as (client, wire):
        entering = asyncio.create_task(client.listen().__aenter__())
        id = (await wire.receive())["id"]
        wire.send(notice("subscriptions/acknowledged", id, notifications={"toolsListChanged": True}))
        await (await entering).close()
        notification = await wire.receive()
        assert (notification["method"], notification["params"]["requestId"]) == ("notifications/cancelled", id)
        entering = asyncio.create_task(client.listen().__aenter__())
        id = (await wire.receive())["id"]
        wire.send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
        with pytest.raises(RemoteJSONRPCError, match="no"):
            await entering
