"""Servers that are busy: what they have not begun is sent again, and nothing else is."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text, text_result

from mcp_generated import (
    ConnectionClosedError,
    HTTPOptions,
    HTTPStatusError,
    MCPError,
    RequestTimeoutError,
    v2025_11_25,
    v2026_07_28,
)
from mcp_products.auth.http import AuthHTTPClient, URLPolicy

CALL = "tools/call"


def refusal(status: int, retry_after: str | None, body: bytes = b"busy") -> bytes:
    return reply(body, status, "text/plain", {} if retry_after is None else {"retry-after": retry_after})


class Busy:
    """Refuses so many requests before it answers."""

    def __init__(self, raw: Raw, refused: bytes, times: int) -> None:
        self.raw = raw
        self.refused = refused
        self.times = times
        self.calls = 0

    async def __call__(self, got: Got, write: Write) -> None:
        self.calls += 1
        if self.calls <= self.times:
            await write(self.refused)
        else:
            await write(reply(result(got, text_result("at last"))))


@pytest.mark.parametrize("client", [v2025_11_25.Client, v2026_07_28.Client])
@pytest.mark.parametrize(
    "refused",
    [refusal(503, "0"), refusal(429, "0"), refusal(503, formatdate(time.time() - 5, usegmt=True))],
    ids=["503", "429", "a date"],
)
async def test_a_call_that_the_server_has_not_begun_is_sent_again(client: Any, refused: bytes) -> None:
    raw = Raw({"server/discover": discover})
    raw.answers[CALL] = busy = Busy(raw, refused, 3)
    async with serving(raw), client.http(raw.url) as connected:
        assert text(await connected.call_tool(name="x")) == "at last"
    assert busy.calls == 4


@pytest.mark.parametrize("client", [v2025_11_25.Client, v2026_07_28.Client])
@pytest.mark.parametrize(
    "refused",
    [
        refusal(503, None),
        refusal(429, None),
        refusal(500, "0"),
        refusal(502, "0"),
        refusal(504, "0"),
        refusal(503, "soon"),
    ],
    ids=["503", "429", "500", "502", "504", "no time"],
)
async def test_what_may_have_run_is_never_sent_again(client: Any, refused: bytes) -> None:
    raw = Raw({"server/discover": discover})
    raw.answers[CALL] = busy = Busy(raw, refused, 99)
    async with serving(raw), client.http(raw.url) as connected:
        with pytest.raises(MCPError):
            await connected.call_tool(name="x")
    assert busy.calls == 1


async def test_retries_have_an_end_and_the_error_says_how_to_wait_longer() -> None:
    raw = Raw({"server/discover": discover})
    raw.answers[CALL] = busy = Busy(raw, refusal(503, "0"), 99)
    async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
        with pytest.raises(HTTPStatusError, match=r"503.*after 0 s .*retry_seconds"):
            await client.call_tool(name="x")
        assert busy.calls == 5
        raw.answers[CALL] = busy = Busy(raw, refusal(503, "31"), 99)
        with pytest.raises(HTTPStatusError, match="after 31 s"):
            await client.call_tool(name="x")
        assert busy.calls == 1


async def test_retries_can_be_turned_off_and_end_with_the_timeout_of_the_call() -> None:
    raw = Raw({"server/discover": discover})
    raw.answers[CALL] = busy = Busy(raw, refusal(503, "20"), 99)
    async with serving(raw):
        async with v2025_11_25.Client.http(raw.url, http=HTTPOptions(retry_seconds=0)) as client:
            with pytest.raises(HTTPStatusError):
                await client.call_tool(name="x")
            assert busy.calls == 1
        async with v2025_11_25.Client.http(raw.url) as client:
            with pytest.raises(RequestTimeoutError):
                await client.call_tool(name="x", timeout=0.2)
            assert busy.calls == 2


async def test_a_server_that_restarts_is_reached_again_and_one_that_never_was_is_not_waited_for() -> None:
    raw = Raw({"server/discover": discover})
    first = await asyncio.start_server(raw.connected, "127.0.0.1", 0)
    port = first.sockets[0].getsockname()[1]
    async with v2026_07_28.Client.http(f"http://127.0.0.1:{port}/mcp") as client:
        first.close()
        calling = asyncio.create_task(client.call_tool(name="x"))
        await asyncio.sleep(0.05)  # The first attempts are refused, or else the call simply succeeds.
        second = await asyncio.start_server(raw.connected, "127.0.0.1", port)
        assert text(await calling) == "usual"
        second.close()
    with pytest.raises(ConnectionClosedError, match="All connection attempts failed"):
        async with v2026_07_28.Client.http(f"http://127.0.0.1:{port}/mcp", http=HTTPOptions(retry_seconds=1e9)):
            pass


async def test_an_authorization_server_that_is_busy_is_asked_again() -> None:
    raw = Raw({"server/discover": discover})
    times = [refusal(429, "0"), refusal(503, "0"), reply(b"{}")]

    async def answer(got: Got, write: Write) -> None:
        await write(times.pop(0))

    raw.answers["GET"] = answer
    async with serving(raw):
        response = await AuthHTTPClient(URLPolicy(local=True)).get(raw.url)
        assert (response.status, response.body, times) == (200, {}, [])
        times += [refusal(503, "11"), reply(b"{}")]
        assert (await AuthHTTPClient(URLPolicy(local=True)).get(raw.url)).status == 503
