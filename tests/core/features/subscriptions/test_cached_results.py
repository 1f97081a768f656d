"""What a client has cached while its subscription was away: it asks the server again once that is acknowledged anew."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.http.in_process import asking

from mcp_generated import v2026_07_28
from mcp_generated.http import HTTPOptions

ID = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"subscribe": True}}
CACHED = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}


class Interrupted:
    """An ASGI application: its results may be cached for an hour, and its first stream ends after `cut`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.cut = asyncio.Event()

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        place = f"{method} {params.get('uri', '')}".strip()
        self.counts[place] = self.counts.get(place, 0) + 1
        number = str(self.counts[place])
        match method:
            case "server/discover":
                return {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
            case "tools/list":
                return {"tools": [{"name": number, "inputSchema": {"type": "object"}}]}
            case "prompts/list":
                return {"prompts": [{"name": number}]}
            case _:
                return {"contents": [{"uri": params["uri"], "text": number}]}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = json.loads((await receive())["body"])
        method, params = message["method"], message["params"]
        if method != "subscriptions/listen":
            result = {**CACHED, **self._result(method, params)}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        self.counts[method] = self.counts.get(method, 0) + 1
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        params_sent = {"notifications": params["notifications"], "_meta": {ID: message["id"]}}
        event = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params_sent}
        data = f"data: {json.dumps(event)}\n\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})
        if self.counts[method] == 1:
            await self.cut.wait()
        else:
            while (await receive())["type"] != "http.disconnect":
                pass
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("chosen", "forgotten"),
    [
        ({"tool_list_changed": True}, {"tools"}),
        ({"prompt_list_changed": True}, {"prompts"}),
        ({"resource_updated": ["test://a"]}, {"test://a"}),
        ({"tool_list_changed": True, "resource_updated": ["test://a", "test://b"]}, {"tools", "test://a", "test://b"}),
    ],
)
async def test_results_of_what_is_subscribed_are_not_reused_after_the_connection_broke(
    chosen: dict[str, Any], forgotten: set[str]
) -> None:
    app = Interrupted()
    client = v2026_07_28.Client.http("http://localhost/mcp", http=HTTPOptions(client=asking(app)))

    async def values() -> dict[str, str]:
        result = {
            "tools": (await client.list_tools()).tools[0].name,
            "prompts": (await client.list_prompts()).prompts[0].name,
        }
        for uri in ("test://a", "test://b"):
            content: Any = (await client.read_resource(uri=uri)).contents[0]
            result[uri] = content.text
        return result

    async with client, client.listen(**chosen) as changes:
        first = await values()
        assert set(first.values()) == {"1"} and await values() == first
        app.cut.set()
        await anext(changes)
        assert app.counts["subscriptions/listen"] == 2
        assert {name for name, value in (await values()).items() if value == "2"} == forgotten
