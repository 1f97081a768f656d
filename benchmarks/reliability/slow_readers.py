"""Let clients read nothing, cancel and reset at random moments, and measure what another client notices of it.

    python benchmarks/reliability/slow_readers.py [--clients 200] [--seconds 10] [--kinds server bridge gateway]
        [--revisions 2026-07-28 …] [--size 524288] [--seed N]

Before a server, a bridge and a gateway, in each protocol version: so many clients at one address each call the echo for
`--size` bytes, with a receive buffer of 4 KiB, and read nothing of it. After a random time of up to ten seconds they
reset, close or cancel; some send half a body, some two requests at once, some only open. Another client, at another
address, makes small calls meanwhile and afterwards, some on new connections. Prints JSON: for each cell its latencies
in milliseconds before, during and after, and the calls that were not answered within 30 s. Ends with 1 if there is one
of those, or if a p99 during or after is above 250 ms. A run of all cells also writes
benchmarks/results/slow_readers.md: only one with the clients and seconds of the default.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # Where `measures` and `stdio_table` are.

from slow_clients import REVISIONS, STATELESS, Connection, Conversation

RESULTS: Final = Path(__file__).resolve().parents[1] / "results" / "slow_readers.md"
MEASURES: Final = (
    "products/mcp_products/relay",
    *(f"runtime/mcp_runtime/{name}" for name in ("aio", "transports", "session")),
)
ECHO: Final = Path(__file__).resolve().parents[2] / "examples/echo/server.py"
KINDS: Final = ("server", "bridge", "gateway")
PARTS: Final = ("before", "during", "after")
SERVER: Final = f"""
import sys
sys.path.insert(0, {str(ECHO.parent)!r})
from server import echo, run, v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
versions = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28)
run(*map(echo, versions), transport="http", port=int(sys.argv[1]), legacy_sse=True)
"""
GATEWAY: Final = """
import json, sys
from mcp_generated import Gateway
upstream = {"prefix": "", **json.loads(sys.argv[2])}
Gateway({"upstreams": {"echo": upstream}}).run("http", port=int(sys.argv[1]), legacy_sse=True)
"""
_GREEDY: Final = "127.0.0.2"
_OTHER: Final = "127.0.0.3"
_BUFFER: Final = 4096
_PAUSE: Final = 0.01  # Seconds between two small calls.
_ANSWER: Final = 30.0  # Seconds after which a call counts as never answered.
_STAYS: Final = 10.0  # Seconds that a client stays at most.
_LIMIT: Final = 250.0  # Milliseconds.
_STARTS: Final = 60.0


def free_port() -> int:
    """Return a port of this machine that is free."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@asynccontextmanager
async def process(*words: str) -> AsyncIterator[None]:
    """Run a process until the block ends."""
    child = await asyncio.create_subprocess_exec(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(10):
                await child.wait()
        except TimeoutError:
            child.kill()


async def listens(port: int) -> None:
    """Wait until a server listens. Raises OSError."""
    until = time.monotonic() + _STARTS
    while True:
        try:
            return (await Connection.open(port, "127.0.0.1")).close()
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)


@asynccontextmanager
async def endpoint(kind: str, revision: str) -> AsyncIterator[int]:
    """Serve the echo: itself, or by way of a bridge or a gateway. Sessions share connections there."""
    port, stdio = free_port(), [str(ECHO), "stdio"]
    http = [sys.executable, "-c", SERVER]
    if kind == "server":
        async with process(*http, str(port)):
            await listens(port)
            yield port
    elif kind == "bridge":
        shared = [] if revision == STATELESS else ["--shared", "4"]
        words = [
            "-m",
            "mcp_products.relay.bridge",
            "--http",
            f"127.0.0.1:{port}",
            *shared,
            "--",
            sys.executable,
            *stdio,
        ]
        async with process(sys.executable, *words):
            await listens(port)
            yield port
    elif revision == STATELESS:
        upstream = {"command": sys.executable, "args": stdio}
        async with process(sys.executable, "-c", GATEWAY, str(port), json.dumps(upstream)):
            await listens(port)
            yield port
    else:  # Each session has a connection of its own: not a process for each.
        behind = free_port()
        upstream = {"url": f"http://127.0.0.1:{behind}/mcp"}
        async with process(*http, str(behind)):
            await listens(behind)
            async with process(sys.executable, "-c", GATEWAY, str(port), json.dumps(upstream)):
                await listens(port)
                yield port


