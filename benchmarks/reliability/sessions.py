"""Open many sessions with streams at two workers, announce a change, and measure who hears it when, and the memory.

    python benchmarks/reliability/sessions.py [--sessions 10000] [--workers 2] [--store redis|sqlite] [--no-losses]

Then the store loses all that it has, and the machine sleeps for longer than a time to live; a change is announced after
each. After a loss each stream is told once of each list, because it may have missed a change.
Prints as JSON: the seconds in which an announced change reaches half of the streams and all of them; bytes of the
workers for a connection that has had a request, for a session that has just been opened on it, for one that has not
been used for two minutes (`--forget`), for one with its stream, and for all of these together; and bytes of Redis for a
session. Sessions before these fill what a worker has once. Ends with 1 if a stream has not got a change, or twice, or
has not been told after the loss.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from counting_client import CAPABILITIES, VERSION
from passing_time import NOTICED, let_pass, lose, ports_of
from processes import LoadServer, RedisServer

AT_ONCE = 64  # Sessions that are opened at the same time.
FIRST = 1_200  # Sessions before those that are measured: their heads fill the caches of two workers.
FORGOTTEN = 125.0  # Seconds after which workers have forgotten sessions that are not used: twice a minute.
CHANGE_SECONDS = 30.0  # Seconds for a change to arrive.
ANNOUNCED = b"tools/list_changed"
SLEEP = 75.0  # Seconds that pass at once.
_ACCEPT = "Accept: application/json, text/event-stream"
_JSON = b"Content-Type: application/json\r\nContent-Length: "


class Stream(asyncio.Protocol):
    """A connection with one session: its requests, then its stream."""

    def __init__(self, port: int) -> None:
        """Use a server at a port of this machine."""
        self.port = port
        self.data = b""
        self.session = ""
        self.waiting: asyncio.Future[bytes] | None = None
        self.changes: list[float] = []
        self.is_streaming = False
        self._heads: dict[tuple[str, str, str], bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use the transport."""
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Note changes, or pass an answer on when it is complete."""
        if self.is_streaming:
            self.changes += [time.monotonic()] * data.count(ANNOUNCED)
            return
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        if not end or self.waiting is None:
            return
        is_stream = b"text/event-stream" in head
        length = int(head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0] or 0)
        if is_stream or len(body) >= length:
            self.is_streaming = is_stream
            answer = self.data
            self.data = b""
            self.waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the request fail that waits."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(ConnectionError("the connection was lost"))

    async def send(self, method: str, body: dict[str, Any] | None = None, path: str = "/mcp") -> bytes:
        """Return the answer to a request."""
        text = b"" if body is None else json.dumps({"jsonrpc": "2.0", **body}).encode()
        request = b"%s\r\n\r\n" % self._head(method, path)
        if body is not None:
            request = b"%s\r\n%s%d\r\n\r\n%s" % (self._head(method, path), _JSON, len(text), text)
        if self.transport.is_closing():
            raise ConnectionError("the connection was closed")
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        answer = await self.waiting
        if not answer.startswith(b"HTTP/1.1 20"):
            raise ConnectionError(answer[:300])
        return answer

    def _head(self, method: str, path: str) -> bytes:
        """Return the lines that are the same for all requests of a method."""
        if (head := self._heads.get((method, path, self.session))) is None:
            lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", _ACCEPT]
            lines += [f"Mcp-Session-Id: {self.session}", f"MCP-Protocol-Version: {VERSION}"] if self.session else []
            self._heads[method, path, self.session] = head = "\r\n".join(lines).encode()
        return head

    async def open(self) -> None:
        """Open the session."""
        hello = {"protocolVersion": VERSION, "capabilities": CAPABILITIES, "clientInfo": {"name": "c", "version": "1"}}
        answer = await self.send("POST", {"id": 0, "method": "initialize", "params": hello})
        head = answer.lower().partition(b"mcp-session-id:")[0]
        self.session = answer[len(head) + 15 :].split(b"\r\n")[0].strip().decode()
        await self.send("POST", {"method": "notifications/initialized"})


class Crowd:
    """The sessions, and what serves them."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Create what the options name."""
        os.environ["KEEP_ALIVE"] = "900"  # All connections are open before the first session is.
        self.options = options
        self.folder = folder
        self.redis = RedisServer(folder)
        store = f"redis://127.0.0.1:{self.redis.port}" if options.store == "redis" else f"sqlite:///{folder}/store.db"
        self.server = LoadServer(store, options.workers, folder / "stored")
        self.streams: list[Stream] = []

    async def run(self) -> dict[str, Any]:
        """Return the figures."""
        if self.options.store == "redis":
            await self.redis.start()
        await self.server.start()
        while len(self.server.pids()) < self.options.workers:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        try:
            return await self._measure()
        finally:
            await self.server.stop()
            await self.redis.stop()

    async def _measure(self) -> dict[str, Any]:
        number = self.options.sessions
        await self._connect(FIRST)  # What a worker has once, whatever the number of its sessions.
        await self._all(Stream.open)
        await self._all(lambda stream: stream.send("GET"))
        first = self.streams
        self.streams = []
        figures: dict[str, Any] = {"sessions": number, "store": self.options.store, "workers": self.options.workers}
        before, redis_before = self.memory(), await self.redis_memory()
        await self._connect(number)
        connected = self.memory()
        figures["bytes of workers a connection"] = (connected - before) // number
        await self._all(Stream.open)
        figures["bytes of Redis a session"] = (await self.redis_memory() - redis_before) // number
        figures["bytes of workers a session"] = (self.memory() - connected) // number
        if self.options.forget:
            await asyncio.sleep(FORGOTTEN)
            figures["bytes of workers a session that is not used"] = (self.memory() - connected) // number
        await self._all(lambda stream: stream.send("GET"))
        await asyncio.sleep(2)
        figures["bytes of workers a session with its stream"] = (self.memory() - connected) // number
        figures["bytes of workers with the connection"] = (self.memory() - before) // number
        figures["bytes of Redis a session with its stream"] = (await self.redis_memory() - redis_before) // number
        figures["files of the workers"] = self._held()
        for turn in (1, 2):
            figures[f"change {turn}"] = await self._announce()
        assert all(len(stream.changes) == 2 for stream in first)
        if self.options.losses:
            await self._let_harm_happen(figures)
        return figures

    async def _let_harm_happen(self, figures: dict[str, Any]) -> None:
        """Let the store lose all that it has, then let time pass, and announce a change after each."""
        port = self.redis.port if self.options.store == "redis" else None
        figures["told after a loss"] = await self._heard(
            lambda: lose(ports_of(port), self.folder), NOTICED[self.options.store]
        )
        figures["change 3, after the loss"] = await self._announce()
        await let_pass(SLEEP, self.folder / "stored", self.server.marked(), ports_of(port))
        # A sleep may look like a loss: the clocks of the workers and of the store go on one after the other.
        figures["change 4, after a sleep"] = await self._announce(most=2)

    async def _connect(self, number: int) -> None:
        """Open connections, which have had one request."""
        loop, port = asyncio.get_running_loop(), port_of(self.server)
        for _ in range(number):
            _, stream = await loop.create_connection(lambda: Stream(port), "127.0.0.1", port)
            self.streams.append(stream)
        await self._all(lambda stream: stream.send("GET", path="/healthz"))

    async def _all(self, work: Any) -> None:
        for start in range(0, len(self.streams), AT_ONCE):
            await asyncio.gather(*(work(stream) for stream in self.streams[start : start + AT_ONCE]))

    async def _announce(self, most: int = 1) -> dict[str, Any]:
        """Announce a change by a call, and return when the streams had it."""
        loop, port = asyncio.get_running_loop(), self.streams[0].port
        _, caller = await loop.create_connection(lambda: Stream(port), "127.0.0.1", port)
        await caller.open()
        params = {"name": "announce", "arguments": {"token": "x"}}
        call = {"id": 1, "method": "tools/call", "params": params}
        return await self._heard(lambda: caller.send("POST", call), most)

    async def _heard(self, happen: Callable[[], Awaitable[object]], most: int = 1) -> dict[str, Any]:
        """Let something happen, and return when the streams were told of a change: each once, or so often at most."""
        before, began = {stream: len(stream.changes) for stream in self.streams}, time.monotonic()
        await happen()
        until = began + CHANGE_SECONDS
        while self._wait(before) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)  # For those that come twice.
        told = {stream: stream.changes[count:] for stream, count in before.items()}
        times = sorted(times[0] - began for times in told.values() if times)
        return {
            "seconds to half": round(statistics.median(times), 3) if times else None,
            "seconds to all": round(times[-1], 3) if len(times) == len(self.streams) else None,
            "not received": len(self.streams) - len(times),
            "received twice": sum(len(times) > most for times in told.values()),
        }

    def _wait(self, before: dict[Stream, int]) -> bool:
        return any(len(stream.changes) == count for stream, count in before.items())

    def memory(self) -> int:
        """Return the resident bytes of the workers."""
        status = (Path(f"/proc/{pid}/status").read_text(encoding="utf-8") for pid in self.server.pids())
        return sum(int(text.split("VmRSS:")[1].split()[0]) for text in status) * 1024

    def _held(self) -> list[int]:
        """Return how many connections each worker has."""
        folders = (Path(f"/proc/{pid}/fd") for pid in self.server.pids())
        return [sum(1 for _ in folder.iterdir()) for folder in folders]

    async def redis_memory(self) -> int:
        """Return the bytes that Redis uses for its data."""
        if self.options.store != "redis":
            return 0
        return await redis_value(self.redis.port, "memory", "used_memory:")


