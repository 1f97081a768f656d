"""The official SDKs for Go, Rust and Java as clients and as servers, in all revisions that they speak, over stdio and
HTTP, and through a bridge and a gateway to the other era. `nox -s sdks` runs this.
"""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.clients import connect
from support.feature_cells import own_peer
from support.feature_cells.app_targets import origin, target
from support.feature_cells.bridge.bridge_cells import BRIDGED, BridgeCell
from support.feature_cells.bridge.bridge_processes import bridge_origin, listening, with_our_packages
from support.feature_cells.cell_runs import check_peer, use_of
from support.feature_cells.cells import BUILT, NEWEST, Cell, cells
from support.feature_cells.server_rows import OFFERS, SERVED, reason, server_cells, server_command
from support.feature_cells.uses import Use, check_all, received

from mcp_generated import Gateway

pytestmark = [pytest.mark.campaign, pytest.mark.deadline(120)]

ERAS = ("2025-11-25", NEWEST)
GATEWAY_VIEW = {
    "a hook that refuses a call": "a gateway refuses a tool that is not listed",
    "title, icons and website of an app and of its parts": "a gateway has a name of its own",
}
"""The name of a feature, and why it is not checked behind a gateway."""


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("peer", BUILT)
def test_the_client_of_an_sdk_uses_all_features(peer: str, transport: str) -> None:
    check_peer(peer, [use_of(cell, target(cell)) for cell in cells(peer) if cell.transport == transport])


@pytest.mark.parametrize("peer", BUILT)
def test_the_client_of_an_sdk_uses_servers_of_the_other_era_through_a_bridge(peer: str) -> None:
    through = [
        BridgeCell(Cell(peer, cell.revision, "http"), upstream, "http")
        for cell in cells(peer)
        if cell.transport == "http"
        for upstream in ERAS
        if (cell.revision == NEWEST) != (upstream == NEWEST)
    ]
    uses = [cell.use() for cell in through]
    runs = [(cell.client.revision, use) for cell, use in zip(through, uses, strict=True)]
    check_all(uses, received(peer, runs))


@cache
def gateway_url(folder: Path) -> str:
    """Return the endpoint of a gateway before the app with all features."""
    file = folder / "gateway.toml"
    file.write_text(f'[upstreams.app]\nurl = "{origin("http")}/mcp"\nprefix = ""\n', encoding="utf-8")
    command = [sys.executable, "-m", "mcp_products.relay.gateway", "--http", "127.0.0.1:0", str(file)]
    return listening(with_our_packages(*command)) + "/mcp"


@pytest.mark.parametrize("peer", BUILT)
def test_the_client_of_an_sdk_uses_a_server_through_a_gateway(
    peer: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = gateway_url(tmp_path_factory.getbasetemp())
    through = [BridgeCell(cell, NEWEST, "http") for cell in cells(peer) if is_over_streamable_http(cell)]
    features = [feature for feature in BRIDGED if feature.name not in GATEWAY_VIEW]
    uses = [cell.use()._replace(name=f"{cell}-gateway", target=[url], features=features) for cell in through]
    check_all(uses, received(peer, [(use.cell.revision, use) for use in uses]))


def is_over_streamable_http(cell: Cell) -> bool:
    """Return whether a cell is over HTTP with one endpoint."""
    return cell.transport == "http" and cell.revision > "2024-11-05"


class Served(NamedTuple):
    """A cell of a server, whose revision is that of our client; and the revision of the server behind a bridge."""

    cell: Cell
    behind: str | None = None

    def __str__(self) -> str:
        return f"{self.cell}-to-{self.behind}" if self.behind else str(self.cell)

    @property
    def target(self) -> list[str]:
        """The command or the URL for our client."""
        peer, revision, transport = self.cell.peer, self.cell.revision, self.cell.transport
        if self.behind:
            return [bridge_origin(*server_command(peer, "stdio", self.behind)) + "/mcp"]
        if transport == "stdio":
            return server_command(peer, "stdio")
        return [server_origin(peer) + ("/mcp" if revision >= "2025-03-26" else "/sse")]

    async def check(self) -> None:
        """Let our client use what the server offers, and check what it receives."""
        older = Cell(self.cell.peer, min(self.cell.revision, self.behind or NEWEST), self.cell.transport)
        use = Use(str(self), older, self.target, OFFERS, partial(reason, older))
        use.check(await own_peer.use(self.cell, use.target, use.steps))


@cache
def server_origin(peer: str) -> str:
    """Return where a server of an SDK serves over HTTP."""
    return listening(server_command(peer, "http"))


@pytest.mark.parametrize("cell", [cell for peer in SERVED for cell in server_cells(peer)], ids=str)
async def test_our_client_uses_a_server_of_an_sdk(cell: Cell) -> None:
    await Served(cell).check()


def others(peer: str) -> list[Served]:
    """Return the cells of a server behind a bridge: our clients of the other era."""
    rows = [(NEWEST, "2025-11-25"), ("2025-11-25", NEWEST), ("2025-03-26", NEWEST)]
    return [Served(Cell(peer, front, "http"), behind) for front, behind in rows if behind in SERVED[peer]]


@pytest.mark.parametrize("served", [row for peer in SERVED for row in others(peer)], ids=str)
async def test_our_client_uses_a_server_of_the_other_era_through_a_bridge(served: Served) -> None:
    await served.check()


@pytest.mark.parametrize("front", ERAS)
@pytest.mark.parametrize("peer", SERVED)
async def test_our_client_uses_a_server_through_a_gateway(peer: str, front: str) -> None:
    command, *arguments = server_command(peer, "stdio")
    gateway: Any = Gateway({"upstreams": {"sdk": {"command": command, "args": arguments, "prefix": ""}}})
    async with connect(gateway.app, revisions=[front]) as client:
        names = [tool.name async for tool in client.iter_tools()]
        result = json.loads((await client.call_tool("add", {"a": 2, "b": 3})).model_dump_json(by_alias=True))
        read = await client.read_resource("note://about/tea")
    assert {"add", "ask", "work"} <= {*names} and result["content"][0]["text"] == "5"
    assert result["structuredContent"] == {"sum": 5} and read.contents[0].text == "about tea"
