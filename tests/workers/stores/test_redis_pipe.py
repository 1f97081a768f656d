"""The connection of commands to Redis: replies in any pieces, connections that are lost or silent, other clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.systems import PATIENCE

from mcp_generated.http import StoreUnavailableError
from mcp_products.workers.stores.common import CommandBatches
from mcp_products.workers.stores.redis_connection import IncompleteReplyError, RedisPipe, packed, read_reply
from mcp_products.workers.stores.tracked_records import TRACK
from mcp_runtime.stores import StoreClosedError

BEFORE = len(TRACK) + 1  # Commands that a connection begins with: those, and the script.
REPLIES: list[tuple[bytes, Any]] = [
    (b"+OK\r\n", b"OK"),
    (b":-7\r\n", -7),
    (b"$5\r\na\r\nb!\r\n", b"a\r\nb!"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b",1.5\r\n", b"1.5"),
    (b"=6\r\ntxt:hi\r\n", b"txt:hi"),
    (b"*2\r\n*2\r\n$3\r\n0-1\r\n*2\r\n$1\r\nm\r\n$2\r\n\r\n\r\n:3\r\n", [[b"0-1", [b"m", b"\r\n"]], 3]),
    (b"%1\r\n$1\r\na\r\n:1\r\n", [b"a", 1]),
]


@pytest.mark.parametrize(("data", "value"), REPLIES)
def test_a_reply_is_read_when_its_last_byte_is_there(data: bytes, value: Any) -> None:
    assert read_reply(b"xx" + data + b":1", 2) == (value, len(data) + 2)
    for end in range(len(data)):
        with pytest.raises(IncompleteReplyError):
            read_reply(data[:end], 0)


@pytest.mark.parametrize("data", [b"-ERR no\r\n", b"!6\r\nERR no\r\n"])
def test_an_error_of_redis_is_that_of_a_store(data: bytes) -> None:
    error, after = read_reply(data, 0)
    assert isinstance(error, StoreUnavailableError) and "ERR no" in str(error) and after == len(data)


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b"\r\n", b"$x\r\n"])
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises((StoreUnavailableError, ValueError)):
        read_reply(data, 0)


def test_a_command_is_an_array_of_its_bytes() -> None:
    assert packed(("SET", "ä", b"\r\n", 10)) == b"*4\r\n$3\r\nSET\r\n$2\r\n\xc3\xa4\r\n$2\r\n\r\n\r\n$2\r\n10\r\n"


class Scripted:
    """A server whose answers to what arrives a test chooses; and the client that connects to it, as redis-py does."""

    socket_timeout = 0.1 * PATIENCE

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.answer: Callable[[bytes], bytes | None] = lambda part: b":1\r\n" * part.count(b"*")
        self.connections = 0
        self.connection_pool = self

    def make_connection(self) -> Scripted:
        return self

    async def connect(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.reader = reader
        self._writer = writer

    async def disconnect(self, nowait: bool) -> None:
        self._writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.sender = writer
        while part := await reader.read(1 << 16):
            self.received.append(part)
            if (answer := self.answer(part)) is None:
                return writer.transport.abort()
            writer.write(answer)
        writer.close()


async def refused(commands: Any) -> list[Any]:
    raise AssertionError("these commands take the connection itself")


@asynccontextmanager
async def piped(otherwise: Any = refused) -> AsyncIterator[tuple[RedisPipe, Scripted]]:
    scripted = Scripted()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = server.sockets[0].getsockname()[1]
    pipe = RedisPipe(scripted, ["return 1"], CommandBatches(otherwise))
    try:
        yield pipe, scripted
    finally:
        await pipe.close()
        server.close()


async def test_commands_of_one_turn_are_sent_together_in_their_order_after_the_scripts() -> None:
    async with piped() as (pipe, scripted):
        scripted.answer = lambda part: (
            b"+x\r\n" * BEFORE + b"".join(b":%d\r\n" % number for number in range(part.count(b"*") - BEFORE))
        )
        results = await asyncio.gather(*(pipe.add(("GET", str(number))) for number in range(3)))
        assert results == [0, 1, 2] and len(scripted.received) == 1
        *first, a, b, c = scripted.received[0].split(b"*2\r\n")
        assert b"return 1" in first[-1] and [part.split()[3] for part in (a, b, c)] == [b"0", b"1", b"2"]


async def test_commands_get_their_own_results_one_by_one_and_in_bursts() -> None:
    async with piped() as (pipe, scripted):
        assert await pipe.add(("GET", "0")) == 1
        scripted.answer = lambda part: b"".join(
            b":%b\r\n" % command.split()[3] for command in part.split(b"*2\r\n")[1:]
        )
        numbers = iter(range(1000))
        for burst in (*[1] * 30, 3, *[1] * 10, 2, 2, *[1] * 20, 5):
            expected = [next(numbers) for _ in range(burst)]
            assert await asyncio.gather(*(pipe.add(("GET", str(number))) for number in expected)) == expected


async def test_replies_arrive_in_any_pieces_and_pushes_are_no_replies() -> None:
    async with piped() as (pipe, scripted):
        await pipe.add(("GET", "a"))
        waiting = [pipe.add(("GET", "a")), pipe.add(("GET", "b"))]
        scripted.answer = lambda part: b">2\r\n$1\r\nx\r\n:1\r\n$3\r\nab"
        await asyncio.sleep(0)
        while not pipe._received:
            await asyncio.sleep(0.001)
        pipe.data_received(b"c\r\n:5\r\n")
        assert await asyncio.gather(*waiting) == [b"abc", 5]


async def test_what_was_sent_fails_with_its_connection_and_the_next_command_opens_another() -> None:
    async with piped() as (pipe, scripted):
        assert await pipe.add(("GET", "a")) == 1
        answer = scripted.answer
        scripted.answer = lambda part: None
        lost = await asyncio.gather(pipe.add(("GET", "a")), pipe.add(("GET", "b")), return_exceptions=True)
        assert [type(error) for error in lost] == [StoreUnavailableError] * 2
        scripted.answer = answer
        assert await pipe.add(("GET", "a")) == 1 and scripted.connections == 2


async def test_a_silent_redis_is_left_after_the_time_out_of_the_client() -> None:
    async with piped() as (pipe, scripted):
        assert await pipe.add(("GET", "a")) == 1
        answer = scripted.answer
        scripted.answer = lambda part: b""
        with pytest.raises(StoreUnavailableError, match="the connection was lost"):
            await pipe.add(("GET", "a"))
        scripted.answer = answer
        assert await pipe.add(("GET", "a")) == 1


@pytest.mark.parametrize("error", [b"-READONLY You can't write against a read only replica.", b"-NOSCRIPT No script"])
async def test_a_redis_that_is_no_primary_or_has_forgotten_the_scripts_is_connected_again(error: bytes) -> None:
    async with piped() as (pipe, scripted):
        await pipe.add(("GET", "a"))
        answer = scripted.answer
        scripted.answer = lambda part: error + b"\r\n"
        with pytest.raises(StoreUnavailableError, match=error[1:9].decode()):
            await pipe.add(("EVALSHA", "a"))
        scripted.answer = answer
        await pipe.add(("GET", "a"))
        assert scripted.connections == 2 and b"SCRIPT" in scripted.received[-1]


async def test_a_redis_that_refuses_connections_is_unavailable_until_it_accepts() -> None:
    async with piped() as (pipe, scripted):
        port = scripted.port
        scripted.port = 1
        with pytest.raises(StoreUnavailableError):
            await pipe.add(("GET", "a"))
        scripted.port = port
        assert await pipe.add(("GET", "a")) == 1


@pytest.mark.parametrize("has_pool", [True, False])
async def test_the_client_sends_the_commands_where_it_does_not_give_its_connection_away(has_pool: bool) -> None:
    sent: list[Any] = []

    async def send(commands: Any) -> list[Any]:
        sent.extend(commands)
        return [StoreUnavailableError("no") if command == ("FAIL",) else len(command) for command in commands]

    async with piped(send) as (pipe, scripted):
        if has_pool:
            scripted.make_connection = Hidden  # type: ignore[method-assign, assignment]
        else:
            del scripted.connection_pool
        assert await asyncio.gather(pipe.add(("GET", "a")), pipe.add(("PING",))) == [2, 1]
        with pytest.raises(StoreUnavailableError, match="no"):
            await pipe.add(("FAIL",))
        assert sent == [("GET", "a"), ("PING",), ("FAIL",)] and not scripted.connections


class Hidden:
    """A connection that shows nothing of itself."""

    async def connect(self) -> None:
        """Connect to nothing."""

    async def disconnect(self, nowait: bool) -> None:
        """Do nothing."""


async def test_a_closed_store_takes_no_commands() -> None:
    async with piped() as (pipe, _):
        assert await pipe.add(("GET", "a")) == 1
        await pipe.close()
        with pytest.raises(StoreClosedError):
            pipe.add(("GET", "a"))
