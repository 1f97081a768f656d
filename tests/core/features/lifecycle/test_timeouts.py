"""Deadlines of calls: each has one, it can be chosen, and the other side hears when it has passed."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from support.clock import LoopClock, settle
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, Tap, among, clause, client_of, raw_server, server_of

from mcp_generated import REVISIONS, App, Context
from mcp_generated.v2026_07_28 import Client
from mcp_runtime.errors import RequestTimeoutError
from mcp_runtime.protocol.revision import Request
from mcp_runtime.session.requests import RequestOptions


@clause("2025-03-26/lifecycle/20", "draft/lifecycle/20", "2025-03-26/lifecycle/25", "draft/lifecycle/25")
@clause("2025-03-26/lifecycle/21", "draft/lifecycle/21")
@clause("2024-11-05/tools/14", "2025-03-26/tools/15", "draft/tools/19")
@among(ALL_REVISIONS)
async def test_a_call_whose_time_is_over_cancels_the_handler_and_the_next_one_works(rev: Rev) -> None:
    clock, started, ended = LoopClock(), asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "quick":
            return rev.text("quick")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tap = Tap(server_of(rev, call_tool=call_tool))
    async with client_of(rev, tap) as client:
        hangs = asyncio.create_task(client.call_tool(name="hangs", options=RequestOptions(timeout=5)))
        await started.wait()
        clock.forward(5)
        with pytest.raises(RequestTimeoutError, match="'tools/call': no response within 5 s"):
            await hangs
        await ended.wait()
        assert (await client.call_tool(name="quick")).content[0].text == "quick"
    cancelled = [m["params"]["requestId"] for m in tap.sent if m["method"] == "notifications/cancelled"]
    assert cancelled == [next(m["id"] for m in tap.sent if m["method"] == "tools/call")]


@among(HANDSHAKE)
async def test_calls_in_flight_together_each_end_at_their_own_time(rev: Rev) -> None:
    clock, started, ended = LoopClock(), 0, list[str]()

    async def call_tool(ctx: Any, params: Any) -> Any:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:

        async def call(name: str, options: RequestOptions) -> None:
            with pytest.raises(RequestTimeoutError):
                await client.call_tool(name=name, options=options)
            ended.append(name)

        waits = {
            "second": RequestOptions(timeout=4),
            "first": RequestOptions(timeout=2),
            "third": RequestOptions(timeout=None, max_timeout=6),
        }
        calls = asyncio.gather(*(call(name, options) for name, options in waits.items()))
        while started < len(waits):
            await asyncio.sleep(0)
        for number in range(1, 4):
            assert len(ended) == number - 1
            clock.forward(2)
            await settle()
            assert len(ended) == number
        await calls
    assert ended == ["first", "second", "third"]


@among(HANDSHAKE)
async def test_a_handler_that_asks_the_client_has_timeouts_too(rev: Rev) -> None:
    clock, started, ended = LoopClock(), asyncio.Event(), asyncio.Event()

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def call_tool(ctx: Any, params: Any) -> Any:
        request = asyncio.ensure_future(ctx.list_roots(options=RequestOptions(timeout=5)))
        await started.wait()
        clock.forward(5)
        with pytest.raises(RequestTimeoutError):
            await request
        await ended.wait()
        return rev.text("timed out")

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert (await client.call_tool(name="x")).content[0].text == "timed out"


@clause("2024-11-05/lifecycle/20")
@among(HANDSHAKE)
async def test_a_server_that_never_answers_the_opening_is_left(rev: Rev) -> None:
    wire, connect = raw_server()
    with pytest.raises(RequestTimeoutError, match="'initialize': no response within 0.05 s"):
        async with client_of(rev, connect, connect_options=RequestOptions(timeout=0.05)):
            pass
    assert (await wire.receive())["method"] == "initialize"
    assert await wire.receive() is None


@clause("2025-03-26/lifecycle/21", "draft/lifecycle/21")
@among(ALL_REVISIONS)
def test_every_generated_call_takes_options(rev: Rev) -> None:
    client = rev.package.Client
    for row in rev.revision.table("client_to_server").values():
        if isinstance(row, Request) and hasattr(client, row.name):
            assert inspect.signature(getattr(client, row.name)).parameters["options"].default is None, row.name


@clause("2024-11-05/lifecycle/22", "2025-03-26/lifecycle/19", "draft/lifecycle/19")
@among(ALL_REVISIONS)
def test_a_call_without_options_ends_after_a_minute(rev: Rev) -> None:
    """On a clock that is set forward, in a loop of its own."""

    async def conversation() -> None:
        loop = asyncio.get_running_loop()
        started, clock, ahead = asyncio.Event(), loop.time, 0.0
        loop.time = lambda: clock() + ahead  # type: ignore[method-assign]

        async def call_tool(ctx: Any, params: Any) -> Any:
            started.set()
            await asyncio.Event().wait()

        async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
            task = asyncio.create_task(client.call_tool(name="hangs"))
            await started.wait()
            ahead = 50.0
            await asyncio.wait([task], timeout=0)
            assert not task.done()
            ahead = 61.0
            with pytest.raises(RequestTimeoutError, match="no response within 60 s"):
                await task

    asyncio.run(asyncio.wait_for(conversation(), 600))


@pytest.mark.deadline(600)
@pytest.mark.parametrize("module", REVISIONS.values())
@pytest.mark.parametrize(
    ("settings", "keywords", "seconds"),
    [
        ({"timeout": 5}, {}, 5),
        ({"timeout": 5}, {"meta": {"trace": "1"}}, 5),
        ({"timeout": 5}, {"timeout": 7}, 7),
        ({"timeout": None}, {"max_timeout": 9}, 9),
        ({"timeout": 5}, {"options": RequestOptions(timeout=3)}, 3),
        ({"timeout": 5}, {"options": RequestOptions(meta={"trace": "1"})}, 5),
        ({"timeout": 5}, {"options": RequestOptions(timeout=60)}, 60),
        ({"timeout": 5}, {"options": RequestOptions(), "meta": {"trace": "1"}}, 5),
        ({"timeout": 5, "revisions": "all"}, {}, 5),
        ({}, {}, 60),
    ],
)
async def test_a_client_has_a_timeout_for_all_of_its_requests(
    module: str, settings: dict[str, Any], keywords: dict[str, Any], seconds: int
) -> None:
    clock, started, app = LoopClock(), asyncio.Event(), App("slow")

    @app.tool()
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    client_class = import_module(f"mcp_generated.{module}").Client
    async with client_class.memory(app, **settings) as client:
        call = asyncio.create_task(client.call_tool("wait", **keywords))
        await started.wait()
        clock.forward(seconds - 1)
        await settle()
        assert not call.done()
        clock.forward(2)
        with pytest.raises(RequestTimeoutError, match=r"no response within [0-9.]+ s(\n|$)") as error:
            await call
    assert round(float(str(error.value).split()[-2])) == seconds


@pytest.mark.deadline(600)
@among(ALL_REVISIONS)
@pytest.mark.parametrize("call", ["list", "iterate", "iterate with keywords", "find", "read with options"])
async def test_each_way_to_send_a_request_has_the_timeout_of_the_client(rev: Rev, call: str) -> None:
    clock, started = LoopClock(), asyncio.Event()

    async def wait(ctx: Any, params: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    handlers = dict.fromkeys(("list_tools", "list_resources", "list_resource_templates", "read_resource"), wait)
    client_class: Any = rev.package.Client
    async with client_class.memory(server_of(rev, **handlers), timeout=5) as client:

        async def send() -> Any:
            match call:
                case "list":
                    return await client.list_tools()
                case "iterate":
                    return [tool async for tool in client.iter_tools()]
                case "iterate with keywords":
                    return [tool async for tool in client.iter_tools(meta={"trace": "1"})]
                case "find":
                    return await client.get_resource("x", meta={"trace": "1"})
                case _:
                    return await client.read_resource("x://y", options=RequestOptions(meta={"trace": "1"}))

        task = asyncio.create_task(send())
        await started.wait()
        clock.forward(4)
        await settle()
        assert not task.done()
        clock.forward(2)
        with pytest.raises(RequestTimeoutError, match=r"no response within 5 s(\n|$)"):
            await task


@pytest.mark.deadline(600)
@pytest.mark.parametrize(
    ("options", "passes", "seconds"),
    [
        (RequestOptions(timeout=5), [], 5),
        (RequestOptions(timeout=None, max_timeout=7), [], 7),
        (RequestOptions(timeout=9, max_timeout=7), [], 7),
        (RequestOptions(timeout=5, max_timeout=60), [3, 4], 12),
        (RequestOptions(timeout=5, max_timeout=8), [3, 4], 8),
        (RequestOptions(timeout=5), [3], 5),
    ],
)
async def test_the_message_of_a_timeout_has_the_time_that_passed(
    options: RequestOptions, passes: list[float], seconds: int
) -> None:
    """`passes` are the seconds before each progress notification."""
    clock, started, reports, seen = LoopClock(), asyncio.Event(), asyncio.Queue[float](), asyncio.Queue[float]()
    app = App("slow")

    @app.tool()
    async def wait(ctx: Context) -> str:
        started.set()
        while True:
            await ctx.progress(await reports.get())

    async with Client.memory(app) as client:
        options = replace(options, on_progress=lambda progress: seen.put_nowait(progress.progress))
        call = asyncio.create_task(client.call_tool("wait", options=options))
        await started.wait()
        for number, passed in enumerate(passes, 1):
            clock.forward(passed)
            await reports.put(number)
            await seen.get()
        clock.forward(60)
        with pytest.raises(RequestTimeoutError, match=r"no response within [0-9.]+ s(\n|$)") as error:
            await call
    assert round(float(str(error.value).split()[-2])) == seconds
