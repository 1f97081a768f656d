"""Requests on real sockets, to both parsers of uvicorn: heads, bodies and connections that break the rules."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from support.http.raw_client import (
    PARSERS,
    SESSIONS,
    STATELESS_REVISION,
    Answer,
    RawClient,
    Socket,
    address,
    call,
    entered,
    opened,
    posted,
    request,
)

pytestmark = pytest.mark.parametrize("parser", PARSERS)
both = pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
EVIL = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://evil-localhost",
    "http://127.0.0.1:1@evil.example",
    "http://127.0.0.1.evil.example:80",
    "chrome-extension://abcdefgh",
    "file://",
    "http://localhost:80.evil.example",
]
HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1:80.evil.example",
    "127.0.0.1:1@evil.example",
    "[::2]",
    "a b",
]


async def healthy(client: RawClient) -> None:
    """The server goes on."""
    assert await client.call("well", "echo", text="well") == "well"


def refused(answer: Answer, *statuses: int) -> None:
    """Turned away, and nothing of the inside told."""
    assert answer.status in statuses, (answer.status, answer.body)
    for word in (b"Traceback", b".py", b"/home", b"/usr", b" at 0x"):
        assert word not in answer.body


@both
@pytest.mark.clause("2024-11-05/transports/05", "2025-03-26/transports/07", "draft/transports/07")
@pytest.mark.fault("1.3/01", "1.3/03")
@pytest.mark.transport_rule("2025-11-25/01", "2026-07-28/02")
async def test_a_page_that_is_not_of_this_machine_may_not_call(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    for method in ("POST",) if client.session is None else ("POST", "GET", "DELETE"):
        for origin in EVIL:
            refused(await client.request(call(1, "echo"), method, origin=origin), 403)
    for origin in ("http://localhost", "http://127.0.0.1:6274", "https://localhost:8443", "http://[::1]:3000"):
        assert (await client.request(call(1, "echo"), origin=origin)).status == 200
    await healthy(client)


@both
@pytest.mark.fault("1.3/02", "1.3/03", "1.3/04")
@pytest.mark.advisory(
    "CVE-2025-66416",
    "CVE-2025-66414",
    "GHSA-9h52-p55h-vw2f",
    "GHSA-w48q-cv73-mx4w",
    "CVE-2026-34742",
    "GHSA-xw59-hvm2-8pj6",
    "CVE-2026-42559",
    "GHSA-89vp-x53w-74fx",
)
@pytest.mark.transport_rule("2026-07-28/02")
async def test_a_name_that_was_rebound_to_this_machine_is_not_answered(parser: str, protocol_version: str) -> None:
    """DNS rebinding: CVE-2025-66416, CVE-2025-66414, CVE-2026-34742, CVE-2026-42559."""
    client = await entered(address(parser), protocol_version)
    for host in HOSTS:
        for method in ("POST", "GET", "DELETE"):
            refused(await client.request(call(1, "echo"), method, host=host), 421, 400)
        for path in ("/sse", "/messages?session_id=x"):
            for method in ("GET", "POST"):
                refused(await client.request(call(1, "echo"), method, host=host, **{":path": path}), 421, 400)
                refused(
                    await client.request(call(1, "echo"), method, origin="http://evil.example", **{":path": path}), 403
                )
    refused(await client.request(call(1, "echo"), host=None), 400)
    refused(await client.request(call(1, "echo"), host=f"{client.where}\r\nhost: {client.where}"), 400)
    await healthy(client)


@both
@pytest.mark.fault("1.3/05", "1.3/06")
@pytest.mark.advisory("CVE-2026-33252")
async def test_what_no_browser_has_to_ask_for_first_is_not_taken(parser: str, protocol_version: str) -> None:
    """CVE-2026-33252: content types that a page may send without a preflight."""
    client = await entered(address(parser), protocol_version)
    kinds = (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        None,
    )
    for kind in kinds:
        refused(await client.request(call(1, "echo"), content_type=kind), 415)
    for kind in ("Application/JSON", "application/json; charset=utf-8"):
        assert (await client.request(call(1, "echo"), content_type=kind)).status == 200


@both
@pytest.mark.fault("1.3/11")
async def test_a_preflight_grants_nothing(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    headers = {"origin": "http://evil.example", "access_control_request_method": "POST"}
    answer = await client.request(b"", "OPTIONS", **headers)
    refused(answer, 403, 405)
    assert not any(name.startswith("access-control") for name in answer.headers)


@both
@pytest.mark.clause("2025-03-26/transports/12", "draft/transports/12")
@pytest.mark.fault("1.3/07")
async def test_accept_headers_of_every_kind_are_served_or_refused(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    for accept, statuses in {
        "application/json": (200,),
        "text/event-stream;q=0.5, application/json;q=0.9": (200,),
        "*/*": (200,),
        "application/*": (200,),
        "text/html": (406,),
        "application/json;q=0, text/event-stream;q=0": (406,),
        ";;;,,,": (406,),
        "x/" + "y" * 10_000: (406, 431),
    }.items():
        assert (await client.request(call(1, "echo"), accept=accept)).status in statuses, accept
    assert (await client.request(call(1, "echo"), accept=None)).status in (200, 406)


@both
@pytest.mark.clause("draft/transports/43")
@pytest.mark.fault("1.3/08")
async def test_a_version_that_is_not_served_is_a_bad_request(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    for version in ("1999-01-01", "garbage", "x" * 8192, "2025-11-25, 2026-07-28"):
        answer = await client.request(call(1, "echo"), mcp_protocol_version=version)
        refused(answer, 400)
    await healthy(client)


@both
@pytest.mark.fault("1.3/12", "1.3/15")
async def test_other_methods_and_paths_are_refused_without_redirects(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    for method in ("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"):
        connection = await Socket.to(client.where)
        await connection.write(client.bytes(call(1, "echo"), method))
        status, headers = await connection.head()
        assert status in (400, 405) and (status == 400 or headers["allow"] == "GET, POST, DELETE")
        connection.cut()
    for path in ("/", "/mcp/", "//evil.example/mcp", "/mcp/../x", "/mcp%00", "/MCP"):
        answer = await client.request(call(1, "echo"), **{":path": path})
        refused(answer, 404, 400)
        assert "location" not in answer.headers


_HEAD = b"POST /mcp HTTP/1.1\r\nhost: H\r\n"
_JSON = _HEAD + b"content-type: application/json\r\n"
BROKEN = {
    "two lengths": _JSON + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
    "a negative length": _JSON + b"content-length: -1\r\n\r\n{}",
    "a length that is not a number": _JSON + b"content-length: 0x2\r\n\r\n{}",
    "a chunk that is none": _JSON + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "no request line": b"\x00\x01\x02\x03\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.0\r\n\r\n",
    "a NUL in a header": b"POST /mcp HTTP/1.1\r\nhost: H\r\nx: a\x00b\r\ncontent-length: 2\r\n\r\n{}",
    "a header of 64 KiB": b"POST /mcp HTTP/1.1\r\nhost: H\r\nx: "
    + b"y" * (1 << 17)
    + b"\r\ncontent-length: 2\r\n\r\n{}",
    "2,000 headers": b"POST /mcp HTTP/1.1\r\nhost: H\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(2000)) + b"\r\n",
    "ten gigabytes announced": _JSON + b"content-length: 10000000000\r\n\r\n{",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.fault("1.3/14")
async def test_a_request_that_is_none_is_refused_or_its_connection_closed(parser: str, kind: str) -> None:
    where = address(parser)
    connection = await Socket.to(where)
    try:
        await connection.write(BROKEN[kind].replace(b"host: H", b"host: " + where.encode()))
        answer = await connection.answer()
        refused(answer, 400, 405, 413, 415, 431)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # Closed without an answer.
    connection.cut()
    await healthy(RawClient(where, None))


@pytest.mark.fault("1.3/13")
async def test_a_request_with_two_kinds_of_length_cannot_smuggle_another(parser: str) -> None:
    where = address(parser)
    client = RawClient(where, None)
    before = (await client.status())["echoed"]
    smuggled = client.bytes(call("smuggled", "echo"))
    head = f"POST /mcp HTTP/1.1\r\nhost: {where}\r\ncontent-type: application/json\r\n"
    head += "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
    connection = await Socket.to(where)
    await connection.write(head.encode() + b"2\r\n{}\r\n0\r\n\r\n" + smuggled)
    async with asyncio.timeout(20):
        with_end = asyncio.ensure_future(connection.reader.read(1 << 20))
        first = await with_end
    assert first == b"" or first.split(b" ")[1] == b"400"
    connection.cut()
    # What follows is a request of its own where chunks count, and is none where the connection is closed.
    assert (await client.status())["echoed"] - before in (0, 1)


@both
async def test_a_body_that_is_packed_is_not_unpacked(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    bomb = gzip.compress(b"0" * (1 << 24))
    refused(await client.request(bomb, content_encoding="gzip", content_type="application/json"), 415)
    await healthy(client)


async def test_a_body_without_a_length_is_refused_while_it_grows(parser: str) -> None:
    client = RawClient(address(parser), None)
    head = client.bytes(b"", content_length=None, transfer_encoding="chunked", mcp_method="tools/call", mcp_name="echo")
    connection = await Socket.to(client.where)
    await connection.write(head)
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    answering = asyncio.ensure_future(connection.answer())
    try:
        for _ in range(40):
            await connection.write(piece)
            if answering.done():
                break
    except ConnectionError:
        pass  # It was closed because it was too much.
    try:
        assert (await answering).status == 413
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    connection.cut()
    await healthy(client)


@pytest.mark.fault("1.4/01", "1.4/02", "1.4/04")
@pytest.mark.advisory("guessable session and stream ids")
async def test_sessions_cannot_be_guessed_or_used_after_their_end(parser: str) -> None:
    where = address(parser)
    clients = [await opened(where) for _ in range(20)]
    ids = [str(client.session) for client in clients]
    assert len(set(ids)) == 20 and all(len(id) >= 32 for id in ids)
    assert len({id[:4] for id in ids}) > 10 and all(33 <= ord(character) <= 126 for id in ids for character in id)
    client = clients[0]
    for session, status in ((None, 400), ("no", 404), (ids[0].swapcase(), 404), ("x" * 5000, 404), ("a b", 404)):
        data = posted(where, request(1, "ping"), {"mcp-session-id": session})
        connection = await Socket.to(where)
        await connection.write(data)
        assert (await connection.answer()).status == status
        connection.cut()
    assert (await client.request(b"", "DELETE")).status == 204
    for method in ("POST", "GET", "DELETE"):
        assert (await client.request(request(1, "ping"), method)).status == 404
    await healthy(clients[1])
