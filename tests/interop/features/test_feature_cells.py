"""One app with all features of the context, of dependencies and of middleware serves own clients of all revisions, both
official SDKs in Python and TypeScript, FastMCP's client and the Inspector: every feature in every cell.

A cell that cannot do what a feature needs stands in the table of reasons, and gets an answer in words.
"""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from support.feature_cells import own_peer
from support.feature_cells.app_targets import origin, target
from support.feature_cells.cell_runs import check_peer, use_of
from support.feature_cells.cells import NEWEST, OWN, Cell, cells
from support.feature_cells.uses import DRIVERS


def row(cell: Cell) -> Any:
    """Return a cell as a parameter; all are long but one."""
    is_long = (cell.peer, cell.revision, cell.transport) != (OWN, NEWEST, "http")
    return pytest.param(cell, marks=[pytest.mark.long] if is_long else [], id=str(cell))


@pytest.mark.deadline(120)
@pytest.mark.parametrize("cell", [row(cell) for cell in cells(OWN)])
async def test_the_client_of_each_revision_uses_all_features(cell: Cell) -> None:
    use = use_of(cell, target(cell))
    use.check(await own_peer.use(cell, use.target, use.steps))


@pytest.mark.edges("Python SDK 2.3-http", "TypeScript SDK 2.4-stdio")
@pytest.mark.long
@pytest.mark.parametrize(
    ("peer", "transport"), sorted({(cell.peer, cell.transport) for peer in DRIVERS for cell in cells(peer)})
)
def test_the_client_of_another_project_uses_all_features(peer: str, transport: str) -> None:
    check_peer(peer, [use_of(cell, target(cell)) for cell in cells(peer) if cell.transport == transport])


@pytest.mark.parametrize("mode", ["http", pytest.param("mounted", marks=pytest.mark.long)])
def test_a_route_of_its_own_is_served_beside_the_endpoint(mode: str) -> None:
    response = httpx2.get(f"{origin(mode)}/health")
    assert (response.status_code, response.text) == (200, "well")
