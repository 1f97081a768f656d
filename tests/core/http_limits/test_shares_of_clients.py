"""Calls of one client that block a worker thread do not stop those of another, and one session has a bounded number."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.asgi_client import Web

from mcp_generated import App


def call(rev: Rev, tool: str, id: int = 1) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": tool, "arguments": {}})


@pytest.mark.parametrize("by", ["address", "user"])
@among([*HANDSHAKE[1:], *STATELESS])
async def test_forty_blocked_calls_of_one_client_do_not_stop_another(rev: Rev, by: str) -> None:
    app, go, began = App("shared"), threading.Event(), threading.Semaphore(0)

    @app.tool
    def block() -> str:
        """Block a worker thread."""
        began.release()
        go.wait(30)
        return "done"

    @app.tool
    def quick() -> str:
        """Return at once."""
        return "quick"

    asgi = app.asgi(owner=lambda scope: scope["state"].get("name"))

    def client(name: str, address: str) -> Web:
        async def addressed(scope: Any, receive: Any, send: Any) -> None:
            state = {"name": name} if by == "user" else {}
            await asgi({**scope, "client": (address, 50_000), "state": state}, receive, send)

        return Web(addressed, rev)

    greedy, other = client("greedy", "192.0.2.1"), client("other", "192.0.2.2")
    for web in (greedy, other):
        if not rev.stateless:
            await web.open()
    blocked = [greedy.request(body=call(rev, "block", id)) for id in range(40)]
    for _ in range(32):
        assert await asyncio.to_thread(began.acquire, timeout=10)
    for id in range(5):
        answer = await other.answered(body=call(rev, "quick", id))
        assert answer.status == 200 and b'"quick"' in answer.content
    assert not began.acquire(blocking=False)
    go.set()
    assert [(await answer.whole()).status for answer in blocked] == [200] * 40
    await asgi.close()


@among(HANDSHAKE[1:])
async def test_a_session_has_a_bounded_number_of_calls(rev: Rev, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_runtime.session.handlers._MAX_RUNNING", 5)
    app, go = App("bounded"), asyncio.Event()

    @app.tool
    async def hang() -> str:
        """Wait."""
        await go.wait()
        return "done"

    asgi = app.asgi(json_response=True)
    web, other = Web(asgi, rev), Web(asgi, rev)
    await web.open()
    await other.open()
    calls = [web.request(body=call(rev, "hang", id)) for id in range(5)]
    await asyncio.sleep(0)
    for id in range(5, 9):
        refused = await web.answered(body=call(rev, "hang", id))
        assert "wait for results" in refused.json["error"]["message"]
    assert (await web.answered(body=rev.request(10, "ping"))).json["result"] == {}
    theirs = other.request(body=call(rev, "hang"))
    go.set()
    assert [b'"done"' in (await answer.whole()).content for answer in (*calls, theirs)] == [True] * 6
    await asgi.close()
