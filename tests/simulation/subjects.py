"""Which steps a seed has: a swarm of everything, or a few steps that meet where a fault may be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """What happens some seconds after the step before."""

    gap: float
    kind: str
    number: int
    seconds: float


class Part(NamedTuple):
    """A step of a subject: its kind, between which seconds its gap and its duration are, and who it is about."""

    kind: str
    gap: tuple[float, float] = (1e-4, 1.0)
    seconds: tuple[float, float] = (0.01, 2.0)
    numbers: Sequence[int] = range(8)


# How often each kind of step comes. Those of the second table are faults.
USES = {"count": 5, "hold": 2, "order": 5, "later": 4, "announce": 4, "leave": 1, "forget": 1}
FAULTS = {
    "cut": 4,
    "kill": 1,
    "refuse": 2,
    "break": 2,
    "flaky": 2,
    "deaf": 2,
    "slow": 1,
    "lose": 1,
    "go back": 1,
    "sleep": 1,
    "clock": 1,
}
# The numbers of `break` when something is appended, when it is answered, and when the time to live of a record is set.
AT_APPEND, AFTER_APPEND, AT_TOUCH = (0,), (4,), (8,)
BACK = (0,)  # The number of `clock` when it goes back.
QUIET = (20.0, 75.0, 130.0)  # Seconds after which workers forget something.
LONGEST = {"sleep": 10**6.5}  # Seconds that a step of a swarm takes at most.
SHORT = 4.0  # The same for others in most swarms: what takes seconds costs as much as many short steps that meet.
LONG = {"hold": 4.0, "later": 4.0, "leave": 10.0}  # The same in long swarms, where others take up to 20 seconds.
SLOW = 25.0  # Seconds of a step with which a subject counts as slow. It comes less often.
LONG_SWARMS, SWARMS = 0.03, 0.3  # Their parts of all schedules; the others have a subject.
SIZES = (1, 2, 2, 3, 4)  # The steps of a swarm.
WITH_PARTS = 0.02  # The part of the schedules whose store has several parts, each of which can lose its past alone.
WITH_LATER = 0.01  # The part of those with a later subject.
BESIDES = (0, 0, 0, 1)  # Those besides the steps of a subject.

# Steps that have to meet. Several seconds of each are at random, so that each order of them comes.
SUBJECTS: tuple[tuple[Part, ...], ...] = (
    # Messages between workers after a quiet minute.
    (Part("order"), Part("order"), Part("order", gap=(61.0, 70.0))),
    # A worker is killed, and the store fails when others end what it has left.
    (Part("order"), Part("kill", gap=(0.01, 3.0), seconds=(0.01, 20.0)), Part("flaky", (5.0, 13.0), (1.0, 8.0))),
    (Part("order"), Part("kill", gap=(0.01, 3.0)), Part("break", (5.0, 9.0), (0.05, 3.0), AT_APPEND)),
    # A call takes longer than what is stored lives.
    (
        Part("live", seconds=(12.0, 20.0)),
        Part("hold", seconds=(15.0, 30.0)),
        Part("cut", gap=(13.0, 40.0)),
        Part("cut", gap=(13.0, 30.0)),
    ),
    # The messages of a call cannot be stored.
    (Part("break", seconds=(15.0, 40.0), numbers=AT_APPEND), Part("order", gap=(0.001, 0.1))),
    (Part("break", seconds=(15.0, 40.0), numbers=AT_APPEND), Part("count", gap=(0.001, 0.1))),
    (Part("break", seconds=(15.0, 40.0), numbers=AT_APPEND), Part("later", gap=(0.001, 0.1), seconds=(0.01, 0.5))),
    # What is appended is not answered.
    (Part("break", seconds=(2.0, 12.0), numbers=AFTER_APPEND), Part("announce", gap=(0.001, 0.1))),
    (Part("break", seconds=(0.1, 12.0), numbers=AFTER_APPEND), Part("later", gap=(0.001, 0.1), seconds=(0.01, 0.5))),
    # The store loses its past, just after changes were announced.
    (Part("announce"), Part("announce"), Part("lose", gap=(1e-4, 0.1)), Part("later")),
    (Part("announce"), Part("deaf", gap=(1e-4, 0.1)), Part("announce"), Part("lose", gap=(1e-4, 0.1))),
    # The store loses its newest second, and with it a call that has begun.
    (
        Part("go back", (0.3, 2.0), (0.7, 0.8)),
        Part("order", (0.001, 0.1)),
        Part("cut", (0.6, 0.9)),
        Part("cut", (0.001, 0.3)),
    ),
    # The store cannot be reached, or the machine sleeps, while workers store again what they know.
    (Part("lose"), Part("refuse", (0.01, 3.0), (4.0, 9.0)), Part("cut", (0.001, 9.0)), Part("cut", (0.001, 1.0))),
    (Part("lose"), Part("sleep", (0.001, 5.0), (3.0, 60.0)), Part("cut", (0.001, 1.0)), Part("order")),
    # A worker stores again what it knows only after an outage, or after the machine has slept.
    (
        Part("part", seconds=(4.0, 9.0)),
        Part("lose", (1e-4, 0.1)),
        Part("refuse", (0.05, 1.0), (4.0, 9.0)),
        Part("cut", (3.0, 9.0)),
        Part("cut", (0.001, 1.0)),
    ),
    (
        Part("part", seconds=(5.0, 20.0)),
        Part("lose", (1e-4, 0.1)),
        Part("sleep", (0.05, 1.0), (5.0, 20.0)),
        Part("cut", (0.001, 0.5)),
        Part("order", (0.001, 0.5)),
    ),
    # A connection of minutes ends, its client pauses, and the store loses its past.
    (Part("leave", gap=(62.0, 130.0), seconds=(40.0, 55.0)), Part("lose", gap=(1.0, 40.0))),
    # A worker begins when the store cannot be reached.
    (
        Part("refuse", seconds=(1.0, 10.0)),
        Part("kill", seconds=(1e-4, 0.1)),
        Part("announce first", gap=(0.1, 1.0)),
        Part("announce first", gap=(0.01, 1.0)),
    ),
    # Clients come back, and do not know where they were.
    (Part("later", seconds=(0.01, 0.1)), Part("forget", gap=(0.1, 2.0)), Part("forget")),
    # Single commands of the store are lost.
    (Part("flaky", seconds=(0.1, 3.0)), Part("later"), Part("announce"), Part("order"), Part("announce")),
    # The store cannot be reached when a call begins, and its connection is cut before others know of its stream.
    (Part("break", seconds=(0.05, 3.0), numbers=AT_APPEND), Part("order", (0.001, 0.1)), Part("cut", (0.001, 1.0))),
    # The store has its state after a first loss again, when workers have noticed a second one.
    (Part("lose"), Part("go back", (0.05, 1.0), (0.3, 1.0)), Part("lose", (0.001, 0.5))),
    # A sign of life is stored without an answer, and lost before it is sent again.
    (Part("flaky", seconds=(0.5, 3.0)), Part("go back", (0.05, 1.0), (0.5, 1.0))),
    # A sign of life that a loss has taken is there again.
    (Part("go back", (0.05, 2.0), (0.3, 1.0)), Part("lose", (0.001, 0.5))),
    # One answer of a client is lost with the newest second of the store, and the next is not.
    (Part("order"), Part("order"), Part("deaf", (0.001, 0.5), (0.5, 3.0)), Part("go back", (0.001, 0.5), (0.3, 1.0))),
    # The time of the store goes back just before it loses its past, with changes that nobody has read; and another is
    # announced before workers have noticed the loss.
    (
        Part("announce"),
        Part("deaf", (1e-4, 0.1)),
        Part("clock", (1e-4, 0.1), numbers=BACK),
        Part("announce", (1e-4, 0.1)),
        Part("lose", (1e-4, 0.1)),
        Part("announce", (1e-4, 0.1)),
    ),
    # A worker begins in an outage in which the messages of a call cannot be stored.
    (
        Part("break", seconds=(15.0, 30.0), numbers=AT_APPEND),
        Part("count", gap=(0.001, 0.1)),
        Part("kill", (0.001, 1.0), (0.01, 20.0)),
        Part("cut", (0.001, 20.0)),
    ),
    # The store loses its past when a session has just been opened, of which a worker has only the first state.
    (Part("open", seconds=(0.01, 0.1)), Part("part", (1e-4, 0.1), (0.1, 1.0)), Part("lose", (1e-4, 0.01))),
)
# Those of a store of several parts: one of them loses its past, alone, just after slots have moved, or just before a
# worker begins.
PARTED: tuple[tuple[Part, ...], ...] = (
    (Part("lose part"), Part("order")),
    (Part("move", numbers=(0, 3)), Part("lose part", (1e-4, 2.0), numbers=(0,)), Part("count")),
    (Part("kill", seconds=(31.0, 34.0)), Part("lose part", (30.5, 34.0)), Part("count")),
)
# Those that were added when schedules had been recorded, whose seeds keep their steps.
LATER: tuple[tuple[Part, ...], ...] = (
    # The store cannot be reached just after a sign of life, and then loses its newest second.
    (Part("go back", (0.05, 2.0), (0.3, 1.0)), Part("break", (0.001, 0.5), (1.0, 4.0), AT_TOUCH)),
)
OF_PARTS = ("move", "lose part")  # Kinds for which the store has parts.


# What takes long comes less often.
_WEIGHTS = [1 if max(max(*part.gap, *part.seconds) for part in subject) > SLOW else 3 for subject in SUBJECTS]


def schedule(seed: object) -> list[Step]:
    """The steps of a seed: a swarm, a long one, or a subject with perhaps another step besides. Most are short: they
    find more in the same time."""
    chance = random.Random(f"parts {seed}")
    rare = chance.random()
    if rare < WITH_PARTS + WITH_LATER:
        return [_drawn(chance, part) for part in chance.choice(PARTED if rare < WITH_PARTS else LATER)]
    chance = random.Random(f"schedule {seed}")
    kind = chance.random()
    if kind < LONG_SWARMS:
        return _swarm(chance, chance.randint(5, 12), is_long=True)
    if kind < LONG_SWARMS + SWARMS:
        return _swarm(chance, chance.choice(SIZES))
    [subject] = chance.choices(SUBJECTS, _WEIGHTS)
    steps = [_drawn(chance, part) for part in subject]
    for step in _swarm(chance, chance.choice(BESIDES)):
        steps.insert(chance.randrange(len(steps) + 1), step)
    return steps


def _swarm(chance: random.Random, count: int, is_long: bool = False) -> list[Step]:
    """Steps of any kind. A third of all swarms have no faults, a third have one kind of them, a third a half."""
    size = chance.choice([0, 1, len(FAULTS) // 2])
    weights = USES | {kind: 2 * FAULTS[kind] for kind in chance.sample(list(FAULTS), size)}

    def step() -> Step:
        quiet = chance.choice(QUIET)
        gap = (quiet, quiet) if is_long and chance.random() < 0.04 else (1e-4, 5.0 if is_long else 1.0)
        [kind] = chance.choices(list(weights), list(weights.values()))
        longest = LONGEST.get(kind, LONG.get(kind, 20.0) if is_long else SHORT)
        return _drawn(chance, Part(kind, gap, (0.01, longest)))

    return [step() for _ in range(count)]


def _drawn(chance: random.Random, part: Part) -> Step:
    gap, seconds = round(_between(chance, part.gap), 4), round(_between(chance, part.seconds), 3)
    return Step(gap, part.kind, chance.choice(part.numbers), seconds)


def _between(chance: random.Random, bounds: Sequence[float]) -> float:
    """A number between two, any power of ten as likely as any other."""
    least, most = bounds
    return float(least * (most / least) ** chance.random())
