"""What a call costs with each store, on one worker and on two, beside the official SDK with its events in Redis.

    python benchmarks/stores/store_cost.py [--rounds 15] [--quick] [--only PART]

All servers are up at the same time and get the same raw requests in turn, on persistent connections; a ratio is the
median of those of the rounds. The cost is the CPU time of the processes that serve; that of Redis is counted apart.
The client has a CPU of its own, as in those of stdio and HTTP, except beside two workers; Redis may use all.
The tables are also written to benchmarks/results/store.md, except with --quick and --only. `--only cluster` compares a
Redis with a Redis Cluster of three primaries, each with a replica, and writes store_cluster.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from http_load import Connection, HttpChild, call_of, post, session  # noqa: E402
from measures.machine import measured  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from peers import environment  # noqa: E402
from stdio_load import CLIENT_CPUS, PROCESSORS, SERVER_CPUS  # noqa: E402
from stdio_table import markdown  # noqa: E402

sys.path.insert(0, str(HERE.parents[1] / "tests"))

from support.processes import end_shared  # noqa: E402
from support.stores.clusters import Cluster  # noqa: E402

RESULTS = HERE.parent / "results" / "store.md"
PEER = ("mcp==2.3.0", "uvicorn==0.54.0", "httptools==0.9.0", "uvloop==0.23.0", "redis==8.1.0")
SERVER, SDK = HERE / "store_server.py", HERE / "sdk_store_server.py"
MANY = 32  # Connections at the same time.
CALLS, FEW, WARM_UP = 320, 64, 96  # Of a turn over all connections, and over one; and those before the first turn.


class Whole(Connection):
    """A connection whose answers are complete: a body, or a stream to its end."""

    def data_received(self, data: bytes) -> None:
        """Wait for the end of a stream, and of a body."""
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        lower = head.lower()
        if not end or self._waiting is None:
            return
        if b"chunked" in lower and not body.endswith(b"0\r\n\r\n"):
            return
        if b"content-length: " in lower and len(body) < int(lower.partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return
        waiting = self._waiting
        self._waiting = None
        self._data = b""
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        waiting.set_result(({**fields, "status": first.split()[1]}, body))


@dataclass
class Candidate:
    """A server, and the CPU time of a call in its turns, by what was called."""

    name: str
    child: HttpChild
    redis: Sequence[int] = ()  # Its processes.
    cost: dict[str, list[float]] = field(default_factory=dict)
    redis_cost: dict[str, list[float]] = field(default_factory=dict)

    def pids(self) -> list[int]:
        """Return the processes that serve: those of the workers, or the only one."""
        children = Path(f"/proc/{self.child.process.pid}/task/{self.child.process.pid}/children").read_text(
            encoding="utf-8"
        )
        return [int(word) for word in children.split()] or [self.child.process.pid]


@dataclass(frozen=True)
class Kind:
    """What is called: how many connections, with a session or without, and a response that is a body or a stream: by
    its tool."""

    name: str
    connections: int
    stateless: bool = False
    tool: str = "echo"


KINDS = (
    Kind("stateless, 1", 1, stateless=True),
    Kind(f"stateless, {MANY}", MANY, stateless=True),
    Kind("session, 1", 1),
    Kind(f"session, {MANY}", MANY),
    Kind("session with a stream, 1", 1, tool="report"),
    Kind(f"session with a stream, {MANY}", MANY, tool="report"),
    Kind("session, messages over time, 1", 1, tool="work"),
    Kind(f"session, messages over time, {MANY}", MANY, tool="work"),
)


def cpu(pids: Sequence[int]) -> float:
    """Return the CPU seconds of processes; Linux has a clock for each."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


