"""Floods of messages, to a server on a real socket and to a client: each is read, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from support.http.raw_client import ENDPOINTS, Socket, address, opened, resident
from support.http.raw_server import STREAM, Got, Raw, Write, reply, result, serving, text, text_result

from mcp_generated import v2025_11_25
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.http.sse import encode
from mcp_runtime.session.requests import RequestOptions

pytestmark = pytest.mark.long

BATCH, BATCHES = 100, 2_000  # Two hundred thousand messages.
AT_ONCE = 1024  # As runtime/mcp_runtime/session/handlers.py has it.
NOTIFICATIONS = [
    {"method": "notifications/cancelled", "params": {"requestId": "gone"}},
    {"method": "notifications/progress", "params": {"progressToken": "gone", "progress": 1}},
    {"method": "notifications/nobody_knows", "params": {"x": "y"}},
    {"method": "notifications/message", "params": {"level": "info", "data": "x"}},
]
LINES = [json.dumps({"jsonrpc": "2.0", **notification}).encode() for notification in NOTIFICATIONS]


@pytest.mark.edges("h11", "bridge")
@pytest.mark.deadline(90)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.fault("1.5/12")
async def test_two_hundred_thousand_notifications_leave_nothing_in_a_server(endpoint: str) -> None:
    client = await opened(address(endpoint), "2025-03-26")
    data = client.bytes(b"[" + b",".join(LINES * (BATCH // len(LINES))) + b"]")
    connection = await Socket.to(client.where)

    async def flood(times: int) -> int:
        """How many blocks of memory the server has afterwards."""
        for _ in range(times):
            await connection.write(data)
            assert (await connection.answer()).status == 202
        return int((await client.status())["blocks"])

    before, resident_before = await flood(BATCHES // 10), resident(endpoint)
    assert await flood(BATCHES - BATCHES // 10) - before < 5_000
    assert resident(endpoint) - resident_before < 8 << 20  # A relay says nothing of its blocks.
    connection.cut()
    assert await client.call(1, "echo", text="well") == "well"


@pytest.mark.deadline(90)
@pytest.mark.parametrize(("standing", "batches"), [(True, BATCHES), (False, BATCHES // 10)], ids=["GET", "POST"])
@pytest.mark.fault("1.5/12")
async def test_two_hundred_thousand_notifications_leave_nothing_in_a_client(standing: bool, batches: int) -> None:
    events = b"".join(encode(line) for line in LINES) * (BATCH // len(LINES))
    blocks, flooded = list[int](), asyncio.Event()

    async def flood(got: Got, write: Write) -> None:
        await write(STREAM)
        for number in range(batches):
            await write(events)
            if number % (batches // 10) == 0:
                blocks.append(sys.getallocatedblocks())
        flooded.set()
        if "id" in (got.body or {}):
            await write(encode(result(got, text_result("through"))))
        else:
            await asyncio.Event().wait()

    raw = Raw({"GET" if standing else "tools/call": flood})
    async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
        assert text(await client.call_tool(name="x")) == ("usual" if standing else "through")
        await flooded.wait()
    assert len(blocks) == 10 and blocks[-1] - blocks[1] < 5_000


@pytest.mark.deadline(60)
@pytest.mark.fault("1.5/12")
async def test_twenty_thousand_requests_of_a_server_are_worked_on_and_answered_a_few_at_a_time() -> None:
    started, open_, peak, answered = 0, 0, 0, 0
    many, enough, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    requests = [encode(b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}' % id) for id in range(20_000)]

    class RootsClient(v2025_11_25.Client):
        async def on_list_roots(self, ctx: Any, params: Any) -> t.ListRootsResult:
            nonlocal started
            started += 1
            if started == AT_ONCE:
                many.set()
            await go_on.wait()
            return t.ListRootsResult(roots=[])

    async def flood(got: Got, write: Write) -> None:
        await write(STREAM + b"".join(requests))
        await asyncio.Event().wait()

    async def receive_answer(got: Got, write: Write) -> None:
        nonlocal answered, open_, peak
        open_ += 1
        peak = max(peak, open_)
        for _ in range(5):  # It takes a moment, in which other answers may come.
            await asyncio.sleep(0)
        open_ -= 1
        answered += 1
        await write(reply(b"", 202))
        if answered == 1500:
            enough.set()

    raw = Raw({"GET": flood, "answer": receive_answer})
    async with serving(raw), RootsClient.http(raw.url) as client:
        await many.wait()
        for _ in range(100):  # Turns of the loop in which more would begin, if any did.
            await asyncio.sleep(0)
        assert started == AT_ONCE
        go_on.set()
        await enough.wait()
        assert started < answered + AT_ONCE + 300 and peak <= 32
        raw.answers.pop("GET")
        assert text(await client.call_tool(name="x", options=RequestOptions(timeout=30))) == "usual"
    assert not raw.requests_of("answer")[0].body.get("error")
