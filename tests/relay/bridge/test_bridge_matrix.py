"""Every client through a bridge to every upstream: a cell is a client with its revision and transport, and an upstream
with its own. What both ends can represent works; the rest stands in the table of reasons.

The cells of an upstream share its process and a bridge, and those of a client of another project share its process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from support.feature_cells import own_peer
from support.feature_cells.bridge.bridge_cells import BridgeCell
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
from support.feature_cells.uses import check_all, received

pytestmark = pytest.mark.deadline(120)

OTHERS: Final = (PYTHON_1, PYTHON_2, FASTMCP, TYPESCRIPT_1, TYPESCRIPT_2, INSPECTOR)


class Upstream(NamedTuple):
    """A server behind a bridge, and the transport of its clients."""

    revision: str
    transport: str
    front: str

    def __str__(self) -> str:
        return f"{self.front}-to-{self.revision}-{self.transport}"

    @property
    def cells(self) -> list[BridgeCell]:
        """The cells of our clients in all revisions."""
        return [BridgeCell(Cell(OWN, down, self.front), self.revision, self.transport) for down in REVISIONS]


def upstreams() -> Iterator[Upstream]:
    """Yield the upstreams of all revisions, over all transports."""
    for revision in REVISIONS:
        yield Upstream(revision, "stdio", "http")
        yield Upstream(revision, "http", "http")
        yield Upstream(revision, "http", "stdio")
        if revision != NEWEST:
            yield Upstream(revision, "sse", "http")


def cells_of(peer: str) -> list[BridgeCell]:
    """Return the cells of a client of another project, those of the newest revision first."""
    oldest = ("2024-11-05",) if peer in (PYTHON_2, TYPESCRIPT_2) else ()
    return [
        BridgeCell(Cell(peer, down, "http"), up, "http")
        for down in sorted(PEERS[peer], reverse=True)
        for up in (*oldest, "2025-11-25", NEWEST)
    ]


async def check_own(cells: list[BridgeCell], test: str = "") -> None:
    """Let our clients use the features, one after another, and check what they receive."""
    uses = [cell.use(test) for cell in cells]
    outcomes = [await own_peer.use(cell.client, use.target, use.steps) for cell, use in zip(cells, uses, strict=True)]
    check_all(uses, outcomes)


@pytest.mark.parametrize("cell", [BridgeCell(Cell(OWN, "2025-11-25", "http"), NEWEST, "http"),
                                  BridgeCell(Cell(OWN, NEWEST, "http"), "2025-11-25", "http")], ids=str)  # fmt: skip
async def test_our_client_of_another_revision_uses_an_upstream(cell: BridgeCell) -> None:
    await check_own([cell], "-alone")


@pytest.mark.edges
@pytest.mark.edges("http-to-2024-11-05-sse", "stdio-to-2025-03-26-http", "http-to-2026-07-28-http")
@pytest.mark.long
@pytest.mark.parametrize("upstream", list(upstreams()), ids=str)
async def test_our_clients_of_all_revisions_use_each_upstream(upstream: Upstream) -> None:
    await check_own(upstream.cells)


@pytest.mark.edges("TypeScript SDK 2.4")
@pytest.mark.long
@pytest.mark.parametrize("peer", OTHERS)
def test_the_clients_of_other_projects_use_upstreams(peer: str) -> None:
    cells = cells_of(peer)
    uses = [cell.use() for cell in cells]
    runs = [(cell.client.revision, use) for cell, use in zip(cells, uses, strict=True)]
    check_all(uses, received(peer, runs))


def test_the_matrix_has_many_cells() -> None:
    own = [cell for upstream in upstreams() for cell in upstream.cells]
    assert len({str(cell) for cell in (*own, *(cell for peer in OTHERS for cell in cells_of(peer)))}) >= 150
