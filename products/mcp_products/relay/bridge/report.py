"""The report of a bridge: what the revision of a client and that of an upstream cannot represent of one another."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_products.versions.conversion import chain_of
from mcp_runtime.client.core import package_details
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Direction, Revision
from mcp_runtime.usage.texts import plain

from ..upstream.opening import ClientDetails, Opener, revisions_of
from ..upstream.raw import FROM_CLIENT, FROM_SERVER
from ..upstream.target import Target, TargetConnector
from ..upstream.translation import LossCounter, is_own
from .state import NAMES


class ReportRow(NamedTuple):
    """One thing that cannot pass: where it comes from, what it is, and why."""

    sender: str
    what: str
    reason: str


def report_rows(down: Revision, up: Revision) -> Iterator[ReportRow]:
    """Yield what messages between a client of one revision and an upstream of another lose."""
    directions: tuple[tuple[Direction, str, Revision, Revision], ...] = (
        (FROM_CLIENT, "client", down, up),
        (FROM_SERVER, "server", up, down),
    )
    for direction, sender, source, target in directions:
        chain = chain_of(down.package, source.id, target.id)
        for method in source.table(direction):
            removal = chain.removed_method(direction, method)
            if removal is not None and removal.response != "runtime":
                yield ReportRow(sender, method, removal.reason)
    for direction, sender, source, target in directions:
        for step in chain_of(down.package, source.id, target.id).plans:
            for rule in _rules_of(step, direction):
                yield ReportRow(sender, rule, step["rules"][rule])


def _rules_of(step: Mapping[str, Any], own: Direction) -> list[str]:
    """Return the rules that messages of one side can meet in a step: its params, and its results of requests of the
    other side. What the bridge does itself is none of them."""
    rules: dict[str, None] = {}
    types: set[str] = set()

    def collect(plan: Any) -> None:
        items: Sequence[Any] = cast("Any", plan) if isinstance(plan, tuple) else ()
        if len(items) == 2 and items[0] == "type":
            if items[1] not in types:
                types.add(items[1])
                collect(step["types"].get(items[1]))
        elif isinstance(plan, dict):
            for value in cast("dict[str, Any]", plan).values():
                collect(value)
        elif isinstance(plan, (tuple, list)):
            for value in cast("list[Any]", plan):
                collect(value)
        elif isinstance(plan, str) and plan in step["rules"]:
            rules[plan] = None

    for direction, methods in step["methods"].items():
        for method in methods.values():
            collect(method.get("params") if direction == own else method.get("results"))
    collect(("type", f"{'Client' if own == FROM_CLIENT else 'Server'}Capabilities"))
    return [rule for rule in rules if not rule.startswith("misfit") and not is_own(rule)]


def report_text(down: Revision, up: Revision) -> str:
    """Return the report of two revisions, a line for each loss."""
    rows = list(dict.fromkeys(report_rows(down, up)))
    head = f"client {down.id}, upstream {up.id}: "
    if not rows:
        return f"{head}everything passes\n"
    lines = [f"  {row.sender}: {row.what} ({row.reason})" for row in rows]
    return "\n".join([f"{head}{len(rows)} losses are possible", *lines, ""])


def print_report(target: Target, package: str, selected: Sequence[str]) -> int:
    """Connect to an upstream, print what clients of these revisions, or of all, cannot say to it, and return 0.

    Raises LocalError for an unknown revision, and MCPError if the upstream cannot be reached.
    """
    revisions = revisions_of(package)
    unknown = [id for id in selected if id not in {revision.id for revision in revisions}]
    if unknown:
        raise LocalError(f"there is no revision {unknown[0]!r}; there are {', '.join(item.id for item in revisions)}")
    opener = Opener(TargetConnector(target, _print_line), package, LossCounter(), NAMES)
    for down in revisions:
        if not selected or down.id in selected:
            print(report_text(down, asyncio.run(_upstream_revision(opener, down))), end="")
    return 0


def _print_line(line: str) -> None:
    print(plain(line), file=sys.stderr)


class _Ignored:
    """Takes what an upstream sends, and answers nothing."""

    async def handle(self, channel: Any, message: Any) -> dict[str, Any]:
        return {}

    def stream_closed(self, id: Any) -> None:
        pass


async def _upstream_revision(opener: Opener, down: Revision) -> Revision:
    client = ClientDetails(down, {}, package_details())
    upstream = await opener.open(client, _Ignored())
    await upstream.close()
    return upstream.revision
