"""What a store divided among three masters does beside a single one: calls a second, and bytes of a session.

    python benchmarks/stores/masters.py [--rounds 9] [--quick]

Both stores are up at the same time and get the same calls in turn, through one worker each: calls with a session that
are answered with a stream of two events, the most that a call asks of Redis. Calls a second are those of this machine,
on which the client, the workers and all nodes share the processors. What a store would do with a processor for each
master is computed from the CPU time of its busiest master. Bytes are those that the masters use more for each session.
The table is also written to benchmarks/results/store_masters.md, except with --quick.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from http_load import session  # noqa: E402
from measures.machine import measured  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from stdio_table import markdown  # noqa: E402
from store_cost import CALLS, MANY, WARM_UP, Candidate, Kind, Whole, candidates, cpu, opened, send_all  # noqa: E402

RESULTS = HERE.parent / "results" / "store_masters.md"
NAMES = ("redis", "redis cluster")
KIND = Kind(f"session with a stream, {MANY}", MANY, tool="report")
SESSIONS = 2_000
HEADS = (
    "masters",
    "calls a second here",
    "CPU µs of the worker",
    "CPU µs of all masters",
    "of the busiest one",
    "calls a second with a processor for each master",
    "ratio",
    "bytes of a session",
)


def masters_of(candidate: Candidate) -> list[Any]:
    """Return clients of the masters of a store, with their process ids."""
    import redis

    found: list[Any] = []
    for pid in candidate.redis:
        words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
        # A server of Redis writes its address into its title.
        port = int(next(word for word in " ".join(words).split() if ":" in word).rpartition(":")[2])
        client = redis.Redis(port=port, decode_responses=True)
        if client.info("replication")["role"] == "master":
            found.append((pid, client))
    return found


def used(masters: list[Any]) -> int:
    """Return the bytes that the masters use, without those for connections and replicas."""
    infos: list[dict[str, int]] = [client.info("memory") for _, client in masters]
    others = ("mem_clients_normal", "mem_clients_slaves", "mem_total_replication_buffers")
    return sum(info["used_memory"] - sum(info.get(name, 0) for name in others) for info in infos)


async def bytes_of_sessions(candidate: Candidate, masters: list[Any], count: int) -> float:
    """Open sessions, and return the bytes that the masters use for one."""
    port, loop = candidate.child.port, asyncio.get_running_loop()
    before = used(masters)
    for _ in range(count):
        _, connection = await loop.create_connection(Whole, "127.0.0.1", port)
        await session(connection, port)
        connection.transport.close()
    return (used(masters) - before) / count


async def turns(servers: list[Candidate], masters: list[list[Any]], rounds: int) -> list[dict[str, list[float]]]:
    """Let both have turns of the same calls; return what a call has cost, and calls a second."""
    connections = [await opened(candidate.child.port, KIND) for candidate in servers]
    for mine in connections:
        await send_all(mine, WARM_UP)
    seen: list[dict[str, list[float]]] = [{"rate": [], "worker": [], "all": [], "most": []} for _ in servers]
    for _ in range(rounds):
        for number, candidate in enumerate(servers):
            pids, own = candidate.pids(), [pid for pid, _ in masters[number]]
            before, each, began = cpu(pids), [cpu([pid]) for pid in own], time.perf_counter()
            await send_all(connections[number], CALLS)
            seconds = time.perf_counter() - began
            spent = [cpu([pid]) - old for pid, old in zip(own, each, strict=True)]
            seen[number]["rate"].append(CALLS / seconds)
            seen[number]["worker"].append((cpu(pids) - before) / CALLS * 1e6)
            seen[number]["all"].append(sum(spent) / CALLS * 1e6)
            seen[number]["most"].append(max(spent) / CALLS * 1e6)
    return seen


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a short run to test the program; writes no results")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The servers end with this program.
    rounds, count = (2, 50) if options.quick else (options.rounds, SESSIONS)
    rows: list[list[str]] = []
    with candidates(NAMES) as servers:
        masters = [masters_of(candidate) for candidate in servers]
        sizes = [asyncio.run(bytes_of_sessions(*item, count)) for item in zip(servers, masters, strict=True)]
        seen = asyncio.run(turns(servers, masters, rounds))
    middle = [{name: statistics.median(values) for name, values in one.items()} for one in seen]
    most = [1e6 / one["most"] for one in middle]
    for number, one in enumerate(middle):
        cells = [f"{len(masters[number])}", f"{one['rate']:,.0f}", f"{one['worker']:.0f}", f"{one['all']:.0f}"]
        cells += [f"{one['most']:.0f}", f"{most[number]:,.0f}", f"{most[number] / most[0]:.2f}"]
        cells.append(f"{sizes[number]:,.0f}")
        rows.append(cells)
    table = markdown(HEADS, rows)
    print(table)
    if not options.quick:
        text = f"# A store of one and of three masters\n\n{(__doc__ or '').partition('    python bench')[0].strip()}\n"
        text += (__doc__ or "").partition("--quick]\n\n")[2].rpartition("\nThe table is also")[0]
        rest = f"{rounds} rounds of {CALLS} calls over {MANY} connections, {count:,} sessions. {measured()}"
        write_results(RESULTS, f"{text}\n\n{table}\n\n{rest}\n", ("products/mcp_products/workers/stores",))


if __name__ == "__main__":
    main()
