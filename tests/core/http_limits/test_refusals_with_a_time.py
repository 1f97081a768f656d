"""What our server refuses before it has begun says when it may be sent again, so that our client gets through."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from support.http.in_process import asking
from support.http.slow_connections import server

from mcp_generated import App, HTTPOptions, v2024_11_05, v2025_11_25, v2026_07_28
from mcp_generated.http import HTTPLimits
from mcp_products.large.messages import turns_of_loop
from mcp_products.legacy_sse import server as legacy_sse
from mcp_products.legacy_sse.server import LegacySSETransport
from mcp_runtime.http.asgi import BodyReader
from mcp_runtime.http.headers import HTTPError
from mcp_runtime.protocol.framing import SizeLimit
from mcp_runtime.session.interfaces import RequestAuth

both = pytest.mark.parametrize("client", [v2025_11_25.Client, v2026_07_28.Client], ids=["2025-11-25", "2026-07-28"])
URL = "http://localhost/mcp"


def app_of_tests(wait: Callable[[], Any] | None = None) -> App:
    app = App("busy")

    @app.tool
    async def hang() -> str:
        """Wait."""
        assert wait is not None
        await wait()
        return "done"

    @app.tool
    def echo(text: str) -> str:
        """Return the text."""
        return text

    return app


class Refusals:
    """An application whose refusals are noted; with the first of them the reason for it goes."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.notes = list[tuple[int, str | None]]()
        self.on_first: Callable[[], Any] = lambda: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.start" and message["status"] == 503:
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                self.notes.append((503, headers.get("retry-after")))
                if len(self.notes) == 1:
                    self.on_first()

        await self.app(scope, receive, noted)

    def options(self, **settings: Any) -> HTTPOptions:
        return HTTPOptions(client=asking(self), **settings)


def text_of(result: Any) -> str:
    text: str = result.content[0].text
    return text


@both
async def test_a_call_beyond_those_that_run_waits_for_one_to_end(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("stateful", "stateless"):
        for limit in ("_MAX_RUNNING", "_MAX_RUNNING_OF_ADDRESS"):
            monkeypatch.setattr(f"mcp_runtime.transports.http_server.{module}.{limit}", 1)
    go, began = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        began.set()
        await go.wait()

    asgi = app_of_tests(wait).asgi(json_response=True)
    seen = Refusals(asgi)
    seen.on_first = go.set
    async with (
        client.http(URL, http=HTTPOptions(client=asking(asgi))) as one,
        client.http(URL, http=seen.options()) as two,
    ):
        hanging = asyncio.create_task(one.call_tool(name="hang", arguments={}))
        await began.wait()
        assert text_of(await two.call_tool(name="echo", arguments={"text": "after it"})) == "after it"
        assert text_of(await hanging) == "done"
    assert seen.notes == [(503, "1")]
    await asgi.close()


@pytest.mark.parametrize(
    ("client", "path"), [(v2025_11_25.Client, "/mcp"), (v2024_11_05.Client, "/sse")], ids=["streamable", "HTTP+SSE"]
)
async def test_a_session_too_many_waits_for_another_to_end(client: Any, path: str) -> None:
    asgi = app_of_tests().asgi(legacy_sse=True, limits=HTTPLimits(max_sessions=1))
    seen, left = Refusals(asgi), asyncio.Event()
    seen.on_first = left.set
    url = f"http://localhost{path}"

    async def first(opened: asyncio.Event) -> None:
        async with client.http(url, http=HTTPOptions(client=asking(asgi))):
            opened.set()
            await left.wait()

    opened = asyncio.Event()
    holding = asyncio.create_task(first(opened))
    await opened.wait()
    async with client.http(url, http=seen.options()) as second:
        assert text_of(await second.call_tool(name="echo", arguments={"text": "mine"})) == "mine"
    assert seen.notes == [(503, "2")]
    await holding
    await asgi.close()


@both
async def test_a_server_that_ends_sends_the_call_to_another(client: Any) -> None:
    old, new = app_of_tests().asgi(), app_of_tests().asgi()
    seen = Refusals(old)

    def switch() -> None:
        seen.app = new

    seen.on_first = switch
    async with client.http(URL, http=seen.options()) as connected:
        await old.close()
        assert text_of(await connected.call_tool(name="echo", arguments={"text": "there"})) == "there"
    assert seen.notes == [(503, "1")]
    await new.close()


@pytest.mark.deadline(1000)  # On the clock that tests set forward.
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not an address of this machine")
@pytest.mark.parametrize("parser", ["h11", "httptools"])
@both
async def test_a_connection_too_many_waits_for_another_to_end(client: Any, parser: str) -> None:
    async with server(parser, max_connections_per_address=4) as crowded:
        with ExitStack() as holders:
            for _ in range(4):
                holders.enter_context(await crowded.connect())
            with await crowded.connect() as refused:
                head = await refused.ends()
                assert head.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in head
            asyncio.get_running_loop().call_later(0.2, holders.pop_all().close)
            async with client.http(f"http://127.0.0.1:{crowded.port}/mcp") as connected:
                assert text_of(await connected.call_tool(name="echo", arguments={"text": "hi"})) == "hi"


@both
async def test_a_large_message_too_many_waits_for_the_others(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asgi = app_of_tests().asgi()
    seen = Refusals(asgi)

    class Full:
        async def take(self, client: object, size: int) -> bool:
            return False

    def turns_that_are_taken_once() -> Any:
        return turns_of_loop() if seen.notes else Full()

    monkeypatch.setattr("mcp_products.large.messages.turns_of_loop", turns_that_are_taken_once)
    async with client.http(URL, http=seen.options()) as connected:
        result = await connected.call_tool(name="echo", arguments={"text": "x" * 2_000_000})
        assert len(text_of(result)) == 2_000_000
    assert seen.notes == [(503, "1")]
    await asgi.close()


async def test_a_body_that_is_not_there_when_the_server_ends_may_be_sent_again() -> None:
    reader, asked = BodyReader(SizeLimit(100), seconds=5), asyncio.Event()

    async def receive() -> Any:
        asked.set()
        await asyncio.Event().wait()

    reading = asyncio.create_task(reader.read(receive))
    await asked.wait()
    reader.close()
    error = await reading
    assert isinstance(error, HTTPError) and (error.status, error.retry_after) == (503, 1)


async def test_a_message_that_an_sse_session_has_no_room_for_may_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_sse, "_QUEUE_BYTES", 10)
    transport = LegacySSETransport(RequestAuth(None))
    assert await transport.post(b"12345678") is None
    error = await transport.post(b"12345678")
    assert error is not None and (error.status, error.retry_after) == (503, 1)
