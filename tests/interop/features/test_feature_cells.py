"""One app with all features of the context, of dependencies and of middleware serves own clients of all revisions, both
official SDKs in Python and TypeScript, FastMCP's client and the Inspector: every feature in every cell.

A cell that cannot do what a feature needs stands in the table of reasons, and gets an answer in words.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import httpx2
import pytest
from conformance.wires import served
from support.feature_cells import own_peer
from support.feature_cells.cells import INSPECTOR, NEWEST, OWN, Cell, cells
from support.feature_cells.feature_rows import FEATURES, Feature
from support.feature_cells.uses import DRIVERS, Use, check_all, received
from support.processes import end_with_session
from support.project import TESTS

SERVER = str(TESTS / "support" / "feature_cells" / "feature_server.py")


@cache
def origin(mode: str) -> str:
    """Return where a server of this process serves over HTTP."""
    process, url = served((SERVER, mode), "an app with all features")
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return url


def target(cell: Cell) -> list[str]:
    """Return the command or the URL of the server for a cell."""
    if cell.transport == "stdio":
        return own_peer.stdio_command(SERVER)
    return [origin(cell.transport) + ("/mcp" if cell.revision >= "2025-03-26" else "/sse")]


def features_of(cell: Cell) -> list[Feature]:
    """Return the features that a cell runs: all; but no process is started for a request that is refused anyway."""
    starts_processes = (cell.peer, cell.transport) == (INSPECTOR, "stdio")
    return [feature for feature in FEATURES if not (starts_processes and cell.reason(*feature.needs))]


def use_of(cell: Cell) -> Use:
    """Return how a cell uses the features."""
    return Use(str(cell), cell, target(cell), features_of(cell), cell.reason)


def row(cell: Cell) -> Any:
    """Return a cell as a parameter; all are long but one."""
    is_long = (cell.peer, cell.revision, cell.transport) != (OWN, NEWEST, "http")
    return pytest.param(cell, marks=[pytest.mark.long] if is_long else [], id=str(cell))


@pytest.mark.deadline(120)
@pytest.mark.parametrize("cell", [row(cell) for cell in cells(OWN)])
async def test_the_client_of_each_revision_uses_all_features(cell: Cell) -> None:
    use = use_of(cell)
    use.check(await own_peer.use(cell, use.target, use.steps))


@pytest.mark.parametrize("cell", [row(cell) for peer in DRIVERS for cell in cells(peer)])
def test_the_client_of_another_project_uses_all_features(cell: Cell) -> None:
    use = use_of(cell)
    check_all([use], received(cell.peer, [(cell.revision, use)]))


@pytest.mark.parametrize("mode", ["http", pytest.param("mounted", marks=pytest.mark.long)])
def test_a_route_of_its_own_is_served_beside_the_endpoint(mode: str) -> None:
    response = httpx2.get(f"{origin(mode)}/health")
    assert (response.status_code, response.text) == (200, "well")
