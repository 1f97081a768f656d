"""A cell of a bridge: a client with its revision and transport, and an upstream with its own."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from support.feature_cells.bridge.bridge_processes import bridge_command, bridge_origin, upstream_words
from support.feature_cells.cells import GO, INSPECTOR, NEWEST, Cell
from support.feature_cells.feature_rows import FEATURES, Feature
from support.feature_cells.uses import Use

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
BEYOND_CALLS: Final = [feature for feature in BRIDGED if feature.needs]
"""The features for which a server sends more than the result of a call."""
GO_ROOTS: Final = "the Go SDK reads no `roots/list` without params in a result that requires input"
INSPECTED: Final = 3  # Features that the Inspector uses in a cell: it connects anew for each step.


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

    def reason(self, *needs: str) -> Any:
        """Return why a feature with these needs cannot work; None if both ends can do what it needs."""
        if "roots" in needs and self.client.peer == GO and self.upstream_revision < self.client.revision == NEWEST:
            return GO_ROOTS
        return self.client.reason(*needs) or self.common.reason(*needs)

    @property
    def target(self) -> list[str]:
        """The command or the URL of the bridge."""
        words = upstream_words(self.upstream_revision, self.upstream_transport)
        if self.client.transport == "stdio":
            return bridge_command(*words)
        return [bridge_origin(*words) + ("/mcp" if self.client.revision >= "2025-03-26" else "/sse")]

    @property
    def features(self) -> list[Feature]:
        """The features that the cell uses."""
        if self.client.peer == INSPECTOR:
            return [item for item in BRIDGED if len(item.steps) == 1 and not self.reason(*item.needs)][:INSPECTED]
        return BRIDGED if (self.client.transport, self.upstream_transport) == ("http", "http") else BEYOND_CALLS

    def use(self, test: str = "") -> Use:
        """Return how the cell uses its features; `test` names one that uses the same process again."""
        return Use(f"{self}{test}", self.common, self.target, self.features, self.reason)
