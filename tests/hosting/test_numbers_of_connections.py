"""Many connections, and many bytes on them: one client leaves enough to the others."""

from __future__ import annotations

import contextlib
import sys

import pytest
from support.http.slow_connections import LARGE, ClockedServer, RawSocket, call, echo, incomplete, server

from mcp_runtime.http.clients import BufferedBytes

pytestmark = [
    pytest.mark.deadline(1000),  # On the clock that tests set forward.
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not an address of this machine"),
]
parsers = pytest.mark.parametrize("parser", ["h11", "httptools"])
ATTACKER, ANOTHER = "127.0.0.2", "127.0.0.3"


async def opened(attacked: ClockedServer, number: int, address: str, stack: contextlib.ExitStack) -> list[RawSocket]:
    """So many connections of an address, on which nothing is sent."""
    connections = [stack.enter_context(await attacked.connect(address)) for _ in range(number)]
    await attacked.pass_time(1)
    return connections


async def still_open(connections: list[RawSocket]) -> int:
    """How many connections the server has not ended."""
    return sum([await connection.is_open() for connection in connections])


@parsers
async def test_an_address_has_half_of_the_connections_that_others_leave(parser: str) -> None:
    with contextlib.ExitStack() as stack:
        async with server(parser, max_connections=20) as attacked:
            assert await still_open(await opened(attacked, 30, ATTACKER, stack)) == 10
            assert await still_open(await opened(attacked, 30, ANOTHER, stack)) == 5
            assert await attacked.serves()
            assert await attacked.serves("127.0.0.4")


@parsers
async def test_a_connection_too_many_is_refused_with_a_status(parser: str) -> None:
    async with server(parser, max_connections_per_address=2) as attacked:
        with contextlib.ExitStack() as stack:
            connections = await opened(attacked, 3, ATTACKER, stack)
            assert (await connections[-1].ends()).startswith(b"HTTP/1.1 503 ")
            assert await still_open(connections[:2]) == 2
            assert await attacked.serves()
        await attacked.pass_time(1)
        assert await attacked.serves(ATTACKER)


@parsers
async def test_when_there_are_too_many_the_oldest_without_a_request_ends_first(parser: str) -> None:
    with contextlib.ExitStack() as stack:
        async with server(parser, max_connections=3, max_connections_per_address=3) as attacked:
            [busy] = await opened(attacked, 1, ATTACKER, stack)
            await busy.send(b"".join(call("wait")))
            await busy.until(b"progress")
            idle = await opened(attacked, 2, ATTACKER, stack)
            assert await attacked.serves(ANOTHER)
            assert [await connection.is_open() for connection in (busy, *idle)] == [True, False, True]


@parsers
async def test_with_nothing_idle_another_connection_is_refused(parser: str) -> None:
    with contextlib.ExitStack() as stack:
        async with server(parser, max_connections=2, max_connections_per_address=2) as attacked:
            busy = await opened(attacked, 2, ATTACKER, stack)
            for connection in busy:
                await connection.send(b"".join(call("wait")))
                await connection.until(b"progress")
            [other] = await opened(attacked, 1, ANOTHER, stack)
            assert (await other.ends()).startswith(b"HTTP/1.1 503 ")
            assert await still_open(busy) == 2


@parsers
async def test_whoever_holds_the_most_unread_bytes_loses_its_response(parser: str) -> None:
    with contextlib.ExitStack() as stack:
        async with server(parser, max_buffered=LARGE) as attacked:
            unread = [stack.enter_context(await attacked.connect(ATTACKER, buffer=4096)) for _ in range(5)]
            for connection in unread:
                await connection.send(b"".join(call("large")))
            with await attacked.connect(ANOTHER) as other:
                await other.send(b"".join(call("large")))
                while len(other.received) < LARGE:
                    assert await other.read()
            sizes = [len(await connection.ends()) for connection in unread[:-2]]
            assert min(sizes) < LARGE
            assert await attacked.serves()


@parsers
async def test_whoever_sends_the_most_without_an_end_is_refused(parser: str) -> None:
    with contextlib.ExitStack() as stack:
        async with server(parser, max_buffered=3_000_000) as attacked:
            attackers = [stack.enter_context(await attacked.connect(ATTACKER)) for _ in range(4)]
            head, _ = call("echo", padding=5_000_000)
            for connection in attackers:
                await connection.send(head + b" " * 1_000_000)
            await attacked.pass_time(1)
            with await attacked.connect(ANOTHER) as other:
                await other.send(incomplete())
                await other.send(b" " * 10)
                assert b'"hi"' in await other.until(b'"hi"')
            await attacked.pass_time(3)
            refused = [connection.received for connection in attackers if not await connection.is_open()]
            assert refused and {received[9:12] for received in refused} == {b"503"}
            assert all(b"\r\nretry-after: 1\r\n" in received for received in refused)  # Nothing was begun.
            assert len(refused) < len(attackers)


@parsers
async def test_what_is_read_does_not_count(parser: str) -> None:
    async with server(parser, max_buffered=2 * LARGE) as attacked:
        for _ in range(3):
            with await attacked.connect(ATTACKER) as raw:
                await raw.send(b"".join(call("large")))
                while len(raw.received) < LARGE:
                    assert await raw.read()
                await raw.send(echo())
                assert b'"hi"' in await raw.until(b'"hi"')


def test_the_largest_of_the_client_with_the_most_bytes_is_the_excess() -> None:
    held = BufferedBytes(100)
    held.set("a", ("address", "x"), 60)
    held.set("b", ("address", "y"), 40)
    assert held.excess() is None
    held.set("c", ("address", "y"), 39)
    assert held.excess() == "b"
    held.set("b", ("address", "z"), 0)  # It is still that of the client with which it was set first.
    assert (held.excess(), held.total) == (None, 99)
    held.set("c", ("address", "y"), 45)
    assert held.excess() == "a"
    for holder in "abc":
        held.set(holder, ("address", "x"), 0)
    assert held.total == 0