async def opened(port: int, kind: Kind) -> list[tuple[Whole, bytes]]:
    """Return connections, each with its request, of a session of its own."""
    connections: list[tuple[Whole, bytes]] = []
    loop = asyncio.get_running_loop()
    for _ in range(kind.connections):
        _, connection = await loop.create_connection(Whole, "127.0.0.1", port)
        if kind.tool != "echo":
            params = {"name": kind.tool, "arguments": {"text": "hello"}, "_meta": {"progressToken": "t"}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            request = post(port, message, *await session(connection, port))
        else:
            request = await call_of(connection, port, kind.stateless)
        connections.append((connection, request))
    return connections


async def send_all(connections: list[tuple[Whole, bytes]], calls: int) -> None:
    """Make calls, one after another on each connection."""

    async def one(connection: Whole, request: bytes) -> None:
        for _ in range(calls // len(connections)):
            headers, body = await connection.send(request)
            assert headers["status"] == "200" and b"hello" in body, (headers, body)

    await asyncio.gather(*(one(*item) for item in connections))


async def measure(candidates: list[Candidate], kind: Kind, rounds: int) -> None:
    """Let all servers have turns of the same calls."""
    calls = FEW if kind.connections == 1 else CALLS
    connections = [await opened(candidate.child.port, kind) for candidate in candidates]
    for mine in connections:
        await send_all(mine, WARM_UP)
    order = list(range(len(candidates)))
    for _ in range(rounds):
        for number in order:
            candidate = candidates[number]
            pids, redis = candidate.pids(), candidate.redis
            before, redis_before = cpu(pids), cpu(redis)
            await send_all(connections[number], calls)
            candidate.cost.setdefault(kind.name, []).append((cpu(pids) - before) / calls * 1e6)
            candidate.redis_cost.setdefault(kind.name, []).append((cpu(redis) - redis_before) / calls * 1e6)
        order.append(order.pop(0))
    for connection, _ in (item for mine in connections for item in mine):
        connection.transport.close()


@contextmanager
def redis_server(folder: Path, port: int) -> Iterator[int]:
    """Start a Redis with its settings for a store that loses at most a second."""
    options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "yes", "dir": folder}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    use_all = partial(os.sched_setaffinity, 0, PROCESSORS)
    with subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL, preexec_fn=use_all) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def candidates(names: Sequence[str]) -> Iterator[list[Candidate]]:
    """Start servers by name; each has a store of its own."""
    has_workers = any("two" in name for name in names)
    os.sched_setaffinity(0, PROCESSORS if has_workers else CLIENT_CPUS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers: list[Candidate] = []
        for number, name in enumerate(names):
            redis: Sequence[int] = ()
            url = "memory"
            if "cluster" in name:
                stack.callback(end_shared)
                cluster = Cluster("redis-server")
                redis, url = [process.pid for process in cluster.processes.values()], cluster.url
            elif "redis" in name:
                (own := folder / str(number)).mkdir()
                port = 21_700 + number
                redis, url = [stack.enter_context(redis_server(own, port))], f"redis://127.0.0.1:{port}"
            elif "sqlite" in name:
                url = f"sqlite:///{folder}/{number}.db"
            workers = "2" if "two" in name else "1"
            command = [sys.executable, SERVER, url, workers]
            if name.startswith("mcp"):
                command = [environment("mcp-redis", *PEER), SDK, url]
            child = stack.enter_context(HttpChild(command, PROCESSORS if has_workers else SERVER_CPUS))
            time.sleep(2)  # The port is open before the workers of a supervisor serve.
            servers.append(Candidate(name, child, redis))
        yield servers


def ratio(mine: Candidate, other: Candidate, kind: str) -> float:
    """Return the median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(mine.cost[kind], other.cost[kind], strict=True))


def rows(servers: list[Candidate], kinds: Sequence[Kind], limits: dict[tuple[str, bool], float]) -> list[list[str]]:
    """Return the table of costs, with the ratios to the first server."""
    table: list[list[str]] = []
    for kind in kinds:
        for candidate in servers:
            cost, redis = candidate.cost[kind.name], candidate.redis_cost[kind.name]
            row = [kind.name, candidate.name, f"{statistics.median(cost):.0f}", f"{statistics.median(redis):.0f}"]
            if candidate is servers[0]:
                table.append([*row, "", "", ""])
                continue
            value, limit = ratio(candidate, servers[0], kind.name), limits.get((candidate.name, kind.stateless))
            met = "" if limit is None else "yes" if value <= limit else "no"
            table.append([*row, f"{value:.2f}", "" if limit is None else f"≤ {limit}", met])
    return table


CLUSTER = "cluster"
CLUSTER_TEXT = """What a call costs on a worker whose store is one Redis, and on one whose store is a Redis Cluster of
three primaries. The CPU time of Redis is that of all six nodes: each primary has a replica, which does the same. The
ratio is that of the worker."""
HEADS = ["calls, connections", "server", "CPU µs a call", "Redis, CPU µs", "ratio", "aim", "met"]
STORES = {("redis", True): 1.3, ("redis", False): 2.0, ("sqlite", True): 1.5, ("sqlite", False): 1.5}
PARTS: dict[str, tuple[list[str], Sequence[Kind], dict[tuple[str, bool], float]]] = {
    "stores": (["memory", "sqlite", "redis"], KINDS, STORES),
    # Twice the processors do 1.7 times as much if a call costs 2 / 1.7 of what it does with one.
    "workers": (["redis", "redis, two workers"], KINDS[1:4:2], {("redis, two workers", flag): 1.18 for flag in (0, 1)}),
    "sdk": (["mcp 2.3.0, redis", "redis"], KINDS[2:6], {("redis", False): 0.25}),
    CLUSTER: (["redis", "redis cluster"], KINDS[2:], {}),
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a short run to test the program; writes no results")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--kind", default="", help="part of the name of what is called")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The servers end with this program.
    rounds = 2 if options.quick else options.rounds
    text = f"# Cost of a call with a store\n\n{__doc__.partition('python bench')[0].strip()}\n"
    if options.only == CLUSTER:
        text = f"# Cost of a call with a Redis Cluster\n\n{CLUSTER_TEXT}\n"
    for part, (names, kinds, limits) in PARTS.items():
        kinds = [kind for kind in kinds if options.kind in kind.name]
        if options.only == part or (options.only is None and part != CLUSTER):
            with candidates(names) as servers:
                for kind in kinds:
                    asyncio.run(measure(servers, kind, rounds))
                    for row in rows(servers, [kind], limits):
                        print(*row, file=sys.stderr, flush=True)
            table = markdown(HEADS, rows(servers, kinds, limits))
            print(f"{table}\n", flush=True)
            text += f"\n## {part.capitalize()}\n\n{table}\n"
    if not options.quick and options.only in (None, CLUSTER):
        path = RESULTS.with_name("store_cluster.md") if options.only == CLUSTER else RESULTS
        rest = f"{rounds} rounds of {CALLS} calls over all connections, or {FEW} over one. {measured()}\n"
        write_results(path, f"{text}\n{rest}", ("products/mcp_products/workers/stores",))


if __name__ == "__main__":
    main()
