"""What a call costs in each ASGI server that `server=` names, their memory, and how they end.

    python benchmarks/asgi/asgi_servers.py [--rounds 9] [--quick] [--packages DIR]

All servers are up at the same time and get the same raw requests in turn, on persistent connections; a ratio is the
median of those of the rounds. Without `--packages`, a folder that has hypercorn and granian, they are installed under
build/peers/. The tables are also written to benchmarks/results/asgi_servers.md, except with --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "stores")]

from http_load import HttpChild, connect, post, session  # noqa: E402
from measures.machine import measured  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from peers import environment  # noqa: E402
from stdio_load import PROCESSORS, BrokenServerError  # noqa: E402
from stdio_table import markdown  # noqa: E402
from store_cost import KINDS, Candidate, Whole, measure, ratio  # noqa: E402

RESULTS = HERE.parent / "results" / "asgi_servers.md"
PROGRAM = HERE / "asgi_echo_server.py"
SERVERS = ("uvicorn", "hypercorn", "granian")
PACKAGES = ("hypercorn==0.18.0", "granian==2.8.7")
STREAMS = 500
CALL_SECONDS, LATE_SECONDS = 0.8, 5.0  # Of a call that runs at SIGTERM; the latter is above the grace without a store.


@dataclass(frozen=True)
class End:
    """How a server ended on SIGTERM while a call ran: its answer, and the seconds until the process had ended."""

    answer: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.answer} {self.seconds:.1f} s"


def command(server: str, store: str) -> list[str | Path]:
    """Return the command of a server; the port is appended."""
    return [sys.executable, PROGRAM, server, store]


async def stream_memory(child: HttpChild) -> tuple[float, float]:
    """Return the MiB of a server, and the KiB of each open stream with its session."""
    connections = [await connect(child.port) for _ in range(STREAMS)]
    headers = [await session(connection, child.port) for connection in connections]
    before = child.memory("VmRSS")
    for connection, lines in zip(connections, headers, strict=True):
        first = ["GET /mcp HTTP/1.1", f"Host: 127.0.0.1:{child.port}", "Accept: text/event-stream", *lines]
        answer, _ = await connection.send("\r\n".join(first).encode() + b"\r\n\r\n")
        assert answer["status"] == "200", answer
    after = child.memory("VmRSS")
    for connection in connections:
        connection.transport.close()
    return before, (after - before) / STREAMS * 1024


async def ended(server: str, store: str, seconds: float) -> End:
    """Return how a server ends while a call of some seconds runs and a stream is open."""
    with HttpChild(command(server, store), PROCESSORS) as child:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1.5)
        stream = await connect(child.port)
        lines = ["GET /mcp HTTP/1.1", f"Host: 127.0.0.1:{child.port}", "Accept: text/event-stream"]
        lines += await session(stream, child.port)
        await stream.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        _, caller = await loop.create_connection(Whole, "127.0.0.1", child.port)
        params: dict[str, Any] = {"name": "wait", "arguments": {"seconds": seconds}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        request = post(child.port, message, *await session(caller, child.port))
        call = asyncio.ensure_future(caller.send(request))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        child.process.send_signal(signal.SIGTERM)
        await asyncio.wait([call], timeout=20)
        try:
            headers, body = await call
            answer = "answered" if headers["status"] == "200" and b"waited" in body else "answered with an error"
        except BrokenServerError:
            answer = "connection closed"
        await asyncio.to_thread(child.process.wait, 30)
        return End(f"{answer},", time.monotonic() - began)


def cost_rows(servers: Sequence[Candidate]) -> list[list[str]]:
    """Return the table of costs, with the ratios to uvicorn."""
    rows: list[list[str]] = []
    for kind in KINDS:
        for candidate in servers:
            cost = statistics.median(candidate.cost[kind.name])
            value = "" if candidate is servers[0] else f"{ratio(candidate, servers[0], kind.name):.2f}"
            rows.append([kind.name, candidate.name, f"{cost:.0f}", value])
    return rows


def other_rows(memory: dict[str, tuple[float, float]], folder: str) -> list[list[str]]:
    """Return the table of memory and ends."""
    rows: list[list[str]] = []
    for name, (base, stream) in memory.items():
        ends = [
            asyncio.run(ended(name, f"sqlite:///{folder}/{name}-end.db", CALL_SECONDS)),
            asyncio.run(ended(name, "memory", LATE_SECONDS)),
        ]
        rows.append([name, f"{base:.0f}", f"{stream:.1f}", *map(str, ends)])
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a short run to test the program; writes no results")
    parser.add_argument("--packages", type=Path, default=None)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    packages = options.packages
    if packages is None:
        packages = next((environment("asgi-servers", *PACKAGES).parents[1] / "lib").glob("python*/site-packages"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(packages)]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The servers end with this program.
    rounds = 1 if options.quick else options.rounds
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers: list[Candidate] = []
        for name in SERVERS:
            child = stack.enter_context(HttpChild(command(name, "memory"), PROCESSORS))
            servers.append(Candidate(name, child))
        for kind in KINDS:
            asyncio.run(measure(servers, kind, rounds))
        memory = {candidate.name: asyncio.run(stream_memory(candidate.child)) for candidate in servers}
        costs = markdown(["calls, connections", "server", "CPU µs a call", "ratio"], cost_rows(servers))
        heads = ["server", "MiB", "KiB for an open stream"]
        heads += [f"SIGTERM, a call of {CALL_SECONDS} s, a store", f"SIGTERM, a call of {LATE_SECONDS} s, no store"]
        others = markdown(heads, other_rows(memory, folder))
    about = __doc__.partition("python bench")[0].strip()
    text = f"# ASGI servers\n\n{about}\n\n{costs}\n\n## Memory and ends\n\n{others}\n"
    print(text)
    if not options.quick:
        write_results(RESULTS, f"{text}\n{rounds} rounds. Versions: {', '.join(PACKAGES)}. {measured()}\n")


if __name__ == "__main__":
    main()
