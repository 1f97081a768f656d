"""Sixteen attackers on one server, and another client's calls meanwhile: how long they take, how many are refused.

As a program, `attack_load.py PORT REVISION NUMBER SIZE` attacks until it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attack_messages import STATELESS, Attack, attacks, headers_of, opening

HERE = Path(__file__).resolve().parent
ATTACKERS = 16
ATTACKERS_ADDRESS, VICTIM_ADDRESS = "127.0.0.2", "127.0.0.1"  # Limits are for an address.
STARTING = 30.0


@dataclass(frozen=True)
class Latencies:
    """The calls of the other client: their latencies in milliseconds, and how many were refused."""

    milliseconds: list[float]
    refused: int

    def at(self, share: float) -> float:
        """Return the latency that this share of the calls does not exceed."""
        ordered = sorted(self.milliseconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def request_of(headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return a POST as it is on the wire."""
    fields = [*headers, (b"content-length", b"%d" % len(body))]
    return b"POST /mcp HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n" + body


async def answered(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read a whole response; return its status and headers."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(headers.get("content-length", "0")))
    return int(lines[0].split(" ")[1]), headers


async def attack_forever(port: int, attack: Attack, size: int) -> None:
    """Send a message again and again, over a new connection where the server has closed the last."""
    body = attack.make(size)
    session: str | None = None
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKERS_ADDRESS, 0))
            try:
                if attack.revision not in STATELESS and session is None:
                    opens = Attack(attack.revision, "", "", "initialize", "", lambda size: b"")
                    writer.write(request_of(headers_of(opens, None), opening(attack.revision)))
                    session = (await answered(reader))[1].get("mcp-session-id")
                while True:
                    writer.write(request_of(headers_of(attack, session), body))
                    await writer.drain()
                    async with asyncio.timeout(2):  # Of a stream that does not end, the beginning is enough.
                        await answered(reader)
            except TimeoutError:
                pass
            finally:
                writer.close()


async def attackers(port: int, attack: Attack, size: int) -> None:
    """Attack with all attackers."""
    await asyncio.gather(*(attack_forever(port, attack, size) for _ in range(ATTACKERS)))


async def calls_for(port: int, seconds: float) -> Latencies:
    """Call a tool again and again, and return how long the calls took."""
    call = Attack("2026-07-28", "tools/call", "text", "tools/call", "", lambda size: b"")
    quiet = next(item for item in attacks("2026-07-28") if (item.name, item.filling) == ("tools/call", "text"))
    request = request_of(headers_of(call, None), quiet.make(20))
    latencies: list[float] = []
    refused = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(VICTIM_ADDRESS, 0))
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        writer.write(request)
        status, _ = await asyncio.wait_for(answered(reader), STARTING)
        latencies.append((time.monotonic() - began) * 1000)
        refused += status != 200
        await asyncio.sleep(0.005)
    writer.close()
    return Latencies(latencies, refused)


async def under_attack(port: int, revision: str, number: int, size: int, seconds: float) -> Latencies:
    """Return the latencies of another client while the attack with this number runs."""
    command = [sys.executable, str(HERE / "attack_load.py"), str(port), revision, str(number), str(size)]
    child = await asyncio.create_subprocess_exec(*command)
    try:
        await asyncio.sleep(0.5)  # The attackers connect.
        return await calls_for(port, seconds)
    finally:
        child.kill()
        await child.wait()


@contextlib.contextmanager
def served(python: Path, environment: dict[str, str]) -> Iterator[int]:
    """Start our server, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [str(python), str(HERE / "attacked_server.py"), "ours", str(port)]
    child = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        end = time.monotonic() + STARTING
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield port
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    asyncio.run(attackers(int(sys.argv[1]), attacks(sys.argv[2])[int(sys.argv[3])], int(sys.argv[4])))
