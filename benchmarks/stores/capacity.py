"""How many workers and which Redis a number of sessions needs, computed from what was measured.

    python benchmarks/stores/capacity.py [--sessions 1000 100000 10000000] [--calls 1] [--streams 0.1] [--open 0.1]

`--calls` are calls of a session in a minute, `--streams` the share of calls that are answered with a stream, `--open`
the share of sessions with an open stream of their own. The tables of docs/capacity.md are those without options.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

SESSIONS = (1_000, 100_000, 10_000_000)
USED = 0.6  # The share of a processor that is used, so that a worker that ends or a busy minute changes little.
MASTERS = 3  # The fewest primaries of a Redis Cluster.
STREAM_SECONDS = 300  # Seconds for which a finished stream is stored.


@dataclass(frozen=True)
class Costs:
    """What one of each costs: results/store.md and docs/reliability.md have the measurements.

    Seconds of CPU are those of a worker and of Redis, with 32 connections at the same time; bytes likewise.
    """

    stateless: float = 65e-6
    call: float = 76e-6
    call_redis: float = 3e-6  # It reads the record of a session that is none of the 1,024 used last.
    stream: float = 192e-6  # A call that is answered with a stream of two events.
    stream_redis: float = 29e-6
    event: float = 100e-6  # Each further event, about.
    event_redis: float = 10e-6
    worker: int = 67 << 20
    session: int = 1_629
    open_stream: int = 5_279 + 2_566  # With its session, and its connection.
    session_redis: int = 820
    stored_stream: int = 4_728  # A stream of Redis with up to ten events of 200 bytes; each further one takes 260.
    streams_of_worker: int = 5_000  # Open streams that were tried with one worker.
    divided: float = 1.75  # A call costs all masters of a Redis Cluster so many times what it costs one Redis.
    notified: float = 2_460.0  # Open streams that a worker notifies in a second.


@dataclass(frozen=True)
class Use:
    """What a session does: calls in a second, the share answered with streams, and the share with an open stream."""

    calls: float = 1 / 60
    streams: float = 0.1
    open: float = 0.1


@dataclass(frozen=True)
class Need:
    """What a number of sessions needs."""

    calls: float  # A second.
    open_streams: float
    processors: float
    workers: int
    worker_bytes: float
    redis_processors: float
    redis_bytes: float
    redises: int
    masters: int  # Of one Redis Cluster instead.
    notify_seconds: float


TYPICAL, MEASURED = Use(), Costs()


def need_of(sessions: int, use: Use = TYPICAL, costs: Costs = MEASURED) -> Need:
    """Return what so many sessions need."""
    calls, streams = sessions * use.calls, sessions * use.open
    plain, streamed = calls * (1 - use.streams), calls * use.streams
    processors = plain * costs.call + streamed * costs.stream
    redis_processors = plain * costs.call_redis + streamed * costs.stream_redis
    workers = max(2, math.ceil(processors / USED), math.ceil(streams / costs.streams_of_worker))
    own = (sessions - streams) * costs.session + streams * costs.open_stream
    return Need(
        calls,
        streams,
        processors,
        workers,
        costs.worker + own / workers,
        redis_processors,
        sessions * costs.session_redis + streamed * STREAM_SECONDS * costs.stored_stream,
        max(1, math.ceil(redis_processors / USED)),
        max(MASTERS, math.ceil(redis_processors * costs.divided / USED)),
        streams / workers / costs.notified,
    )


def table(use: Use = TYPICAL, sessions: Sequence[int] = SESSIONS) -> str:
    """Return the table of what numbers of sessions need, as Markdown."""
    needs = [need_of(number, use) for number in sessions]
    rows = {
        "": [f"{number:,} sessions" for number in sessions],
        "---": ["---:"] * len(needs),
        "calls a second": [f"{need.calls:,.0f}" for need in needs],
        "open streams": [f"{need.open_streams:,.0f}" for need in needs],
        "processors that workers use": [f"{need.processors:.2g}" for need in needs],
        "workers, with a processor for each": [f"{need.workers:,}" for need in needs],
        "memory of a worker, MiB": [f"{need.worker_bytes / 2**20:,.0f}" for need in needs],
        "seconds until all streams have a change": [f"{need.notify_seconds:.1f}" for need in needs],
        "processors that Redis uses": [f"{need.redis_processors:.2g}" for need in needs],
        "memory of Redis, GiB": [f"{need.redis_bytes / 2**30:.2g}" for need in needs],
        "Redis servers, each with a deployment": [f"{need.redises}" for need in needs],
        "or primaries of one Redis Cluster": [f"{need.masters}" for need in needs],
    }
    return "\n".join(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())


def costs_table(costs: Costs = MEASURED) -> str:
    """Return the table of what one of each costs, as Markdown."""
    rows = [
        ("what", "costs a worker", "costs Redis"),
        ("---", "---", "---"),
        ("a call without a session (2026-07-28)", f"{costs.stateless * 1e6:.0f} µs of CPU", "nothing"),
        (
            "a call with a session, answered with JSON",
            f"{costs.call * 1e6:.0f} µs",
            f"{costs.call_redis * 1e6:.0f} µs if the worker has not used the session lately, otherwise nothing",
        ),
        (
            "a call with a session, answered with a stream of two events",
            f"{costs.stream * 1e6:.0f} µs",
            f"{costs.stream_redis * 1e6:.0f} µs, and {costs.stored_stream / 1e3:.1f} kB for five minutes",
        ),
        (
            "each further event that is stored",
            f"about {costs.event * 1e6:.0f} µs",
            f"about {costs.event_redis * 1e6:.0f} µs; its bytes and 60 more",
        ),
        (
            "a session that is used",
            f"{costs.session / 1e3:.1f} kB for a minute after its last call",
            f"{costs.session_redis / 1e3:.1f} kB until it expires",
        ),
        ("an open stream, with its connection and session", f"{costs.open_stream / 1e3:.1f} kB", ""),
        (
            "a change that is announced to all",
            f"{1e3 / costs.notified:.1f} ms for each open stream",
            "a message for each worker",
        ),
        ("the process", f"{costs.worker / 2**20:.0f} MiB", ""),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def limits(use: Use = TYPICAL, costs: Costs = MEASURED) -> tuple[int, int]:
    """Return how many sessions one worker and one Redis serve, to two digits."""
    one = need_of(1_000_000, use, costs)
    worker = min(USED / one.processors * 1e6, costs.streams_of_worker / use.open if use.open else math.inf)
    return int(float(f"{worker:.1e}")), int(float(f"{USED / one.redis_processors * 1e6:.1e}"))


def main() -> None:
    """Print what numbers of sessions need."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=SESSIONS)
    parser.add_argument("--calls", type=float, default=1.0)
    parser.add_argument("--streams", type=float, default=0.1)
    parser.add_argument("--open", type=float, default=0.1)
    options = parser.parse_args()
    use = Use(options.calls / 60, options.streams, options.open)
    print(table(use, options.sessions))
    print("\nOne worker serves {:,} such sessions, one Redis {:,}.".format(*limits(use)))


if __name__ == "__main__":
    main()
