"""How a cell uses features: the steps that its client gets, the programs that run them, and the check of what it
receives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from support.feature_cells.cells import BUILT, FASTMCP, INSPECTOR, PYTHON_1, PYTHON_2, TYPESCRIPT_1, TYPESCRIPT_2, Cell
from support.feature_cells.features import Feature
from support.peers import clean, node_peer, python_peer
from support.project import PEER_DRIVERS
from support.sdk_peers import built

DRIVERS: Final = {
    PYTHON_1: ("mcp==1.30.0", "python_features.py", "mcp"),
    PYTHON_2: ("mcp==2.3.0", "python_features.py", "mcp"),
    FASTMCP: ("fastmcp==4.1.2", "python_features.py", "fastmcp"),
    TYPESCRIPT_1: ("@modelcontextprotocol/sdk@1.32.2", "typescript_features.mjs"),
    TYPESCRIPT_2: ("@modelcontextprotocol/client@2.4.0", "typescript_features.mjs"),
    INSPECTOR: ("@modelcontextprotocol/inspector@2.12.0", "inspector_features.mjs"),
}
"""The package of the client of another project, its program, and further words."""


class Use(NamedTuple):
    """What one cell uses: its name, its client, the command or URL of its server, and why a need of it is not met."""

    name: str
    cell: Cell
    target: list[str]
    features: Sequence[Feature]
    reason: Callable[..., Any]

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of all features, one after another; a client waits for no messages that cannot arrive."""
        absent = {field for field, need in (("changes", "changes"), ("logs", "log")) if self.reason(need)}
        steps = [step for feature in self.features for step in feature.steps]
        sent = [{name: value for name, value in step.items() if name not in absent} for step in steps]
        return json.loads(json.dumps(sent).replace("$cell", self.name))  # type: ignore[no-any-return]

    def check(self, outcomes: list[dict[str, Any]]) -> None:
        """Check what a client has received for each feature; the failures of all features are shown together."""
        position, failures = 0, list[Exception]()
        for feature in self.features:
            part = outcomes[position : position + len(feature.steps)]
            position += len(feature.steps)
            try:
                (feature.without if self.reason(*feature.needs) else feature.check)(self.cell, part)
            except (AssertionError, LookupError, TypeError, ValueError) as error:
                error.add_note(f"{self.name}, {feature.name}: {str(part)[:1500]}")
                failures.append(error)
        assert position == len(outcomes)
        if failures:
            raise ExceptionGroup(f"{len(failures)} features of {self.name}", failures)


def received(peer: str, uses: Sequence[tuple[str, Use]]) -> list[Any]:
    """Return what the client of another project receives in each use, with its revision; all run in one process."""
    return run_driver(
        peer, [{"revision": revision, "server": use.target, "steps": use.steps} for revision, use in uses]
    )


def run_driver(peer: str, runs: Sequence[dict[str, Any]]) -> list[Any]:
    """Return what the client of another project receives in some runs."""
    command = client_command(peer)
    done = subprocess.run(command, input=json.dumps(runs), capture_output=True, text=True, timeout=110, env=clean())
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def client_command(peer: str) -> list[str]:
    """Return the command of the client of another project. Skips the test where it cannot be had."""
    if peer in BUILT:
        return [*built(BUILT[peer]), "client"]
    package, driver, *words = DRIVERS[peer]
    if driver.endswith(".py"):
        return [str(python_peer(package)), str(PEER_DRIVERS / driver), *words]
    return ["node", str(PEER_DRIVERS / driver), str(node_peer(package))]


def check_all(uses: Sequence[Use], outcomes: Sequence[Any]) -> None:
    """Check what the clients of some uses have received; the failures of all are shown together."""
    failures: list[Exception] = []
    for use, outcome in zip(uses, outcomes, strict=True):
        try:
            assert isinstance(outcome, list), f"{use.name}: {outcome}"
            use.check(outcome)
        except (AssertionError, ExceptionGroup) as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(uses)} cells", failures)
