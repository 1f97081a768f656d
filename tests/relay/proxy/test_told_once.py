"""Each client hears once of each change, whatever clients use the same target at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import REVISIONS, App, Context, Gateway
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_products.relay.proxy import client_side

FRONTS = [id for id in REVISIONS if id >= "2025-03-26"]
NEWEST = FRONTS[-1]
URI = "note://a"


class Person(Client):
    """A client that notes each change of which it hears; its calls each need a connection for themselves, because the
    target may ask it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.heard: list[str] = []
        self.has_changed = asyncio.Event()

    async def on_elicit(self, ctx: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"value": "x"})

    async def on_tool_list_changed(self, ctx: Any, params: Any) -> None:
        self._note("tools")

    async def on_prompt_list_changed(self, ctx: Any, params: Any) -> None:
        self._note("prompts")

    async def on_resource_updated(self, ctx: Any, params: Any) -> None:
        self._note(params.uri)

    def _note(self, change: str) -> None:
        self.heard.append(change)
        self.has_changed.set()

    async def until(self, change: str) -> None:
        async with asyncio.timeout(20):
            while change not in self.heard:
                self.has_changed.clear()
                await self.has_changed.wait()


def target_app(together: int) -> App:
    """A target whose calls of `meet` wait until so many have come, so that they have so many connections."""
    app, met, all_met = App("target", declare=["prompts"]), list[int](), asyncio.Event()

    @app.tool
    async def meet() -> str:
        met.append(1)
        if len(met) == together:
            all_met.set()
        await all_met.wait()
        return "met"

    @app.tool
    async def grow(ctx: Context) -> str:
        app.add_tool(lambda: "new", "added")
        await ctx.notify_resource_updated(URI)
        return "grown"

    @app.tool
    async def mark() -> str:
        app.add_prompt(lambda: "new", "added")
        return "marked"

    @app.resource(URI)
    def note() -> str:
        return "note a"

    return app


@asynccontextmanager
async def front_of(kind: str, target: str) -> AsyncGenerator[str]:
    """Yield the URL of a proxy or a gateway, and its target's revision is `target`."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(target_app(3).asgi(revisions=[target])))
        url = f"http://127.0.0.1:{port}/mcp"
        upstreams = {"target": {"url": url, "prefix": ""}}
        app = App.proxy(url) if kind == "proxy" else Gateway({"upstreams": upstreams}).app
        yield f"http://127.0.0.1:{await stack.enter_async_context(listening(app.asgi()))}/mcp"


@asynccontextmanager
async def listener(url: str, front: str, *uris: str) -> AsyncIterator[Person]:
    """Yield a client that has subscribed to all changes."""
    async with connect(url, client=Person, revisions=[front]) as client:
        async with client.listen(tool_list_changed=True, prompt_list_changed=True, resource_updated=uris):
            await client.list_tools()
            yield client


@pytest.mark.long
@pytest.mark.deadline(60)
@pytest.mark.parametrize("kind", ["proxy", "gateway"])
@pytest.mark.parametrize("target", [FRONTS[0], FRONTS[-2], NEWEST])
async def test_each_client_hears_of_a_change_once(kind: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_side, "CHANGE_PAUSE", 0.0)
    monkeypatch.setattr(client_side, "GATHERED_SECONDS", 1.0)  # However slow the machine is.
    async with front_of(kind, target) as url, AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(listener(url, front, URI)) for front in (*FRONTS, NEWEST)]
        async with connect(url, client=Person, revisions=[NEWEST]) as caller:
            await asyncio.gather(*(caller.call_tool("meet") for _ in range(3)))
            await caller.call_tool("grow")
            for one in listeners:
                await one.until("tools")
                await one.until(URI)
            await caller.call_tool("mark")
            for one in listeners:
                await one.until("prompts")
    for one in listeners:
        assert sorted(one.heard) == [URI, "prompts", "tools"]


@pytest.mark.parametrize("front", FRONTS)
async def test_a_change_of_a_watched_part_of_a_watched_resource_is_one(front: str) -> None:
    target, uris = App("target"), ("note://a", "note://a/b", "note://end")

    @target.tool
    async def write(ctx: Context) -> str:
        for uri in uris[1:]:
            await ctx.notify_resource_updated(uri)
        return "written"

    for uri in uris:
        target.resource(uri, name=uri)(lambda: "text")
    async with listening(App.proxy(target).asgi()) as port:
        async with listener(f"http://127.0.0.1:{port}/mcp", front, *uris) as client:
            await client.call_tool("write")
            await client.until("note://end")
    assert client.heard == ["note://a/b", "note://end"]
