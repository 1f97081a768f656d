"""Cut the connection of a resumed stream after each number of bytes, and count what is lost or doubled.

    python benchmarks/reliability/offsets.py [--store sqlite|redis] [--injections N] [--first N] [--from N]
        [--minutes N] [--record] [--go-on]

A call writes a stream of progress and a result. A GET resumes it through a proxy that closes the connection after N
bytes of the answer, headers included; a second GET resumes it from the last event that has arrived, at any worker. Both
together must have each message once and in order. N goes through all bytes of the answer, again and again. Before every
other stream the store loses all that it has, or the machine sleeps for 75 seconds (`--losses 0` for neither). The
program prints what was counted as JSON, and ends with 1 if anything was lost, doubled or left hanging. With
`--minutes`, runs of `--injections` follow each other, and with `--record --go-on` later ones add to them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from link import Link
from passing_time import let_pass, lose, ports_of
from processes import LoadServer, RedisServer
from records import add_options, repeat

from mcp_runtime.http.sse import SSEDecoder

STEPS = 6
SLEEP = 75.0  # Seconds.
TIMEOUT = 30.0  # Seconds for one answer.
VERSION = "2025-11-25"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "offsets", "version": "1"}}
Messages = list[tuple[str, str]]  # The ids and the data of events.


class OffsetsClient:
    """A client with one session, which sends HTTP/1.1 by hand: a request for each connection."""

    def __init__(self, port: int) -> None:
        """Connect to a port of this machine."""
        self.port = port
        self.session = ""

    async def exchange(self, method: str, headers: dict[str, str], body: bytes = b"") -> tuple[str, bytes]:
        """Send a request; return the head and the body of what arrives of the answer."""
        fields = {"host": "localhost", "accept": "application/json, text/event-stream", "connection": "close"}
        fields |= {"content-type": "application/json", "content-length": str(len(body))} if body else {}
        fields |= {"mcp-session-id": self.session, "mcp-protocol-version": VERSION} if self.session else {}
        lines = [f"{name}: {value}" for name, value in (fields | headers).items()]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join([f"{method} /mcp HTTP/1.1", *lines, "", ""]).encode() + body)
        received = b""
        try:
            async with asyncio.timeout(TIMEOUT):
                while part := await reader.read(1 << 16):
                    received += part
        finally:
            writer.close()
        head, _, rest = received.partition(b"\r\n\r\n")
        return head.decode(), joined(rest) if b"transfer-encoding: chunked" in head.lower() else rest

    async def post(self, message: dict[str, object]) -> tuple[str, bytes]:
        """Send a message."""
        return await self.exchange("POST", {}, json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def open(self) -> None:
        """Open the session."""
        head, _ = await self.post({"id": 0, "method": "initialize", "params": HELLO})
        names = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:])
        original = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head.splitlines()[1:]}
        assert "mcp-session-id" in names, head
        self.session = original["mcp-session-id"]
        await self.post({"method": "notifications/initialized"})

    async def resume(self, after: str) -> Messages:
        """Return the events that arrive after an event."""
        _, content = await self.exchange("GET", {"last-event-id": after, "accept": "text/event-stream"})
        return events_of(content)


def joined(content: bytes) -> bytes:
    """Return the complete and incomplete chunks of an HTTP body as one."""
    parts: list[bytes] = []
    while content:
        size, end, content = content.partition(b"\r\n")
        if not end or not size or (length := int(size, 16)) == 0:
            break
        parts.append(content[:length])
        content = content[length + 2 :]
    return b"".join(parts)


def events_of(content: bytes) -> Messages:
    """Return the events of a stream that are complete."""
    return [(event.id, event.data.decode()) for event in SSEDecoder().feed(content)]


async def happen(number: int, server: LoadServer, folder: Path, redis_port: int | None) -> None:
    """Let the store lose what it has, or time pass, before a stream with an odd number."""
    if number % 4 == 1:
        await lose(ports_of(redis_port), folder)
    elif number % 4 == 3:
        await let_pass(SLEEP, folder / "stored", server.pids(), ports_of(redis_port))


async def injections(
    server: LoadServer, options: argparse.Namespace, folder: Path, redis_port: int | None
) -> dict[str, int]:
    """Cut a stream at all its bytes; return what was counted."""
    link = Link(int(server.url.rpartition(":")[2].split("/")[0]))
    await link.open()
    direct, cut = OffsetsClient(link.target), OffsetsClient(link.port)
    await direct.open()
    cut.session = direct.session
    counts = dict.fromkeys(("injections", "bytes", "lost or doubled", "left hanging"), 0)
    for stream in count():
        if counts["injections"] >= options.injections:
            break
        if options.losses:
            await happen(stream, server, folder, redis_port)
        token = f"token{counts['injections']:06}"  # All answers have the same length.
        params = {"name": "count", "arguments": {"token": token, "steps": STEPS}, "_meta": {"progressToken": 1}}
        _, content = await direct.post({"id": 1, "method": "tools/call", "params": params})
        whole = events_of(content)
        expected, first = [event for event in whole if event[1]], whole[0][0]
        size = len(await _answer(direct, first))
        done = (options.start + counts["injections"]) % (size - options.first)
        for offset in range(options.first + done, size):
            link.cut_after = offset
            counts["injections"] += 1
            try:
                before = await cut.resume(first)
                after = await direct.resume(before[-1][0] if before else first)
            except TimeoutError:
                counts["left hanging"] += 1
                continue
            if [event for event in (*before, *after) if event[1]] != expected or len(expected) != STEPS + 1:
                counts["lost or doubled"] += 1
            if counts["injections"] >= options.injections:
                break
        counts["bytes"] = size
    await link.close()
    return counts


async def _answer(client: OffsetsClient, first: str) -> bytes:
    """Return the whole answer that is going to be cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    lines = [f"mcp-session-id: {client.session}", f"mcp-protocol-version: {VERSION}", "host: localhost"]
    lines += [f"last-event-id: {first}", "accept: text/event-stream", "connection: close"]
    writer.write("\r\n".join(["GET /mcp HTTP/1.1", *lines, "", ""]).encode())
    received = await reader.read(-1)
    writer.close()
    return received


async def cuts(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Start what the options name, and run the injections."""
    redis = RedisServer(folder)
    if options.store == "redis":
        await redis.start()
    store = f"redis://127.0.0.1:{redis.port}" if options.store == "redis" else f"sqlite:///{folder}/store.db"
    server = LoadServer(store, options.workers, folder / "stored")
    await server.start()
    try:
        return await injections(server, options, folder, redis.port if options.store == "redis" else None)
    finally:
        await server.stop()
        await redis.stop()


def run(options: argparse.Namespace) -> tuple[dict[str, Any], int, bool]:
    """Return what was counted, the number of injections, and whether nothing was wrong."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = asyncio.run(cuts(options, Path(folder)))
    report = {"seconds": round(time.monotonic() - started), **counts}
    return report, counts["injections"], not (counts["lost or doubled"] or counts["left hanging"])


def main(words: list[str]) -> int:
    """Run the injections, and print what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--injections", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first byte of each round at which it is cut")
    parser.add_argument("--losses", type=int, default=1, help="0: the store loses nothing, and no time passes")
    parser.add_argument("--workers", type=int, default=2)
    add_options(parser)
    options = parser.parse_args(words)
    return repeat("offsets", options, lambda: run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
