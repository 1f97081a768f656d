"""The page about capacity is computed from costs that are not below those that were measured."""

from __future__ import annotations

import re
import runpy

from support.project import ROOT

PROGRAM = runpy.run_path(str(ROOT / "benchmarks" / "stores" / "capacity.py"))
PAGE = (ROOT / "docs" / "capacity.md").read_text(encoding="utf-8")


def measured_calls() -> dict[str, tuple[float, float]]:
    """CPU µs of a worker and of Redis, by what was called with 32 connections and the store in Redis."""
    text = (ROOT / "benchmarks" / "results" / "store.md").read_text(encoding="utf-8").partition("## Workers")[0]
    rows = re.findall(r"^\| ([a-z ]+), 32 \| redis \| (\d+) \| (\d+) \|", text, re.M)
    return {name: (float(worker), float(redis)) for name, worker, redis in rows}


def test_costs_of_calls_are_not_below_what_was_measured() -> None:
    costs, calls = PROGRAM["MEASURED"], measured_calls()
    for name, worker, redis in (
        ("session", costs.call, costs.call_redis),
        ("session with a stream", costs.stream, costs.stream_redis),
    ):
        assert worker >= calls[name][0] * 0.9e-6 and redis >= calls[name][1] * 0.9e-6
        assert f"| {worker * 1e6:.0f} µs" in PAGE and f"| {redis * 1e6:.0f} µs" in PAGE
    (stateless,) = re.findall(r"^\| a call without a session .* \| (\d+) µs of CPU \|", PAGE, re.M)
    assert int(stateless) >= 0.9 * calls["stateless"][0]


def test_what_a_cluster_costs_is_not_below_what_was_measured() -> None:
    text = (ROOT / "benchmarks" / "results" / "store_masters.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| [\d,]+ \| \d+ \| (\d+) \|", text, re.M)
    (one, alone), (three, divided) = [(int(masters), int(spent)) for masters, spent in rows]
    assert (one, three) == (1, 3)
    assert PROGRAM["MEASURED"].divided >= 0.9 * divided / alone


def test_bytes_are_not_below_what_was_measured() -> None:
    text, costs = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"), PROGRAM["MEASURED"]

    def row(name: str) -> int:
        return int(re.findall(rf"^\| {name} \| ([\d,]+) \|", text, re.M)[0].replace(",", ""))

    assert costs.session >= 0.9 * row("workers, for a session")
    connection = row("workers, for a connection")
    assert costs.open_stream >= 0.9 * (row("workers, for a session with its stream") + connection)
    assert costs.session_redis >= 0.9 * row("Redis, for a session with its stream")


def test_what_is_needed_grows_with_sessions_and_has_two_workers_at_least() -> None:
    need, use = PROGRAM["need_of"], PROGRAM["Use"]
    assert need(1).workers == 2 and need(1).redises == 1 and need(1).masters == 3
    # 60 calls a second of 76 µs, without streams.
    busy = need(3600, use(calls=1 / 60, streams=0.0, open=0.0))
    assert round(busy.calls) == 60 and abs(busy.processors - 60 * 76e-6) < 1e-9
    assert need(20_000_000).workers == 2 * need(10_000_000).workers
