"""A connection to a target that is opened for a request which is cancelled meanwhile: it is closed, and not leaked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.cancelled_steps import cancelled_at, steps
from support.clock import settle

from mcp_generated.v2026_07_28.methods import REVISION
from mcp_products.relay.proxy import connections
from mcp_products.relay.proxy.client_side import ChangeTeller
from mcp_products.relay.proxy.connections import TargetConnections
from mcp_products.relay.proxy.sharing import ConnectionRules
from mcp_products.relay.upstream.opening import ClientDetails
from mcp_products.relay.upstream.places import SessionPlaces


class Connection:
    """A connection to a stateless target, which begins to listen late or never."""

    def __init__(self, agrees_after: int) -> None:
        self.translation = SimpleNamespace(up_is_stateless=True)
        self.capabilities: dict[str, Any] = {}
        self.subscriptions = SimpleNamespace(notify=None, open=self._listen)
        self.is_closed = False
        self._agrees_after = agrees_after

    async def _listen(self) -> None:
        await steps(self._agrees_after)

    async def close(self) -> None:
        await steps(2)
        self.is_closed = True


@pytest.mark.parametrize("agrees_after", [0, 3, 10_000])
async def test_a_cancelled_opening_closes_its_connection(monkeypatch: pytest.MonkeyPatch, agrees_after: int) -> None:
    opened: list[Connection] = []
    returned: list[Any] = []

    async def open_connection(*_: Any) -> Connection:
        opened.append(connection := Connection(agrees_after))
        return connection

    monkeypatch.setattr(connections, "open_connection", open_connection)
    connector: Any = SimpleNamespace(connected=None, revisions=())
    target = TargetConnections(
        "target", connector, REVISION, ConnectionRules(2), SessionPlaces(2, "target", "places"), ChangeTeller("target")
    )
    downstream: Any = SimpleNamespace(notified=None)

    async def ask() -> None:
        returned.append(await target.open(ClientDetails(REVISION, {}, {}), downstream, "", 0.05))

    for number in range(1, 20):
        if not await cancelled_at(number, ask):
            break
    else:
        raise AssertionError("the opening never ends")
    await settle()
    assert number > 1 and returned == opened[-1:], "all but the last were cancelled"
    assert [connection.is_closed for connection in opened] == [True] * (number - 1) + [False]
    await target.close()
