"""The page of the table of features says what the tests of its cells run."""

from __future__ import annotations

from support.feature_cells.cells import PEERS, cells
from support.feature_cells.feature_page import PAGE, page
from support.feature_cells.feature_rows import FEATURES


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/support/feature_cells/feature_page.py"


def test_every_feature_is_used_by_three_peers_and_every_peer_has_cells_over_stdio_and_http() -> None:
    for feature in FEATURES:
        users = [peer for peer in PEERS if any(cell.reason(*feature.needs) is None for cell in cells(peer))]
        assert len(users) >= 3, feature.name
    for peer in PEERS:
        assert {"stdio", "http"} <= {cell.transport for cell in cells(peer)}
