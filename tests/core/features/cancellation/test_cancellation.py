"""Giving up a request, from either side: the work ends, no answer is sent, and what crosses on the way does no harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    raw_server,
    server_of,
    wire_to,
)

from mcp_runtime.errors import RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.session.requests import RequestOptions


class Worker:
    """A tool that waits until it is cancelled or released, and says what happened to it."""

    def __init__(self, rev: Rev) -> None:
        self.rev = rev
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = False

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        if params.name == "quick":
            return self.rev.text("quick")
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.ended.set()
        return self.rev.text("done")


def cancelled(id: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, **more}}


def call(rev: Rev, id: Any, name: str) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name})


@clause("2024-11-05/cancellation/01", "2025-03-26/cancellation/01", "draft/cancellation/01")
@clause("2024-11-05/cancellation/04", "2025-03-26/cancellation/04", "draft/cancellation/04")
@clause("2024-11-05/cancellation/05", "2025-03-26/cancellation/05", "draft/cancellation/05")
@among(ALL_REVISIONS)
async def test_cancelling_the_awaiting_task_cancels_the_handler(rev: Rev) -> None:
    worker = Worker(rev)
    tap = Tap(server_of(rev, call_tool=worker.call_tool))
    async with client_of(rev, tap) as client:
        task = asyncio.create_task(client.call_tool(name="slow"))
        await worker.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await worker.ended.wait()
        assert worker.cancelled
        assert (await client.call_tool(name="quick")).content[0].text == "quick"
    [call_id, *_] = [message["id"] for message in tap.sent if message["method"] == "tools/call"]
    assert [m["params"]["requestId"] for m in tap.sent if m["method"] == "notifications/cancelled"] == [call_id]


@clause("2024-11-05/cancellation/06", "2025-03-26/cancellation/06", "draft/cancellation/06")
@among(ALL_REVISIONS)
async def test_a_cancelled_request_gets_no_answer_and_its_id_is_free(rev: Rev) -> None:
    worker = Worker(rev)
    async with wire_to(server_of(rev, call_tool=worker.call_tool), opened=rev) as wire:
        wire.send(call(rev, 7, "slow"))
        await worker.started.wait()
        wire.send(cancelled(7, reason="changed my mind"))
        await worker.ended.wait()
        answer = await wire.request(call(rev, 7, "quick"))
        assert answer["result"]["content"][0]["text"] == "quick"


@clause("2024-11-05/cancellation/02", "2025-03-26/cancellation/02", "draft/cancellation/02")
@among(ALL_REVISIONS)
async def test_a_call_that_has_its_answer_is_not_cancelled(rev: Rev) -> None:
    tap = Tap(server_of(rev, call_tool=Worker(rev).call_tool))
    async with client_of(rev, tap) as client:
        task = asyncio.create_task(client.call_tool(name="quick"))
        await task
        assert not task.cancel()
    assert "notifications/cancelled" not in tap.methods()


@clause("2024-11-05/cancellation/03", "2025-03-26/cancellation/03", "draft/cancellation/03")
@among(HANDSHAKE)
@pytest.mark.parametrize("cause", ["cancel", "timeout"])
async def test_the_client_never_cancels_the_opening_request(rev: Rev, cause: str) -> None:
    wire, connect = raw_server()
    opening = RequestOptions(timeout=0.01 if cause == "timeout" else 60)
    task = asyncio.create_task(client_of(rev, connect, connect_options=opening).__aenter__())
    assert (await wire.receive())["method"] == "initialize"
    if cause == "cancel":
        task.cancel()
    with pytest.raises(RequestTimeoutError if cause == "timeout" else asyncio.CancelledError):
        await task
    assert await wire.receive() is None


@clause("2024-11-05/cancellation/07", "2025-03-26/cancellation/07", "draft/cancellation/07")
@clause("2024-11-05/cancellation/08", "2025-03-26/cancellation/08", "draft/cancellation/08")
@among(HANDSHAKE)
async def test_an_answer_that_comes_after_the_cancellation_is_dropped(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="slow"))
    request = await wire.receive()
    task.cancel()
    assert (await wire.receive())["method"] == "notifications/cancelled"
    wire.send({"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}})
    ping = asyncio.create_task(client.ping())
    probe = await wire.receive()
    wire.send({"jsonrpc": "2.0", "id": probe["id"], "result": {}})
    await ping
    assert task.cancelled() and probe["id"] != request["id"]
    await client.close()


@clause("2024-11-05/cancellation/08", "2025-03-26/cancellation/08", "draft/cancellation/08")
@clause("2024-11-05/cancellation/11", "2025-03-26/cancellation/11", "draft/cancellation/11")
@clause("2024-11-05/cancellation/12", "2025-03-26/cancellation/12", "draft/cancellation/12")
@clause("2024-11-05/cancellation/13", "2025-03-26/cancellation/13", "draft/cancellation/13")
@among(ALL_REVISIONS)
async def test_a_cancellation_of_nothing_that_runs_is_ignored(rev: Rev) -> None:
    worker = Worker(rev)
    async with wire_to(server_of(rev, call_tool=worker.call_tool), opened=rev) as wire:
        wire.send(call(rev, 1, "slow"))
        await worker.started.wait()
        await wire.request(call(rev, 2, "quick"))
        malformed: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
            cancelled(None),
            cancelled([1]),
            cancelled(1, reason=5),
        ]
        wire.send(cancelled("unknown"), cancelled(2), cancelled("1"), cancelled(2), *malformed)
        worker.release.set()
        answer = await wire.receive()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (1, "done") and not worker.cancelled


@among(HANDSHAKE)
async def test_a_handler_that_gives_up_its_question_cancels_it_at_the_client(rev: Rev) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def call_tool(ctx: Any, params: Any) -> Any:
        question = asyncio.create_task(ctx.list_roots())
        await started.wait()
        question.cancel()
        await asyncio.wait([question])
        await ended.wait()
        return rev.text(f"cancelled: {question.cancelled()}")

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        assert (await client.call_tool(name="x")).content[0].text == "cancelled: True"


@among(HANDSHAKE)
async def test_cancelling_a_call_cancels_what_its_handler_asks_back(rev: Rev) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.list_roots()

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        task = asyncio.create_task(client.call_tool(name="x"))
        await started.wait()
        task.cancel()
        await ended.wait()
        assert await client.ping()
    assert task.cancelled()


@clause("2024-11-05/cancellation/09", "2025-03-26/cancellation/09", "draft/cancellation/09")
@among(ALL_REVISIONS)
async def test_the_reason_of_a_cancellation_is_logged(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "mcp_runtime")
    worker = Worker(rev)
    async with wire_to(server_of(rev, call_tool=worker.call_tool), opened=rev) as wire:
        wire.send(call(rev, 7, "slow"))
        await worker.started.wait()
        wire.send(cancelled(7, reason="changed my mind"))
        await worker.ended.wait()
    assert "changed my mind" in caplog.text


@among(ALL_REVISIONS)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "later"])
async def test_a_handler_that_waits_for_what_was_cancelled_has_failed(rev: Rev, waits: bool) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "quick":
            return rev.text("quick")
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        if waits:
            await asyncio.sleep(0)
        return await cancelled

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        with pytest.raises(RemoteJSONRPCError, match="internal error"):
            await client.call_tool(name="x")
        assert (await client.call_tool(name="quick")).content[0].text == "quick"


@among(ALL_REVISIONS)
async def test_a_handler_that_outlasts_its_cancellation_leaves_the_id_to_who_has_it_now(rev: Rev) -> None:
    first, second, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "stubborn":
            first.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await second.wait()
                go.set()
                return rev.text("too late")
        elif params.name == "slow":
            second.set()
            await go.wait()
            await asyncio.sleep(0.01)
        return rev.text(params.name)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(call(rev, 7, "stubborn"))
        await first.wait()
        wire.send(cancelled(7), call(rev, 7, "slow"))
        await go.wait()
        await asyncio.sleep(0)
        refusal = await wire.request(call(rev, 7, "quick"))
        assert "is in use" in refusal["error"]["message"]
        answer = await wire.receive()
        assert answer["result"]["content"][0]["text"] == "slow"
