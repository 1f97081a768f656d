"""The reason of a cancellation: the client's task has it, the wire carries it, and the handler and the log show it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, Tap, among
from support.http.observed_clients import CELLS, observed_client, text_of

from mcp_generated import App, Context, RequestTimeoutError

CLOSED = "the client closed the connection"


@CELLS
@pytest.mark.parametrize("cause", ["with a reason", "without", "timeout"])
async def test_the_handler_sees_the_reason(transport: str, rev: Rev, cause: str) -> None:
    began = asyncio.Event()
    async with observed_client(transport, rev) as client:
        options: dict[str, Any] = {"timeout": 0.5} if cause == "timeout" else {}
        call = client.call_tool("wait", on_progress=lambda _: began.set(), **options)
        task = asyncio.ensure_future(call)
        await began.wait()
        if cause != "timeout":
            task.cancel(*(["the user left"] if cause == "with a reason" else []))
        with pytest.raises(RequestTimeoutError if cause == "timeout" else asyncio.CancelledError) as caught:
            await task
        reason = json.loads(text_of(await client.call_tool("next_reason")))
    if transport == "http" and rev.stateless:  # Closing the connection cancels the request, which has no reason.
        assert reason == CLOSED
    elif cause == "without":
        assert reason is None
    else:
        assert reason == str(caught.value) and reason in ("the user left", "'tools/call': no response within 0.5 s")


@among(ALL_REVISIONS)
async def test_the_wire_has_the_reason_and_the_log_of_both_sides_shows_it(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "mcp_runtime")
    app, began, ended = App("slow"), asyncio.Event(), asyncio.Event()

    @app.tool
    async def wait(ctx: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tap = Tap(app)
    async with rev.package.Client(tap) as client:
        task = asyncio.ensure_future(client.call_tool("wait"))
        await began.wait()
        task.cancel("the user left")
        await ended.wait()
    [cancelled] = [m for m in tap.sent if m.get("method") == "notifications/cancelled"]
    assert cancelled["params"]["reason"] == "the user left"
    lines = [r.getMessage() for r in caplog.records if "the user left" in r.getMessage()]
    sides = {r.name for r in caplog.records if "the user left" in r.getMessage()}
    assert {"mcp_runtime.client.calls", "mcp_runtime.server.calls"} <= sides, lines


async def test_a_client_that_gives_up_an_answer_tells_the_reason_to_its_own_handler() -> None:
    """A server cancels its request to the client: the handler of the client sees the reason as well."""
    app, began, reasons = App("asks"), asyncio.Event(), asyncio.Queue[Any]()

    @app.tool
    async def question(ctx: Context) -> str:
        task = asyncio.ensure_future(ctx.list_roots())
        await began.wait()
        task.cancel("no roots needed")
        await asyncio.wait([task])
        return "done"

    from mcp_generated.v2025_11_25 import Client

    class Waiting(Client):
        async def on_list_roots(self, ctx: Any, params: Any) -> Any:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                reasons.put_nowait(error.args)
                raise

    async with Waiting.memory(app) as client:
        assert text_of(await client.call_tool("question")) == "done"
        assert await reasons.get() == ("no roots needed",)
