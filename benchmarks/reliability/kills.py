"""Kill workers, restart Redis and cut the link to it under load, and count what is lost, doubled or left hanging.

    python benchmarks/reliability/kills.py [--store sqlite|redis|cluster] [--instants N] [--seed N] [--from N]
        [--minutes N] [--record] [--go-on] [--workers N] [--clients N]

Clients with sessions call tools that report progress, request answers, send messages of the session and announce
changes. At seeded instants one of these happens: a worker gets SIGKILL, Redis (append-only file on) is restarted or
killed, the link to Redis is cut for five seconds, with a reset or in silence, the store loses all that it has
(`loss`: FLUSHALL, or the file of SQLite is deleted), or the machine sleeps for longer than a time to live (`sleep`).
Of a Redis Cluster, a primary gets SIGKILL and its replica takes over (`failover`), or slots move to other primaries
(`move`). A message of a session that nobody has read when the store loses it is lost: these are counted, and are no
problem.

What a worker knows of the past is stored again by that worker, so that a worker is killed `--apart` seconds, and ten
answered calls of each client, before or after a loss, and not with it. The program prints what was counted as JSON, and
ends with 1 if anything else was lost, doubled, delivered to another, or neither answered nor failed with a reason.
With `--minutes`, campaigns of `--instants` follow each other, and with `--record --go-on` later runs add to them.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from counting_client import CountingClient, Findings
from link import Link
from passing_time import NOTICED, let_pass, lose
from processes import LoadServer, RedisServer
from records import add_options, repeat

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from support.processes import end_shared
from support.stores.clusters import Cluster

PROBLEMS = (
    *("events lost", "events doubled", "events delivered to another", "answers to another call", "sessions lost"),
    *("calls that failed without a reason", "calls neither answered nor failed in time"),
)
KINDS = {
    "sqlite": ("worker", "worker", "loss", "sleep"),
    "redis": ("worker", "worker", "restart", "crash", "reset", "silence", "loss", "sleep"),
    "cluster": ("worker", "worker", "failover", "move", "move", "loss", "sleep"),
}
LOSSES = ("loss", "crash", "failover", "sleep")  # A sleep may look like one, and a crash loses the last moment.
MOVES = 20  # Slots that move at one instant.
SLEEPS = (15.0, 75.0, 310.0, 700.0)  # Seconds; sessions live for 1,800 after their last use.
CUT = 5.0  # Seconds.
APART = 5.0  # Seconds in which clients have used their sessions at other workers.
CALLS_APART = 10  # The same in answered calls of each client: a busy machine does little in these seconds.
LONGEST_APART = 60.0  # Seconds for these calls.
DRAIN = 40.0  # Seconds for the last events to arrive.


class Campaign:
    """One run: a server, its clients, and what happens to it."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Create what the options name."""
        self.options = options
        self.folder = folder
        self.name = f"{options.seed} {options.start}" if options.start else f"{options.seed}"
        self.random = Random(f"{self.name} instants")
        self.victims = Random(f"{self.name} victims")
        self.findings = Findings()
        self.redis = RedisServer(folder)
        self.link = Link(self.redis.port)
        self.cluster: Cluster | None = None
        self.injected: Counter[str] = Counter()
        self._last = {"loss": -60.0, "worker": -60.0}  # When one of these happened last.
        self._clients: list[CountingClient] = []
        self._answered: dict[str, list[int]] = {}  # The answered calls of each client by then.

    async def run(self) -> Findings:
        """Run the campaign; return what was counted."""
        store = f"sqlite:////{str(self.folder).lstrip('/')}/store.db"
        if self.options.store == "redis":
            await self.redis.start()
            await self.link.open()
            store = f"redis://127.0.0.1:{self.link.port}"
        elif self.options.store == "cluster":
            program = shutil.which("redis-server")
            assert program is not None, "there is no redis-server here (apt-get install redis-server)"
            self.cluster = await asyncio.to_thread(Cluster, program)
            store = self.cluster.url
        self.server = LoadServer(store, self.options.workers, self.folder / "stored")
        await self.server.start()
        try:
            await self._load()
        finally:
            await self.server.stop()
            if self.options.store == "redis":
                await self.link.close()
                await self.redis.stop()
            end_shared()
        return self.findings

    async def _load(self) -> None:
        clients = self._clients = [
            CountingClient(self.server.url, number, Random(f"{self.name} {number}"), self.findings)
            for number in range(self.options.clients)
        ]
        listeners = []
        for client in clients:
            await client.open()
            listeners.append(asyncio.create_task(client.listen()))
            await client.is_listening.wait()
        ended = asyncio.Event()
        loads = [asyncio.create_task(client.load(ended)) for client in clients]
        for _ in range(self.options.instants):
            await asyncio.sleep(self.random.random() * self.options.pause)
            await self._inject(self.random.choice(self.options.kinds or KINDS[self.options.store]))
        ended.set()
        await asyncio.gather(*loads)
        await asyncio.sleep(1)  # Messages after results are stored by then, or their workers are dead.
        notes = (self.folder / "stored").read_text().split()
        for client in clients:
            client.stored = {token for token in notes if token.startswith(f"{client.name}-")}
        announced = sum(client.announced for client in clients)
        until = time.monotonic() + DRAIN
        for client in clients:
            await client.completed(announced, until)
        for client in clients:
            perhaps = sum(item.perhaps_announced for item in clients)
            losses = NOTICED[self.options.store] * sum(self.injected[kind] for kind in LOSSES)
            client.judge(announced, perhaps, losses)
        for task in listeners:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for client in clients:
            await client.web.aclose()

    @property
    def _redis_ports(self) -> list[int]:
        if self.cluster is not None:
            return self.cluster.primaries()
        return [self.redis.port] if self.options.store == "redis" else []

    async def _inject(self, kind: str) -> None:
        self.injected[kind] += 1
        await self._keep_apart("loss" if kind in LOSSES else kind)
        if kind == "worker":
            self.server.kill(self.victims.choice(await self.server.several_serving()))
        elif kind == "restart":
            await self.redis.restart(signal.SIGTERM)
        elif kind == "crash":
            await self.redis.restart(signal.SIGKILL)
        elif kind == "loss":
            ports = self._redis_ports
            await lose([self.victims.choice(ports)] if ports else [], self.folder)
        elif kind == "failover":
            await asyncio.to_thread(self._fail_over)
        elif kind == "move":
            await asyncio.to_thread(self._move)
        elif kind == "sleep":
            await let_pass(self.random.choice(SLEEPS), self.folder / "stored", self.server.marked(), self._redis_ports)
        else:
            await self.link.cut(self.options.cut, silent=kind == "silence")
        if kind in LOSSES:
            self._note("loss")

    def _fail_over(self) -> None:
        """Kill a primary, and start it again when its replica has taken over."""
        assert self.cluster is not None, "only a cluster has primaries"
        before = self.cluster.primaries()
        victim = self.victims.choice(before)
        self.cluster.kill(victim)
        while len({*self.cluster.primaries()} - {victim}) < len(before):
            time.sleep(0.05)
        self.cluster.start(victim)
        self.cluster.wait_until_well()

    def _move(self) -> None:
        """Move the slots of some keys to other primaries."""
        assert self.cluster is not None, "only a cluster has slots"
        for _ in range(MOVES):
            owner, to = self.victims.sample(self.cluster.primaries(), 2)
            key = self.cluster.run(owner, "RANDOMKEY")
            if key is not None:
                self.cluster.move(int(self.cluster.run(owner, "CLUSTER KEYSLOT", key)), to)

    async def _keep_apart(self, what: str) -> None:
        """Wait until a kill is far enough from a loss, or a loss from a kill."""
        other = {"loss": "worker", "worker": "loss"}.get(what)
        if other is not None:
            await asyncio.sleep(max(self._last[other] + self.options.apart - time.monotonic(), 0))
            until = time.monotonic() + LONGEST_APART
            while not self._has_gone_on(other) and time.monotonic() < until:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            self._note(what)

    def _note(self, what: str) -> None:
        self._last[what] = time.monotonic()
        self._answered[what] = [client.answered for client in self._clients]

    def _has_gone_on(self, since: str) -> bool:
        """Return True if each client has been answered often enough since something happened."""
        before = self._answered.get(since)
        answered = [client.answered for client in self._clients]
        return before is None or all(now >= then + CALLS_APART for now, then in zip(answered, before, strict=True))


