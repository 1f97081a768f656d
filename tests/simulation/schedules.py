"""Schedules: what happens in a simulation, when, and what has to hold after it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from mcp_generated.http import HTTPLimits
from mcp_products.workers.sessions.mail import EPOCH_SECONDS
from mcp_products.workers.stores.redis_cluster import slot_of
from mcp_runtime.stores import StoreUnavailableError
from simulation import servers
from simulation.clients import CHANGED, Client
from simulation.loop import SimulatedLoop, run
from simulation.subjects import OF_PARTS, USES, Step, schedule
from simulation.world import Process, World, done

SIGN = 9.0  # Seconds for which a sign of life is stored for certain.
YEAR = 366 * 86_400.0
WORKERS = 2
NAMES = ("client0", "client1")
TWO_CLIENTS = 0.25  # The part of the schedules with a second client: to open a session costs as much as some steps.
OPENED = 0.25  # The part in which the clients open their sessions. In the others, they have opened them long before.
UNUSED = 60.0  # Seconds after which workers forget sessions that were not used, and have no stream.
AFTER_SLEEP = 10.0  # Seconds in which clients use their sessions again.
FORGOTTEN = 250.0  # Seconds of sleep after which a stream that has ended may be forgotten.
AFTER_FAULT = 45.0  # Seconds after a fault in which what it has ended may still be noticed.
SETTLED = 200.0  # Seconds after the last step, and the end of its faults, in which everything has an outcome.
MOMENTS = [f"{order} {command}" for order in ("before", "after") for command in ("append", "put", "get", "read")]
MOMENTS += ["before touch"]
PROMPT = {*USES, "cut", "refuse", "break"}  # Other faults may delay what comes.
LATE = 1.0  # Seconds after an outage within which a worker that was cut off is not late to store what a loss has taken.
EPOCH = "simulated:epoch:"  # The record that says whether the store has lost its past.
NOTICED = 3.0  # Seconds after a loss in which a worker does not know yet that others were further.
PARTS = 3  # Of a store of which one can lose its past alone.
SLOTS = {slot: slot % PARTS for slot in range(16_384)}
WITH_LOSS = 30.0  # Seconds around a loss in which a worker that is killed takes along what only it knows.


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
        self.clients = [Client(self, name) for name in NAMES[: 2 if chance.random() < TWO_CLIENTS else 1]]
        self.announced = self.perhaps_announced = 0
        self.first_announced = float("inf")
        self._announcing = 0  # Changes that are being stored.
        self._announced_in_loss = False  # True if there were some at a loss.
        self._went_back = False
        self.ttl = YEAR
        self.losses: list[float] = []
        self._heard_again_at = 0.0  # When workers hear of each other again, who did not when sessions were opened.
        self._sent_in_loss: set[str] = set()  # Clients whose messages were being stored at a loss.
        self._told: list[float] = []  # Those of everything after which each client is told of all changes.
        # When the store went back, to which time, and when the last sign of life was stored by then.
        self._backs: list[tuple[float, float, float]] = []
        self.is_prompt = True  # False if there are faults after which something may take longer.
        self.troubles = 0.0  # Seconds in which a session may not have been used, or stored.
        self.kills: list[float] = []
        self.aways: list[tuple[float, float]] = []  # From when to when a client has not used its session.
        self.sleeps: list[float] = []  # When one was over that was longer than `UNUSED`.
        self._parted_until = 0.0  # Until when a worker was cut off from the store.
        self._last_fault = float("-inf")  # When one was over that may end calls.
        self._forgotten_before = 0.0  # Streams that had ended by then may be forgotten.
        self._tasks: list[asyncio.Task[None]] = []

    # ---- what clients ask --------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self.loop.create_task(work))

    @property
    def reachable_since(self) -> float:
        """When the store could be reached again."""
        return max(self._last_fault, self.disk.refuses_until)

    def has_faults_since(self, began: float) -> bool:
        return self.reachable_since + AFTER_FAULT > began

    @property
    def may_lose_sessions(self) -> bool:
        """True where a session may be lost: docs/reliability.md has these cases under "What is not promised"."""
        if self.troubles > self.ttl / 4:
            return True
        if any(self.disk.slow_until > loss for loss in self.losses):
            return True
        if len(self.losses) > 1 and not all(map(self._is_noticed, self._backs)):
            return True  # What was stored again after a loss is lost with the newest second, and nobody notices that.
        while_parted = [over for begun, over in self.disk.outages if begun < self._parted_until]
        if self.losses and self._parted_until > max(while_parted, default=0.0) + LATE:
            return True  # The worker that was cut off may have needed longer than three looks of the other.
        if any(0.0 <= loss - slept < AFTER_SLEEP for slept in self.sleeps for loss in self.losses):
            return True  # No worker has used the session in the last minute: only the store has it.
        both = [(kill, loss) for kill in self.kills for loss in self.losses]
        if any(left - WITH_LOSS < kill < loss < back + AFTER_SLEEP for left, back in self.aways for kill, loss in both):
            return True  # The worker that its client has used is gone, and only the store has the session.
        return any(abs(kill - loss) < WITH_LOSS for kill, loss in both)

    @property
    def told(self) -> list[float]:
        """The losses after which each client is told of all changes."""
        backs = [back for back in self._backs if self._is_noticed(back)]
        losses = [*self._told, *(lost_at for _, lost_at, _ in backs if not self._is_undone(lost_at))]
        return sorted(loss for loss in losses if not self._may_be_untold(loss))

    def _may_be_untold(self, loss: float) -> bool:
        """True if what announced a loss may be lost itself, because the store went back soon after it, and nobody
        notices that."""
        return any(
            loss <= copied_at < loss + AFTER_FAULT and not self._is_noticed((copied_at, again_at, shown_at))
            for copied_at, again_at, shown_at in self._backs
        )

    def _is_undone(self, lost_at: float) -> bool:
        """True if the store went back later to a time before a loss, so that all is there again."""
        return any(copied_at < lost_at < again_at for copied_at, again_at, _ in self._backs)

    def _is_noticed(self, back: tuple[float, float, float]) -> bool:
        """True if a worker has shown a sign of life after the time to which the store went back, which it has not known
        to be stored for too long when it looks next."""
        copied_at, _, shown_at = back
        expires = shown_at + SIGN
        return shown_at > copied_at and not any(begun < expires < over for begun, over in self.disk.outages)

    def may_be_forgotten(self, call: str) -> bool:
        """True if a call had returned before the machine slept for longer than its stream is stored, or before the
        store lost what its worker had sent."""
        return self.returned.get(call, float("inf")) < max([self._forgotten_before, *self.losses])

    def may_lack_progress(self, call: str) -> bool:
        """True if the store has lost its newest second, and a call has returned before its worker has noticed that."""
        returned = self.returned.get(call, float("inf"))
        return any(copied_at < returned < again_at + NOTICED for copied_at, again_at, _ in self._backs)

    @property
    def may_lose_newest(self) -> bool:
        """True where nobody may notice that the store has lost its newest second: no worker has shown a sign of life
        in it, or none that lives."""
        return not all(map(self._is_noticed, self._backs)) or (self._went_back and bool(self.kills))

    # ---- steps -------------------------------------------------------------------------------------------------------

    async def play(self, steps: Sequence[Step]) -> None:
        self.is_prompt = PROMPT.issuperset(step.kind for step in steps)
        self.ttl = min([YEAR, *(step.seconds for step in steps if step.kind == "live")])
        if any(step.kind in OF_PARTS for step in steps):
            self.disk.slots = {**SLOTS}
        for _ in range(WORKERS):
            await asyncio.sleep(self.seconds(1e-3, 2.0))  # Their ticks come at any distance.
            await self._begin_process()
        opening = [step.seconds for step in steps if step.kind == "open"]
        are_opened = self.chance.random() < OPENED or bool(opening)
        if opening:
            self.disk.lose_hints(max(opening))
            self._heard_again_at = self.disk.deaf_until
        for client in self.clients:
            if are_opened:
                await client.open()
            else:
                self._have_opened(client)
        listening = [self.loop.create_task(client.listen()) for client in self.clients]
        while not are_opened and not all(client.is_heard for client in self.clients):
            await asyncio.sleep(0.05)  # Until a worker has used a session, only the store has it.
        await asyncio.sleep(self.seconds(1e-3, 1.0))
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

    def _have_opened(self, client: Client) -> None:
        """Have the session of a client in the store, which a worker that has ended has served."""
        session, key, record = opened_before(client.name)
        client.session = session
        done(self.disk.data.put(key, record, self.ttl))

    async def _begin_process(self) -> None:
        process = Process(self, len(self.processes), servers.make)
        limits = HTTPLimits(session_idle_timeout=self.ttl, handshake_timeout=YEAR)
        await process.open(limits=limits)
        self.processes.append(process)

    def _client(self, step: Step) -> Client:
        return self.clients[step.number % len(self.clients)]

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

    def _announce_first(self, step: Step) -> None:
        """Announce a change at the process that began last."""
        if self.processes[-1].is_alive:
            self.start(self._announce_at(self.processes[-1]))

    def _live(self, step: Step) -> None:
        """Sessions, and what is stored of them, live for so many seconds."""

    def _open(self, step: Step) -> None:
        """Sessions are opened in the schedule, and hints are lost for so many seconds from then on."""

    def _leave(self, step: Step) -> None:
        self._client(step).leave(step.seconds)
        self.aways.append((self.loop.now, self.loop.now + step.seconds))
        self.troubles += step.seconds

    def _forget(self, step: Step) -> None:
        self._client(step).forget()

    async def _announce_at(self, process: Process) -> None:
        self.perhaps_announced += 1
        began = self.loop.now
        self.first_announced = min(self.first_announced, began)
        self._announcing += 1
        try:
            await asyncio.wait_for(process.server.server.notify_tool_list_changed(), SETTLED)
            await asyncio.wait_for(process.goes_on(), 0.001)
        except StoreUnavailableError:
            return self.gave_up(began, "a change")
        except TimeoutError:
            return
        finally:
            self._announcing -= 1
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
        self.troubles += step.seconds
        self._fault(self.disk.refuses_until)

    def _break(self, step: Step) -> None:
        """Refuse everything from the next command of a kind on, or from its answer on."""
        self.disk.break_at(MOMENTS[step.number], step.seconds)
        self.troubles += step.seconds

    def _part(self, step: Step) -> None:
        """Cut one worker off from the store, which the others reach."""
        living = [process for process in self.processes if process.is_alive]
        if living:
            living[step.number % len(living)].connection.cut_off(step.seconds)
            self._parted_until = max(self._parted_until, self.loop.now + step.seconds)
            self.troubles += step.seconds
            self._fault(self._parted_until)

    def _flaky(self, step: Step) -> None:
        self.disk.be_flaky(step.seconds)

    def _deaf(self, step: Step) -> None:
        self.disk.lose_hints(step.seconds)

    def _slow(self, step: Step) -> None:
        self.disk.slow_until = self.loop.now + step.seconds
        self.troubles += step.seconds

    def _lose(self, step: Step) -> None:
        self._told.append(self.loop.now)
        self._lose_all_but(None)

    def _lose_part(self, step: Step) -> None:
        self._told.append(self.loop.now)
        self._note_loss()
        self.disk.lose_part(step.number % PARTS)
        self._fault()

    def _move(self, step: Step) -> None:
        """Move the slots of the signs that one worker has at a part to the next part."""
        living = [process for process in self.processes if process.is_alive]
        slots, part = self.disk.slots, step.number % PARTS
        for name in living[step.number % len(living)].connection.parts if living else ():
            slot = slot_of(name.encode())
            slots[slot] = (part + 1) % PARTS if slots[slot] == part else slots[slot]

    def _lose_all_but(self, kept: Any) -> None:
        self._note_loss()
        self.disk.lose(kept)
        self._fault(self.disk.refuses_until)

    def _note_loss(self) -> None:
        self.losses.append(self.loop.now)
        self._announced_in_loss = self._announced_in_loss or self._announcing > 0
        for process in self.processes:
            self._sent_in_loss |= {name for name, waiting in process.sending.items() if waiting}

    def _go_back(self, step: Step) -> None:
        self.start(self._lose_newest(min(step.seconds, 1.0)))

    async def _lose_newest(self, seconds: float) -> None:
        kept, copied_at = self.disk.copied(), self.loop.now
        self._went_back = True
        await asyncio.sleep(seconds)
        self._told = [loss for loss in self._told if loss < copied_at]  # What was lost since is there again.
        self._backs.append((copied_at, self.loop.now, self.disk.shown_at))
        self._lose_all_but(kept)

    def _sleep(self, step: Step) -> None:
        self.disk.outages.append((self.loop.now, self.loop.now + step.seconds))
        had_epoch = self.disk.has(EPOCH)
        self.loop.now += step.seconds
        self.troubles += step.seconds
        if step.seconds > UNUSED:
            self.sleeps.append(self.loop.now)
        if step.seconds > FORGOTTEN:
            self._forgotten_before = self.loop.now
            self._fault()
        if step.seconds > EPOCH_SECONDS or (had_epoch and not self.disk.has(EPOCH)):  # Two sleeps may take that long.
            self.losses.append(self.loop.now)

    def _clock(self, step: Step) -> None:
        self.loop.wall_ahead += step.seconds * (1 if step.number % 2 else -1)

    # ---- what has to hold --------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Let everything have its outcome, and be heard."""
        over = max(self.reachable_since, self.disk.slow_until, self.disk.flaky_until, self.loop.now)
        until = over + SETTLED
        if self.losses:
            await asyncio.sleep(over - self.loop.now)  # Until then, clients may not be told of a loss.
        is_over = False
        while self.loop.now < until and not is_over:
            is_settled = self._is_settled()
            # What comes twice comes by then.
            await asyncio.sleep(0.25 if not is_settled else 5.0 if self.chance.random() < 0.2 else 1.0)
            is_over = is_settled and self._is_settled()  # Otherwise a call whose client has left has begun only now.
        for task in self._tasks:
            if task.done() and (error := task.exception()) is not None:
                raise error

    def _is_settled(self) -> bool:
        return self._is_quiet() and not any(map(self._owed, self.clients))

    def _is_quiet(self) -> bool:
        return all(task.done() for task in self._tasks) and not any(process.is_busy for process in self.processes)

    def _owed(self, client: Client) -> list[tuple[str, str]]:
        """What a client has to hear, and has not heard yet: the promises and what is missing."""
        if client.is_gone:
            return []
        owed: list[tuple[str, str]] = []
        sent = [text for text in self.sent if text.startswith(f"{client.name}-")]
        missed = [text for text in sent if not client.heard[text]]
        if missed and not (self.losses or client.may_have_missed):
            owed.append(("no message lost", f"{client.name} missed {missed}"))
        if client.may_have_missed or any(loss < self._heard_again_at for loss in self.losses):
            return owed
        changes, least = client.heard[CHANGED], self._least_changes(client)
        if changes < least and not self.may_lose_newest:
            owed.append(("no change lost", f"{client.name} heard {changes} of {least}"))
        if self.told and not self.may_lose_sessions and max(client.told_at, default=0.0) < max(self.told):
            owed.append(("clients are told of a loss", f"{client.name} was not, at {max(self.told)}"))
        return owed

    def _least_changes(self, client: Client) -> int:
        """How many changes a client hears. One that is lost is announced again, if its worker lives, to whoever
        listens all the time; and everybody is told once of all changes. That may be what tells of one that was being
        stored at the loss."""
        if not self.losses:
            return self.announced
        listens = client.listens_since < self.first_announced
        if listens and not self.kills and len(self.losses) == 1 and self.losses == self.told:
            return self.announced + (not self._announced_in_loss)
        return min(self.announced, 1)

    def _check(self) -> None:
        for client in self.clients:
            if not client.is_gone:
                self._check_client(client)

    def _may_hear_twice(self, client: Client) -> bool:
        """True if a client has forgotten where it was, when the store had just lost that, or was about to lose it, or
        if a message was read that its sender was still storing when the store lost it."""
        if client.name in self._sent_in_loss:
            return True
        backs = [(copied_at, again_at + NOTICED) for copied_at, again_at, _ in self._backs]
        return any(begun < at < noticed for begun, noticed in backs for at in client.forgot_at)

    def _check_client(self, client: Client) -> None:
        heard = client.heard
        for token in () if self.may_lose_sessions else client.open_calls:
            self.violated("requests have an outcome", token)
        for text, count in heard.items():
            if text.startswith("client") and not text.startswith(f"{client.name}-"):
                self.violated("none at another client", f"{client.name} heard {text}")
            if text.startswith("client") and count > 1 and len(self.losses) < 2 and not self._may_hear_twice(client):
                self.violated("no message twice", f"{client.name} heard {text} {count} times")
        for promise, details in self._owed(client):
            self.violated(promise, details)
        most = self.announced + self.perhaps_announced
        if heard[CHANGED] > most and not self.losses:
            self.violated("no change twice", f"{client.name} heard {heard[CHANGED]} of {most}")

    async def _close(self, process: Process) -> None:
        try:
            async with asyncio.timeout(SETTLED):
                await process.application.close()
        except TimeoutError:
            self.violated("processes end", f"worker {process.number}")


@cache
def opened_before(name: str) -> tuple[str, str, bytes]:
    """The id of a session that a client of this name has opened, the key of its record, and the record."""

    async def main(loop: SimulatedLoop, chance: random.Random) -> tuple[str, str, bytes]:
        simulation = Simulation(loop, chance)
        await simulation._begin_process()
        client = Client(simulation, name)
        await client.open()
        key = f"simulated:session:{sha256(client.session.encode()).hexdigest()}"
        return client.session, key, done(simulation.disk.data.get(key))

    return run(f"opened {name}", main)


def played(seed: object, steps: Sequence[Step] | None = None) -> Outcome:
    """Play the schedule of a seed, or other steps with its chances."""
    steps = schedule(seed) if steps is None else steps
    for name in NAMES:
        opened_before(name)  # It has a loop of its own, which cannot run in another one.

    async def main(loop: SimulatedLoop, chance: random.Random) -> Simulation:
        simulation = Simulation(loop, chance)
        await simulation.play(steps)
        return simulation

    simulation = run(seed, main)
    for process in () if simulation.violations else simulation.processes:
        servers.free(process.server)
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
