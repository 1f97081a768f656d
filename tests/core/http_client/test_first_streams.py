"""The stream of a session is open before the first call: some servers drop what they send before it is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among

from mcp_generated import App, Client

REVISIONS = [rev for rev in HANDSHAKE if rev.id != "2024-11-05"]  # It has no Streamable HTTP.


def recorded(seen: list[str], seconds: float, status: int | None) -> Any:
    """An application whose GET is answered after some seconds, with a status of its own if there is one; `seen` gets
    the answer of the GET, and the methods of POSTs when they have come."""
    app = App("first")

    @app.tool
    def work() -> str:
        return "done"

    application = app.asgi()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await application(scope, receive, send)
        if scope["method"] == "GET":
            await asyncio.sleep(seconds)
            seen.append("GET")
            if status is not None:
                await send({"type": "http.response.start", "status": status, "headers": []})
                return await send({"type": "http.response.body", "body": b""})
        elif scope["method"] == "POST":
            message = await receive()
            seen.append(json.loads(message["body"])["method"])
            inner = receive
            first = [message]

            async def receive_again() -> Any:
                return first.pop() if first else await inner()

            return await application(scope, receive_again, send)
        await application(scope, receive, send)

    return serve


@among(REVISIONS)
@pytest.mark.parametrize("status", [None, 405], ids=["a stream", "no stream"])
async def test_the_first_call_comes_after_the_answer_to_the_get(rev: Rev, status: int | None) -> None:
    seen: list[str] = []
    async with Client(recorded(seen, 0.05, status), revisions=rev.id) as client:
        assert (await client.call_tool("work")).content[0].text == "done"
    assert "GET" in seen and seen.index("GET") < seen.index("tools/call")


@among(REVISIONS)
async def test_a_server_that_does_not_answer_the_get_is_called_nevertheless(rev: Rev) -> None:
    seen: list[str] = []
    async with Client(recorded(seen, 3600.0, None), revisions=rev.id) as client:
        assert (await client.call_tool("work")).content[0].text == "done"
    assert "GET" not in seen
