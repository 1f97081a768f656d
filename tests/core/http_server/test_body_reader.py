"""A body arrives in one piece or in several, or its client leaves before it is there."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from mcp_runtime.http.asgi import BodyReader, ClientDisconnectError
from mcp_runtime.http.headers import HTTPError
from mcp_runtime.protocol.framing import SizeLimit


def part(body: bytes, more: bool = False) -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def arrived(*messages: MutableMapping[str, Any]) -> bytes | HTTPError:
    coming = iter(messages)

    async def receive() -> MutableMapping[str, Any]:
        return next(coming)

    return asyncio.run(BodyReader(SizeLimit(8), seconds=5).read(receive))


@pytest.mark.parametrize(
    "messages",
    [
        [part(b"12345678")],
        [part(b"1234", more=True), part(b"5678")],
        [part(b"", more=True), part(b"12345678", more=True), part(b"")],
    ],
    ids=["one piece", "two", "empty ones around it"],
)
def test_a_body_is_whole_however_it_comes(messages: list[MutableMapping[str, Any]]) -> None:
    assert arrived(*messages) == b"12345678"


@pytest.mark.parametrize(
    "messages",
    [[part(b"123456789")], [part(b"1234", more=True), part(b"56789", more=True)]],
    ids=["one piece", "before the last one has come"],
)
def test_a_body_that_is_too_long_is_refused(messages: list[MutableMapping[str, Any]]) -> None:
    refused = arrived(*messages)
    assert isinstance(refused, HTTPError) and refused.status == 413


@pytest.mark.parametrize("before", [[], [part(b"1234", more=True)]], ids=["at once", "in the middle"])
def test_who_leaves_before_the_body_is_there_has_left(before: list[MutableMapping[str, Any]]) -> None:
    with pytest.raises(ClientDisconnectError):
        arrived(*before, {"type": "http.disconnect"})


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (b"9", 413),
        (b"10", 413),
        (b"1" * 15, 413),
        (b"1" * 16, 413),
        (b"+1", 400),
        (b"-1", 400),
        (b"1_0", 400),
        (b"x", 400),
    ],
)
def test_a_length_tells_before_anything_is_read(length: bytes, status: int) -> None:
    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("it was read")

    refused = asyncio.run(BodyReader(SizeLimit(8), seconds=5).read(receive, length))
    assert isinstance(refused, HTTPError) and refused.status == status


@pytest.mark.parametrize("length", [b"", b"0", b"8", b"08"])
def test_a_length_that_may_be_is_read(length: bytes) -> None:
    async def receive() -> MutableMapping[str, Any]:
        return part(b"12345678")

    assert asyncio.run(BodyReader(SizeLimit(8), seconds=5).read(receive, length)) == b"12345678"
