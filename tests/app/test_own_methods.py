"""Methods that the protocol does not have: a client sends them and an app handles them, in each version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, TypedDict

import anyio
import pytest
from pydantic import BaseModel
from support.auth.resource_server import PROTECTED, Authority, endpoint
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.in_process import served_in_process

from mcp_generated import (
    App,
    Client,
    Context,
    InvalidResponseError,
    LocalError,
    Middleware,
    MiddlewareContext,
    RateLimit,
    RemoteJSONRPCError,
    SyncClient,
)
from mcp_products.auth.resource_server.protection import ResourceServer


class Search(BaseModel):
    query: str
    limit: int = 3


class Hits(BaseModel):
    hits: list[str]


@dataclass
class Change:
    query: str


def acme(**settings: Any) -> App:
    app = App("acme", **settings)

    @app.method("acme/search")
    async def search(ctx: Context, params: Search) -> Hits:
        await ctx.notify("acme/changed", {"query": params.query})
        await ctx.progress(1, 1)
        return Hits(hits=[params.query] * params.limit)

    @app.method("acme/days")
    def days(start: date, end: date, unit: str = "days") -> dict[str, Any]:
        return {unit: (end - start).days}

    @app.method("acme/nothing")
    def nothing() -> None:
        """Return nothing."""

    @app.method("acme/list")
    def listed() -> list[str]:
        return ["no object"]

    return app


@asynccontextmanager
async def reached(app: App, over: str) -> AsyncIterator[Any]:
    if over == "memory":
        yield app
        return
    async with served_in_process(app.asgi()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


OVER = pytest.mark.parametrize("over", ["memory", "http"])


@OVER
@among(ALL_REVISIONS[1:])
async def test_a_client_sends_a_request_and_gets_the_result_as_a_type(rev: Rev, over: str) -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()  # What is told comes in its own time, which a result does not wait for.

    def changed(change: Change) -> None:
        told.put_nowait(change)

    async with reached(acme(), over) as target:
        client = Client(target, revisions=rev.id, on_progress=lambda progress: told.put_nowait(progress.progress))
        client.on("acme/changed", changed)
        async with client:
            assert await client.request("acme/search", Search(query="a"), result=Hits) == Hits(hits=["a"] * 3)
            # Where each has a way of its own, progress may overtake the change.
            assert sorted([await told.get(), await told.get()], key=str) == sorted([Change("a"), 1], key=str)
            assert await client.request("acme/search", {"query": "b", "limit": 1}) == {"hits": ["b"]}
            assert sorted([await told.get(), await told.get()], key=str) == sorted([Change("b"), 1], key=str)
            client.on("acme/changed", lambda params: told.put_nowait(params))
            await client.request("acme/search", {"query": "c"})
            assert {"query": "c"} in [await told.get(), await told.get()]
            dates = {"start": "2026-05-01", "end": "2026-05-03"}
            assert await client.request("acme/days", dates) == {"days": 2}
            assert await client.request("acme/nothing") == {}
            assert client.server.name == "acme"


@OVER
@among(ALL_REVISIONS[1:])
async def test_an_app_hears_the_notifications_of_its_clients(rev: Rev, over: str) -> None:
    app, seen, heard = App("acme"), list[str](), asyncio.Event()

    @app.method("acme/seen", notification=True)
    async def note(what: str) -> None:
        seen.append(what)
        heard.set()

    async with reached(app, over) as target, Client(target, revisions=rev.id) as client:
        await client.notify("acme/seen", {"what": "this"})
        await asyncio.wait_for(heard.wait(), 5)
        with pytest.raises(RemoteJSONRPCError, match="Method not found: 'acme/seen' is not served"):
            await client.request("acme/seen", {"what": "this"})
    assert seen == ["this"]


@among(ALL_REVISIONS)
async def test_what_cannot_work_is_an_error_that_says_so(rev: Rev) -> None:
    async with Client(acme(), revisions=rev.id) as client:
        for params, text in (({}, "query: Field required"), ({"query": 5}, "query: Input should be a valid string")):
            with pytest.raises(RemoteJSONRPCError, match=text) as refused:
                await client.request("acme/search", params)
            assert refused.value.code == -32602
        with pytest.raises(RemoteJSONRPCError, match="start: Field required"):
            await client.request("acme/days", {"end": "2026-05-01"})
        with pytest.raises(RemoteJSONRPCError, match="Method not found: 'acme/other' is not served") as unknown:
            await client.request("acme/other")
        assert unknown.value.code == -32601
        with pytest.raises(RemoteJSONRPCError, match="has returned no object: return a dict, a model or None"):
            await client.request("acme/list")
        with pytest.raises(InvalidResponseError, match="'acme/nothing': the result: hits: Field required"):
            await client.request("acme/nothing", result=Hits)
        with pytest.raises(LocalError, match="params must be a dict or a model"):
            await client.request("acme/search", ["a"])
        with pytest.raises(TypeError, match="has no keyword argument 'timeot'; did you mean 'timeout'"):
            await client.request("acme/search", timeot=5)  # type: ignore[call-overload]  # pyright: ignore


def test_methods_of_the_protocol_are_refused_with_the_line_to_write() -> None:
    app, client = App("acme"), Client(App("acme"))
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: app.method("tools/call"), "decorate functions with @app.tool"),
        (lambda: app.method("resources/read"), r"decorate functions with @app.resource\(\"scheme://path\"\)"),
        (lambda: app.method("server/discover"), "the app answers it itself"),
        (lambda: client.on("notifications/message", print), "write Client.target, on_log=…"),
        (lambda: client.on("elicitation/create", print), "write Client.target, elicitation=…"),
        (lambda: client.on("notifications/tools/list_changed", print), "write Client.target, on_change=…"),
        (lambda: client.on("tools/call", print), "'tools/call' is a method of the protocol that goes the other way"),
        (lambda: app.method("sampling/createMessage"), "that goes the other way"),
        (lambda: client.on("changed", print), 'begins with the name of its vendor, such as "acme/search"'),
        (lambda: client.on("acme/changed", "print"), "on.. needs a function"),  # type: ignore[arg-type]
    ]
    for call, text in calls:
        with pytest.raises(LocalError, match=text):
            call()


async def test_requests_of_the_protocol_are_refused_with_the_line_to_write() -> None:
    app = App("acme")

    @app.tool()
    async def tell(ctx: Context) -> None:
        await ctx.notify("notifications/message", {})

    async with Client(app) as client:
        with pytest.raises(LocalError, match=r"write client\.call_tool\(…\)"):
            await client.request("tools/call")
        with pytest.raises(LocalError, match=r"write client\.generated\.set_level\(…\)"):
            await client.request("logging/setLevel")
        with pytest.raises(LocalError, match=r"write client\.generated\.notify_roots_list_changed\(…\)"):
            await client.notify("notifications/roots/list_changed")
        assert (await client.call_tool("tell", raise_on_error=False)).is_error
    async with Client({"mcpServers": {}}) as several:
        with pytest.raises(LocalError, match="several servers"):
            await several.request("acme/search")


def test_a_method_is_registered_once() -> None:
    app = acme()
    with pytest.raises(LocalError, match="has the method 'acme/search' already"):
        app.method("acme/search")


@among(ALL_REVISIONS)
async def test_middleware_limits_and_mounted_apps_hold_for_own_methods(rev: Rev) -> None:
    passed: list[str] = []

    class Watching(Middleware):
        async def on_request(self, context: MiddlewareContext, call_next: Any) -> Any:
            passed.append(f"object {context.method}")
            return await call_next(context)

    outer, inner = App("outer", rate_limits={"acme/search": RateLimit(0.001, burst=2)}), acme()
    outer.add_middleware(Watching())
    outer.mount(inner, "inner")

    @inner.middleware
    async def watch(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        passed.append(f"function {name}")
        return await call_next(ctx, {**params, "limit": 1})

    async with Client(outer, revisions=rev.id) as client:
        assert await client.request("acme/search", {"query": "a"}) == {"hits": ["a"]}
        assert passed[-2:] == ["object acme/search", "function acme/search"]
        await client.request("acme/search", {"query": "a"})
        with pytest.raises(RemoteJSONRPCError, match="too many 'acme/search' requests"):
            await client.request("acme/search", {"query": "a"})


@among(PROTECTED)
async def test_an_own_method_needs_the_scopes_that_it_declares(rev: Rev) -> None:
    app, issuer = App("acme"), Authority()

    @app.method("acme/secret", scopes=["secrets"])
    def secret() -> dict[str, str]:
        return {"secret": "42"}

    try:
        async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name], scopes=()), app, real=False) as at:
            await at.open(issuer.token(at.url, scope="other"))
            message = rev.request(1, "acme/secret", {})
            tokens = [issuer.token(at.url, scope=scope) for scope in ("other", "secrets")]
            assert [(await at.post(message, token)).status_code for token in tokens] == [403, 200]
    finally:
        issuer.close()


def test_the_synchronous_client_and_a_program_of_trio_send_own_methods() -> None:
    told: list[Any] = []
    blocking = SyncClient(acme())
    blocking.on("acme/changed", told.append)
    with blocking:
        assert blocking.request("acme/search", {"query": "a"}, result=Hits) == Hits(hits=["a"] * 3)
        blocking.notify("acme/unheard")
    assert told == [{"query": "a"}]

    async def in_trio() -> None:
        client = Client(acme())

        async def changed(params: dict[str, Any]) -> None:
            await anyio.lowlevel.checkpoint()  # Fails in asyncio's loop, if trio runs the program.
            told.append(params)

        client.on("acme/changed", changed)
        async with client:
            assert await client.request("acme/search", {"query": "b"}) == {"hits": ["b"] * 3}

    anyio.run(in_trio, backend="trio")
    assert told == [{"query": "a"}, {"query": "b"}]


class StandardParams(TypedDict):
    query: str


async def test_a_typed_dict_of_the_standard_library_has_the_params() -> None:
    app = App("acme")

    @app.method("acme/search")
    def search(params: StandardParams) -> dict[str, str]:
        return {"found": params["query"]}

    async with Client(app) as client:
        assert await client.request("acme/search", {"query": "a"}) == {"found": "a"}
        with pytest.raises(RemoteJSONRPCError, match="query: Field required"):
            await client.request("acme/search", {})
