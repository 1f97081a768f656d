"""The cost of responses over HTTP: the same raw requests for every server.

Requests are serialized before the clock starts. Each connection stays open, and sends the next request after each
response.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from measures.ports import free_port
from stdio_load import CLIENT_CPUS, SERVER_CPUS, BrokenServerError, environ

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
START_SECONDS = 30.0  # For a server to start, and to end.


@dataclass(frozen=True)
class HttpLoad:
    """The numbers of: first calls that do not count, turns, warm-up calls and calls of a turn, idle sessions, open
    streams."""

    begin: int
    turns: int
    warm_up: int
    calls: int
    sessions: int
    streams: int


class HttpChild:
    """A server as a child process, on a free port and the given CPUs."""

    def __init__(self, command: Sequence[str | Path], processors: Sequence[int] = SERVER_CPUS) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [*command, str(self.port)],
            env=environ(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            preexec_fn=partial(os.sched_setaffinity, 0, processors),
        )

    def __enter__(self) -> Self:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.__exit__()
        raise BrokenServerError(f"it did not start: {self.process.args}")

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(START_SECONDS)

    def cpu(self) -> float:
        """Return the CPU seconds of all threads; Linux has a clock for each process."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self, name: str) -> float:
        """Return `VmHWM` (the peak) or `VmRSS` (the current value), in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split(f"{name}:")[1].split()[0]) / 1024


class Connection(asyncio.Protocol):
    """One connection to the server, with one request at a time."""

    def __init__(self) -> None:
        self._data = b""
        self._waiting: asyncio.Future[tuple[dict[str, str], bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or self._waiting is None or self._waiting.done():  # Done: its caller was cancelled.
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        streaming = headers.get("content-type", "").startswith("text/event-stream")
        if not streaming and "content-length" in headers and len(body) < int(headers["content-length"]):
            return
        if headers.get("transfer-encoding") == "chunked" and not streaming and not body.endswith(b"0\r\n\r\n"):
            return
        headers["status"] = lines[0].split()[1]
        waiting = self._waiting
        self._waiting = None
        self._data = b""
        waiting.set_result((headers, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(BrokenServerError("it closed the connection"))

    async def send(self, request: bytes) -> tuple[dict[str, str], bytes]:
        """Send a request, and return the headers and the body of its response."""
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._waiting


async def connect(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


def post(port: int, message: dict[str, Any], *headers: str) -> bytes:
    """Return the POST request of a message."""
    body = json.dumps(message).encode()
    lines = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def initialize_request(port: int) -> bytes:
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
    return post(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})


async def session(connection: Connection, port: int) -> list[str]:
    """Initialize a session, and return its headers."""
    headers, _ = await connection.send(initialize_request(port))
    session_headers = [f"Mcp-Session-Id: {headers['mcp-session-id']}", f"MCP-Protocol-Version: {HANDSHAKE}"]
    await connection.send(post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *session_headers))
    return session_headers


async def call_of(connection: Connection, port: int, stateless: bool) -> bytes:
    """Return the request of a tool call."""
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
    if not stateless:
        session_headers = await session(connection, port)
        return post(port, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, *session_headers)
    prefix = "io.modelcontextprotocol/"
    params["_meta"] = {
        f"{prefix}protocolVersion": STATELESS,
        f"{prefix}clientInfo": {"name": "load", "version": "1"},
        f"{prefix}clientCapabilities": {},
    }
    session_headers = [f"MCP-Protocol-Version: {STATELESS}", "Mcp-Method: tools/call", "Mcp-Name: echo"]
    return post(port, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, *session_headers)


async def calls(child: HttpChild, load: HttpLoad, connections: int, stateless: bool) -> dict[str, float]:
    """Return calls per second, latencies in ms, and CPU time per call in µs."""
    os.sched_setaffinity(0, CLIENT_CPUS)
    opened = [await connect(child.port) for _ in range(connections)]
    requests = [await call_of(connection, child.port, stateless) for connection in opened]
    latencies: list[float] = []

    async def send_all(connection: Connection, request: bytes, number: int) -> None:
        for _ in range(number):
            start = time.perf_counter()
            headers, body = await connection.send(request)
            latencies.append(time.perf_counter() - start)
            if headers["status"] != "200" or b'"hello"' not in body:
                raise BrokenServerError(f"it answered {headers['status']}: {body[:300]!r}")

    async def run_all(number: int) -> None:
        await asyncio.gather(
            *(
                send_all(connection, request, number // connections)
                for connection, request in zip(opened, requests, strict=True)
            )
        )

    await run_all(load.warm_up)
    latencies.clear()
    cpu, start = child.cpu(), time.perf_counter()
    await run_all(load.calls)
    seconds, cpu = time.perf_counter() - start, child.cpu() - cpu
    for connection in opened:
        connection.transport.close()
    cuts = statistics.quantiles(latencies, n=100)
    count = len(latencies)
    return {"calls": count / seconds, "cpu": cpu / count * 1e6, "p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3}


async def idle(child: HttpChild, load: HttpLoad) -> dict[str, float]:
    """Return the bytes of an idle session, and the MB of the server with open streams."""
    connection = await connect(child.port)
    for _ in range(100):
        await session(connection, child.port)
    before = child.memory("VmRSS")
    session_headers = [await session(connection, child.port) for _ in range(load.sessions)]
    bytes_per_session = (child.memory("VmRSS") - before) / load.sessions * 2**20
    for headers in session_headers[: load.streams]:
        stream = await connect(child.port)
        lines = ["GET /mcp HTTP/1.1", f"Host: 127.0.0.1:{child.port}", "Accept: text/event-stream", *headers]
        response_headers, _ = await stream.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        if response_headers["status"] != "200":
            raise BrokenServerError(f"the response to a GET has status {response_headers['status']}")
    return {"session": bytes_per_session, "streams": child.memory("VmRSS") * 2**20 / 1e6}
