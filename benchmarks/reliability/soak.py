"""Call, disconnect, open and leave for a long time; what the workers and Redis hold has to stay the same.

    python benchmarks/reliability/soak.py [--calls 20000] [--workers 2] [--store redis|sqlite] [--clients 32]
        [--idle 90] [--losses 4] [--from N] [--minutes N] [--record] [--go-on]

Of ten calls one is a stream that the client leaves before its end, and for ten calls a session is opened and left: half
of them with a DELETE. Meanwhile `--watchers` hear of changes of a list and of resources, half of them on the streams of
their sessions, and half by `subscriptions/listen`; they also make calls with progress, and hear of the ends of tasks.
The whole has 1,000,000 calls. After each tenth the memory, the files and the tasks of the
workers and the keys of Redis are noted. In one of each `--losses` tenths the store loses all that it has, and in the
next one the machine sleeps for 75 seconds. Sessions and streams that nobody has ended are stored for `--idle` seconds:
there are more keys when there are more calls a second, and after the last tenth and these seconds there are none but
those of the workers. Prints JSON; ends with 1 if an answer is wrong, if a
notification is lost or comes twice, if the workers hold more than after the first
tenth by more than `--growth` of it, or if other keys are left. With `--minutes`, soaks of `--calls` follow each other,
each with workers of its own, and with `--record --go-on` later ones add to them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from passing_time import NOTICED, let_pass, lose, ports_of
from processes import LoadServer, RedisServer
from records import add_options, repeat
from sessions import Stream, port_of, redis_keys, redis_value
from watching import PROBLEMS, Watch

ABANDONED = 0.1  # The part of the calls that are left, and of those for which a session is opened and left.
KEEP_ALIVE = 60  # Seconds for which uvicorn keeps a connection without a request.
OWN_KEYS = 5  # Keys that a store has, at most: two epochs, the changes, the keys and the mail to all workers.
KEYS_OF_WORKER = 2  # Its signs of life: that of its sessions, and that of its tasks.
SLEEP = 75.0  # Seconds that pass at once.
SETTLED = 0.5  # Seconds after which nothing runs any more that clients have left.


class Client:
    """A client that makes calls on one connection, and others that come to nothing."""

    def __init__(self, port: int, seed: str, counts: Counter[str]) -> None:
        """Use a server at a port of this machine."""
        self.port = port
        self.random = Random(seed)
        self.counts = counts

    async def connect(self, session: str = "") -> Stream:
        """Return a new connection, for a session if there is one already."""
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(lambda: Stream(self.port), "127.0.0.1", self.port)
        stream.session = session
        return stream

    async def run(self, calls: int) -> None:
        """Make so many calls."""
        main = await self.connect()
        await main.open()
        for number in range(calls):
            if self.random.random() < ABANDONED:
                await self.abandon_session()
            if self.random.random() < ABANDONED:
                await self.abandon_stream(main.session, number)
                continue
            answer = await main.send("POST", call(number, "echo", token=f"t{number}"))
            self.counts["calls"] += 1
            self.counts["wrong answers"] += b'"t%d"' % number not in answer
        await main.send("DELETE")
        main.transport.close()

    async def abandon_session(self) -> None:
        """Open a session, listen to it, and end it or simply go."""
        stream = await self.connect()
        await stream.open()
        if self.random.random() < 0.5:
            await stream.send("DELETE")
        else:
            await stream.send("GET")
        stream.transport.abort()
        self.counts["sessions"] += 1

    async def abandon_stream(self, session: str, number: int) -> None:
        """Call a tool that reports progress, and go before its result."""
        stream = await self.connect(session)
        body = call(number, "count", token="t", steps=3)
        body["params"]["_meta"] = {"progressToken": number}
        await stream.send("POST", body)
        stream.transport.abort()
        self.counts["disconnects"] += 1

    async def tasks(self, workers: int) -> int:
        """Return how many tasks all workers have together, as they say themselves."""
        seen: dict[str, int] = {}
        while len(seen) < workers:
            stream = await self.connect()
            await stream.open()
            text = (await stream.send("POST", call(1, "held"))).partition(b'"text":"')[2].partition(b'"')[0].decode()
            seen[text.split()[0]] = int(text.split()[1])
            await stream.send("DELETE")
            stream.transport.close()
        return sum(seen.values())


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the request of a call."""
    return {"id": f"r{number}", "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def held_by(server: LoadServer) -> tuple[int, int]:
    """Return the resident KiB of the workers, and the number of their open files."""
    memory = files = 0
    for pid in server.pids():
        memory += int(Path(f"/proc/{pid}/status").read_text(encoding="utf-8").split("VmRSS:")[1].split()[0])
        files += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return memory, files


async def holdings(server: LoadServer, redis: RedisServer | None) -> dict[str, Any]:
    """Return what the workers and Redis hold."""
    memory, files = held_by(server)
    tasks = await Client(port_of(server), "", Counter()).tasks(server.workers)
    return {"MiB": round(memory / 1024, 1), "files": files, "tasks": tasks, "keys": await keys_of(redis)}


async def happen(
    tenth: int, options: argparse.Namespace, server: LoadServer, redis: RedisServer | None, folder: Path
) -> None:
    """Let the store lose what it has, or time pass, while clients call."""
    port = None if redis is None else redis.port
    await asyncio.sleep(SETTLED)
    if options.losses and tenth % options.losses == 1:
        await lose(ports_of(port), folder)
    elif options.losses and tenth % options.losses == 2:
        await let_pass(SLEEP, folder / "stored", server.pids(), ports_of(port))


async def keys_of(redis: RedisServer | None) -> int:
    """Return how many keys Redis has."""
    return 0 if redis is None else await redis_value(redis.port, "keyspace", "keys=")


async def key_names(redis: RedisServer | None) -> list[str]:
    """Return the names of the keys that Redis has, without what is random in them."""
    if redis is None:
        return []
    names = await redis_keys(redis.port)
    return sorted(re.sub(r"[0-9a-f]{8,}", "…", name) for name in names)


async def soak(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run it; return what was counted, and what was held after each tenth."""
    os.environ |= {"IDLE": str(options.idle), "KEEP_ALIVE": str(KEEP_ALIVE)}
    redis = RedisServer(folder) if options.store == "redis" else None
    if redis is not None:
        await redis.start()
    store = f"sqlite:///{folder}/store.db" if redis is None else f"redis://127.0.0.1:{redis.port}"
    server = LoadServer(store, options.workers, folder / "stored")
    await server.start()
    try:
        counts, noted, began = Counter[str](), list[dict[str, Any]](), time.monotonic()
        watch = Watch(server.url, options.watchers, Random(f"{options.seed} watch"), counts)
        await watch.begin()
        ended = asyncio.Event()
        telling = asyncio.create_task(watch.tell(ended))
        for tenth in range(10):
            start, name = time.monotonic(), f"{options.seed} {options.start} {tenth}"
            clients = [Client(port_of(server), f"{name} {n}", counts) for n in range(options.clients)]
            happening = asyncio.create_task(happen(tenth, options, server, redis, folder))
            await asyncio.gather(*(client.run(options.calls // 10 // options.clients) for client in clients))
            await happening
            seconds = round(time.monotonic() - start, 1)
            await asyncio.sleep(SETTLED)
            noted.append({"seconds": seconds, **await holdings(server, redis)})
        ended.set()
        await telling
        # A sleep may look like a loss: the clocks of the workers and of the store go on one after the other.
        losses = sum(bool(options.losses) and tenth % options.losses in (1, 2) for tenth in range(10))
        await watch.judge(NOTICED[options.store] * losses)
        await watch.end()
        if redis is not None:
            await asyncio.sleep(1.5 * options.idle)
        remaining = await key_names(redis)
    finally:
        await server.stop()
        if redis is not None:
            await redis.stop()
    return {"counts": counts, "seconds": round(time.monotonic() - began), "tenths": noted, "keys left": remaining}


def run(options: argparse.Namespace) -> tuple[dict[str, Any], int, bool]:
    """Return what was counted and held, the number of calls, and whether nothing was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(soak(options, Path(folder)))
    first, last = result["tenths"][0], result["tenths"][-1]
    result["growth"] = {name: round(last[name] / first[name] - 1, 3) for name in ("MiB", "files", "tasks")}
    grown = any(growth > options.growth for growth in result["growth"].values())
    grown = grown or len(result["keys left"]) > OWN_KEYS + KEYS_OF_WORKER * options.workers
    counts: Counter[str] = result["counts"]
    is_wrong = any(counts[problem] for problem in ("wrong answers", *PROBLEMS))
    return result, counts["calls"] + counts["disconnects"], not (grown or is_wrong)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--losses", type=int, default=4, help="tenths from one loss to the next; 0 for none")
    parser.add_argument("--watchers", type=int, default=6, help="clients that hear of changes, 2 at least")
    parser.add_argument("--idle", type=float, default=120.0, help="seconds for which what nobody has ended is stored")
    parser.add_argument(
        "--growth", type=float, default=0.1, help="part of the first tenth by which the last may be more"
    )
    add_options(parser)
    options = parser.parse_args()
    sys.exit(repeat("soak", options, lambda: run(options)))


if __name__ == "__main__":
    main()
