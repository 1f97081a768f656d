"""Slow clients of HTTP+SSE, the transport of 2024: neither an idle stream nor half a post stays or delays others."""

from __future__ import annotations

import asyncio

import pytest
from support.endpoints import HANDSHAKE
from support.http.slow_connections import LARGE, Conversation, server
from support.matrices import long_after

pytestmark = pytest.mark.deadline(1000)  # On the clock that tests set forward.
REV = HANDSHAKE[0]
parsers = pytest.mark.parametrize("parser", ["h11", "httptools"])
kinds = pytest.mark.parametrize("kind", long_after(1, ["server", "bridge", "gateway"]))


def _half_a_head(client: Conversation) -> bytes:
    return client.requests.echo()[:40]


def _half_a_head_of_a_stream(client: Conversation) -> bytes:
    return b"GET /sse HTTP/1.1\r\nhost: 127"


def _half_a_body(client: Conversation) -> bytes:
    return b"".join(client.requests.call("echo", {"text": "hi"}, padding=10))


def _half_a_chunk(client: Conversation) -> bytes:
    head, _ = client.requests.call("echo")
    return head[: head.index(b"content-length")] + b"transfer-encoding: chunked\r\n\r\nff\r\n{"


@parsers
@pytest.mark.parametrize("begin", [_half_a_head, _half_a_head_of_a_stream, _half_a_body, _half_a_chunk])
@kinds
async def test_a_request_that_is_not_finished_is_ended(kind: str, begin: object, parser: str) -> None:
    assert callable(begin)
    async with server(parser, kind=kind, rev=REV) as attacked:
        with await attacked.converse() as client:
            with await attacked.connect() as raw:
                await raw.send(begin(client))
                await attacked.pass_time(34)
                assert b"408" in (await raw.ends())[:20]
            assert await client.answers()


@parsers
@kinds
async def test_a_stream_that_is_silent_and_read_is_not_cut(kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=REV) as attacked:
        with await attacked.converse() as client:
            comments = client.stream.received.count(b"\n:")
            await attacked.pass_time(200)
            assert await client.stream.is_open()
            assert client.stream.received.count(b"\n:") > comments
            assert await client.answers()


@parsers
@kinds
async def test_a_stream_that_is_not_read_is_cut(kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=REV) as attacked:
        with await attacked.converse() as other:
            with await attacked.converse(buffer=4096) as client:
                await client.post(b"".join(client.requests.call("large")))
                assert await asyncio.get_running_loop().sock_recv(client.stream.sock, 1)
                for _ in range(6):  # A relay gets the response from another process, which takes time of its own.
                    await attacked.pass_time(20)
                    assert await other.answers()
                assert len(await client.stream.ends(LARGE)) < LARGE
            assert await other.answers()


@pytest.mark.long
@parsers
@kinds
async def test_clients_that_reset_their_streams_delay_no_other(kind: str, parser: str) -> None:
    async with server(parser, kind=kind, rev=REV) as attacked:
        with await attacked.converse() as other:
            for _ in range(4):
                with await attacked.converse(buffer=4096) as client:
                    await client.post(b"".join(client.requests.call("large")))
                assert await other.answers()
