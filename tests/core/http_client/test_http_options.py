"""How a client reaches its server, as it was told to: headers, credentials, proxies, TLS, redirects, a client given."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.auth.certificates import self_signed
from support.http.raw_server import (
    STREAM,
    Got,
    Raw,
    Write,
    call,
    discover,
    reply,
    result,
    run,
    serving,
    text,
    text_result,
)

from mcp_generated import v2025_11_25, v2026_07_28
from mcp_runtime.errors import ConnectionClosedError, HTTPStatusError
from mcp_runtime.http.sse import encode
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_client.connection import HTTPOptions

CREDENTIALS = httpx2.BasicAuth("ada", "pw")
AS_ADA = "Basic YWRhOnB3"


def test_headers_are_sent_with_each_request_and_change_none_of_the_protocol() -> None:
    async def test() -> None:
        raw = Raw()
        own = {"X-Tenant": "t1", "Accept": "text/html", "Content-Type": "text/plain", "Mcp-Session-Id": "mine"}
        assert await call(raw, http=HTTPOptions(headers=own)) == "usual"
        assert {"POST", "DELETE"} <= {got.method for got in raw.seen}
        assert {got.headers["x-tenant"] for got in raw.seen} == {"t1"}
        for got in raw.seen[1:]:
            assert "text/event-stream" in got.headers["accept"] or got.method == "DELETE"
            assert got.method != "POST" or got.headers["content-type"] == "application/json"
            assert got.headers["mcp-session-id"] == "s-1"

    run(test())


def test_credentials_are_sent_with_each_request() -> None:
    async def test() -> None:
        raw = Raw()
        assert await call(raw, http=HTTPOptions(auth=CREDENTIALS)) == "usual"
        assert {got.headers["authorization"] for got in raw.seen} == {AS_ADA}

    run(test())


def test_a_client_that_is_given_is_used_and_not_closed() -> None:
    async def test() -> None:
        raw = Raw()
        async with httpx2.AsyncClient(headers={"x-own": "yes"}) as own:
            assert await call(raw, http=HTTPOptions(auth=CREDENTIALS, client=own)) == "usual"
            assert not own.is_closed
        assert {(got.headers["authorization"], got.headers["x-own"]) for got in raw.seen} == {(AS_ADA, "yes")}

    run(test())


def test_a_proxy_is_asked_for_everything() -> None:
    async def test() -> None:
        async with serving(Raw()) as proxy:
            far = v2025_11_25.Client.http("http://far.invalid/mcp", http=HTTPOptions(proxy=proxy.url))
            async with far as client:
                assert text(await client.call_tool(name="x")) == "usual"
            assert {got.path for got in proxy.seen} == {"http://far.invalid/mcp"}

    run(test())


# ---- TLS ------------------------------------------------------------------------------------------------------------


def test_a_certificate_is_checked_against_those_that_were_given(tmp_path: Path) -> None:
    certificate_path, key = self_signed(tmp_path)
    serving_with = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving_with.load_cert_chain(certificate_path, key)

    async def test() -> None:
        raw = Raw()
        server = await asyncio.start_server(raw.connected, "127.0.0.1", 0, ssl=serving_with)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/mcp"
        trusting = HTTPOptions(tls=ssl.create_default_context(cafile=str(certificate_path)))
        async with v2025_11_25.Client.http(url, http=trusting) as client:
            assert text(await client.call_tool(name="x")) == "usual"
        seen = len(raw.seen)
        with pytest.raises(ConnectionClosedError, match="(?i)certificate"):
            async with v2025_11_25.Client.http(url):
                pass
        assert len(raw.seen) == seen, "nothing was said to a server that nobody vouches for"
        server.close()

    run(test())


# ---- redirects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.fault("1.5/16")
def test_credentials_follow_a_redirect_to_their_own_origin_alone(status: int) -> None:
    async def test() -> None:
        target = Raw()

        async def redirect(got: Got, write: Write) -> None:
            near = got.body["params"]["name"] == "near"
            if got.path == "/mcp":
                await write(reply(b"", status, headers={"location": "/moved" if near else target.url}))
            else:
                await raw.default_answer(got, write)

        raw = Raw({"tools/call": redirect})
        reach = HTTPOptions(auth=CREDENTIALS)
        async with serving(raw), serving(target), v2025_11_25.Client.http(raw.url, http=reach) as client:
            assert text(await client.call_tool(name="near")) == "usual"
            again = [(got.method, got.headers["authorization"]) for got in raw.seen if got.path == "/moved"]
            assert again == [("POST", AS_ADA)]
            with pytest.raises(HTTPStatusError, match="not followed"):
                await client.call_tool(name="far")
        assert target.seen == []

    run(test())


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.transport_rule("2025-11-25/04")
def test_a_client_comes_back_no_sooner_than_it_was_told() -> None:
    retry = 0.4

    async def test() -> None:
        closed_at, back = list[float](), list[float]()
        loop, calls = asyncio.get_running_loop(), list[Got]()

        async def part(got: Got, write: Write) -> None:
            calls.append(got)
            await write(STREAM + encode(b"", id="e-1", retry=int(retry * 1000)))
            closed_at.append(loop.time())

        async def resume(got: Got, write: Write) -> None:
            if "last-event-id" not in got.headers:
                return await write(reply(b"", 405))
            back.append(loop.time())
            await write(STREAM + encode(result(calls[0], text_result("late"))))

        raw = Raw({"tools/call": part, "GET": resume})
        async with serving(raw), v2025_11_25.Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x")) == "late"
        assert back[0] - closed_at[0] >= retry

    run(test())


def test_a_server_that_does_not_say_whether_it_took_a_notification_is_not_waited_for_without_end() -> None:
    async def test() -> None:
        async def never(got: Got, write: Write) -> None:
            await asyncio.Event().wait()

        raw = Raw({"notifications/initialized": never})
        async with serving(raw):
            with pytest.raises(ConnectionClosedError):
                async with v2025_11_25.Client.http(raw.url, http=HTTPOptions(timeout=1.0)):
                    pass

    run(test())


@pytest.mark.parametrize("kind", ["JSON", "stream"])
@pytest.mark.transport_rule("2026-07-28/09")
def test_a_client_without_sessions_takes_both_kinds_of_answer(kind: str) -> None:
    async def test() -> None:
        async def answer(got: Got, write: Write) -> None:
            done: Any = {"resultType": "complete", **text_result(kind)}
            await write(reply(result(got, done)) if kind == "JSON" else STREAM + encode(result(got, done)))

        raw = Raw({"server/discover": discover, "tools/call": answer})
        async with serving(raw), v2026_07_28.Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x", options=RequestOptions(timeout=20))) == kind

    run(test())
