"""Conversations over HTTP+SSE that are left end with their handlers; what waits for a client has limits in bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.endpoints import HANDSHAKE
from support.http.asgi_client import Answer, Web

from mcp_generated import App
from mcp_generated.http import HTTPLimits

REV = HANDSHAKE[0]
MIB = 1 << 20


class Calls:
    """The calls of an app that run, and those that have started."""

    def __init__(self) -> None:
        self.running = self.started = 0
        self.app = App("slow")
        self.go_on = asyncio.Event()

        @self.app.tool
        async def hang(text: str = "") -> str:
            """Wait until all may go on."""
            self.running += 1
            self.started += 1
            try:
                await self.go_on.wait()
            finally:
                self.running -= 1
            return text

        @self.app.tool
        async def large() -> str:
            """Return a mebibyte."""
            self.started += 1
            return "x" * MIB

    async def until(self, started: int) -> None:
        async with asyncio.timeout(20):
            while self.started < started:
                await asyncio.sleep(0)


class UnreadAnswer(Answer):
    """An answer whose client reads nothing while `reads` is not set."""

    def __post_init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        super().__post_init__()

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        await super()._send(message)


class Conversation:
    """A conversation over HTTP+SSE."""

    def __init__(self, web: Web, stream: Answer, path: str, query: bytes) -> None:
        self.web = web
        self.stream = stream
        self.path = path
        self.query = query

    @classmethod
    async def of(cls, web: Web, answer: type[Answer] = Answer) -> Conversation:
        headers = [(b"host", b"localhost"), (b"accept", b"text/event-stream")]
        scope = {"type": "http", "method": "GET", "path": "/sse", "headers": headers, "query_string": b""}
        stream = answer(web.app, scope, b"")
        await stream.until(lambda answer: answer.events)
        path, _, query = stream.events[0].data.decode().partition("?")
        conversation = cls(web, stream, path, query.encode())
        hello = {"protocolVersion": REV.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        assert (await conversation.post(REV.request("hello", "initialize", hello)).whole()).status == 202
        await stream.until(lambda answer: len(answer.events) > 1)
        await conversation.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).whole()
        return conversation

    def post(self, body: Any) -> Answer:
        return self.web.request(body=body, path=self.path, query_string=self.query)

    def call(self, id: Any, tool: str = "hang", **arguments: Any) -> Answer:
        return self.post(REV.request(id, "tools/call", {"name": tool, "arguments": arguments}))


@asynccontextmanager
async def served(calls: Calls, **limits: Any) -> AsyncIterator[Web]:
    app = calls.app.asgi(path="/mcp", legacy_sse=True, limits=HTTPLimits(**limits))
    try:
        yield Web(app, REV)
    finally:
        calls.go_on.set()
        await app.close()


@pytest.mark.parametrize("count", [1, 40, 300])
async def test_leaving_ends_the_handlers_and_all_that_waits(count: int) -> None:
    calls = Calls()
    async with served(calls) as web:
        conversation = await Conversation.of(web)
        for id in range(count):
            assert (await conversation.call(id).whole()).status == 202
        await calls.until(count)
        await conversation.stream.leave()
        assert calls.running == 0 and calls.started == count
        assert (await conversation.call("late").whole()).status == 404
        assert calls.started == count


async def test_the_lifespan_of_a_server_is_that_of_the_endpoint_and_not_of_a_conversation() -> None:
    events = list[str]()

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        events.append("begins")
        yield
        events.append("ends")

    app = App("shared", lifespan=lifespan)

    @app.tool
    async def quick() -> str:
        """Return at once."""
        return "quick"

    asgi = app.asgi(path="/mcp", legacy_sse=True)
    web = Web(asgi, REV)
    first, second = await Conversation.of(web), await Conversation.of(web)
    await first.stream.leave()
    await second.call("later", "quick").whole()
    await second.stream.until(lambda answer: len(answer.events) > 2)
    assert b'"quick"' in second.stream.events[2].data and events == ["begins"]
    await asgi.close()
    assert events == ["begins", "ends"]


async def test_a_conversation_counts_until_its_handlers_have_ended() -> None:
    calls = Calls()
    async with served(calls, max_sessions=1) as web:
        conversation = await Conversation.of(web)
        await conversation.call(1).whole()
        await calls.until(1)
        leaving = asyncio.create_task(conversation.stream.leave())
        await asyncio.sleep(0)
        refused = await web.answered("GET", headers={"accept": "text/event-stream"}, path="/sse")
        assert refused.status == 503 and calls.running == 1
        await leaving
        other = await Conversation.of(web)
        await other.stream.leave()


async def test_a_client_that_reads_nothing_holds_a_bounded_number_of_bytes() -> None:
    calls = Calls()
    async with served(calls) as web:
        conversation = await Conversation.of(web, UnreadAnswer)
        assert isinstance(conversation.stream, UnreadAnswer)
        conversation.stream.reads.clear()
        for id in range(8):
            assert (await conversation.call(id, "large").whole()).status == 202
        assert calls.started == 1  # Its response is being sent; the next message is not read before.
        posts = [await conversation.call(f"big {id}", text="y" * MIB).whole() for id in range(40)]
        accepted = [post.status for post in posts].count(202)
        assert 10 <= accepted <= 16 and {post.status for post in posts[accepted:]} == {503}
        assert b"read the SSE stream" in posts[-1].content
        conversation.stream.reads.set()
        await calls.until(8 + accepted)
        await conversation.stream.leave()
        assert calls.running == 0