def options_of(words: list[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=[*KINDS], default="redis")
    parser.add_argument(
        "--kinds", nargs="*", choices=sorted({*KINDS["redis"], *KINDS["cluster"]}), help="what happens; default: all"
    )
    parser.add_argument("--instants", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two instants, at most")
    parser.add_argument("--apart", type=float, default=APART, help="seconds between a kill and a loss, at least")
    parser.add_argument("--cut", type=float, default=CUT, help="seconds for which the link is cut")
    add_options(parser)
    return parser.parse_args(words)


def run(options: argparse.Namespace) -> tuple[dict[str, Any], int, bool]:
    """Run a campaign; return its report, the number of its instants, and whether nothing was wrong."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(options, Path(folder))
        findings = asyncio.run(campaign.run())
    problems = {problem: findings.counts[problem] for problem in PROBLEMS}
    counts = {name: count for name, count in sorted(findings.counts.items()) if name not in PROBLEMS}
    report = {
        "seconds": round(time.monotonic() - started),
        "injected": dict(campaign.injected),
        "counts": counts,
        "reasons": findings.reasons,
        "problems": problems,
        "notes": findings.notes,
    }
    return report, sum(campaign.injected.values()), not any(problems.values())


def main(words: list[str]) -> int:
    """Run campaigns, and print what was counted."""
    options = options_of(words)
    return repeat("kills", options, lambda: run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
