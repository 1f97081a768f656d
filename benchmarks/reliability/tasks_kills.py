"""Kill workers and restart Redis while repeatable tasks run, and count what is lost, wrong or begun in vain.

    python benchmarks/reliability/tasks_kills.py [--instants N] [--seed N] [--from N] [--minutes N] [--record]
        [--go-on] [--workers N] [--clients N]

Clients begin tasks of three functions: one that waits, one in a thread, and one that fails once and is repeated. Half
of the clients have the tasks extension of 2026-07-28, the others the tasks of 2025-11-25. They poll each task at
whichever worker accepts the connection, and cancel some. At seeded instants a worker gets SIGKILL or SIGTERM, Redis
(append-only file on) is restarted or killed, the store loses all that it has (`loss`), or the machine sleeps for longer
than a time to live (`sleep`). A task that waits when the store loses it is lost, as one whose time has passed, and its
client is told so: these are counted, and no problem. The program prints what was counted as JSON, and ends with 1 if
another task was lost, had another result, had none in time, or began again after its client had seen it cancelled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx2
from passing_time import let_pass, lose
from processes import LoadServer, RedisServer
from records import add_options, repeat

PROBLEMS = ("tasks lost", "tasks failed", "wrong results", "no end in time", "begun after their cancellation")
KINDS = ("worker", "worker", "term", "restart", "crash", "loss", "sleep")
SLEEPS = (15.0, 75.0, 310.0)  # Seconds: more than a lease, than a sign of life, and than a task is kept.
TOOLS = ("work", "work_in_a_thread", "fail_once")
SECONDS = 90.0  # For a task to end: several leases.
ENDED = ("completed", "failed", "cancelled")
ACCEPT = {"accept": "application/json, text/event-stream", "connection": "close"}
PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "kills", "version": "1"}


class TaskClient:
    """A client of one version, with a connection for each request. A request without an answer is sent again, but for a
    call: whether it has begun a task is not known."""

    def __init__(self, url: str, number: int, random: Random, counts: Counter[str], losses: list[float]) -> None:
        """Create the client; those with an odd number have sessions. `losses` says when the store lost what it had."""
        self.url = url
        self.name = f"c{number}"
        self.random = random
        self.counts = counts
        self.has_session = bool(number % 2)
        self.web = httpx2.AsyncClient(timeout=15)
        self.session: dict[str, str] = {}
        self.last = 0
        self.cancelled: dict[str, float] = {}  # When a task was seen as cancelled, by its token.
        self.losses = losses

    async def post(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        self.last += 1
        headers = {**ACCEPT, **self.session}
        if not self.has_session:
            meta = {"protocolVersion": "2026-07-28", "clientInfo": CLIENT}
            meta["clientCapabilities"] = {"extensions": {f"{PREFIX}tasks": {}}}  # type: ignore[assignment]
            params = {**params, "_meta": {f"{PREFIX}{name}": value for name, value in meta.items()}}
            named = str(params.get("name", params.get("taskId")))
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": named}
        body = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        return await self.web.post(self.url, json=body, headers=headers)

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result or the error of a request, which is sent until it is answered."""
        while True:
            with suppress(httpx2.TransportError):
                response = await self.post(method, params)
                if response.status_code == 404 and self._has_lost_since(time.monotonic() - SECONDS):
                    await self.open()  # The session was used at a worker that was killed meanwhile.
                    self.counts["sessions opened again after a loss"] += 1
                elif response.status_code != 503:
                    answer = response.json()
                    outcome: dict[str, Any] = answer["result"] if "result" in answer else {"error": answer["error"]}
                    return outcome
            self.counts["requests sent again"] += 1
            await asyncio.sleep(0.2)

    async def open(self) -> None:
        """Open the session, if the version has sessions."""
        if self.has_session:
            params = {"protocolVersion": "2025-11-25", "clientInfo": CLIENT, "capabilities": {}}
            opened = await self.post("initialize", params)
            session = opened.headers["mcp-session-id"]
            self.session = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
            await self.web.post(
                self.url,
                json={"jsonrpc": "2.0", "method": "notifications/initialized"},
                headers={**ACCEPT, **self.session},
            )

    async def begin(self, token: str) -> str | None:
        """Begin a task; return its id, None if the call was not answered with one."""
        arguments = {"token": token, "seconds": round(0.2 + 2 * self.random.random(), 2)}
        params: dict[str, Any] = {"name": self.random.choice(TOOLS), "arguments": arguments}
        try:
            response = await self.post("tools/call", {**params, **({"task": {}} if self.has_session else {})})
            answer = response.json()
        except (httpx2.TransportError, ValueError):
            self.counts["calls without an answer"] += 1
            return None
        if "error" in answer:
            self.counts["calls that were refused"] += 1
            return None
        task = answer["result"].get("task", answer["result"])
        id: str = task["taskId"]
        return id

    async def load(self, ended: asyncio.Event) -> None:
        """Begin one task after the other, and see each to its end."""
        number = 0
        while not ended.is_set():
            number += 1
            token = f"{self.name}-{number}"
            id = await self.begin(token)
            if id is None:
                await asyncio.sleep(0.2)
                continue
            if self.random.random() < 0.15:
                await asyncio.sleep(self.random.random())
                await self.request("tasks/cancel", taskId=id)
                self.counts["cancellations"] += 1
            await self.follow(id, token)

    def _has_lost_since(self, began: float) -> bool:
        return any(lost >= began for lost in self.losses)

    async def follow(self, id: str, token: str) -> None:
        """Poll a task until it has ended, and judge its result."""
        began = time.monotonic() - 1.0  # It was added a moment ago.
        until = time.monotonic() + SECONDS
        while (task := await self.request("tasks/get", taskId=id)).get("status") not in ENDED:
            if "error" in task:
                self.counts["tasks lost with the store" if self._has_lost_since(began) else "tasks lost"] += 1
                return
            if time.monotonic() > until:
                self.counts["no end in time"] += 1
                return
            await asyncio.sleep(0.2)
        self.counts[f"tasks {task['status']}"] += 1
        if task["status"] == "failed":
            print(f"{token} failed: {json.dumps(task)}", file=sys.stderr)
        if task["status"] == "cancelled":
            self.cancelled[token] = time.time()
        elif task["status"] == "completed":
            result = await self.request("tasks/result", taskId=id) if self.has_session else task["result"]
            text = result["content"][0]["text"] if "content" in result else result
            self.counts["wrong results"] += text != token