async def redis_value(port: int, section: str, name: str) -> int:
    """Return a number that Redis has in a section of INFO; 0 if it is not there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"INFO {section}\r\n".encode())
    size = int((await reader.readline())[1:])
    text = (await reader.readexactly(size)).decode()
    writer.close()
    digits = re.search(rf"{name}(\d+)", text)
    return 0 if digits is None else int(digits[1])


async def redis_keys(port: int) -> list[str]:
    """Return the names of all keys of a Redis."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"KEYS *\r\n")
    names = []
    for _ in range(int((await reader.readline())[1:])):
        size = int((await reader.readline())[1:])
        names.append((await reader.readexactly(size + 2))[:size].decode())
    writer.close()
    return names


def port_of(server: LoadServer) -> int:
    """Return the port of a server."""
    return int(server.url.split(":")[2].split("/")[0])


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--no-losses", dest="losses", action="store_false", help="only announce changes")
    parser.add_argument("--forget", action="store_true", help="wait two minutes for workers to forget unused sessions")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(Crowd(options, Path(folder)).run())
    print(json.dumps(figures, indent=2))
    heard = [value for value in figures.values() if isinstance(value, dict)]
    sys.exit(any(item["not received"] or item["received twice"] for item in heard))


if __name__ == "__main__":
    main()
