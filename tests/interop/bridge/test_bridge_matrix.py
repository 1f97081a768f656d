"""Every client through a bridge to every upstream: a cell is a client with its revision and transport, and an upstream
with its own. What both ends can represent works; the rest stands in the table of reasons.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pytest
from support.feature_cells import own_peer
from support.feature_cells.bridge.bridge_processes import bridge_command, bridge_origin, upstream_words
from support.feature_cells.cells import (
    FASTMCP,
    INSPECTOR,
    NEWEST,
    OWN,
    PEERS,
    PYTHON_1,
    PYTHON_2,
    REVISIONS,
    TYPESCRIPT_1,
    TYPESCRIPT_2,
    Cell,
)
from support.feature_cells.feature_rows import FEATURES, Feature
from support.peers import clean, node_peer, python_peer
from support.project import PEER_DRIVERS

pytestmark = pytest.mark.deadline(120)

# Features that show the connection of the server itself, which is that of the bridge.
SERVER_VIEW: Final = {
    "`ctx.request`, `client_id`, `state`, `request_context`, `Context[State]`": "the server sees the bridge",
    "`AuthMiddleware` with `restrict_tag`": "the bridge passes no token of its client",
    "hooks of messages: calls, reads, prompts, the start of a client": "a bridge starts its own connection",
    "`ctx.get_state`, `set_state`, `delete_state`": "a request without a session has a connection of the bridge",
    "`ctx.enable_components`, `reset_visibility` for a session": "a request without a session has none at the upstream",
}
"""The name of a feature, and why it is not checked in cells."""
BRIDGED: Final = [feature for feature in FEATURES if feature.name not in SERVER_VIEW and "process" not in feature.needs]


class BridgeCell(NamedTuple):
    """A client through a bridge to an upstream."""

    client: Cell
    upstream_revision: str
    upstream_transport: str

    def __str__(self) -> str:
        return f"{self.client}-to-{self.upstream_revision}-{self.upstream_transport}"

    @property
    def common(self) -> Cell:
        """The client with the older of both revisions: what both ends can represent."""
        revision = min(self.client.revision, self.upstream_revision)
        return Cell(self.client.peer, revision, self.client.transport)

    def reason(self, feature: Feature) -> Any:
        """Return why a feature cannot work; None if both ends can do what it needs."""
        return self.client.reason(*feature.needs) or self.common.reason(*feature.needs)

    @property
    def target(self) -> list[str]:
        """The command or the URL of the bridge."""
        words = upstream_words(self.upstream_revision, self.upstream_transport)
        if self.client.transport == "stdio":
            return bridge_command(*words)
        return [bridge_origin(*words) + ("/mcp" if self.client.revision >= "2025-03-26" else "/sse")]


def own_cells() -> Iterable[BridgeCell]:
    """Yield the cells of our clients: all revisions on both sides, over all transports."""
    for down in REVISIONS:
        for up in REVISIONS:
            yield BridgeCell(Cell(OWN, down, "http"), up, "stdio")
            yield BridgeCell(Cell(OWN, down, "http"), up, "http")
            yield BridgeCell(Cell(OWN, down, "stdio"), up, "http")
            if up != NEWEST:
                yield BridgeCell(Cell(OWN, down, "http"), up, "sse")


def other_cells() -> Iterable[BridgeCell]:
    """Yield the cells of the clients of others."""
    for peer in (PYTHON_1, PYTHON_2, FASTMCP, TYPESCRIPT_1, TYPESCRIPT_2, INSPECTOR):
        for down in PEERS[peer]:
            oldest = ("2024-11-05",) if peer in (PYTHON_2, TYPESCRIPT_2) else ()
            for up in (*oldest, "2025-11-25", NEWEST):
                yield BridgeCell(Cell(peer, down, "http"), up, "http")


def features_of(cell: BridgeCell) -> list[Feature]:
    """Return the features that a cell uses; the Inspector starts a process for each step, so that it uses fewer."""
    if cell.client.peer == INSPECTOR:
        return [feature for feature in BRIDGED if len(feature.steps) == 1 and not cell.reason(feature)][:6]
    return BRIDGED


def steps_of(cell: BridgeCell) -> list[dict[str, Any]]:
    """Return the steps of all features; a peer waits for no messages that cannot arrive."""
    needs = (("changes", "changes"), ("logs", "log"))
    absent = {field for field, need in needs if cell.client.reason(need) or cell.common.reason(need)}
    steps = [step for feature in features_of(cell) for step in feature.steps]
    sent = [{name: value for name, value in step.items() if name not in absent} for step in steps]
    return json.loads(json.dumps(sent).replace("$cell", str(cell)))  # type: ignore[no-any-return]


def check(cell: BridgeCell, outcomes: list[dict[str, Any]]) -> None:
    """Check what a client has received for each feature; all failures are shown together."""
    position, failures = 0, list[Exception]()
    for feature in features_of(cell):
        part = outcomes[position : position + len(feature.steps)]
        position += len(feature.steps)
        try:
            (feature.without if cell.reason(feature) else feature.check)(cell.common, part)
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            error.add_note(f"{cell}, {feature.name}: {str(part)[:1500]}")
            failures.append(error)
    assert position == len(outcomes)
    if failures:
        raise ExceptionGroup(f"{len(failures)} features of {cell}", failures)


def row(cell: BridgeCell) -> Any:
    """Return a cell as a parameter; all are long but one of either direction."""
    short = {("2025-11-25", NEWEST, "http"), (NEWEST, "2025-11-25", "http")}
    place = (cell.client.revision, cell.upstream_revision, cell.upstream_transport)
    is_short = cell.client.peer == OWN and cell.client.transport == "http" and place in short
    return pytest.param(cell, marks=[] if is_short else [pytest.mark.long], id=str(cell))


@pytest.mark.parametrize("cell", [row(cell) for cell in own_cells()])
async def test_our_client_of_each_revision_uses_each_upstream(cell: BridgeCell) -> None:
    check(cell, await own_peer.use(cell.client, cell.target, steps_of(cell)))


DRIVERS: Final = {
    PYTHON_1: ("mcp==1.30.0", "python_features.py", "mcp"),
    PYTHON_2: ("mcp==2.3.0", "python_features.py", "mcp"),
    FASTMCP: ("fastmcp==4.1.2", "python_features.py", "fastmcp"),
    TYPESCRIPT_1: ("@modelcontextprotocol/sdk@1.32.2", "typescript_features.mjs"),
    TYPESCRIPT_2: ("@modelcontextprotocol/client@2.4.0", "typescript_features.mjs"),
    INSPECTOR: ("@modelcontextprotocol/inspector@2.12.0", "inspector_features.mjs"),
}


def received(cell: BridgeCell) -> list[dict[str, Any]]:
    """Return what a client of another project receives."""
    package, driver, *words = DRIVERS[cell.client.peer]
    if driver.endswith(".py"):
        command = [str(python_peer(package)), str(PEER_DRIVERS / driver), *words]
    else:
        command = ["node", str(PEER_DRIVERS / driver), str(node_peer(package))]
    done = subprocess.run(
        [*command, cell.client.revision, *cell.target],
        input=json.dumps(steps_of(cell)),
        capture_output=True,
        text=True,
        timeout=110,
        env=clean(),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("cell", [row(cell) for cell in other_cells()])
def test_the_client_of_another_project_uses_each_upstream(cell: BridgeCell) -> None:
    check(cell, received(cell))


def test_the_matrix_has_many_cells() -> None:
    assert len({str(cell) for cell in (*own_cells(), *other_cells())}) >= 150
