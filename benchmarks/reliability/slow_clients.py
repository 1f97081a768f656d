"""Clients of slow_readers.py, as bytes: a conversation in each protocol version, whose answers are read or left.

Nothing of this package reads or writes here, so that connections are cut and left at any byte.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import suppress
from typing import Any, Final, Self

STATELESS: Final = "2026-07-28"
OLDEST: Final = "2024-11-05"  # Over HTTP+SSE.
REVISIONS: Final = (OLDEST, "2025-03-26", "2025-06-18", "2025-11-25", STATELESS)
_META: Final = "io.modelcontextprotocol/"
_WHO: Final = {"name": "client", "version": "1"}
_CHUNK: Final = 1 << 16


class Connection:
    """One connection of a client at an address of this machine."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.received = b""

    @classmethod
    async def open(cls, port: int, address: str, buffer: int | None = None) -> Self:
        """Connect; `buffer` is the size of the receive buffer in bytes."""
        sock = socket.socket()
        try:
            if buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            sock.setblocking(False)
            sock.bind((address, 0))
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def until(self, text: bytes) -> bytes:
        """Read until a text has come, and return what came. Raises ConnectionError at the end of the connection."""
        while text not in self.received:
            self.received += await self.read()
        received = self.received
        self.received = b""
        return received

    async def read(self) -> bytes:
        """Return what comes next. Raises ConnectionError at the end of the connection."""
        data = await asyncio.get_running_loop().sock_recv(self._sock, _CHUNK)
        if not data:
            raise ConnectionError(f"closed after {self.received[:200]!r}")
        return data

    def reset(self) -> None:
        """Close the connection with RST."""
        with suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def close(self) -> None:
        """Close the connection with FIN, or with RST if it was not read."""
        self._sock.close()


class Conversation:
    """A client with its session, if its protocol version has sessions."""

    def __init__(self, port: int, revision: str, address: str, buffer: int | None = None) -> None:
        self.port = port
        self.revision = revision
        self.address = address
        self.buffer = buffer
        self._session = ""
        self._path = "/mcp"
        self._stream: Connection | None = None  # That of HTTP+SSE.
        self._posts: Connection | None = None
        self._last_id = 0

    async def connect(self) -> Connection:
        """Return another connection of this client."""
        return await Connection.open(self.port, self.address, self.buffer)

    async def open(self) -> None:
        """Open the session, if there is one. Raises OSError."""
        if self.revision == STATELESS:
            return
        if self.revision == OLDEST:
            self._stream = await self.connect()
            await self._stream.send(b"GET /sse HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n")
            endpoint = await self._stream.until(b"session")
            while b"\n\n" not in endpoint.partition(b"data:")[2].replace(b"\r\n", b"\n"):
                endpoint += await self._stream.until(b"\n")
            self._path = endpoint.partition(b"data:")[2].split()[0].decode()
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": _WHO}
        answer = await self.request("initialize", params)
        for line in answer.split(b"\r\n"):
            if line.lower().startswith(b"mcp-session-id:"):
                self._session = line.partition(b":")[2].strip().decode()
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, b"HTTP/1.1 202")

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a request with a new id."""
        self._last_id += 1
        if self.revision == STATELESS:
            names = {"protocolVersion": self.revision, "clientInfo": _WHO, "clientCapabilities": {}}
            params = {**params, "_meta": {f"{_META}{name}": value for name, value in names.items()}}
        return {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}

    def encoded(self, message: dict[str, Any]) -> bytes:
        """Return the bytes of a POST."""
        body = json.dumps(message).encode()
        lines = [
            f"POST {self._path} HTTP/1.1",
            "host: 127.0.0.1",
            "accept: application/json, text/event-stream",
            "content-type: application/json",
            f"content-length: {len(body)}",
        ]
        if self._session:
            lines.append(f"mcp-session-id: {self._session}")
        if message["method"] != "initialize":
            lines.append(f"mcp-protocol-version: {self.revision}")
        if self.revision == STATELESS:
            lines.append(f"mcp-method: {message['method']}")
            lines += [f"mcp-name: {message['params']['name']}"] if "name" in message["params"] else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    def call(self, text: str) -> dict[str, Any]:
        """Return a call of the echo."""
        return self.message("tools/call", {"name": "echo", "arguments": {"text": text}})

    async def request(self, method: str, params: dict[str, Any]) -> bytes:
        """Send a request and return the bytes with its response."""
        return await self._answered(self.message(method, params), b'"protocolVersion"')

    async def echoed(self, text: str) -> None:
        """Call the echo with a text of one word, and read its response."""
        await self._answered(self.call(text), b'"text":"%b"' % text.encode())

    async def _answered(self, message: dict[str, Any], text: bytes) -> bytes:
        if self._stream is not None:
            await self._post(message, b"HTTP/1.1 202")
            return await self._stream.until(text)
        return await self._post(message, text)

    async def _post(self, message: dict[str, Any], text: bytes) -> bytes:
        """Send a message on the connection for small ones, and read its response, which has this text near its end."""
        data = self.encoded(message)
        try:
            received = await self._sent(data)
        except ConnectionError:  # The server has closed a connection that was idle for some seconds.
            self._posts = None
            received = await self._sent(data)
        assert self._posts is not None, "it was sent"
        while not _is_whole(received):
            received += await self._posts.read()
        if text not in received:
            raise ConnectionError(f"not answered as expected: {received[:400]!r}")
        return received

    async def _sent(self, data: bytes) -> bytes:
        """Send a POST, and return the beginning of its response, with the whole head."""
        if self._posts is None:
            self._posts = await self.connect()
        self._posts.received = b""  # The rest of the response before.
        await self._posts.send(data)
        return await self._posts.until(b"\r\n\r\n")

    def close(self, reset: bool = False) -> None:
        """Close all connections, with RST or as they are."""
        for connection in (self._stream, self._posts):
            if connection is not None:
                connection.reset() if reset else connection.close()


def _is_whole(received: bytes) -> bool:
    """Return True if a whole response has come: one with a length, or in chunks."""
    head, _, body = received.partition(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        return len(body) >= int(lower.partition(b"content-length:")[2].split(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n")
