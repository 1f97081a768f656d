"""Sessions share connections to a server that keeps nothing of a session, and idle connections end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from support.clock import MovableClock, settle
from support.endpoints import HANDSHAKE, Rev, among
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text
from support.http.sockets import listening as listening_app

from mcp_generated import App, Context, Gateway, HTTPOptions, LocalError, RequestOptions
from mcp_generated.auth import AuthenticatedUser, ResourceServer
from mcp_generated.v2025_11_25 import Client

pytestmark = pytest.mark.deadline(5000)  # Tests set the clock forward.

TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
OVER_HTTP = [rev for rev in HANDSHAKE if rev.revision.http.streamable]


async def listed(got: Got, write: Write) -> None:
    """Answer a list."""
    await write(reply(result(got, TOOLS)))


async def unknown(got: Got, write: Write) -> None:
    """Answer that there is no such method."""
    await write(reply(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"unknown"}}' % got.body["id"]))


def server(*, is_stateless: bool = True) -> Raw:
    """A server with one tool, of the stateless version or of one with sessions."""
    return Raw({"tools/list": listed, "server/discover": discover if is_stateless else unknown})


def opened(raw: Raw) -> int:
    """Return how many connections the gateway has opened: each begins with one of these."""
    begun = raw.requests_of("initialize") or raw.requests_of("server/discover")
    return len(begun)


class Verifier:
    """Knows the tokens of users: their names."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token."""
        return AuthenticatedUser(token, issuer="https://auth.example")


@asynccontextmanager
async def gateway_of(raw: Raw, **more: Any) -> AsyncGenerator[tuple[Gateway, str]]:
    """Serve a gateway before one server, to users."""
    table = {"url": raw.url, **more}
    gateway = Gateway({"upstreams": {"shop": table}})
    auth = ResourceServer("http://127.0.0.1/mcp", ["https://auth.example"], verifier=Verifier())
    async with listening_app(gateway.app.asgi(auth=auth)) as port:
        yield gateway, f"http://127.0.0.1:{port}/mcp"


def client_of(rev: Rev, url: str, user: str = "ada", base: Any = None, **settings: Any) -> Any:
    """Return a client of a user."""
    options = HTTPOptions(headers={"authorization": f"Bearer {user}"})
    return (base or rev.package.Client).http(url, http=options, **settings)


async def sessions(rev: Rev, url: str, users: list[str], base: Any = None) -> None:
    """Call and list in one session for each of these users, all at the same time."""
    both = asyncio.Barrier(len(users))

    async def session(user: str) -> None:
        async with client_of(rev, url, user, base) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["shop_x"]
            assert text(await client.call_tool(name="shop_x")) == "usual"
            await both.wait()
            assert text(await client.call_tool(name="shop_x")) == "usual"

    await asyncio.gather(*map(session, users))


SHARES = [
    (True, None, 1),
    (True, True, 1),
    (True, False, 8),
    (False, None, 8),
    (False, True, 1),
    (False, False, 8),
]


@among(OVER_HTTP)
@pytest.mark.parametrize(("is_stateless", "share", "number"), SHARES, ids=[str(row) for row in SHARES])
async def test_sessions_of_one_user_share_a_connection_where_the_server_keeps_nothing_of_them(
    rev: Rev, is_stateless: bool, share: bool | None, number: int
) -> None:
    raw = server(is_stateless=is_stateless)
    more = {} if share is None else {"share": share}
    async with serving(raw), gateway_of(raw, **more) as (_, url):
        await sessions(rev, url, ["ada"] * 8)
    assert opened(raw) == number
    assert len(raw.requests_of("tools/call")) == 16


@among(OVER_HTTP)
@pytest.mark.parametrize("is_stateless", [True, False], ids=["stateless", "stateful"])
async def test_users_share_no_connection(rev: Rev, is_stateless: bool) -> None:
    raw = server(is_stateless=is_stateless)
    async with serving(raw), gateway_of(raw, share=True) as (_, url):
        await sessions(rev, url, ["ada", "eve", "ada", "bob", "eve", "ada"])
    assert opened(raw) == 3


@among(OVER_HTTP)
async def test_a_session_whose_server_may_ask_for_roots_shares_with_no_other(rev: Rev) -> None:
    class WithRoots(rev.package.Client):  # type: ignore[name-defined, misc]
        async def on_list_roots(self, ctx: Any, params: Any) -> Any:
            return rev.t.ListRootsResult(roots=[])

    raw = server(is_stateless=False)
    async with serving(raw), gateway_of(raw, share=True) as (_, url):
        await sessions(rev, url, ["ada"] * 3, WithRoots)
    assert opened(raw) == 3


