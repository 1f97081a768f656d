"""Changes go in, what people and programs read comes out: text, Markdown, JSON or HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jinja2
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .changes import DIFF_RULES, DiffChange, Severity

_STYLES = {Severity.COMPATIBLE: "green", Severity.DEPRECATED: "yellow", Severity.BREAKING: "red"}


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Something deprecated: the revision that deprecated it, and the day from which it may be removed."""

    at: str
    since: str
    removable: str


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The changes from one revision to another, and what is deprecated in the newer one."""

    older: str
    newer: str
    changes: Sequence[DiffChange]
    deprecations: Sequence[Deprecation]

    def summary(self) -> str:
        """One line: how many changes there are, and how many break clients and servers."""
        open_ones = [change for change in self.changes if not change.waived]
        count = Counter(change.severity for change in open_ones)
        clients = sum(change.client is Severity.BREAKING for change in open_ones)
        servers = sum(change.server is Severity.BREAKING for change in open_ones)
        waived = len(self.changes) - len(open_ones)
        return (
            f"{self.older} → {self.newer}: {len(self.changes)} changes, {count[Severity.BREAKING]} breaking "
            f"({clients} for clients, {servers} for servers), {count[Severity.DEPRECATED]} deprecated"
            + (f", {waived} waived" if waived else "")
        )


def print_text(difference: DiffReport, console: Console) -> None:
    """A table on a terminal; in a pipe, the same without colour."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("rule", "where", "client", "server", "before → after"):
        table.add_column(column, overflow="fold")
    for change in difference.changes:
        words = [escape(text) for text in (change.rule, change.at, _moved(change))]
        marks = [f"[{_STYLES[side]}]{_mark(side, change)}" for side in (change.client, change.server)]
        table.add_row(
            words[0], words[1], *marks, words[2] + (f" [dim](waived: {escape(change.waived)})" if change.waived else "")
        )
    console.print(table)
    for each in difference.deprecations:
        console.print(escape(f"deprecated: {_describe(each)}"), style="yellow")
    console.print(escape(difference.summary()), style="bold")


def as_markdown(difference: DiffReport) -> str:
    lines = [f"# {difference.older} → {difference.newer}", "", difference.summary(), ""]
    lines += ["| rule | where | client | server | before → after |", "|---|---|---|---|---|"]
    for change in difference.changes:
        cells = (
            change.rule,
            f"`{change.at}`",
            _mark(change.client, change),
            _mark(change.server, change),
            _moved(change),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    if difference.deprecations:
        lines += ["", "## Deprecated", "", *(f"* {_describe(each)}" for each in difference.deprecations)]
    return "\n".join(lines) + "\n"


def as_json(difference: DiffReport) -> str:
    whole = {
        "older": difference.older,
        "newer": difference.newer,
        "changes": [
            asdict(change) | {"client": str(change.client), "server": str(change.server)}
            for change in difference.changes
        ],
        "deprecations": [asdict(each) for each in difference.deprecations],
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def as_html(difference: DiffReport, templates: Path) -> str:
    """One page on its own, without scripts; everything a schema says is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), undefined=jinja2.StrictUndefined, autoescape=True
    )
    return environment.get_template("diff.html.jinja2").render(difference=difference, rules=DIFF_RULES)


def _moved(change: DiffChange) -> str:
    moved = (
        " → ".join(text or "nothing" for text in (change.before, change.after)) if change.before or change.after else ""
    )
    return moved + (f" (may be removed from {change.removable})" if change.removable else "")


def _mark(side: Severity, change: DiffChange) -> str:
    return f"{side}, waived" if change.waived and side else str(side)


def _describe(each: Deprecation) -> str:
    when = f", may be removed from {each.removable}" if each.removable else ""
    return f"{each.at}, since {each.since}{when}"