# ---- clients that harm -----------------------------------------------------------------------------------------------


async def harm(port: int, revision: str, size: int, random: Random, counts: Counter[str]) -> None:
    """Be one client after the other, each of which leaves in its own way."""
    await asyncio.sleep(random.random() * _STAYS)
    while True:
        way = random.choice(("reset", "reset", "close", "cancel", "half", "pipelined", "idle", "head"))
        client, opened = Conversation(port, revision, _GREEDY, _BUFFER), list[Connection]()
        try:
            async with asyncio.timeout(_ANSWER):
                await leave(client, opened, way, size, random)
            counts[way] += 1
        except (OSError, TimeoutError, IndexError) as error:
            counts[f"failed: {type(error).__name__}"] += 1
            await asyncio.sleep(0.05)
        finally:
            for connection in opened:
                connection.close() if way == "close" else connection.reset()
            client.close(reset=way != "close")


async def leave(client: Conversation, opened: list[Connection], way: str, size: int, random: Random) -> None:
    """Begin what is never ended."""
    stays = random.random() * _STAYS
    if way in ("idle", "head"):
        opened.append(await client.connect())
        if way == "head":
            await opened[0].send(client.encoded(client.call("x"))[: random.randrange(1, 60)])
        return await asyncio.sleep(stays)
    if random.random() < 0.3 and client.revision != STATELESS:  # It vanishes in its handshake.
        with suppress(TimeoutError):
            async with asyncio.timeout(random.random() * 0.05):
                await client.open()
    else:
        await client.open()
    connection = await client.connect()
    opened.append(connection)
    message = client.call("x" * size)
    data = client.encoded(message)
    if way == "half":
        data = data[: random.randrange(len(data))]
    elif way == "pipelined":
        data += client.encoded(client.call("y" * size))
    with suppress(TimeoutError):
        async with asyncio.timeout(stays):
            await connection.send(data)
            if way == "cancel" and client.revision != STATELESS:
                await asyncio.sleep(random.random() * 0.2)
                cancelled = {"requestId": message["id"]}
                other = await client.connect()
                opened.append(other)
                await other.send(
                    client.encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
                )
            await asyncio.sleep(stays)


async def harming(port: int, revision: str, options: argparse.Namespace) -> None:
    """Be all clients that harm, until this process is ended."""
    counts = Counter[str]()
    random = Random(f"{options.seed} {revision}")
    tasks = [
        asyncio.create_task(harm(port, revision, options.size, Random(random.random()), counts))
        for _ in range(options.clients)
    ]
    with suppress(TimeoutError):
        async with asyncio.timeout(options.seconds):
            await asyncio.gather(*tasks)
    print(json.dumps(counts))


# ---- the other client ------------------------------------------------------------------------------------------------


async def latencies(port: int, revision: str, until: asyncio.Event, least: int, lost: list[str]) -> list[float]:
    """Make small calls until an event, and at least so many; return how long each took, in milliseconds."""
    taken, client, number = list[float](), Conversation(port, revision, _OTHER), 0
    await client.open()
    try:
        while not until.is_set() or len(taken) + len(lost) < least:
            number += 1
            if not number % 20:
                client.close()
                client = Conversation(port, revision, _OTHER)
            began = time.perf_counter()
            try:
                async with asyncio.timeout(_ANSWER):
                    if not number % 20:
                        await client.open()
                    await client.echoed(f"hi{number}")
            except (OSError, TimeoutError) as error:
                lost.append(f"{type(error).__name__}: {error}")
                client.close()
                client = Conversation(port, revision, _OTHER)
                await client.open()
            taken.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(_PAUSE)
    finally:
        client.close()
    return taken


