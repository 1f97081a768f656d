"""Calls that are open at the same time: handlers run beside each other, and start in the order of their requests."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar
from typing import Any

import pytest
from support.clock import settle
from support.endpoints import ALL_REVISIONS, Rev, among, client_of, server_of

from mcp_runtime.protocol.connection import RequestReceived
from mcp_runtime.session.handlers import RunningRequest
from mcp_runtime.session.interfaces import FORWARDING


@among(ALL_REVISIONS)
async def test_a_fast_call_overtakes_a_slow_one(rev: Rev) -> None:
    release = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "slow":
            await release.wait()
        return rev.text(params.name)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        slow = asyncio.create_task(client.call_tool(name="slow"))
        assert (await client.call_tool(name="fast")).content[0].text == "fast"
        assert not slow.done()
        release.set()
        assert (await slow).content[0].text == "slow"


@among(ALL_REVISIONS)
async def test_handlers_start_in_the_order_in_which_the_requests_were_sent(rev: Rev) -> None:
    started: list[int] = []
    everyone = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.append(params.arguments["n"])
        if len(started) == 50:
            everyone.set()
        await everyone.wait()
        return rev.text(str(params.arguments["n"]))

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        calls = [client.call_tool(name="x", arguments={"n": n}) for n in range(50)]
        results = await asyncio.gather(*calls)
    assert started == list(range(50))
    assert [result.content[0].text for result in results] == [str(n) for n in range(50)]


@among(ALL_REVISIONS)
async def test_two_clients_with_the_same_ids_get_their_own_answers(rev: Rev) -> None:
    met = asyncio.Barrier(2)

    async def call_tool(ctx: Any, params: Any) -> Any:
        await met.wait()
        return rev.text(f"{params.name} {ctx.request_id}")

    server = server_of(rev, call_tool=call_tool)
    async with client_of(rev, server) as one, client_of(rev, server) as other:
        first, second = await asyncio.gather(one.call_tool(name="one"), other.call_tool(name="other"))
    (name, id), (other_name, other_id) = first.content[0].text.split(), second.content[0].text.split()
    assert (name, other_name) == ("one", "other") and id == other_id


@pytest.mark.long
@pytest.mark.parametrize("forwards", [False, True], ids=["", "log records"])
@among(ALL_REVISIONS)
async def test_handlers_that_have_ended_leave_room_for_others_and_nothing_of_their_requests(
    rev: Rev, forwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_RUNNING", 4)
    monkeypatch.setattr(FORWARDING, "is_on", forwards)

    async def call_tool(ctx: Any, params: Any) -> Any:
        await asyncio.sleep(0)
        return rev.text(params.name)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        for turn in range(5):
            results = await asyncio.gather(*(client.call_tool(name=f"{turn} {number}") for number in range(6)))
            assert [result.content[0].text for result in results] == [f"{turn} {number}" for number in range(6)]
        await settle()
        gc.collect()
        assert [leaked for leaked in gc.get_objects() if isinstance(leaked, (RequestReceived, RunningRequest))] == []


@among(ALL_REVISIONS)
async def test_a_handler_that_has_waited_begins_without_the_context_variables_of_others(
    rev: Rev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_RUNNING", 4)
    user: ContextVar[str] = ContextVar("user", default="")

    async def call_tool(ctx: Any, params: Any) -> Any:
        before = user.get()
        user.set(params.name)
        await asyncio.sleep(0)
        return rev.text(before)

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        results = await asyncio.gather(*(client.call_tool(name=f"{number}") for number in range(20)))
    assert {result.content[0].text for result in results} == {""}
