"""The latency and CPU time of calls through a bridge: the same raw requests for every bridge, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from http_load import HttpChild, post
from measures.ports import free_port
from stdio_load import CLIENT_INFO, REVISION, BrokenServerError, Child, environ

SECONDS = 240.0  # The time limit of one bridge.
READY_SECONDS = 60.0  # Until a bridge over HTTP answers `initialize`.


class Load(NamedTuple):
    """The numbers of calls: before the measurement, one after another, and with `in_flight` at a time."""

    warm_up: int
    sequential: int
    concurrent: int
    in_flight: int = 100

    def part(self, share: int) -> Load:
        """Return a load with one of `share` parts of the calls, of which each that is in flight is one."""
        concurrent = max(self.concurrent // share, self.in_flight)
        return Load(self.warm_up // share, self.sequential // share, concurrent, self.in_flight)


class Costs(NamedTuple):
    """The values of one bridge: the medians of latencies in ms, and CPU time in µs per call."""

    p50: float
    cpu: float
    concurrent_p50: float
    concurrent_cpu: float


def call(number: int) -> dict[str, Any]:
    """Return a call."""
    params = {"name": "echo", "arguments": {"text": f"text {number}"}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def check(response: Any, number: int) -> None:
    """Raise BrokenServerError unless this is the response to a call."""
    if response.get("id") != number or response["result"]["content"][0]["text"] != f"text {number}":
        raise BrokenServerError(f"not the response to call {number}: {response}")


# ---- stdio -----------------------------------------------------------------------------------------------------------


class StdioClient(Child):
    """A client over stdio that keeps a number of calls in flight."""

    def run(self, first: int, count: int, in_flight: int) -> list[float]:
        """Make calls, and return their latencies in ms."""
        requests = [json.dumps(call(number)).encode() + b"\n" for number in range(first, first + count)]
        began, latencies, sent, received, rest = dict[int, float](), list[float](), 0, 0, b""
        while received < count:
            part: list[bytes] = []
            while sent < count and sent - received < in_flight:
                began[first + sent] = time.perf_counter()
                part.append(requests[sent])
                sent += 1
            self.write(b"".join(part))
            *lines, rest = (rest + self.read(1)).split(b"\n")
            now = time.perf_counter()
            for line in lines:
                response = json.loads(line)
                if "method" in response:
                    continue
                latencies.append((now - began.pop(response["id"])) * 1e3)
                check(response, response["id"])
                received += 1
        return latencies


def over_stdio(command: Sequence[str | Path], load: Load) -> Costs:
    """Start a bridge that is a server over stdio, and measure its calls."""
    with StdioClient(command, SECONDS) as child:
        child.open()
        child.run(1, load.warm_up, 1)
        cpu = child.cpu()
        sequential = child.run(10_000, load.sequential, 1)
        cpu = child.cpu() - cpu
        child.run(20_000, load.warm_up, load.in_flight)
        concurrent_cpu = child.cpu()
        concurrent = child.run(30_000, load.concurrent, load.in_flight)
        concurrent_cpu = child.cpu() - concurrent_cpu
    return costs(load, sequential, cpu, concurrent, concurrent_cpu)


def costs(load: Load, sequential: list[float], cpu: float, concurrent: list[float], concurrent_cpu: float) -> Costs:
    """Return the values of the calls of one bridge."""
    medians = statistics.median(sequential), statistics.median(concurrent)
    return Costs(medians[0], cpu / load.sequential * 1e6, medians[1], concurrent_cpu / load.concurrent * 1e6)


# ---- HTTP ------------------------------------------------------------------------------------------------------------


class HttpClient:
    """A connection to a bridge over HTTP, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> HttpClient:
        """Return an open connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, request: bytes) -> tuple[dict[str, str], bytes]:
        """Send a request, and return the headers and the body of its response, whose end is awaited."""
        self._writer.write(request)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if not lines[0].split()[1].startswith("2"):
            raise BrokenServerError(f"the response has {lines[0]!r}")
        if headers.get("transfer-encoding") != "chunked":
            return headers, await self._reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")
        return headers, body

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def message_of(headers: dict[str, str], body: bytes) -> Any:
    """Return the last message of a response: a body, or events."""
    if headers["content-type"].startswith("text/event-stream"):
        body = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()][-1]
    return json.loads(body)


async def opened(port: int) -> list[str]:
    """Wait until a bridge answers, open a session, and return the headers of its requests."""
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT_INFO}
    request = post(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    end = time.monotonic() + READY_SECONDS
    while True:
        client = await HttpClient.connect(port)
        try:
            headers, _ = await client.send(request)
            break
        except (BrokenServerError, asyncio.IncompleteReadError):
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
    own = [f"MCP-Protocol-Version: {REVISION}"]
    if "mcp-session-id" in headers:
        own.append(f"Mcp-Session-Id: {headers['mcp-session-id']}")
    await client.send(post(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *own))
    client.close()
    return own


async def _run(child: HttpChild, load: Load) -> Costs:
    headers = await opened(child.port)
    clients = [await HttpClient.connect(child.port) for _ in range(load.in_flight)]

    async def calls(client: HttpClient, first: int, count: int) -> list[float]:
        requests = [post(child.port, call(number), *headers) for number in range(first, first + count)]
        latencies: list[float] = []
        for number, request in enumerate(requests, first):
            began = time.perf_counter()
            response = await client.send(request)
            latencies.append((time.perf_counter() - began) * 1e3)
            check(message_of(*response), number)
        return latencies

    async def all_calls(first: int, count: int) -> list[float]:
        number = count // len(clients)
        parts = await asyncio.gather(
            *(calls(client, first + number * place, number) for place, client in enumerate(clients))
        )
        return [latency for part in parts for latency in part]

    await calls(clients[0], 1, load.warm_up)
    cpu = child.cpu()
    sequential = await calls(clients[0], 10_000, load.sequential)
    cpu = child.cpu() - cpu
    await all_calls(20_000, max(load.warm_up, load.in_flight))
    concurrent_cpu = child.cpu()
    concurrent = await all_calls(30_000, load.concurrent)
    concurrent_cpu = child.cpu() - concurrent_cpu
    for client in clients:
        client.close()
    return costs(load, sequential, cpu, concurrent, concurrent_cpu)


class Bridge(HttpChild):
    """A bridge over HTTP as a child process."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        """Start a command, in which `PORT` stands for a free port."""
        self.port = free_port()
        words = [str(word).replace("PORT", str(self.port)) for word in command]
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(
            words, env=environ(), start_new_session=True, stdin=null, stdout=null, stderr=null
        )


def over_http(command: Sequence[str | Path], load: Load) -> Costs:
    """Start a bridge that is a server over HTTP, and measure its calls; `PORT` in its command is a free port."""
    with Bridge(command) as child:
        return asyncio.run(_run(child, load))