def summary(taken: list[float]) -> dict[str, float]:
    """Return the number of calls, and percentiles of their times."""
    ordered = sorted(taken)
    of = {"p50": 0.5, "p99": 0.99}
    return {
        "calls": len(ordered),
        **{name: round(ordered[min(int(part * len(ordered)), len(ordered) - 1)], 1) for name, part in of.items()},
        "max": round(ordered[-1], 1),
    }


async def cell(kind: str, revision: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what another client notices of one endpoint in one protocol version."""
    now, lost = asyncio.Event(), list[str]()
    now.set()
    async with endpoint(kind, revision) as port:
        before = await latencies(port, revision, now, 200, lost)
        words = ["--clients", str(options.clients), "--seconds", str(options.seconds), "--size", str(options.size)]
        words += ["--seed", str(options.seed), "--harm", str(port), "--revisions", revision]
        ended = asyncio.Event()
        attack = await asyncio.create_subprocess_exec(sys.executable, __file__, *words, stdout=subprocess.PIPE)
        measuring = asyncio.create_task(latencies(port, revision, ended, 0, lost))
        output = (await attack.communicate())[0]
        ended.set()
        during = await measuring
        after = await latencies(port, revision, now, 200, lost)
    result = {"kind": kind, "revision": revision, "clients": json.loads(output)}
    result |= {"before": summary(before), "during": summary(during), "after": summary(after), "unanswered": lost}
    result["is well"] = is_well(result)
    return result


def is_well(result: Mapping[str, Any]) -> bool:
    """Return True if all calls were answered, and 99 of 100 in time while others harm, and afterwards."""
    return not result["unanswered"] and all(result[part]["p99"] <= _LIMIT for part in ("during", "after"))


HEADS: Final = ("endpoint", "version", "calls", "before", "during", "after", "not answered", "well")


def rows(results: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of the table: of each part the median and the p99."""
    return [
        [
            result["kind"],
            result["revision"],
            str(sum(result[part]["calls"] for part in PARTS)),
            *(f"{result[part]['p50']:g}, {result[part]['p99']:g}" for part in PARTS),
            str(len(result["unanswered"])),
            "yes" if is_well(result) else "no",
        ]
        for result in results
    ]


def write(results: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> None:
    """Write the table of all cells."""
    from measures.machine import measured
    from measures.rounds import write_results
    from stdio_table import markdown

    clients = (
        f"{options.clients} clients at one address harm for {options.seconds:g} s with calls of {options.size:,} bytes"
    )
    text = f"""# Slow readers, resets and cancellations

{measured()}

{clients}. What another client, at another address, notices: its calls, and the median and the 99th percentile of their
times in ms, before, during and after. A cell is well if all calls are answered, and both percentiles, during and after,
are at most {_LIMIT:g} ms. The load of the machine at the end was {os.getloadavg()[0]:.1f}.

{markdown(HEADS, rows(results))}
"""
    write_results(RESULTS, text, MEASURES)


async def main(options: argparse.Namespace) -> int:
    """Measure all cells, and print each; return 1 if one is not well."""
    results = list[dict[str, Any]]()
    for kind in options.kinds:
        for revision in options.revisions:
            results.append(await cell(kind, revision, options))
            print(json.dumps(results[-1]), flush=True)
    whole = {"clients": 200, "seconds": 10.0, "size": 512 * 1024, "kinds": KINDS, "revisions": REVISIONS}
    if all(getattr(options, name) == value for name, value in whole.items()):
        write(results, options)
    return 0 if all(result["is well"] for result in results) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--revisions", nargs="+", choices=REVISIONS, default=REVISIONS)
    parser.add_argument("--size", type=int, default=512 * 1024)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--harm", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.harm is not None:
        asyncio.run(harming(chosen.harm, chosen.revisions[0], chosen))
        sys.exit(0)
    sys.exit(asyncio.run(main(chosen)))