async def test_a_first_connection_that_fails_fails_all_that_wait_for_it_and_the_next_one_works() -> None:
    rev, *_ = OVER_HTTP
    raw = server()
    fails = asyncio.Event()

    async def failing(got: Got, write: Write) -> None:
        await fails.wait()
        await write(reply(b"out of order", 500, "text/plain"))

    opening = {rpc: raw.answers.get(rpc, raw.default_answer) for rpc in ("server/discover", "initialize")}
    raw.answers |= dict.fromkeys(opening, failing)
    async with serving(raw), gateway_of(raw) as (_, url), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client_of(rev, url)) for _ in range(5)]
        calls = [asyncio.ensure_future(client.call_tool(name="shop_x")) for client in clients]
        await settle(200)
        assert not any(call.done() for call in calls)
        fails.set()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all("cannot be reached" in str(error) for error in errors)
        raw.answers |= opening
        assert text(await clients[0].call_tool(name="shop_x")) == "usual"


async def test_a_session_that_leaves_while_the_first_connection_opens_costs_the_others_nothing() -> None:
    rev, *_ = OVER_HTTP
    raw, begun, may_end = server(), asyncio.Event(), asyncio.Event()

    async def slow(got: Got, write: Write) -> None:
        begun.set()
        await may_end.wait()
        await discover(got, write)

    raw.answers["server/discover"] = slow
    async with serving(raw), gateway_of(raw) as (_, url), client_of(rev, url) as other:
        async with client_of(rev, url) as first:
            leaving = asyncio.ensure_future(first.call_tool(name="shop_x"))
            await begun.wait()
            waiting = asyncio.ensure_future(other.call_tool(name="shop_x"))
            await settle()
            leaving.cancel()
        may_end.set()
        assert text(await waiting) == "usual"
    assert opened(raw) == 1


# ---- idle connections ------------------------------------------------------------------------------------------------


