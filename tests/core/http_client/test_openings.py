"""Servers that hold a client up: while it opens the connection, while it sends, and while it waits for a stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from support.clients import connect
from support.clock import LoopClock
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.raw_server import STREAM, Got, Raw, Write, always, run, serving
from support.http.sockets import listening

from mcp_generated import App, RequestTimeoutError, v2025_11_25
from mcp_generated.http import HTTPLimits
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.http.client_rules import reconnect_delay
from mcp_runtime.http.sse import encode
from mcp_runtime.session.requests import RequestOptions


async def never(got: Got, write: Write) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def test_an_opening_ends_at_its_timeout_if_the_server_does_not_accept_that_it_is_initialized() -> None:
    async def test() -> None:
        raw, clock = Raw({"notifications/initialized": never}), LoopClock()
        async with serving(raw):
            client = v2025_11_25.Client.http(raw.url, connect_options=RequestOptions(timeout=7))
            opening = asyncio.create_task(client.__aenter__())
            while not raw.requests_of("notifications/initialized"):
                await asyncio.sleep(0)
            clock.forward(7)
            with pytest.raises(RequestTimeoutError, match="'notifications/initialized': the server did not accept it"):
                await opening

    run(test())


@pytest.mark.parametrize("failures", range(5))
def test_a_stream_that_a_server_wants_back_at_once_is_opened_again_after_a_pause(failures: int) -> None:
    assert reconnect_delay(failures, 0, 0.0) >= 0.1


def test_a_server_that_closes_each_stream_with_retry_0_is_asked_now_and_then() -> None:
    async def test() -> None:
        closing = STREAM + b"retry: 0\n\n" + encode(b'{"jsonrpc":"2.0","method":"notifications/x"}', id="s-1")
        raw = Raw({"GET": always(closing)})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            began = asyncio.get_running_loop().time()
            while len(raw.requests_of("GET")) < 3:
                await asyncio.sleep(0)
            assert asyncio.get_running_loop().time() - began >= 0.1
            assert await client.call_tool(name="x")

    run(test())


@pytest.mark.parametrize("size", [200_000, 12_000_000])
@among([HANDSHAKE[-1], *STATELESS])
async def test_a_client_reads_why_its_message_is_refused_before_the_connection_is_closed(rev: Rev, size: int) -> None:
    app = App("short")

    @app.tool
    def length(text: str) -> int:
        """Return the length of a text."""
        return len(text)

    asgi: Any = app.asgi(limits=HTTPLimits(max_body=100_000))
    async with listening(asgi) as port, connect(f"http://127.0.0.1:{port}/mcp", revisions=[rev.id]) as client:
        for _ in range(3):
            with pytest.raises(RemoteJSONRPCError, match="longer than the limit of 100000 bytes") as caught:
                await client.call_tool(name="length", arguments={"text": "x" * size})
            assert caught.value.status == 413
        assert (await client.call_tool(name="length", arguments={"text": "x"})).content[0].text == "1"
    await asgi.close()
