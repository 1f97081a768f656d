"""What a bridge loses between each pair of revisions: counted each time, logged once, and listed in the report."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.feature_cells.bridge.bridge_processes import with_our_packages
from support.project import ROOT

from mcp_codegen.testkit.messages import InstanceGenerator
from mcp_generated import REVISIONS
from mcp_products.relay.bridge.report import report_rows, report_text
from mcp_products.relay.upstream.opening import revisions_of
from mcp_products.relay.upstream.raw import FROM_CLIENT, FROM_SERVER
from mcp_products.relay.upstream.translation import LossCounter, Translation, is_own
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.revision import Direction, Request, Revision

RAW = Path(__file__).parents[2] / "support" / "feature_cells" / "bridge" / "raw_upstream.py"
TWO_REVISIONS = [(down, up) for down, up in product(REVISIONS, REVISIONS) if down != up]
INSTANCES = 12  # Of each message, at a fixed seed.
PROVIDED = {"client_capabilities": {"roots": {}}}


@cache
def revisions() -> dict[str, Revision]:
    """Return the revisions by their ids."""
    return {revision.id: revision for revision in revisions_of("mcp_generated")}


@cache
def definitions(revision: str) -> dict[str, Any]:
    """Return the definitions of the schema of a revision."""
    types: dict[str, Any] = json.loads((ROOT / "schema" / revision / "schema.json").read_text())["$defs"]
    return types


def message_of(revision: str, method: str) -> str:
    """Return the name of the message of a method."""
    methods = ((name, item.get("properties", {}).get("method", {})) for name, item in definitions(revision).items())
    return next(name for name, item in methods if item.get("const") == method)


def messages(down: Revision, up: Revision) -> Iterator[tuple[Direction, str, str, Any]]:
    """Yield messages between a client and an upstream: their direction, method, part and value."""
    sides: tuple[tuple[Direction, Revision, Revision], ...] = ((FROM_CLIENT, down, up), (FROM_SERVER, up, down))
    for direction, source, target in sides:
        theirs = target.table(direction)
        for method in source.table(direction):
            requests = InstanceGenerator(definitions(source.id), 7)
            name = message_of(source.id, method)
            for _ in range(INSTANCES):
                params: Any = requests.valid(name)
                yield direction, method, "params", params.get("params") or {}
            row = theirs.get(method)
            if isinstance(row, Request) and row.result.__name__ in definitions(target.id):
                results = InstanceGenerator(definitions(target.id), 7)
                for _ in range(INSTANCES):
                    yield direction, method, "result", results.valid(row.result.__name__)


def convert(translation: Translation, direction: Direction, method: str, part: str, value: Any) -> None:
    """Convert a message as a bridge does."""
    try:
        if part == "result":
            translation.result(direction, method, value)
        elif not translation.has(direction, method):
            translation.params(direction, method, value, PROVIDED)
    except JSONRPCError:
        pass  # It is counted.


@pytest.mark.parametrize(("down", "up"), TWO_REVISIONS)
def test_each_loss_is_counted_each_time_logged_once_and_in_the_report(
    down: str, up: str, caplog: pytest.LogCaptureFixture
) -> None:
    older, newer = revisions()[down], revisions()[up]
    losses = LossCounter()
    translation = Translation(older, newer, losses)
    values = list(messages(older, newer))
    with caplog.at_level(logging.WARNING, "mcp_runtime.bridge"):
        for value in values:
            convert(translation, *value)
        once = dict(losses.counts)
        for value in values:
            convert(translation, *value)
    assert losses.counts == {kind: 2 * count for kind, count in once.items()}
    logged = [record.getMessage() for record in caplog.records if record.name == "mcp_runtime.bridge"]
    assert len(logged) == len(once) == len(set(logged))
    assert all(any(line.startswith(f"lost: {kind} (") for line in logged) for kind in once)
    listed = {row.what for row in report_rows(older, newer)}
    lost = {kind.partition(": ")[2] or kind for kind in once}
    assert lost <= listed, "the report does not say it"
    assert lost or (down, up) == ("2026-07-28", "2025-06-18"), "these instances show nothing"
    assert not any(map(is_own, lost | listed)), "the bridge handles it itself"


@pytest.mark.parametrize("both", REVISIONS)
def test_nothing_is_lost_where_both_sides_have_the_same_revision(both: str) -> None:
    same, losses = revisions()[both], LossCounter()
    translation = Translation(same, same, losses)
    for direction, method, part, value in messages(same, same):
        convert(translation, direction, method, part, value)
    assert losses.counts == {}
    assert report_text(same, same) == f"client {both}, upstream {both}: everything passes\n"


def report(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `bridge --report` for the raw upstream of 2025-06-18."""
    upstream = ("--", sys.executable, "-I", str(RAW), "2025-06-18")
    command = with_our_packages(sys.executable, "-m", "mcp_products.relay.bridge", "--report", *words, *upstream)
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.long
def test_the_command_prints_what_the_revisions_of_clients_cannot_represent() -> None:
    done = report("--revision", "2025-11-25", "--revision", "2025-06-18")
    assert done.returncode == 0 and done.stderr == ""
    same, first, *lines = done.stdout.splitlines()
    rows = set(report_rows(revisions()["2025-11-25"], revisions()["2025-06-18"]))
    assert first == f"client 2025-11-25, upstream 2025-06-18: {len(rows)} losses are possible"
    assert same == "client 2025-06-18, upstream 2025-06-18: everything passes"
    assert {line.strip() for line in lines} == {f"{row.sender}: {row.what} ({row.reason})" for row in rows}


@pytest.mark.long
def test_the_command_refuses_an_unknown_revision_in_one_line() -> None:
    done = report("--revision", "2025-06-19")
    assert done.returncode == 1 and "there is no revision '2025-06-19'; there are 2024-11-05" in done.stderr
    assert done.stderr.count("\n") == 1
