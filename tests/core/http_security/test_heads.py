"""Heads of requests that no client sends: refused for each method, before the body is read and before any session."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.endpoints import HANDSHAKE
from support.http.raw_client import ENDPOINTS, RELAYS, Socket, address
from support.project import ROOT

from mcp_generated import App, Gateway
from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.upstream.target import Target
from mcp_runtime.transports.http_server.app import MCPASGIApp

Fields = list[tuple[bytes, bytes]]

REV = HANDSHAKE[-1]
GOOD: Fields = [
    (b"host", b"localhost"),
    (b"accept", b"application/json, text/event-stream"),
    (b"content-type", b"application/json"),
]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": REV.id, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ONCE = ("host", "origin", "content-type", "content-length", "content-encoding", "mcp-session-id",
        "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-x", "last-event-id")  # fmt: skip


def doubled(name: str) -> Callable[[Fields], Fields]:
    key = name.encode()
    return lambda fields: [*(field for field in fields if field[0] != key), (key, b"localhost"), (key, b"localhost")]


BAD: dict[str, tuple[int, Callable[[Fields], Fields]]] = {
    "many lines": (431, lambda fields: [*fields, *((b"x-%d" % number, b"") for number in range(200))]),
    "many lines of one name": (431, lambda fields: [*fields, *[(b"x", b"1")] * 200]),
    "a long value": (431, lambda fields: [*fields, (b"x", b"x" * (64 << 10))]),
    "a long name": (431, lambda fields: [*fields, (b"x" * (64 << 10), b"x")]),
    "many long values": (431, lambda fields: [*fields, *((b"x-%d" % number, b"x" * 1000) for number in range(70))]),
    **{f"two lines of {name}": (400, doubled(name)) for name in ONCE},
    "two lengths": (400, lambda fields: [*fields, (b"content-length", b"2"), (b"transfer-encoding", b"chunked")]),
    "another host": (421, lambda fields: [(b"host", b"evil.example"), *fields[1:]]),
    "a port that is not a number": (421, lambda fields: [(b"host", "127.0.0.1:²".encode("latin-1")), *fields[1:]]),
    "a port of other digits": (421, lambda fields: [(b"host", b"127.0.0.1:\xb2\xb3"), *fields[1:]]),
    "no host": (400, lambda fields: fields[1:]),
    "another origin": (403, lambda fields: [*fields, (b"origin", b"https://evil.example")]),
}


class Request:
    """A request whose body can be read once: `read` counts how often it was read before the response began."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.received = False
        self.read = 0
        self.status = 0
        self.sent = dict[bytes, bytes]()

    async def receive(self) -> dict[str, Any]:
        self.read += not self.status
        if self.received:
            await asyncio.Event().wait()
        self.received = True
        return {"type": "http.request", "body": self.body}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.sent = dict(message["headers"])


async def served(asgi: Any, method: str, fields: Fields, session: str = "") -> Request:
    request = Request(json.dumps(INITIALIZE).encode() if method == "POST" else b"")
    named = [(b"mcp-session-id", session.encode())] if session else []
    scope = {"type": "http", "method": method, "path": "/mcp", "headers": [*fields, *named], "query_string": b""}
    await asgi(scope, request.receive, request.send)
    return request


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"])
@pytest.mark.parametrize("what", list(BAD))
async def test_a_bad_head_is_refused_for_each_method_before_anything_else(method: str, what: str) -> None:
    asgi = App("served").asgi(origins=["https://app.example.com"])
    opened = await served(asgi, "POST", GOOD)
    session = opened.sent[b"mcp-session-id"].decode()
    status, changed = BAD[what]
    for _ in range(2):  # The second one may be known from the first.
        request = await served(asgi, method, changed(GOOD), "" if "session-id" in what else session)
        assert (request.status, request.read) == (status, 0)
        assert b"mcp-session-id" not in request.sent
    if what == "two lengths":
        assert request.sent[b"connection"] == b"close"
    assert (await served(asgi, "DELETE", GOOD, session)).status == 204  # No such request has ended the session.
    await asgi.close()


@pytest.mark.long
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("kind", RELAYS)
async def test_a_bad_head_is_refused_by_a_relay_before_anything_else(kind: str, method: str) -> None:
    asgi = relay(kind)
    session = (await served(asgi, "POST", GOOD)).sent[b"mcp-session-id"].decode()
    for what, (status, changed) in BAD.items():
        request = await served(asgi, method, changed(GOOD), "" if "session-id" in what else session)
        assert (request.status, request.read) == (status, 0), what
        assert b"mcp-session-id" not in request.sent
    assert (await served(asgi, "DELETE", GOOD, session)).status == 204
    await asgi.close()


def relay(kind: str) -> Any:
    """Return the application of a bridge or a gateway to the echo."""
    command = [sys.executable, str(ROOT / "examples/echo/server.py"), "stdio"]
    if kind == "bridge":
        return MCPASGIApp(Bridge(Target(command=tuple(command)), "mcp_generated").services())
    return Gateway({"upstreams": {"echo": {"command": command[0], "args": command[1:], "prefix": ""}}}).app.asgi()


async def test_a_head_without_a_length_is_not_known_by_the_error_of_one_with_it() -> None:
    asgi = App("served").asgi()
    chunked: Fields = [*GOOD, (b"transfer-encoding", b"chunked")]
    for fields, status in ((chunked, 200), ([*chunked, (b"content-length", b"2")], 400), (chunked, 200)):
        assert (await served(asgi, "POST", fields)).status == status
    await asgi.close()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_both_lengths_end_the_connection_on_a_socket(endpoint: str) -> None:
    where = address(endpoint)
    connection = await Socket.to(where)
    smuggled = f"GET /mcp HTTP/1.1\r\nhost: {where}\r\n\r\n"
    head = f"POST /mcp HTTP/1.1\r\nhost: {where}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(smuggled) + 5}\r\ntransfer-encoding: chunked\r\n\r\n"
    await connection.write((head + "0\r\n\r\n" + smuggled).encode())
    answer = await connection.answer()
    assert answer.status == 400
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await connection.answer()
    connection.cut()


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (b"1" + b"0" * 18, 413),
        (b"9" * 4000, 413),
        (b"0" * 40 + b"9" * 10, 413),
        (b"8388609", 413),
        (b"-1", 400),
        (b"1e3", 400),
    ],
)
async def test_a_length_beyond_the_limit_is_refused_whatever_its_digits(length: bytes, status: int) -> None:
    asgi = App("served").asgi()
    request = await served(asgi, "POST", [*GOOD, (b"content-length", length)])
    assert (request.status, request.read) == (status, 0)
    await asgi.close()
