"""Methods that the protocol does not have, through a proxy: they pass if its author names them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.in_process import served_in_process

from mcp_generated import App, Client, Context, JSONRPCError, LocalError, RemoteJSONRPCError, connect


class Hits(BaseModel):
    hits: list[str]


def acme(seen: asyncio.Queue[Any]) -> App:
    app = App("acme")

    @app.method("acme/search")
    async def search(ctx: Context, query: str, limit: int = 2) -> Hits:
        await ctx.notify("acme/changed", {"query": query})
        await ctx.progress(1, 2)
        return Hits(hits=[query] * limit)

    @app.method("acme/seen", notification=True)
    async def note(query: str) -> None:
        seen.put_nowait(query)

    @app.method("acme/fail")
    async def fail() -> None:
        raise JSONRPCError(404, "no index", {"index": "tea"})

    return app


METHODS = ["acme/search", "acme/seen", "acme/changed", "acme/fail"]


@pytest.mark.parametrize("over", ["memory", "http"])
@pytest.mark.parametrize("target", ["app", "connected", "2025-06-18", "http"])
@among(ALL_REVISIONS[1:])
async def test_named_methods_pass_in_both_directions(rev: Rev, over: str, target: str) -> None:
    seen: asyncio.Queue[Any] = asyncio.Queue()
    told: asyncio.Queue[Any] = asyncio.Queue()
    inner = acme(seen)
    async with served_in_process(inner.asgi()) as inner_port, Client(inner) as connected:
        targets: dict[str, Any] = {"http": f"http://127.0.0.1:{inner_port}/mcp", "connected": connected}
        settings: dict[str, Any] = {"revisions": [target]} if target.startswith("2") else {}
        proxy = App.proxy(targets.get(target, inner), name="front", methods=METHODS, **settings)
        async with served_in_process(proxy.asgi()) as port:
            reached: Any = proxy if over == "memory" else f"http://127.0.0.1:{port}/mcp"
            client = Client(reached, revisions=rev.id, on_progress=lambda progress: told.put_nowait(progress.progress))
            client.on("acme/changed", lambda params: told.put_nowait(params))
            async with client:
                answer = await client.request("acme/search", {"query": "tea"}, result=Hits)
                assert answer == Hits(hits=["tea", "tea"])
                await client.notify("acme/seen", {"query": "tea"})
                assert await asyncio.wait_for(seen.get(), 10) == "tea"
                with pytest.raises(RemoteJSONRPCError, match="no index") as raised:
                    await client.request("acme/fail")
                assert (raised.value.code, raised.value.data) == (404, {"index": "tea"})
                heard = [1] if target == "connected" else [1, {"query": "tea"}]  # Its program hears its client.
                assert sorted([await asyncio.wait_for(told.get(), 10) for _ in heard], key=str) == heard


@among(ALL_REVISIONS[1:])
async def test_other_methods_do_not_pass(rev: Rev) -> None:
    proxy = App.proxy(acme(asyncio.Queue()), methods=["acme/search"])
    async with connect(proxy, revisions=rev.id) as client:
        assert await client.request("acme/search", {"query": "a", "limit": 1}) == {"hits": ["a"]}
        with pytest.raises(RemoteJSONRPCError) as raised:
            await client.request("acme/fail")
        assert raised.value.code == -32601


async def test_middleware_and_rate_limits_of_the_proxy_hold() -> None:
    names: list[str] = []
    proxy = App.proxy(acme(asyncio.Queue()), methods=["acme/search"])

    @proxy.middleware
    async def note(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        names.append(name)
        return await call_next(ctx, params)

    async with connect(proxy) as client:
        await client.request("acme/search", {"query": "a"})
    assert names == ["acme/search"]


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ("acme/search", r'write methods=\["acme/search"\]'),
        (["search"], "begins with the name of its vendor"),
        (["tools/call"], "'tools/call' is a method of the protocol"),
        (["acme/search", "acme/search"], "methods has .acme/search. twice"),
    ],
)
def test_wrong_methods_are_refused_where_they_are_written(methods: Any, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        App.proxy(App("inner"), methods=methods)


def test_a_configuration_with_several_servers_takes_none() -> None:
    servers = {"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp"}, "b": {"url": "http://127.0.0.1:2/mcp"}}}
    with pytest.raises(LocalError, match="write a Gateway, with methods"):
        App.proxy(servers, methods=["acme/search"])
