"""Bytes go in on real sockets; what a server sends back comes out, as heads, bodies and events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.peers import Started, started
from support.processes import end_with_session
from support.project import SERVERS

from mcp_runtime.http.sse import ServerSentEvent, SSEDecoder

SERVER, RELAY = SERVERS / "http_stress.py", SERVERS / "http_relay.py"
PARSERS = ("h11", "httptools")
RELAYS = ("bridge", "gateway")
ENDPOINTS = (*PARSERS, *RELAYS)  # The server with each of its parsers, and what relays to it.
SESSIONS, STATELESS_REVISION = "2025-11-25", "2026-07-28"
BOTH = "application/json, text/event-stream"
CEILING = 30.0  # Seconds for one answer; it is never waited for so long.
_META = "io.modelcontextprotocol/"


def launched(endpoint: str, port: int = 0) -> tuple[Started, str]:
    """A process that serves, and the address it listens on. Whoever launched it ends it."""
    words = [str(SERVER), endpoint, str(port)]
    if endpoint in RELAYS:
        words = [str(RELAY), endpoint, str(port), f"http://{address('httptools')}/mcp"]
    server = started([sys.executable, *words], dict(os.environ), "listening at ")
    return server, urlsplit(server.output.split("listening at ")[1].split()[0]).netloc


@cache
def address(endpoint: str) -> str:
    """The server of this process that reads HTTP with this parser, or its relay; it ends with the session of tests."""
    server, where = launched(endpoint)
    end_with_session(server.process)
    _pids[endpoint] = server.process.pid
    return where


_pids: dict[str, int] = {}


def resident(endpoint: str) -> int:
    """The bytes of memory of the process at `address`; 0 where the system does not tell."""
    status = Path(f"/proc/{_pids[endpoint]}/status")
    return int(status.read_text(encoding="utf-8").split("VmRSS:")[1].split()[0]) * 1024 if status.exists() else 0


def ended(process: subprocess.Popen[str]) -> int:
    """End a server as a supervisor does; how it ended."""
    process.send_signal(signal.SIGTERM)
    return process.wait(CEILING)


@dataclass
class Answer:
    """An answer as far as it has come."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[ServerSentEvent]:
        return list(SSEDecoder().feed(self.body))

    @property
    def json_messages(self) -> list[Any]:
        return [json.loads(event.data) for event in self.events if event.data]


class Socket:
    """One connection, on which requests are written as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, where: str) -> Socket:
        host, _, port = where.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 24))

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """A whole answer; raises IncompleteReadError where there is none."""
        async with asyncio.timeout(CEILING):
            status, headers = await self.head()
            return Answer(status, headers, await self._body(status, headers))

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), {name.lower(): value.strip() for name, _, value in fields}

    async def chunk(self) -> bytes:
        """The next chunk of a stream; nothing at its end."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def messages(self, number: int) -> list[Any]:
        """The next so many messages of a stream whose head was read."""
        decoder, messages = SSEDecoder(), list[Any]()
        async with asyncio.timeout(CEILING):
            while len(messages) < number:
                messages += [json.loads(event.data) for event in decoder.feed(await self.chunk()) if event.data]
        return messages

    async def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            parts = [part async for part in _until_empty(self.chunk)]
            return b"".join(parts)
        if status == 204 or "content-length" not in headers:
            return b""
        return await self.reader.readexactly(int(headers["content-length"]))

    def cut(self) -> None:
        """Break the connection off, as a network does."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def _until_empty(read: Any) -> Any:
    while part := await read():
        yield part


def posted(where: str, body: Any, headers: dict[str, str | None] | None = None, method: str = "POST") -> bytes:
    """A request as bytes, with the headers a good client sends but for those given; None leaves one out."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields: dict[str, str | None] = {
        "host": where,
        "accept": BOTH,
        "content-type": "application/json",
        "content-length": str(len(data)),
    }
    path = (headers or {}).get(":path", "/mcp")
    lines = [
        f"{name}: {value}" for name, value in (fields | (headers or {})).items() if value is not None and name[0] != ":"
    ]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + data


