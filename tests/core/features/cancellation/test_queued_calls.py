"""A call of a plain function that is cancelled while it waits for a thread never begins, over every transport."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.asgi_client import Web

from mcp_generated import App

PROGRAM = """
import threading
from mcp_generated import App

app, go, ran = App("queue"), threading.Event(), []

@app.tool
def block() -> None:
    go.wait(60)

@app.tool
def mark(number: int) -> None:
    ran.append(number)

@app.tool
async def release() -> None:
    go.set()

@app.tool
async def marks() -> str:
    return str(sorted(ran))

app.run()
"""
THREADS = 40  # More than one client gets.


@pytest.mark.long
@among([HANDSHAKE[1], HANDSHAKE[-1], *STATELESS])
async def test_over_stdio(rev: Rev) -> None:
    async with asyncio.timeout(60), connect([sys.executable, "-c", PROGRAM], revisions=[rev.id]) as client:
        blocked = [asyncio.create_task(client.call_tool(name="block", arguments={})) for _ in range(THREADS)]
        await asyncio.sleep(0)
        marking = [
            asyncio.create_task(client.call_tool(name="mark", arguments={"number": number})) for number in range(6)
        ]
        await client.call_tool(name="marks", arguments={})  # The server has read the calls before.
        for task in marking[::2]:
            task.cancel()
        await asyncio.wait(marking[::2])
        await client.call_tool(name="release", arguments={})
        await asyncio.gather(*blocked, *marking[1::2])
        assert (await client.call_tool(name="marks", arguments={})).content[0].text == "[1, 3, 5]"


@pytest.mark.parametrize("json_response", [True, False])
@among([HANDSHAKE[1], HANDSHAKE[-1], *STATELESS])
async def test_over_http(rev: Rev, json_response: bool) -> None:
    app, go, ran = App("queue"), threading.Event(), list[int]()

    @app.tool
    def block() -> None:
        """Block a thread."""
        go.wait(60)

    @app.tool
    def mark(number: int) -> None:
        """Leave a mark."""
        ran.append(number)

    web = Web(asgi := app.asgi(json_response=json_response), rev)
    if not rev.stateless:
        await web.open()

    def call(id: int, tool: str, **arguments: Any) -> Any:
        return web.request(body=rev.request(id, "tools/call", {"name": tool, "arguments": arguments}))

    blocked = [call(id, "block") for id in range(THREADS)]
    marking = [call(100 + number, "mark", number=number) for number in range(6)]
    assert (await web.answered(body=rev.request(200, "tools/list"))).status == 200  # The calls were read before.
    for number in (0, 2, 4):
        if rev.stateless:
            await marking[number].leave()
        else:
            params = {"requestId": 100 + number}
            await web.answered(body={"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    go.set()
    for answer in (*blocked, *marking[1::2]):
        assert (await answer.whole()).status == 200
    assert sorted(ran) == [1, 3, 5]
    await asgi.close()
