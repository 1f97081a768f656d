"""A revision goes in; its types, servers and clients made of single handlers, and raw ends of the wire come out."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from mcp_generated import REVISIONS
from mcp_runtime.bindings.server import serve, services_of
from mcp_runtime.errors import ConnectionClosedError
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import Transport
from mcp_runtime.transports import memory
from mcp_runtime.transports.memory import MemoryTransport, linked_transports

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603

# The stateless revision; written down here, so that a wrong lifecycle in the table is noticed.
_STATELESS = ("2026-07-28",)
_META = "io.modelcontextprotocol/"

clause = pytest.mark.clause

over = "memory"  # How clients are connected; see support/each_way.py.


@dataclass(frozen=True)
class Rev:
    """One revision: its package, and its types as `t`."""

    id: str

    def __str__(self) -> str:
        return self.id

    @property
    def package(self) -> ModuleType:
        return importlib.import_module(f"mcp_generated.{REVISIONS[self.id]}")

    @property
    def t(self) -> ModuleType:
        return self.package.types

    @property
    def revision(self) -> Revision:
        return self.package.methods.REVISION

    @property
    def stateless(self) -> bool:
        return self.id in _STATELESS

    def text(self, text: str) -> Any:
        """The result of a tool that says something."""
        return self.t.CallToolResult(content=[self.t.TextContent(text=text)])

    def request(self, id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request as it is on the wire; a stateless one says who asks."""
        fields = dict(params or {})
        if self.stateless:
            fields["_meta"] = {**self.meta(), **fields.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": id, "method": method} | ({"params": fields} if fields else {})

    def meta(self) -> dict[str, Any]:
        return {
            f"{_META}protocolVersion": self.id,
            f"{_META}clientInfo": {"name": "raw", "version": "1"},
            f"{_META}clientCapabilities": {},
        }


ALL_REVISIONS = [Rev(id) for id in REVISIONS]
HANDSHAKE = [rev for rev in ALL_REVISIONS if not rev.stateless]
STATELESS = [rev for rev in ALL_REVISIONS if rev.stateless]


def among(revs: list[Rev]) -> pytest.MarkDecorator:
    """Run the test once for each of these revisions, as `rev`."""
    return pytest.mark.parametrize("rev", revs, ids=str)


def since(id: str, revs: list[Rev] = ALL_REVISIONS) -> list[Rev]:
    return [rev for rev in revs if rev.id >= id]


def before(id: str, revs: list[Rev] = ALL_REVISIONS) -> list[Rev]:
    return [rev for rev in revs if rev.id < id]


def both(page: str, *numbers: tuple[int, int, int]) -> pytest.MarkDecorator:
    """Clauses of the two revisions of the seeds and of their draft, by their numbers there."""
    revisions = ("2024-11-05", "2025-03-26", "draft")
    return clause(*(f"{rev}/{page}/{n:02}" for versions in numbers for rev, n in zip(revisions, versions, strict=True)))


def text_of(content: Any) -> str:
    text: str = (content[0] if isinstance(content, list) else content).text
    return text


# ---- servers and clients --------------------------------------------------------------------------------------------


def server_of(rev: Rev, capabilities: dict[str, Any] | None = None, instructions: str | None = None, **has: Any) -> Any:
    """A server with these handlers, functions of the context and the params, and whatever else its class has; `rates`
    are those of the server."""
    rates = has.pop("rates", None)
    members = {name: staticmethod(value) if callable(value) else value for name, value in has.items()}
    kind = type("Served", (rev.package.Server,), members)
    return kind(name="served", version="1", instructions=instructions, capabilities=capabilities, rate_limits=rates)


def client_of(rev: Rev, to: Any, **settings: Any) -> Any:
    """A client of a server, or of what connects to one, with these `on_…` handlers; the rest are its settings."""
    members = {name: staticmethod(settings.pop(name)) for name in list(settings) if name.startswith("on_")}
    kind = type("Asking", (rev.package.Client,), members)
    return kind(to if callable(to) else connector(to, rev), **settings)


def connector(server: Any, rev: Rev) -> Callable[[], Awaitable[Transport]]:
    """What connects a client to a server: in memory, over HTTP in process or on a socket, or over another transport."""
    if over == "memory":
        return memory.connect_in_memory(services_of((server,)))
    if over in ("unix", "websocket"):
        from support.http.custom import connecting_by

        return connecting_by(over, server)
    from support.http.in_process import connecting, connecting_by_socket

    return (connecting if over == "http" else connecting_by_socket)(server, rev.revision)


# ---- the wire -------------------------------------------------------------------------------------------------------


@dataclass
class Wire:
    """One end of a conversation in memory, on which a test writes and reads messages as they are."""

    transport: Transport

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.transport.send(message if isinstance(message, bytes) else json.dumps(message).encode())

    async def receive(self) -> Any:
        """The next message; None at the end."""
        data = await asyncio.wait_for(self.transport.receive(), 10)
        return None if data is None else json.loads(data)

    async def request(self, message: dict[str, Any]) -> Any:
        """Send a request and take the next message as its answer."""
        self.send(message)
        answer = await self.receive()
        assert answer["id"] == message["id"], answer
        return answer

    async def shake_hands(self, rev: Rev, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        """Open the conversation as a client; nothing is to be done where there is no handshake."""
        if rev.stateless:
            return {}
        answer: dict[str, Any] = await self.request(hello(rev.id, capabilities))
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    async def welcome(self, rev: Rev, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        """Answer the opening of a client as a server does; what comes back is the client's first request."""
        hello_request: dict[str, Any] = await self.receive()
        assert hello_request["method"] == "initialize", hello_request
        result = {
            "protocolVersion": rev.id,
            "capabilities": capabilities or {},
            "serverInfo": {"name": "raw", "version": "1"},
        }
        self.send({"jsonrpc": "2.0", "id": hello_request["id"], "result": result})
        assert (await self.receive())["method"] == "notifications/initialized"
        return hello_request


def hello(version: str, capabilities: dict[str, Any] | None = None, id: Any = "hello") -> dict[str, Any]:
    who = {"name": "raw", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": who}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


@asynccontextmanager
async def wire_to(*servers: Any, opened: Rev | None = None) -> AsyncIterator[Wire]:
    """A raw client of these servers, which has shaken hands already where `opened` is given."""
    ours, theirs = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(servers, theirs))
    wire = Wire(ours)
    try:
        if opened is not None:
            await wire.shake_hands(opened)
        yield wire
    finally:
        await ours.close()
        await asyncio.wait_for(serving, 10)


def raw_server() -> tuple[Wire, Callable[[], Awaitable[Transport]]]:
    """A raw server's end of the wire, and what connects a client to it."""
    ours, theirs = linked_transports(MemoryTransport)

    async def connect() -> Transport:
        return theirs

    return Wire(ours), connect


@dataclass
class Tap:
    """Connects a client to a server and keeps what each of them sent."""

    server: Any
    sent: list[Any] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)

    async def __call__(self) -> Transport:
        inner: Any = await memory.connect_in_memory(services_of((self.server,)))()
        send, receive = inner.send, inner.receive

        def keeping_send(message: bytes, **settings: Any) -> None:
            self.sent.append(json.loads(message))
            send(message, **settings)

        async def keeping_receive() -> bytes | None:
            message: bytes | None = await receive()
            if message is not None:
                self.received.append(json.loads(message))
            return message

        inner.send = keeping_send
        inner.receive = keeping_receive
        return inner  # type: ignore[no-any-return]

    def methods(self) -> list[str]:
        """What the client sent, by method; answers have none."""
        return [message["method"] for message in self.sent if "method" in message]


class Prefixed:
    """A transport that is none of the runtime's: over a socket, each message with its length before it."""

    close_reason = "the socket was closed"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: bytes, more: bool = False) -> None:
        if self._writer.is_closing():
            raise ConnectionClosedError(self.close_reason)
        self._writer.write(struct.pack(">I", len(message)) + message)

    async def drain(self) -> None:
        await self._writer.drain()

    async def receive(self) -> bytes | None:
        try:
            (size,) = struct.unpack(">I", await self._reader.readexactly(4))
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def close(self) -> None:
        self._writer.close()


async def linked_streams() -> tuple[Prefixed, Prefixed]:
    one, other = socket.socketpair()
    return Prefixed(*await asyncio.open_connection(sock=one)), Prefixed(*await asyncio.open_connection(sock=other))
