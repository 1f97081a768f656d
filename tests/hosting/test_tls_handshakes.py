"""TLS handshakes that stop half way: they end as half a head does, and delay nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
from support.auth.certificates import self_signed
from support.http.slow_connections import ClockedServer, RawSocket, echo, server

pytestmark = pytest.mark.deadline(1000)  # On the clock that tests set forward.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody has signed but itself, and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def context() -> ssl.SSLContext:
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    return trusting


def first_message() -> bytes:
    """What a client sends first in a handshake."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context().wrap_bio(received, sent).do_handshake()
    return sent.read()


async def is_served(attacked: ClockedServer) -> bool:
    """Return whether the call of another client, over TLS, gets its result."""
    reader, writer = await asyncio.open_connection("127.0.0.1", attacked.port, ssl=context())
    writer.write(echo())
    received = await reader.readuntil(b'"hi"')
    writer.close()
    return b" 200 " in received


PARTS = {"nothing": slice(0, 0), "half a message": slice(0, 60), "one message": slice(None)}


@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize("part", PARTS)
async def test_a_handshake_that_stops_is_ended(parser: str, part: str, certificate: tuple[Path, Path]) -> None:
    async with server(parser, certificate) as attacked:
        with await attacked.connect() as raw:
            if sent := first_message()[PARTS[part]]:
                await raw.send(sent)
            await attacked.pass_time(8)
            assert await raw.is_open() and await is_served(attacked)
            await attacked.pass_time(4)
            assert not await raw.is_open()
        assert await is_served(attacked)


async def test_the_deadline_of_heads_is_that_of_handshakes(certificate: tuple[Path, Path]) -> None:
    async with server("httptools", certificate, head_timeout=3) as attacked:
        with await attacked.connect() as raw:
            await attacked.pass_time(5)
            assert not await raw.is_open()


async def test_servers_without_tls_are_created_as_before(certificate: tuple[Path, Path]) -> None:
    create_server = asyncio.get_running_loop().create_server
    async with server("h11", certificate):
        assert asyncio.get_running_loop().create_server == create_server
        async with server("h11") as other:
            with await other.connect() as raw:
                assert isinstance(raw, RawSocket) and await other.serves()