@among(OVER_HTTP)
@pytest.mark.parametrize("is_stateless", [True, False], ids=["stateless", "stateful"])
async def test_an_idle_connection_ends_and_the_next_request_opens_another(
    rev: Rev, is_stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, raw = MovableClock(monkeypatch), server(is_stateless=is_stateless)
    async with serving(raw), gateway_of(raw, idle=100) as (_, url), client_of(rev, url) as client:
        for number in (1, 2, 3):
            for _ in range(3):
                assert text(await client.call_tool(name="shop_x")) == "usual"
                clock.forward(60)
                await settle()
            assert opened(raw) == number, "it was never idle for so long"
            clock.forward(60)
            while len(raw.requests_of("DELETE")) < (0 if is_stateless else number):
                await asyncio.sleep(0.01)
            await settle()


@among(OVER_HTTP)
@pytest.mark.parametrize("is_stateless", [True, False], ids=["stateless", "stateful"])
async def test_without_the_setting_a_session_keeps_its_connection(
    rev: Rev, is_stateless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, raw = MovableClock(monkeypatch), server(is_stateless=is_stateless)
    async with serving(raw), gateway_of(raw) as (_, url), client_of(rev, url) as client:
        for _ in range(3):
            assert text(await client.call_tool(name="shop_x")) == "usual"
            clock.forward(500)
            await settle()
    assert opened(raw) == 1


async def test_a_running_call_is_no_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    rev, *_ = OVER_HTTP
    clock, raw, begun, may_end = MovableClock(monkeypatch), server(is_stateless=False), asyncio.Event(), asyncio.Event()

    async def slow(got: Got, write: Write) -> None:
        begun.set()
        await may_end.wait()
        await write(reply(result(got, {"content": [{"type": "text", "text": "slow"}]})))

    async with serving(raw), gateway_of(raw, idle=10) as (_, url), client_of(rev, url) as client:
        assert text(await client.call_tool(name="shop_x")) == "usual"
        raw.answers["tools/call"] = slow
        calling = asyncio.ensure_future(client.call_tool(name="shop_x"))
        await begun.wait()
        clock.forward(15)
        await settle()
        assert not raw.requests_of("DELETE")
        may_end.set()
        assert text(await calling) == "slow"
    assert opened(raw) == 1


@pytest.mark.parametrize(("key", "value"), [("idle", 0), ("idle", "1"), ("share", 1), ("share", "yes")])
def test_settings_that_cannot_work_are_refused_with_what_to_write(key: str, value: Any) -> None:
    with pytest.raises(LocalError, match=rf"\[upstreams.shop\] {key} is .*write {key} = "):
        Gateway({"upstreams": {"shop": {"command": "x", key: value}}})


# ---- what a server sends besides results -----------------------------------------------------------------------------


def shop() -> App:
    """A server that logs, and whose lists and resources change."""
    app = App("shop")

    @app.tool
    async def buy(ctx: Context) -> str:
        await ctx.info("bought")
        await ctx.report_progress(1, 2)
        return "bought"

    @app.tool
    async def grow(ctx: Context) -> str:
        app.add_tool(lambda: "new", "added")
        await ctx.notify_resource_updated("note://a")
        return "grown"

    @app.resource("note://a")
    def note() -> str:
        return "a note"

    return app


class Counted:
    """An application of a stateless server that counts the connections of a gateway: each begins with a discovery."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.connections = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.connections += (b"mcp-method", b"server/discover") in scope.get("headers", ())
        await self._app(scope, receive, send)

    async def close(self) -> None:
        await self._app.close()


@asynccontextmanager
async def before_shop(table: dict[str, Any]) -> AsyncGenerator[tuple[Gateway, str, Counted]]:
    """Serve a gateway before a stateless server."""
    app = Counted(shop().asgi(revisions=["2026-07-28"]))
    async with listening_app(app) as port:
        table["url"] = f"http://127.0.0.1:{port}/mcp"
        gateway = Gateway({"upstreams": {"shop": table}})
        async with listening_app(gateway.app.asgi()) as front:
            yield gateway, f"http://127.0.0.1:{front}/mcp", app


class Listener(Client):
    """A client that notes what it hears."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.heard: list[str] = []

    async def on_logging_message(self, ctx: Any, params: Any) -> None:
        self.heard.append(f"log {params.data}")

    async def on_tool_list_changed(self, ctx: Any, params: Any) -> None:
        self.heard.append("tools")

    async def on_resource_updated(self, ctx: Any, params: Any) -> None:
        self.heard.append(params.uri)

    async def until(self, change: str) -> None:
        """Wait until it has heard something."""
        while change not in self.heard:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("table", "of_silent"), [({}, 4), ({"share": True}, 0)])
async def test_log_messages_go_to_their_session_and_with_share_only_if_it_has_set_a_level(
    table: dict[str, bool], of_silent: int
) -> None:
    async with (
        before_shop(table) as (_, url, app),
        Listener.http(url) as logging,
        Listener.http(url) as silent,
    ):
        await logging.set_level(level="info")
        progress: list[tuple[str, float]] = []

        async def buy(client: Listener, name: str) -> None:
            options = RequestOptions(on_progress=lambda item: progress.append((name, item.progress)))
            assert text(await client.call_tool(name="shop_buy", options=options)) == "bought"

        await asyncio.gather(*(buy(client, name) for client, name in ((logging, "a"), (silent, "b")) for _ in range(4)))
        assert sorted(progress) == [("a", 1)] * 4 + [("b", 1)] * 4
        assert logging.heard == ["log bought"] * 4 and silent.heard == ["log bought"] * of_silent
        assert app.connections < (9 if of_silent else 8)


async def test_sessions_that_share_hear_once_of_changes_and_subscribers_have_a_connection_of_their_own() -> None:
    async with (
        before_shop({"share": True}) as (_, url, app),
        Listener.http(url) as one,
        Listener.http(url) as two,
        Listener.http(url) as subscriber,
    ):
        for client in (one, two, subscriber):
            assert text(await client.call_tool(name="shop_buy")) == "bought"
        assert app.connections == 1
        await subscriber.subscribe(uri="note://shop/a")
        assert app.connections == 2
        assert text(await one.call_tool(name="shop_grow")) == "grown"
        for client in (one, two, subscriber):
            await client.until("tools")
        await subscriber.until("note://shop/a")
        for client in (two, subscriber):
            assert "shop_added" in {tool.name for tool in (await client.list_tools()).tools}
        assert text(await subscriber.call_tool(name="shop_added")) == "new"
        assert [client.heard.count("tools") for client in (one, two, subscriber)] == [1, 1, 1]
        assert one.heard == two.heard == ["tools"], "they have not subscribed to the resource"
        assert app.connections == 2


async def test_a_subscription_is_no_idleness_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = MovableClock(monkeypatch)
    async with before_shop({"idle": 50}) as (_, url, app), Listener.http(url) as client:
        await client.subscribe(uri="note://shop/a")
        clock.forward(200)
        await settle()
        assert text(await client.call_tool(name="shop_grow")) == "grown"
        await client.until("note://shop/a")
        await client.unsubscribe(uri="note://shop/a")
        assert app.connections == 1
        clock.forward(200)
        await settle()
        assert text(await client.call_tool(name="shop_buy")) == "bought"
        assert app.connections == 2


@pytest.mark.parametrize("change", [{"deny": ["grow"]}, {"idle": 20}, {"share": False}], ids=str)
@pytest.mark.parametrize("is_idle", [False, True], ids=["used", "idle"])
async def test_a_reload_loses_no_call_of_sessions_that_share_or_whose_connection_has_ended(
    change: dict[str, Any], is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, table = MovableClock(monkeypatch), dict[str, Any](idle=50)
    async with before_shop(table) as (gateway, url, app), Listener.http(url) as one, Listener.http(url) as two:
        for client in (one, two):
            assert text(await client.call_tool(name="shop_buy")) == "bought"
        assert app.connections == 1
        if is_idle:
            clock.forward(200)
            await settle()
        table.update(change)
        gateway.reload()
        for client in (one, two):
            assert text(await client.call_tool(name="shop_buy")) == "bought"
        renewed = 2 if change == {"share": False} else 1 if is_idle or "idle" in change else 0
        assert app.connections == 1 + renewed