def request(id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def call(id: Any, name: str, progress: Any = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if progress is not None:
        params["_meta"] = {"progressToken": progress}
    return request(id, "tools/call", params)


@dataclass
class RawClient:
    """How requests are made of one server: in a session, or each for itself where `session` is None."""

    where: str
    session: str | None
    revision: str = SESSIONS

    def bytes(self, body: Any, method: str = "POST", **headers: str | None) -> bytes:
        """A request as bytes; headers are named with underscores."""
        named: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.session is not None:
            own = {"mcp-session-id": self.session, "mcp-protocol-version": self.revision}
            return posted(self.where, body, own | named, method)
        params = dict(body.get("params") or {}) if isinstance(body, dict) else {}
        params["_meta"] = {
            f"{_META}protocolVersion": STATELESS_REVISION,
            f"{_META}clientInfo": {"name": "raw", "version": "1"},
            f"{_META}clientCapabilities": {},
        } | params.get("_meta", {})
        own_headers = {"mcp-protocol-version": STATELESS_REVISION}
        if isinstance(body, dict):
            body = body | {"params": params}
            own_headers |= {"mcp-method": str(body.get("method"))} | (
                {"mcp-name": params["name"]} if "name" in params else {}
            )
        return posted(self.where, body, own_headers | named, method)

    async def request(self, body: Any, method: str = "POST", **headers: str | None) -> Answer:
        """One request on a connection of its own."""
        connection = await Socket.to(self.where)
        try:
            await connection.write(self.bytes(body, method, **headers))
            return await connection.answer()
        finally:
            connection.cut()

    async def call(self, id: Any, name: str, **arguments: Any) -> str:
        """The text that a tool gives."""
        answer = await self.request(call(id, name, **arguments))
        message = answer.json_messages[-1] if "event-stream" in answer.headers["content-type"] else answer.json
        assert message["id"] == id, message
        return str(message["result"]["content"][0]["text"])

    async def status(self) -> Any:
        """What the server counts."""
        return json.loads(await self.call("status", "status"))

    async def until(self, **counts: int) -> None:
        """Wait until the server counts so many."""
        async with asyncio.timeout(CEILING):
            while not (counts.items() <= (await self.status()).items()):
                await asyncio.sleep(0.01)


async def opened(where: str, revision: str = SESSIONS) -> RawClient:
    """A new session."""
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    answer = await answered(where, posted(where, request(0, "initialize", hello)))
    client = RawClient(where, answer.headers["mcp-session-id"], revision)
    assert (await client.request({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
    return client


async def entered(where: str, revision: str) -> RawClient:
    """A way of one of the two kinds."""
    return await opened(where) if revision == SESSIONS else RawClient(where, None)


async def answered(where: str, data: bytes) -> Answer:
    """What is answered to a request on a connection of its own."""
    connection = await Socket.to(where)
    try:
        await connection.write(data)
        return await connection.answer()
    finally:
        connection.cut()


class Reader:
    """Reads a stream over as many connections as it takes; keeps each message with the id of its event."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.ids: list[str] = []
        self.messages: list[Any] = []
        self.last = ""

    async def read(self, data: bytes, cut_at: int | None, enough: int | None = None) -> bool:
        """Read the answer to a request to its end, or cut it after so many bytes, or once there are messages enough;
        whether the end was there."""
        connection = await Socket.to(self.client.where)
        await connection.write(data)
        status, _ = await connection.head()
        assert status == 200
        decoder, remaining, whole = SSEDecoder(), cut_at, False
        while (remaining is None or remaining > 0) and len(self.messages) != enough:
            part = await connection.chunk()
            if not part:
                whole = True
                break
            data_read = part if remaining is None else part[:remaining]
            remaining = None if remaining is None else remaining - len(data_read)
            for event in decoder.feed(data_read):
                self.last = event.id or self.last
                if event.data:
                    self.ids.append(event.id or "")
                    self.messages.append(json.loads(event.data))
        connection.cut()
        return whole

    async def resume(self, cut_at: int | None = None, enough: int | None = None) -> bool:
        return await self.read(self.client.bytes(b"", "GET", last_event_id=self.last), cut_at, enough)
