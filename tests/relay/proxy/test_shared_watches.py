"""Subscriptions and log levels that come at the same time: the target of a proxy gets each once, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import App, Gateway, JSONRPCError, RemoteJSONRPCError
from mcp_generated.v2025_11_25 import Client, Server
from mcp_generated.v2025_11_25 import types as t

URI = "note://a"
FRONTS = pytest.mark.parametrize("front", ["2025-06-18", "2025-11-25", "2026-07-28"])
KINDS = pytest.mark.parametrize("kind", ["proxy", "gateway"])


class Target(Server):
    """A server that notes what it is asked, and that may wait before it answers."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(name="target", version="1", **settings)
        self.noted: list[str] = []  # What was subscribed to, and what no more.
        self.levels: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.begun = asyncio.Event()
        self.refuses = False

    async def _ask(self) -> None:
        self.begun.set()
        await self.may_answer.wait()
        if self.refuses:
            raise JSONRPCError(-32603, "not now")

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="go", input_schema=t.ToolInputSchema())])

    async def call_tool(self, ctx: Any, params: Any) -> t.CallToolResult:
        await ctx.notify_resource_updated(URI)
        return t.CallToolResult(content=[t.TextContent(text="done")])

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[t.Resource(uri=URI, name="a")])

    async def read_resource(self, ctx: Any, params: Any) -> t.ReadResourceResult:
        return t.ReadResourceResult(contents=[])

    async def subscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
        self.noted.append(f"+{params.uri}")
        await self._ask()
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
        self.noted.append(f"-{params.uri}")
        return t.EmptyResult()

    async def set_level(self, ctx: Any, params: Any) -> t.EmptyResult:
        self.levels.append(params.level)
        await self._ask()
        return t.EmptyResult()


@asynccontextmanager
async def app_of(kind: str, target: Target) -> AsyncGenerator[App]:
    """Yield an app that passes messages to a target."""
    if kind == "proxy":
        yield App.proxy(target)
        return
    async with listening(target.asgi(revisions=["2025-11-25"])) as port:
        yield Gateway({"upstreams": {"target": {"url": f"http://127.0.0.1:{port}/mcp", "prefix": ""}}}).app


def hold(target: Target) -> None:
    """Let a target wait before it answers."""
    target.begun.clear()
    target.may_answer.clear()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@FRONTS
async def test_streams_that_begin_at_once_are_one_subscription_and_all_end_it(front: str) -> None:
    target = Target()
    async with connect(App.proxy(target), revisions=[front]) as client:
        await client.list_tools()
        streams = [client.listen(resource_updated=[URI]) for _ in range(3)]
        hold(target)
        opening = [asyncio.create_task(stream.__aenter__()) for stream in streams]
        await target.begun.wait()
        target.may_answer.set()
        await asyncio.gather(*opening)
        await client.call_tool("go")
        for stream in streams:
            assert cast(Any, await anext(stream)).params.uri == URI
        for stream in streams:
            await stream.close()
        await until(lambda: f"-{URI}" in target.noted)
        assert target.noted == [f"+{URI}", f"-{URI}"]


@KINDS
async def test_requests_to_subscribe_that_come_at_once_are_one_subscription(kind: str) -> None:
    target = Target()
    async with app_of(kind, target) as app, connect(app, client=Client, revisions=["2025-11-25"]) as client:
        await client.read_resource(URI)
        hold(target)
        asking = [asyncio.create_task(client.subscribe(URI)) for _ in range(2)]
        await target.begun.wait()
        target.may_answer.set()
        await asyncio.gather(*asking)
        for _ in range(2):
            await client.unsubscribe(URI)
        assert target.noted == [f"+{URI}", f"-{URI}"]


@pytest.mark.parametrize("number", [0, 1])
async def test_a_request_to_subscribe_that_is_cancelled_leaves_it_to_the_other(number: int) -> None:
    target = Target()
    async with connect(App.proxy(target), client=Client, revisions=["2025-11-25"]) as client:
        hold(target)
        asking = [asyncio.create_task(client.subscribe(URI)) for _ in range(2)]
        await target.begun.wait()
        asking[number].cancel()
        await asyncio.wait([asking[number]])
        await client.ping()  # The cancellation was handled.
        target.may_answer.set()
        await asking[1 - number]
        await client.unsubscribe(URI)
        assert target.noted == [f"+{URI}", f"-{URI}"]
        await client.subscribe(URI)
        assert target.noted == [f"+{URI}", f"-{URI}", f"+{URI}"]


async def test_a_subscription_that_nobody_waits_for_ends_and_may_begin_anew() -> None:
    target = Target()
    async with connect(App.proxy(target), client=Client, revisions=["2025-11-25"]) as client:
        hold(target)
        asking = asyncio.create_task(client.subscribe(URI))
        await target.begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await client.ping()
        target.may_answer.set()
        await client.subscribe(URI)
        await client.unsubscribe(URI)
        assert target.noted[-2:] == [f"+{URI}", f"-{URI}"]


async def test_a_refusal_goes_to_all_that_ask_and_the_next_one_asks_again() -> None:
    target = Target()
    target.refuses = True
    async with connect(App.proxy(target), client=Client, revisions=["2025-11-25"]) as client:
        answers = await asyncio.gather(client.subscribe(URI), client.subscribe(URI), return_exceptions=True)
        assert all(isinstance(answer, RemoteJSONRPCError) for answer in answers)
        target.refuses = False
        await client.subscribe(URI)
        await client.unsubscribe(URI)
        assert target.noted[-2:] == [f"+{URI}", f"-{URI}"]


# ---- the level of log messages -------------------------------------------------------------------------------------


@KINDS
async def test_a_level_whose_request_was_cancelled_or_refused_is_asked_for_again(kind: str) -> None:
    target = Target()
    async with app_of(kind, target) as app, connect(app, client=Client, revisions=["2025-11-25"]) as client:
        await client.call_tool("go")
        target.levels.clear()
        hold(target)
        asking = [asyncio.create_task(client.set_level("error")) for _ in range(2)]
        await target.begun.wait()
        asking[0].cancel()
        await asyncio.wait([asking[0]])
        target.may_answer.set()
        await asking[1]
        await client.call_tool("go")
        assert target.levels == ["error"]
        target.refuses = True
        await asyncio.gather(client.set_level("info"), return_exceptions=True)
        target.refuses = False
        await client.set_level("info")
        await client.call_tool("go")
        assert target.levels == ["error", "info", "info"]


async def test_levels_that_come_at_once_reach_the_target_in_their_order() -> None:
    target = Target()
    async with connect(App.proxy(target), client=Client, revisions=["2025-11-25"]) as client:
        await client.call_tool("go")
        target.levels.clear()
        hold(target)
        asking = [asyncio.create_task(client.set_level(level)) for level in ("error", "info", "warning")]
        await target.begun.wait()
        target.may_answer.set()
        await asyncio.gather(*asking)
        await client.call_tool("go")
        assert target.levels == ["error", "info", "warning"]


async def test_a_target_that_refuses_the_level_serves_calls_and_is_asked_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = Target()
    target.refuses = True
    async with connect(App.proxy(target), client=Client, revisions=["2025-11-25"]) as client:
        for _ in range(3):
            assert not (await client.call_tool("go")).is_error
    assert len(target.levels) == 1
    assert sum("level of log messages" in record.getMessage() for record in caplog.records) == 1
