"""A client that listens over HTTP, and a server whose streams break off, or end as they should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.http.in_process import asking

from mcp_generated import v2026_07_28
from mcp_runtime.errors import ConnectionClosedError, RemoteJSONRPCError
from mcp_runtime.transports.http_client.connection import HTTPOptions

t = v2026_07_28.types
ID = "io.modelcontextprotocol/subscriptionId"


class Broken:
    """An ASGI application whose stream ends after so many events without an answer, and lasts after so many times."""

    def __init__(self, breaks: int, then: Callable[[], tuple[int, Any]] | None = None) -> None:
        self.breaks = breaks
        self.then = then
        self.listens = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = json.loads((await receive())["body"])
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "server/discover":
            can = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
            discovered = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": can}
            return await self._whole(
                send, 200, {**answer, "result": {**discovered, "ttlMs": 0, "cacheScope": "private"}}
            )
        self.listens += 1
        if self.then is not None and self.listens > 1:
            status, error = self.then()
            return await self._whole(send, status, {**answer, "error": error})
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        chosen = message["params"]["notifications"]
        params = {"notifications": chosen, "_meta": {ID: message["id"]}}
        event = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        data = f"data: {json.dumps(event)}\n\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})
        while self.listens > self.breaks and (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, send: Any, status: int, message: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(message).encode(), "more_body": False})


def client_of(app: Any) -> Any:
    return v2026_07_28.Client.http("http://localhost/mcp", http=HTTPOptions(client=asking(app)))


async def test_where_a_stream_breaks_off_the_client_listens_again_and_tells_what_may_have_been_missed() -> None:
    app = Broken(breaks=1)
    async with client_of(app) as client:
        async with client.listen(tool_list_changed=True, resource_updated=["test://a", "test://b"]) as stream:
            changes = [await anext(stream) for _ in range(3)]
    assert {type(change) for change in changes} == {t.ToolListChangedNotification, t.ResourceUpdatedNotification}
    assert [change.params.uri for change in changes if isinstance(change, t.ResourceUpdatedNotification)] == [
        "test://a",
        "test://b",
    ]
    assert app.listens == 2


async def test_a_server_that_refuses_the_second_time_ends_the_iteration_with_its_error() -> None:
    app = Broken(breaks=1, then=lambda: (400, {"code": -32602, "message": "not any more"}))
    async with client_of(app) as client, client.listen(tool_list_changed=True) as stream:
        with pytest.raises(RemoteJSONRPCError, match="not any more"):
            await anext(stream)


async def test_a_client_that_closes_while_it_waits_to_listen_again_is_done() -> None:
    lost = asyncio.Event()

    def busy() -> tuple[int, Any]:
        lost.set()
        return 503, {"code": -32603, "message": "busy"}

    async with client_of(Broken(breaks=1, then=busy)) as client:
        async with client.listen(tool_list_changed=True) as stream:
            await lost.wait()
        assert [change async for change in stream] == []


async def test_a_server_that_ends_ends_the_iteration_in_an_orderly_way() -> None:
    class Empty(v2026_07_28.Server):
        async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
            return t.ListToolsResult(tools=[])

    server = Empty(name="empty", version="1", capabilities={"tools": {"listChanged": True}})
    app = server.asgi()
    async with client_of(app) as client, client.listen() as stream:
        await server.notify_tool_list_changed()
        assert isinstance(await anext(stream), t.ToolListChangedNotification)
        await app.close()
        assert [change async for change in stream] == []


async def test_a_stream_that_is_never_acknowledged_is_no_stream() -> None:
    app = Broken(breaks=0)

    async def silent(scope: Any, receive: Any, send: Any) -> None:
        if b"listen" not in dict(scope["headers"]).get(b"mcp-method", b""):
            return await app(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with client_of(silent) as client:
        with pytest.raises(ConnectionClosedError, match="ended before the response"):
            await client.listen(tool_list_changed=True).__aenter__()
