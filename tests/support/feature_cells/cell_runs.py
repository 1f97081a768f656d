"""Runs the steps of a cell with its peer, and checks what the peer has received."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from support.feature_cells.cells import (
    FASTMCP,
    INSPECTOR,
    PYTHON_1,
    PYTHON_2,
    TYPESCRIPT_1,
    TYPESCRIPT_2,
    Cell,
)
from support.feature_cells.feature_rows import FEATURES, Feature
from support.peers import clean, node_peer, python_peer
from support.project import PEER_DRIVERS, TESTS

SERVER = str(TESTS / "support" / "feature_cells" / "feature_server.py")


def features_of(cell: Cell) -> list[Feature]:
    """Return the features that a cell runs: all; but no process is started for a request that is refused anyway."""
    starts_processes = (cell.peer, cell.transport) == (INSPECTOR, "stdio")
    return [feature for feature in FEATURES if not (starts_processes and cell.reason(*feature.needs))]


def steps_of(cell: Cell) -> list[dict[str, Any]]:
    """Return the steps of all features, one after another; a peer waits for no messages that cannot arrive."""
    absent = {field for field, need in (("changes", "changes"), ("logs", "log")) if cell.reason(need)}
    steps = [step for feature in features_of(cell) for step in feature.steps]
    sent = [{name: value for name, value in step.items() if name not in absent} for step in steps]
    return json.loads(json.dumps(sent).replace("$cell", str(cell)))  # type: ignore[no-any-return]


def check(cell: Cell, outcomes: list[dict[str, Any]]) -> None:
    """Check what a peer has received for each feature; the failures of all features are shown together."""
    position, failures = 0, list[Exception]()
    for feature in features_of(cell):
        part = outcomes[position : position + len(feature.steps)]
        position += len(feature.steps)
        try:
            (feature.without if cell.reason(*feature.needs) else feature.check)(cell, part)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            error.add_note(f"{cell}, {feature.name}: {str(part)[:1500]}")
            failures.append(error)
    assert position == len(outcomes)
    if failures:
        raise ExceptionGroup(f"{len(failures)} features of {cell}", failures)


DRIVERS = {
    PYTHON_1: ("mcp==1.30.0", "python_features.py", "mcp"),
    PYTHON_2: ("mcp==2.3.0", "python_features.py", "mcp"),
    FASTMCP: ("fastmcp==4.1.2", "python_features.py", "fastmcp"),
    TYPESCRIPT_1: ("@modelcontextprotocol/sdk@1.32.2", "typescript_features.mjs"),
    TYPESCRIPT_2: ("@modelcontextprotocol/client@2.4.0", "typescript_features.mjs"),
    INSPECTOR: ("@modelcontextprotocol/inspector@2.12.0", "inspector_features.mjs"),
}


def received(cell: Cell, target: list[str]) -> list[dict[str, Any]]:
    """Return what a client of another project receives, which runs all steps in one process."""
    package, driver, *words = DRIVERS[cell.peer]
    if driver.endswith(".py"):
        command = [str(python_peer(package)), str(PEER_DRIVERS / driver), *words]
    else:
        command = ["node", str(PEER_DRIVERS / driver), str(node_peer(package))]
    done = subprocess.run(
        [*command, cell.revision, *target],
        input=json.dumps(steps_of(cell)),
        capture_output=True,
        text=True,
        timeout=120,
        env=clean(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]
