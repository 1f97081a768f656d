"""An answer and a cancellation that meet on the way: the client sees one of both, and the server sends none twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, client_of, raw_server, server_of, wire_to

from mcp_runtime.errors import JSONRPCError


def call(rev: Rev, id: int, name: str) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name})


def cancelled(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@among(ALL_REVISIONS)
@pytest.mark.parametrize("ending", ["result", "error", "failure"])
async def test_a_handler_that_answers_when_it_is_cancelled_sends_nothing(rev: Rev, ending: str) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "quick":
            return rev.text("quick")
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            if ending == "error":
                raise JSONRPCError(-32050, "late") from None
            if ending == "failure":
                raise RuntimeError("late") from None
        return rev.text("late")

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(call(rev, 1, "stubborn"))
        await started.wait()
        wire.send(cancelled(1))
        await ended.wait()
        for id in (1, 2):  # The id is free again.
            answer = await wire.request(call(rev, id, "quick"))
            assert answer["result"]["content"][0]["text"] == "quick"


@among(ALL_REVISIONS)
async def test_a_cancellation_right_behind_its_request_gets_no_answer_or_a_whole_one(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await asyncio.sleep(0)
        return rev.text(params.name)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(call(rev, 1, "cancelled"), cancelled(1), call(rev, 2, "served"))
        answer = await wire.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (2, "served")


@among(HANDSHAKE)
@pytest.mark.parametrize("first", ["answer", "cancellation"])
@pytest.mark.parametrize("answer", [{"result": {"content": []}}, {"error": {"code": -32000, "message": "no"}}])
async def test_a_client_that_gives_up_as_the_answer_arrives_ends_once(
    rev: Rev, first: str, answer: dict[str, Any]
) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="x"))
    request = await wire.receive()
    wire_answer = {"jsonrpc": "2.0", "id": request["id"], **answer}
    if first == "answer":
        wire.send(wire_answer)
        task.cancel()
    else:
        task.cancel()
        wire.send(wire_answer)
    await asyncio.wait([task])
    assert task.cancelled() or first == "answer"
    wire.send(wire_answer)  # A second time, to a request that has ended.
    pinging = asyncio.create_task(client.ping())
    while (probe := await wire.receive())["method"] != "ping":
        assert probe["method"] == "notifications/cancelled" and probe["params"]["requestId"] == request["id"]
    wire.send({"jsonrpc": "2.0", "id": probe["id"], "result": {}})
    await pinging
    await client.close()
