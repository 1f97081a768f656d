"""Log messages and progress of plain functions arrive in the order of the calls, for each revision and transport."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import Rev
from support.http.observed_clients import CELLS, observed_client, text_of, wants_logs

from mcp_generated import App, Context, LocalError


@CELLS
@pytest.mark.parametrize("handler", ["def", "async def"])
async def test_messages_of_a_plain_function_arrive_in_order(transport: str, rev: Rev, handler: str) -> None:
    received: list[Any] = []
    complete = asyncio.Event()

    def record(ctx: Any, params: Any) -> None:
        received.append(params.data)
        if params.data == 20:
            ctx.state.loop.call_soon_threadsafe(complete.set)

    async def record_later(ctx: Any, params: Any) -> None:
        await asyncio.sleep(0.002 if len(received) % 2 else 0)  # Without an order, the shorter wait would win.
        record(ctx, params)

    handlers = {"on_logging_message": record if handler == "def" else record_later}
    progress: list[tuple[float, int]] = []
    async with observed_client(transport, rev, handlers) as client:
        client.loop = asyncio.get_running_loop()
        result = await client.call_tool(
            "in_order", on_progress=lambda value: progress.append((value.progress, len(progress))), **wants_logs(rev)
        )
        assert text_of(result) == "done"
        await complete.wait()
    expected: list[Any] = []
    for number in range(0, 20, 2):
        expected += [number, {"msg": {"n": number + 1}, "extra": {"more": True}}]
    assert received == [*expected, 20]
    assert progress == [(number + 1, index) for index, number in enumerate(range(0, 20, 2))]


async def test_the_order_of_logs_and_progress_is_that_of_the_calls() -> None:
    """Both are notifications of one stream; handlers that begin at once show their order."""
    app, events = App("order"), list[Any]()

    @app.tool
    def work(ctx: Context) -> str:
        for number in range(5):
            ctx.sync.info(f"log {number}")
            ctx.sync.progress(number + 1, 5, f"step {number}")
        return "done"

    from mcp_generated.v2025_11_25 import Client

    class Recording(Client):
        async def on_logging_message(self, ctx: Any, params: Any) -> None:
            events.append(params.data)

    async with Recording.memory(app) as client:
        await client.call_tool("work", on_progress=lambda value: events.append(value.message))
    assert events == [text for number in range(5) for text in (f"log {number}", f"step {number}")]


async def test_in_a_coroutine_they_are_refused_with_the_line_to_write() -> None:
    app, messages = App("order"), list[str]()

    @app.tool
    async def wrong(ctx: Context) -> str:
        for call in (
            lambda: ctx.sync.info("x"),
            lambda: ctx.sync.report_progress(1),
            lambda: ctx.sync.log("info", "x"),
        ):
            with pytest.raises(LocalError) as caught:
                call()
            messages.append(str(caught.value))
        return "refused"

    async with connect(app) as client:
        assert text_of(await client.call_tool("wrong")) == "refused"
    assert [text.partition("write ")[2] for text in messages] == [
        "`await ctx.info(…)` here",
        "`await ctx.report_progress(…)` here",
        "`await ctx.log(…)` here",
    ]
    assert all(len(text.splitlines()) == 1 for text in messages)


@pytest.mark.parametrize("asks", [True, False], ids=["client asks", "client does not ask"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None,), "progress(): progress must be a number; None is not"),
        (("half",), "progress(): progress must be a number; 'half' is not"),
        ((True,), "progress(): progress must be a number; True is not"),
        ((float("nan"),), "progress(): progress must be a number; nan is not"),
        ((1, "two"), "progress(): total must be a number, or None; 'two' is not"),
    ],
)
async def test_wrong_progress_is_refused_also_if_nobody_asks_for_it(asks: bool, arguments: Any, message: str) -> None:
    app, messages = App("progress"), list[str]()

    @app.tool
    def work(ctx: Context) -> str:
        with pytest.raises(LocalError) as caught:
            ctx.sync.report_progress(*arguments)
        messages.append(str(caught.value).splitlines()[0])
        return "done"

    async with connect(app) as client:
        await client.call_tool("work", on_progress=(lambda progress: None) if asks else None)
    assert messages == [message]


async def test_what_waits_for_the_client_is_refused_with_the_line_to_write() -> None:
    app, messages = App("plain"), list[str]()

    @app.tool
    def wrong(ctx: Context) -> str:
        for name in ("elicit", "inform"):
            with pytest.raises(AttributeError) as caught:
                getattr(ctx.sync, name)
            messages.append(str(caught.value))
        return ""

    await app.call_tool("wrong")
    assert messages == [
        "'SyncContext' object has no attribute 'elicit'; write `async def`, and `await ctx.elicit(…)`",
        "'SyncContext' object has no attribute 'inform'; did you mean 'info'?",
    ]
