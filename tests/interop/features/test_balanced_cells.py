"""The app with all features in four processes that share a Redis, behind nginx: any of them serves any
request of its clients.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.feature_cells import own_peer
from support.feature_cells.cell_runs import SERVER, check_peer, use_of
from support.feature_cells.cells import BALANCED, INSPECTOR, OWN, Cell, balanced_cells
from support.feature_cells.uses import DRIVERS
from support.stores.balancers import Balanced, balanced
from support.stores.homes import place_of

SHARE = Cell(INSPECTOR, "2025-11-25", BALANCED)  # Exhaustive; `nox -s balanced` runs all.
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the proxy needs POSIX"),
    pytest.mark.deadline(120),
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    """Four processes of the app behind nginx, which runs as another user."""
    folder = tmp_path_factory.mktemp("features")
    folder.chmod(0o777)
    with balanced(Path(SERVER), place_of("redis", folder), "nginx", folder) as running:
        yield running


def target(servers: Balanced, cell: Cell) -> list[str]:
    """Return the URL of the proxy for a cell."""
    return [servers.origin + ("/mcp" if cell.revision >= "2025-03-26" else "/sse")]


@pytest.mark.long
async def test_the_client_of_each_revision_uses_all_features_through_a_proxy(servers: Balanced) -> None:
    for cell in balanced_cells(OWN):
        use = use_of(cell, target(servers, cell))
        use.check(await own_peer.use(cell, use.target, use.steps))


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, marks=pytest.mark.exhaustive if cell == SHARE else pytest.mark.campaign, id=str(cell))
        for peer in DRIVERS
        for cell in balanced_cells(peer)
    ],
)
def test_the_client_of_another_project_uses_all_features_through_a_proxy(servers: Balanced, cell: Cell) -> None:
    check_peer(cell.peer, [use_of(cell, target(servers, cell))])
