"""Schedules: what happens in a simulation, when, and what has to hold after it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from mcp_generated.http import HTTPLimits
from mcp_products.workers.sessions.mail import EPOCH_SECONDS
from mcp_runtime.stores import StoreUnavailableError
from simulation import servers
from simulation.clients import CHANGED, REVISION, Client
from simulation.loop import SimulatedLoop, run
from simulation.world import Process, World

YEAR = 366 * 86_400.0
LIMITS = HTTPLimits(session_idle_timeout=YEAR, handshake_timeout=YEAR)
CLIENTS, WORKERS = 2, 2
UNUSED = 60.0  # Seconds after which workers forget sessions that were not used, and have no stream.
AFTER_SLEEP = 10.0  # Seconds in which clients use their sessions again.
FORGOTTEN = 250.0  # Seconds of sleep after which a stream that has ended may be forgotten.
AFTER_FAULT = 45.0  # Seconds after a fault in which what it has ended may still be noticed.
SETTLED = 200.0  # Seconds after the last step, and the end of its faults, in which everything has an outcome.
WITH_LOSS = 30.0  # Seconds around a loss in which a worker that is killed takes along what only it knows.


class Step(NamedTuple):
    """What happens some seconds after the step before."""

    gap: float
    kind: str
    number: int
    seconds: float


# How often each kind of step comes. Those of the second table are faults.
USES = {"count": 5, "hold": 2, "order": 5, "later": 4, "announce": 4}
FAULTS = {"cut": 4, "kill": 1, "refuse": 2, "deaf": 2, "slow": 1, "lose": 1, "go back": 1, "sleep": 1, "clock": 1}


def schedule(seed: object) -> list[Step]:
    """The steps of a seed. A third of all schedules have no faults, a third have one kind of them."""
    chance = random.Random(f"schedule {seed}")
    kinds = chance.choice([[], chance.sample(list(FAULTS), 1), list(FAULTS)])
    weights = USES | {kind: 2 * FAULTS[kind] for kind in kinds}

    def step() -> Step:
        gap = 10 ** chance.uniform(-4, 0.7) if chance.random() < 0.93 else chance.choice([20.0, 75.0, 130.0])
        [kind] = chance.choices(list(weights), list(weights.values()))
        most = 6.5 if kind == "sleep" else 1.5
        return Step(round(gap, 4), kind, chance.randrange(8), round(10 ** chance.uniform(-2, most), 3))

    return [step() for _ in range(chance.randint(3, 14))]


@dataclass(frozen=True)
class Outcome:
    """What a schedule has led to."""

    seed: object
    steps: Sequence[Step]
    violations: list[str]
    trace: list[str]

    @property
    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {', '.join(self.violations)}", *map(str, self.steps), *self.trace])


class Simulation(World):
    """The world of one schedule."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        super().__init__(loop, chance)
        self.clients = [Client(self, f"client{number}") for number in range(CLIENTS)]
        self.announced = self.perhaps_announced = 0
        self.may_lose_changes = False
        self.losses: list[float] = []
        self.kills: list[float] = []
        self.sleeps: list[float] = []  # When one was over that was longer than `UNUSED`.
        self._last_fault = float("-inf")  # When one was over that may end calls.
        self._tasks: list[asyncio.Task[None]] = []

    # ---- what clients ask --------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self.loop.create_task(work))

    def has_faults_since(self, began: float) -> bool:
        return self._last_fault + AFTER_FAULT > began

    @property
    def may_lose_sessions(self) -> bool:
        """True where a session may be lost: docs/reliability.md has these cases under "What is not promised"."""
        if any(self.disk.slow_until > loss for loss in self.losses):
            return True
        if any(0.0 <= loss - slept < AFTER_SLEEP for slept in self.sleeps for loss in self.losses):
            return True  # No worker has used the session in the last minute: only the store has it.
        return any(abs(kill - loss) < WITH_LOSS for kill in self.kills for loss in self.losses)

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def play(self, steps: Sequence[Step]) -> None:
        for _ in range(WORKERS):
            await self._begin_process()
        for client in self.clients:
            await client.open()
        listening = [self.loop.create_task(client.listen()) for client in self.clients]
        for step in steps:
            await asyncio.sleep(step.gap)
            self.note(f"step {step.kind} {step.number} {step.seconds}")
            getattr(self, f"_{step.kind.replace(' ', '_')}")(step)
        await self._settle()
        self._check()
        for task in listening:
            task.cancel()
        for process in self.processes:
            if process.is_alive:
                await self._close(process)

    async def _begin_process(self) -> None:
        process = Process(self, len(self.processes), servers.make)
        await process.open(revisions=[REVISION], limits=LIMITS)
        self.processes.append(process)

    def _client(self, step: Step) -> Client:
        return self.clients[step.number % CLIENTS]

    def _count(self, step: Step) -> None:
        self.start(self._client(step).call("count", steps=step.number, pause=0.0))

    def _hold(self, step: Step) -> None:
        self.start(self._client(step).call("count", steps=3, pause=step.seconds))

    def _order(self, step: Step) -> None:
        self.start(self._client(step).call("order", pause=step.seconds))

    def _later(self, step: Step) -> None:
        self.start(self._client(step).call("later", pause=step.seconds))

    def _announce(self, step: Step) -> None:
        living = [process for process in self.processes if process.is_alive]
        if living:
            self.start(self._announce_at(living[step.number % len(living)]))

    async def _announce_at(self, process: Process) -> None:
        self.perhaps_announced += 1
        try:
            await asyncio.wait_for(process.server.server.notify_tool_list_changed(), SETTLED)
            await asyncio.wait_for(process.goes_on(), 0.001)
        except (StoreUnavailableError, TimeoutError):
            return
        self.perhaps_announced -= 1
        self.announced += 1

    # ---- faults ------------------------------------------------------------------------------------------------------

    def _fault(self, until: float = 0.0) -> None:
        self._last_fault = max(self._last_fault, self.loop.now, until)

    def _cut(self, step: Step) -> None:
        exchanges = [one for one in self._client(step).exchanges if not one.is_over]
        if exchanges:
            exchanges[step.number % len(exchanges)].cut()

    def _kill(self, step: Step) -> None:
        living = [process for process in self.processes if process.is_alive]
        if living:
            self._fault()
            self.kills.append(self.loop.now)
            living[step.number % len(living)].kill()
            self.start(self._replace(step.seconds))

    async def _replace(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._begin_process()

    def _refuse(self, step: Step) -> None:
        self.disk.refuse(step.seconds)
        self._fault(self.disk.refuses_until)

    def _deaf(self, step: Step) -> None:
        self.disk.lose_hints(step.seconds)

    def _slow(self, step: Step) -> None:
        self.disk.slow_until = self.loop.now + step.seconds

    def _lose(self, step: Step) -> None:
        self._lose_all_but(None)

    def _lose_all_but(self, kept: Any) -> None:
        self.losses.append(self.loop.now)
        self.disk.lose(kept)
        self._fault(self.disk.refuses_until)

    def _go_back(self, step: Step) -> None:
        self.start(self._lose_newest(min(step.seconds, 1.0)))

    async def _lose_newest(self, seconds: float) -> None:
        kept = self.disk.copied()
        self.may_lose_changes = True  # Nobody notices, unless a worker has shown a sign of life meanwhile.
        await asyncio.sleep(seconds)
        self._lose_all_but(kept)

    def _sleep(self, step: Step) -> None:
        self.loop.now += step.seconds
        if step.seconds > UNUSED:
            self.sleeps.append(self.loop.now)
        if step.seconds > FORGOTTEN:
            self._fault()
        if step.seconds > EPOCH_SECONDS:
            self.losses.append(self.loop.now)

    def _clock(self, step: Step) -> None:
        self.loop.wall_ahead += step.seconds * (1 if step.number % 2 else -1)

    # ---- what has to hold --------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Let everything have its outcome, and be heard."""
        until = max(self._last_fault, self.disk.slow_until, self.loop.now) + SETTLED
        while self.loop.now < until and not (self._is_quiet() and self._is_heard()):
            await asyncio.sleep(1.0)
        await asyncio.sleep(5.0)  # What comes twice comes by then.
        for task in self._tasks:
            if task.done() and (error := task.exception()) is not None:
                raise error

    def _is_quiet(self) -> bool:
        return all(task.done() for task in self._tasks) and not any(process.is_busy for process in self.processes)

    def _is_heard(self) -> bool:
        return all(
            client.heard[CHANGED] >= self.announced and all(client.heard[text] for text in self._sent_to(client))
            for client in self.clients
            if not client.is_gone
        )

    def _sent_to(self, client: Client) -> list[str]:
        return [text for text in self.sent if text.startswith(f"{client.name}-")]

    def _check(self) -> None:
        for client in self.clients:
            if not client.is_gone:
                self._check_client(client)

    def _check_client(self, client: Client) -> None:
        heard = client.heard
        for token in () if self.may_lose_sessions else client.open_calls:
            self.violated("requests have an outcome", token)
        for text, count in heard.items():
            if text.startswith("client") and not text.startswith(f"{client.name}-"):
                self.violated("none at another client", f"{client.name} heard {text}")
            if text.startswith("client") and count > 1 and len(self.losses) < 2:
                self.violated("no message twice", f"{client.name} heard {text} {count} times")
        missed = [text for text in self._sent_to(client) if not heard[text]]
        if missed and not (self.losses or client.may_have_missed):
            self.violated("no message lost", f"{client.name} missed {missed}")
        changes, least = heard[CHANGED], min(self.announced, 1) if self.losses else self.announced
        if changes < least and not (client.may_have_missed or self.may_lose_changes):
            self.violated("no change lost", f"{client.name} heard {changes} of {self.announced}")
        if changes > self.announced + self.perhaps_announced and not self.losses:
            self.violated("no change twice", f"{client.name} heard {changes} of {self.announced}")

    async def _close(self, process: Process) -> None:
        try:
            async with asyncio.timeout(SETTLED):
                await process.application.close()
        except TimeoutError:
            self.violated("processes end", f"worker {process.number}")


def played(seed: object, steps: Sequence[Step] | None = None) -> Outcome:
    """Play the schedule of a seed, or other steps with its chances."""
    steps = schedule(seed) if steps is None else steps

    async def main(loop: SimulatedLoop, chance: random.Random) -> Simulation:
        simulation = Simulation(loop, chance)
        await simulation.play(steps)
        return simulation

    simulation = run(seed, main)
    return Outcome(seed, steps, simulation.violations, simulation.trace)


def shrunk(outcome: Outcome) -> Outcome:
    """Leave out steps as long as the same promise is not held: halves first, then single ones."""
    size = len(outcome.steps) // 2
    while size:
        for first in range(0, len(outcome.steps), size):
            steps = [*outcome.steps[:first], *outcome.steps[first + size :]]
            shorter = played(outcome.seed, steps)
            if set(shorter.violations) & set(outcome.violations):
                return shrunk(shorter)
        size //= 2
    return outcome
