"""What an endpoint stores of its clients is bounded, and who has most loses first: no other client notices."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, server_of
from support.http.asgi_client import Web
from support.project import ROOT

from mcp_generated import App
from mcp_generated.http import HTTPLimits
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.bridge.state import BridgeSettings
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.http_server.app import MCPASGIApp
from mcp_runtime.transports.http_server.events import InMemoryEventStore

ICON = {"src": "data:image/png;base64," + "A" * 500_000, "mimeType": "image/png"}
INFO = {"name": "raw", "version": "1"}


def identified(app: Any, name: str, rev: Rev, address: str = "192.0.2.1") -> Web:
    """A client of a user of Starlette with this unique name; all have the same display name."""
    user = SimpleNamespace(is_authenticated=True, identity=name, display_name="Al") if name else None

    async def authenticated(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": (address, 50_000), **({"user": user} if user else {})}, receive, send)

    return Web(authenticated, rev)


# ---- sessions -------------------------------------------------------------------------------------------------------

LARGE: dict[str, dict[str, Any]] = {
    "a long name": {"clientInfo": {**INFO, "name": "x" * 100_000}},
    "unknown members of clientInfo": {"clientInfo": {**INFO, "more": [[]] * 20_000}},
    "capabilities": {"capabilities": {"experimental": {str(number): {} for number in range(3_000)}}},
    "roots": {"capabilities": {"roots": {"x": "y" * 20_000}}},
}


@among(HANDSHAKE[1:])
@pytest.mark.parametrize("what", LARGE)
async def test_a_session_is_not_opened_for_a_client_with_too_much_to_store(rev: Rev, what: str) -> None:
    app = App("small").asgi()
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": INFO, **LARGE[what]}
    answer = await Web(app, rev).answered(body=rev.request(0, "initialize", hello))
    assert "mcp-session-id" not in answer.headers and "16384 bytes" in answer.json["error"]["message"]
    assert app.session_count == 0
    assert (await Web(app, rev).open()).status == 200
    await app.close()


@among(HANDSHAKE[1:])
async def test_of_large_icons_nothing_is_stored_and_of_small_ones_all(rev: Rev) -> None:
    stored = deque[Mapping[str, Any]]()

    async def call_tool(ctx: Any, params: Any) -> Any:
        stored.append(ctx.client_info)
        return rev.text("")

    app = server_of(rev, call_tool=call_tool).asgi()
    for icons in ([ICON], [{"src": "https://a.example/icon.png"}]):
        web = Web(app, rev)
        hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {**INFO, "icons": icons}}
        opened = await web.answered(body=rev.request(0, "initialize", hello))
        web.session = opened.headers["mcp-session-id"]
        await web.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"})
        await web.answered(body=rev.request(1, "tools/call", {"name": "x", "arguments": {}}))
    assert stored[0] == INFO and stored[1]["name"] == "raw"
    await app.close()


@among(HANDSHAKE[1:])
async def test_what_a_handler_changes_of_one_client_is_not_that_of_another(rev: Rev) -> None:
    seen: list[tuple[Any, Any]] = []

    async def call_tool(ctx: Any, params: Any) -> Any:
        seen.append((ctx.client_info, ctx.capabilities))
        ctx.client_info["name"] = ctx.client_info["icons"][0]["src"] = "changed"
        ctx.capabilities["experimental"]["x"]["y"] = "changed"
        return rev.text("")

    app = server_of(rev, call_tool=call_tool).asgi()
    info = {**INFO, "icons": [{"src": "https://a.example/icon.png"}]}
    hello = {"protocolVersion": rev.id, "capabilities": {"experimental": {"x": {}}}, "clientInfo": info}
    for name in ("one", "two"):
        web = identified(app, name, rev)
        opened = await web.answered(body=rev.request(0, "initialize", hello))
        web.session = opened.headers["mcp-session-id"]
        await web.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"})
        await web.answered(body=rev.request(1, "tools/call", {"name": "x", "arguments": {}}))
    assert seen[0] == seen[1] and seen[1][0]["name"] == "raw" and seen[1][1] == {"experimental": {"x": {}}}
    await app.close()


# ---- stored messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [1, 4, 50])
def test_who_stores_most_messages_loses_first_in_however_many_streams(streams: int) -> None:
    store = InMemoryEventStore(max_total_bytes=1000)
    store.assign("quiet", ("user", "quiet"))
    store.add("quiet", 1, b"q" * 100)
    for number in range(300):
        id = f"greedy {number % streams}"
        if number < streams:
            store.assign(id, ("user", "greedy"))
        store.add(id, number // streams + 1, b"g" * 50)
    assert store.after("quiet", 0) == [(1, b"q" * 100)]
    stored = [len(store.after(f"greedy {number}", 0)) for number in range(streams)]
    assert sum(stored) == 18 and max(stored) <= -(-18 // streams) + 1
    last = 300 // streams + 1
    store.add("greedy 0", last, b"g" * 1000)
    assert store.after("quiet", 0) == () and store.after("greedy 0", 0) == [(last, b"g" * 1000)]
    for number in range(streams):
        store.drop(f"greedy {number}")
    store.drop("quiet")
    store.add("other", 1, b"o" * 1000)
    assert store.after("other", 0) == [(1, b"o" * 1000)]


# ---- subscriptions --------------------------------------------------------------------------------------------------

URIS = {"many": [f"a://{number}" for number in range(12)], "long": ["a://" + "x" * 200, "a://" + "y" * 200]}


@pytest.mark.parametrize("what", URIS)
@among([*HANDSHAKE[1:], *STATELESS])
async def test_subscriptions_have_a_limit_in_every_revision(
    rev: Rev, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_runtime.server.subscriptions.MAX_SUBSCRIBED_RESOURCES", 10)
    monkeypatch.setattr("mcp_runtime.server.subscriptions._MAX_SUBSCRIBED_BYTES", 300)
    server = server_of(rev, capabilities={"resources": {"subscribe": True}})
    web = Web(app := server.asgi(), rev)
    if rev.stateless:
        listen = rev.request(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": URIS[what]}})
        answer = await web.answered(body=listen)
        assert "at most 10 URIs" in answer.json["error"]["message"]
    else:
        await web.open()
        answers = [
            (await web.answered(body=rev.request(number, "resources/subscribe", {"uri": uri}))).json
            for number, uri in enumerate(URIS[what])
        ]
        room = 10 if what == "many" else 1
        assert ["error" in answer for answer in answers] == [False] * room + [True] * (len(answers) - room)
        await web.answered(body=rev.request(50, "resources/unsubscribe", {"uri": URIS[what][0]}))
        again = await web.answered(body=rev.request(51, "resources/subscribe", {"uri": URIS[what][-1]}))
        assert "result" in again.json
    await app.close()


STREAM_LIMITS = HTTPLimits(max_subscriptions=3, max_subscriptions_per_address=2)


async def check_streams(app: Any, rev: Rev, name: str, count: int) -> None:
    """Check that a client may have so many streams and no more, and that others have theirs."""
    greedy = identified(app, name, rev)
    others = [identified(app, "other", rev), identified(app, "", rev, "192.0.2.99")]
    listen = rev.request(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    streams = [greedy.request(body=listen) for _ in range(count)]
    for stream in streams:
        await stream.messages(1)
    refused = await greedy.answered(body=listen)
    assert refused.status == 429 and refused.headers["retry-after"] == "10"
    reason = "too many open streams of subscriptions: end one first; a user or a session may have 3, an address 2"
    assert reason in refused.json["error"]["message"]
    for other in others:
        await other.request(body=listen).messages(1)
    await streams[0].leave()
    await greedy.request(body=listen).messages(1)


@pytest.mark.parametrize(("name", "count"), [("greedy", 3), ("", 2)])
@among(STATELESS)
async def test_open_streams_of_subscriptions_have_a_limit_for_each_client(rev: Rev, name: str, count: int) -> None:
    app = server_of(rev, capabilities={"tools": {"listChanged": True}}).asgi(limits=STREAM_LIMITS)
    await check_streams(app, rev, name, count)
    await app.close()


@pytest.mark.long
@pytest.mark.parametrize(("name", "count"), [("greedy", 3), ("", 2)])
@among(STATELESS)
async def test_open_streams_through_a_bridge_have_the_same_limits(rev: Rev, name: str, count: int) -> None:
    target = Target(command=(sys.executable, str(ROOT / "examples" / "echo" / "server.py"), "stdio"))
    bridge = Bridge(target, "mcp_generated", BridgeSettings())
    app = MCPASGIApp(bridge.services(), limits=STREAM_LIMITS)
    await check_streams(app, rev, name, count)
    await app.close()


# ---- running calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["greedy", ""])
@among([*HANDSHAKE[1:], *STATELESS])
async def test_the_running_calls_of_one_client_have_a_limit_in_all_its_sessions(
    rev: Rev, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("stateful", "stateless"):
        for limit in ("_MAX_RUNNING", "_MAX_RUNNING_OF_ADDRESS"):
            monkeypatch.setattr(f"mcp_runtime.transports.http_server.{module}.{limit}", 6)
    app, go, began = App("bounded"), asyncio.Event(), list[None]()

    @app.tool
    async def hang() -> str:
        """Wait."""
        began.append(None)
        await go.wait()
        return "done"

    asgi = app.asgi(json_response=True)
    greedy = [identified(asgi, name, rev) for _ in range(2)]
    other = identified(asgi, name and "other", rev, "192.0.2.2")
    for web in (*greedy, other):
        if not rev.stateless:
            await web.open()
    call = rev.request(1, "tools/call", {"name": "hang", "arguments": {}})

    def called(web: Web, id: int) -> Any:
        return web.request(body={**call, "id": id})

    calls = [called(web, id) for id in range(3) for web in greedy]
    while len(began) < 6:
        await asyncio.sleep(0)
    for web in greedy:
        refused = await web.answered(body={**call, "id": 9})
        assert refused.status == 503 and "too many requests" in refused.json["error"]["message"]
    calls.append(called(other, 1))
    go.set()
    assert [(await call.whole()).status for call in calls] == [200] * 7
    assert (await greedy[0].answered(body={**call, "id": 10})).status == 200
    await asgi.close()
