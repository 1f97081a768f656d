"""The uses of the app with all features, by cell."""

from __future__ import annotations

from support.feature_cells.cells import INSPECTOR, Cell
from support.feature_cells.feature_rows import FEATURES, Feature
from support.feature_cells.uses import Use, check_all, received
from support.project import TESTS

SERVER = str(TESTS / "support" / "feature_cells" / "feature_server.py")


def features_of(cell: Cell) -> list[Feature]:
    """Return the features that a cell runs: all; but no process is started for a request that is refused anyway."""
    starts_processes = (cell.peer, cell.transport) == (INSPECTOR, "stdio")
    return [feature for feature in FEATURES if not (starts_processes and cell.reason(*feature.needs))]


def use_of(cell: Cell, target: list[str]) -> Use:
    """Return how a cell uses the features of a server, which is named by its command or URL."""
    return Use(str(cell), cell, target, features_of(cell), cell.reason)


def check_peer(peer: str, uses: list[Use]) -> None:
    """Run some cells of a client of another project in one process, and check what they receive."""
    check_all(uses, received(peer, [(use.cell.revision, use) for use in uses]))
