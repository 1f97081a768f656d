"""The connections of a client for plain requests over HTTP/1.1: responses of any form, and those that attack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from support.http.raw_answers import HEAD, OK, RawHTTPServer, raw_server

from mcp_products.fast import http_client
from mcp_runtime.errors import ConnectionClosedError, InvalidResponseError
from mcp_runtime.transports.http_client.connection import HTTPConnection, HTTPOptions

pytestmark = pytest.mark.skipif(not http_client.ENABLED, reason="the fast paths are switched off")


@asynccontextmanager
async def connected(server: RawHTTPServer, **options: Any) -> AsyncGenerator[HTTPConnection]:
    """Yield connections to a server."""
    connection = HTTPConnection(server.url, HTTPOptions(**options))
    try:
        yield connection
    finally:
        await connection.close()


async def body(connection: HTTPConnection, headers: Mapping[str, str] | None = None, content: bytes = b"{}") -> bytes:
    """Return the body of the response to a POST."""
    async with asyncio.timeout(20):
        return await connection.read(await connection.send("POST", headers or {}, content))


FORMS = {
    "a length": OK,
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\nX-Trailer: 1\r\n\r\n",
    "until the end": HEAD + b"\r\n{}END",
    "HTTP/1.0": OK.replace(b"HTTP/1.1", b"HTTP/1.0") + b"END",
    "an interim response": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK,
    "one that closes": OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"END",
}


@pytest.mark.parametrize("form", FORMS)
async def test_responses_of_all_forms_are_read(form: str) -> None:
    async with raw_server(FORMS[form]) as server, connected(server) as connection:
        assert [await body(connection) for _ in range(3)] == [b"{}"] * 3
        keeps = form in ("a length", "chunks", "an interim response")
        assert server.connections == (1 if keeps else 3)
        assert server.heads[0].startswith("POST /mcp?a=1 HTTP/1.1\r\nhost: 127.0.0.1:")


async def test_connections_are_used_again_and_as_many_as_requests_run() -> None:
    async with raw_server(b"echo") as server, connected(server) as connection:
        for _ in range(3):
            contents = [b"[%d]" % number for number in range(100)]
            assert await asyncio.gather(*(body(connection, None, content) for content in contents)) == contents
        assert server.connections == server.highest == 100


SMUGGLED = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n"stolen"'
WRONG = {
    "no HTTP": (b"SSH-2.0-OpenSSH\r\nEND", ConnectionClosedError),
    "a head without an end": (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000, ConnectionClosedError),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, ConnectionClosedError),
    "a body that is cut off": (HEAD + b"Content-Length: 9\r\n\r\n{}END", ConnectionClosedError),
    "chunks that are cut off": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}END", ConnectionClosedError),
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", ConnectionClosedError),
    "a length and chunks": (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", ConnectionClosedError),
    "a negative length": (HEAD + b"Content-Length: -2\r\n\r\n{}", ConnectionClosedError),
    "another protocol": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}END",
        ConnectionClosedError,
    ),
    "no bytes": (b"END", ConnectionClosedError),
    "a content coding": (OK.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), InvalidResponseError),
    "a body above the limit": (HEAD + b"Content-Length: 99999\r\n\r\n" + b"x" * 99_999, InvalidResponseError),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_a_response_that_cannot_be_read_fails_its_request_and_not_the_next(kind: str) -> None:
    answer, error = WRONG[kind]
    async with raw_server(answer, OK) as server, connected(server, max_bytes=50_000) as connection:
        with pytest.raises(error):
            await body(connection)
        assert await body(connection) == b"{}"
        assert server.connections == (1 if error is InvalidResponseError else 2), "its framing is not known"


@pytest.mark.parametrize("smuggled", [SMUGGLED, SMUGGLED[:20], b"\r\nx"])
async def test_bytes_after_a_response_are_not_the_response_to_another_request(smuggled: bytes) -> None:
    async with raw_server(OK + smuggled, OK) as server, connected(server) as connection:
        assert await body(connection) == b"{}"
        assert await body(connection) == b"{}" and server.connections == 2, "the connection was used again"


async def test_a_header_with_a_line_end_is_not_sent() -> None:
    async with raw_server(OK) as server, connected(server) as connection:
        for value in ("a\r\nX-Injected: 1", "a\nX: 1", "a\rX: 1", "a\0", "\u0141"):
            with pytest.raises(ConnectionClosedError) as error:
                await body(connection, {"mcp-name": value})
            assert "Injected" not in str(error.value)
        assert server.heads == []


async def test_a_cookie_of_the_server_is_sent_with_later_requests() -> None:
    cookie = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: node=7; Path=/\r\n\r\n")
    async with raw_server(cookie, OK) as server, connected(server) as connection:
        for _ in range(3):
            assert await body(connection) == b"{}"
        assert ["cookie: node=7" in head.lower() for head in server.heads] == [False, True, True]


async def test_a_redirect_within_the_origin_is_followed_with_its_body() -> None:
    redirect = b"HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    async with raw_server(redirect, b"echo") as server, connected(server) as connection:
        assert await body(connection, None, b"[1]") == b"[1]"
        assert [head.split()[1] for head in server.heads] == ["/mcp?a=1", "/other"]


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with raw_server(b"", OK) as server, connected(server) as connection:
        waiting = asyncio.ensure_future(body(connection))
        while not server.heads:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await body(connection) == b"{}" and server.connections == 2


async def test_a_server_that_is_not_there_or_silent_is_an_error_in_time() -> None:
    async with raw_server(b"") as server, connected(server, timeout=0.1) as connection:
        with pytest.raises(ConnectionClosedError, match="ReadTimeout"):
            await connection.send("POST", {}, b"{}", wait_for_response=False)
        url = server.url
    absent = HTTPConnection(url, HTTPOptions())
    with pytest.raises(ConnectionClosedError, match="ConnectError"):
        await absent.send("POST", {}, b"{}")
    await absent.close()


async def test_a_body_that_nobody_reads_fills_no_memory() -> None:
    size = 64 << 20
    answer = HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size
    async with raw_server(answer) as server, connected(server) as connection:
        response: Any = await connection.send("POST", {}, b"{}")
        parts = response.aiter_raw()
        first = len(await anext(parts))
        for _ in range(100):
            await asyncio.sleep(0)
        assert first + response._unread < 4 << 20
        await parts.aclose()
        await response.aclose()


async def test_nothing_is_sent_after_the_end() -> None:
    async with raw_server(OK) as server:
        async with connected(server) as connection:
            assert await body(connection) == b"{}"
        with pytest.raises(ConnectionClosedError):
            await body(connection)
        assert len(server.heads) == 1


# ---- what needs httpx2 -----------------------------------------------------------------------------------------------

NEEDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a header": {"headers": {"Authorization": "Bearer a"}},
    "a login": {"auth": httpx2.BasicAuth("a", "b")},
    "a header of the connection": {"headers": {"Connection": "close"}},
    "a client of the program": {"client": None},
    "a proxy of the environment": {},
}


@pytest.mark.parametrize("needed", NEEDS)
async def test_httpx2_sends_what_needs_more_than_a_connection(needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[str]()
    send = httpx2.AsyncClient.send

    async def noted(self: httpx2.AsyncClient, request: httpx2.Request, **settings: Any) -> httpx2.Response:
        sent.append(request.method)
        return await send(self, request, **settings)

    monkeypatch.setattr(httpx2.AsyncClient, "send", noted)
    options = dict(NEEDS[needed])
    if "client" in options:
        options["client"] = httpx2.AsyncClient()
    async with raw_server(OK) as server:
        if needed == "a proxy of the environment":
            monkeypatch.setenv("http_proxy", server.url)
        async with connected(server, **options) as connection:
            assert await body(connection) == b"{}"
        if "client" in options:  # Its program closes it; since Python 3.12 a server waits for its connections.
            await options["client"].aclose()
    assert sent == ([] if needed in ("nothing", "a header") else ["POST"])