class TaskCampaign:
    """One run: a server, its clients, and what happens to it."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Create what the options name."""
        self.options = options
        self.folder = folder
        self.counts = Counter[str]()
        self.name = f"{options.seed} {options.start}" if options.start else f"{options.seed}"
        self.random = Random(f"{self.name} instants")
        self.victims = Random(f"{self.name} victims")
        self.redis = RedisServer(folder)
        self.injected: Counter[str] = Counter()
        self.losses: list[float] = []  # When the store lost all, or may seem to have: a sleep, a crash.

    async def run(self) -> None:
        """Run the campaign."""
        await self.redis.start()
        store, stored = f"redis://127.0.0.1:{self.redis.port}", self.folder / "stored"
        self.server = LoadServer(store, self.options.workers, stored, "task_server.py")
        await self.server.start()
        try:
            clients = await self._load()
            self._judge(clients, stored.read_text())
        finally:
            await self.server.stop()
            await self.redis.stop()

    async def _load(self) -> list[TaskClient]:
        randoms = [Random(f"{self.name} {number}") for number in range(self.options.clients)]
        clients = [
            TaskClient(self.server.url, number, random, self.counts, self.losses)
            for number, random in enumerate(randoms)
        ]
        for client in clients:
            await client.open()
        ended = asyncio.Event()
        loads = [asyncio.create_task(client.load(ended)) for client in clients]
        for _ in range(self.options.instants):
            await asyncio.sleep(self.random.random() * self.options.pause)
            await self._inject(self.random.choice(self.options.kinds or KINDS))
        ended.set()
        await asyncio.gather(*loads)
        for client in clients:
            await client.web.aclose()
        return clients

    async def _inject(self, kind: str) -> None:
        self.injected[kind] += 1
        if kind == "restart":
            await self.redis.restart(signal.SIGTERM)
        elif kind == "crash":
            await self.redis.restart(signal.SIGKILL)
        elif kind == "loss":
            await lose([self.redis.port], self.folder)
            self.losses.append(time.monotonic())
        elif kind == "sleep":
            seconds = self.random.choice(SLEEPS)
            await let_pass(seconds, self.folder / "stored", self.server.marked(), [self.redis.port])
            self.losses.append(time.monotonic())
        else:
            pid = self.victims.choice(await self.server.several_serving())
            self.server.kill(pid, signal.SIGTERM if kind == "term" else signal.SIGKILL)

    def _judge(self, clients: list[TaskClient], notes: str) -> None:
        """Count the runs of functions, and those that began after their clients had seen them cancelled."""
        began = [line.split() for line in notes.splitlines() if " begins " in line]
        runs = Counter(token for _, _, token in began)
        self.counts["runs of functions"] = len(began)
        self.counts["functions that ran again"] = sum(count > 1 for count in runs.values())
        cancelled = {token: when for client in clients for token, when in client.cancelled.items()}
        for when, _, token in began:
            self.counts["begun after their cancellation"] += float(when) > cancelled.get(token, float("inf"))


def options_of(words: list[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=sorted({*KINDS}), help="what happens; default: all")
    parser.add_argument("--instants", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two instants, at most")
    add_options(parser)
    options = parser.parse_args(words)
    options.store = "redis"
    return options


def run(options: argparse.Namespace) -> tuple[dict[str, Any], int, bool]:
    """Run a campaign; return its report, the number of its instants, and whether nothing was wrong."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        campaign = TaskCampaign(options, Path(folder))
        asyncio.run(campaign.run())
    problems = {problem: campaign.counts[problem] for problem in PROBLEMS}
    report = {
        "seconds": round(time.monotonic() - started),
        "injected": dict(campaign.injected),
        "counts": {name: count for name, count in sorted(campaign.counts.items()) if name not in PROBLEMS},
        "problems": problems,
    }
    return report, sum(campaign.injected.values()), not any(problems.values())


def main(words: list[str]) -> int:
    """Run campaigns, and print what was counted."""
    options = options_of(words)
    return repeat("tasks_kills", options, lambda: run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
