"""A page for each protocol version but the first: what changed since the one before, and whom it breaks."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.reports.changes import DiffChange, Severity
from mcp_codegen.reports.compare import compare
from website.navigation import ROOT

_PARTS: Final = (
    (Severity.BREAKING, "Breaking", "An unchanged program of one of the two sides may stop working."),
    (Severity.DEPRECATED, "Deprecated", "It works, and will be removed."),
    (Severity.COMPATIBLE, "Compatible", "Unchanged programs work as before."),
)


@cache
def pages() -> dict[str, str]:
    """Return the texts of the pages by their paths on the site, oldest first."""
    schemas = SchemaCatalog(ROOT / "schema")
    revisions = [schemas.revision(name) for name in schemas.pins]
    return {
        f"changes/{after.id}.md": _page(before.id, after.id, list(compare(before, after)))
        for before, after in pairwise(revisions)
    }


def list_of_pages() -> str:
    """Return a section of links to the pages, with the numbers of their changes."""
    rows = [
        f"* [{text.partition(chr(10))[0].removeprefix('# ')}]({path}): {_first_sentence(text)}"
        for path, text in pages().items()
    ]
    return "\n## From version to version\n\n" + "\n".join(rows) + "\n"


def _first_sentence(text: str) -> str:
    return text.split("\n\n")[1].partition(". ")[0] + "."


def _page(older: str, newer: str, changes: list[DiffChange]) -> str:
    clients, servers = (
        sum(getattr(change, side) is Severity.BREAKING for change in changes) for side in ("client", "server")
    )
    parts = [
        f"# Changes from {older} to {newer}\n",
        f"{len(changes)} changes, of which {clients} break clients and {servers} break servers. "
        f"`mcp-codegen diff {older} {newer}` prints them; [the rules](../diff.md#rules) say what breaks whom, and the "
        "[explorer](../explorer.md) shows the types.\n",
    ]
    for severity, title, meaning in _PARTS:
        if rows := [_row(change) for change in changes if change.severity is severity]:
            parts += [
                f"## {title}\n",
                f"{meaning}\n",
                "| where | what | breaks | before → after |",
                "|---|---|---|---|",
            ]
            parts += [*rows, ""]
    return "\n".join(parts)


def _row(change: DiffChange) -> str:
    broken = [side for side in ("client", "server") if getattr(change, side) is Severity.BREAKING]
    moved = " → ".join(_code(text or "nothing") for text in (change.before, change.after))
    cells = (_code(change.at), change.rule, ", ".join(broken), moved if change.before or change.after else "")
    return "| " + " | ".join(cells) + " |"


def _code(text: str) -> str:
    """Return a text of a schema as code in a cell of a table; it has neither markup nor links there."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`".replace("|", "\\|")
