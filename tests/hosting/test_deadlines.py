"""Connections that are opened and not used: none of them stays, and none of them delays another client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.http.slow_connections import LARGE, ClockedServer, RawSocket, server
from support.matrices import long_after

pytestmark = pytest.mark.deadline(1000)  # On the clock that tests set forward.
parsers = pytest.mark.parametrize("parser", ["h11", "httptools"])
revisions = among([*HANDSHAKE[1:], *STATELESS])  # Those that have one path for all messages.
kinds = pytest.mark.parametrize("kind", long_after(1, ["server", "bridge", "gateway"]))


async def _nothing(server: ClockedServer, raw: RawSocket) -> None:
    await server.pass_time(11)


async def _half_a_head(server: ClockedServer, raw: RawSocket) -> None:
    await raw.send(server.requests.echo()[:40])
    await server.pass_time(12)


async def _a_head_byte_by_byte(server: ClockedServer, raw: RawSocket) -> None:
    for byte in server.requests.echo()[:12]:
        await raw.send(bytes([byte]))
        await server.pass_time(1)


async def _half_a_second_head(server: ClockedServer, raw: RawSocket) -> None:
    await raw.send(server.requests.echo())
    assert b'"hi"' in await raw.until(b'"hi"')
    await raw.send(server.requests.echo()[:40])
    await server.pass_time(12)


async def _half_a_body(server: ClockedServer, raw: RawSocket) -> None:
    await raw.send(server.requests.incomplete())
    await server.pass_time(34)


async def _half_a_body_of_a_route(server: ClockedServer, raw: RawSocket) -> None:
    await raw.send(server.requests.incomplete("/upload"))
    await server.pass_time(32)


async def _the_rest_of_a_refused_body(server: ClockedServer, raw: RawSocket) -> None:
    await raw.send(server.requests.incomplete("/nowhere"))
    await raw.until(b"404")
    await server.pass_time(32)


async def _half_a_chunk(server: ClockedServer, raw: RawSocket) -> None:
    head, _ = server.requests.call("echo")
    length = head.index(b"content-length")
    await raw.send(head[:length] + b"transfer-encoding: chunked\r\n\r\nff\r\n{")
    await server.pass_time(34)


# An attack, and the status of the response that ends it, if there is one.
SLOW: dict[str, tuple[Callable[[ClockedServer, RawSocket], Awaitable[None]], bytes]] = {
    "nothing": (_nothing, b""),
    "half a head": (_half_a_head, b"408"),
    "a head byte by byte": (_a_head_byte_by_byte, b"408"),
    "half a second head": (_half_a_second_head, b"408"),
    "half a body": (_half_a_body, b"408"),
    "half a body of a route": (_half_a_body_of_a_route, b"408"),
    "the rest of a refused body": (_the_rest_of_a_refused_body, b"404"),
    "half a chunk": (_half_a_chunk, b"408"),
}
# Relays have no routes.
RELAYED = [(kind, attack) for kind in ("bridge", "gateway") for attack in SLOW if attack != "half a body of a route"]
ATTACKS = long_after(len(SLOW), [*(("server", attack) for attack in SLOW), *RELAYED])


@revisions
@parsers
@pytest.mark.parametrize(("kind", "attack"), ATTACKS)
async def test_a_request_that_is_not_finished_is_ended(rev: Rev, kind: str, parser: str, attack: str) -> None:
    async with server(parser, kind=kind, rev=rev) as attacked:
        run, status = SLOW[attack]
        with await attacked.connect() as raw:
            await run(attacked, raw)
            received = await raw.ends()
            assert status in received.rpartition(b"HTTP/1.1 ")[2][:3] or (not status and not received)
        assert await attacked.serves()


@parsers
async def test_a_body_that_comes_slowly_to_a_route_is_received_as_long_as_it_comes(parser: str) -> None:
    async with server(parser) as attacked:
        with await attacked.connect() as raw:
            head, _ = attacked.requests.call("echo")
            length = head.index(b"content-length")
            await raw.send(head[:length].replace(b"/mcp", b"/upload") + b"content-length: 4\r\n\r\n")
            for byte in b"slow":
                await attacked.pass_time(20)
                await raw.send(bytes([byte]))
            assert (await raw.until(b"\r\n\r\n4")).endswith(b"\r\n\r\n4")


# What a relay streams comes from a process whose time is not that of the test: it may be short of the buffers when time
# passes. Of a single message all has come when its first byte is sent.
@revisions
@parsers
@pytest.mark.parametrize(
    ("kind", "tool"),
    long_after(2, [("server", "large"), ("server", "stream"), ("bridge", "large"), ("gateway", "large")]),
)
async def test_a_response_that_is_not_read_is_cut(rev: Rev, kind: str, parser: str, tool: str) -> None:
    async with server(parser, kind=kind, rev=rev) as attacked:
        with await attacked.connect(buffer=4096) as raw:
            await raw.send(b"".join(attacked.requests.call(tool)))
            assert await asyncio.get_running_loop().sock_recv(raw.sock, 1)
            await attacked.pass_time(20)
            assert await attacked.serves()
            await attacked.pass_time(100)
            assert len(await raw.ends()) < LARGE
        assert await attacked.serves()


@revisions
@kinds
@parsers
async def test_a_response_that_is_read_slowly_is_not_cut(rev: Rev, kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=rev) as attacked:
        with await attacked.connect(buffer=65_536) as raw:
            await raw.send(b"".join(attacked.requests.call("large")))
            while len(raw.received) < LARGE:
                for _ in range(40):
                    assert await raw.read() or len(raw.received) > LARGE
                await attacked.pass_time(5)


@revisions
@kinds
@parsers
async def test_a_stream_that_is_silent_and_read_is_not_cut(rev: Rev, kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=rev) as attacked:
        with await attacked.connect() as raw:
            await raw.send(b"".join(attacked.requests.call("wait")))
            await raw.until(b"progress")
            comments = raw.received.count(b"\n:")
            await attacked.pass_time(200)
            assert await raw.is_open()
            assert raw.received.count(b"\n:") > comments


@revisions
@kinds
@parsers
async def test_a_head_without_an_end_is_refused(rev: Rev, kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=rev) as attacked:
        with await attacked.connect() as raw, contextlib.suppress(ConnectionError):
            await raw.send(b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx-long: ")
            for _ in range(200):
                await raw.send(b"x" * 10_000)
        received = raw.received
        with contextlib.suppress(OSError):
            received = await raw.ends()
        assert not received or received[9:12] in (b"431", b"400")
        assert await attacked.serves()


@revisions
@kinds
@parsers
@pytest.mark.parametrize("pauses", [[], [4], [4, 4, 4], [1, 4, 2]])
async def test_an_idle_connection_is_closed_five_seconds_after_its_last_response(
    rev: Rev, kind: str, parser: str, pauses: list[int]
) -> None:
    async with server(parser, kind=kind, rev=rev) as idle:
        with await idle.connect() as raw:
            for number, pause in enumerate([*pauses, 4], 1):
                await raw.send(idle.requests.echo())
                while raw.received.count(b"HTTP/1.1 200") < number:
                    assert await raw.read()
                await idle.pass_time(pause)
                assert await raw.is_open()
            await idle.pass_time(2)
            assert not await raw.is_open()


@revisions
@kinds
@parsers
async def test_a_connection_is_not_idle_while_a_request_runs_or_arrives(rev: Rev, kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=rev) as busy:
        with await busy.connect() as raw:
            await raw.send(busy.requests.echo() + b"".join(busy.requests.call("wait")))
            await raw.until(b"progress")
            await busy.pass_time(20)
            assert await raw.is_open()
        with await busy.connect() as raw:
            await raw.send(busy.requests.echo())
            await raw.until(b'"hi"')
            await busy.pass_time(4)
            await raw.send(busy.requests.echo()[:-1])
            await busy.pass_time(8)
            assert await raw.is_open()
            await raw.send(busy.requests.echo()[-1:])
            while raw.received.count(b"HTTP/1.1 200") < 2:
                assert await raw.read()


@revisions
@kinds
async def test_requests_that_nobody_waits_for_are_not_stored_without_a_limit(rev: Rev, kind: str) -> None:
    async with server("httptools", kind=kind, rev=rev) as attacked:
        with await attacked.connect(buffer=4096) as raw:
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    await raw.send(b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 1000)
                await raw.ends()
            assert not await raw.is_open()
        assert await attacked.serves()
