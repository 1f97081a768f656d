"""The report of a diff: text, Markdown, JSON or HTML; and waivers, the changes that are accepted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import jinja2
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import CodegenError, is_list, is_object
from ..paths import read_toml
from .changes import DIFF_RULES, Deprecation, DiffChange, Severity, Witness

_MAX_VALUE: Final = 160

_STYLES = {Severity.COMPATIBLE: "green", Severity.DEPRECATED: "yellow", Severity.BREAKING: "red"}


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The changes from one revision to another, and the deprecated parts of the newer one."""

    older: str
    newer: str
    changes: Sequence[DiffChange]
    deprecations: Sequence[Deprecation]

    def summary(self) -> str:
        """Return one line: the number of changes, and of those that break clients and servers."""
        unwaived = [change for change in self.changes if not change.waived]
        count = Counter(change.severity for change in unwaived)
        clients = sum(change.client is Severity.BREAKING for change in unwaived)
        servers = sum(change.server is Severity.BREAKING for change in unwaived)
        waived = len(self.changes) - len(unwaived)
        return (
            f"{self.older} → {self.newer}: {len(self.changes)} changes, {count[Severity.BREAKING]} breaking "
            f"({clients} for clients, {servers} for servers), {count[Severity.DEPRECATED]} deprecated"
            + (f", {waived} waived" if waived else "")
        )


def print_text(report: DiffReport, console: Console) -> None:
    """Print a table; without colour if the output is not a terminal."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("rule", "where", "client", "server", "before → after"):
        table.add_column(column, overflow="fold")
    for change in report.changes:
        cells = [escape(text) for text in (change.rule, change.at, _before_after(change))]
        marks = [f"[{_STYLES[side]}]{_mark(side, change)}" for side in (change.client, change.server)]
        table.add_row(
            cells[0], cells[1], *marks, cells[2] + (f" [dim](waived: {escape(change.waived)})" if change.waived else "")
        )
    console.print(table)
    for deprecation in report.deprecations:
        console.print(escape(f"deprecated: {_describe(deprecation)}"), style="yellow")
    console.print(escape(report.summary()), style="bold")


def as_markdown(report: DiffReport) -> str:
    """Return the report as Markdown."""
    lines = [f"# {report.older} → {report.newer}", "", report.summary(), ""]
    lines += ["| rule | where | client | server | before → after |", "|---|---|---|---|---|"]
    for change in report.changes:
        cells = (
            change.rule,
            f"`{change.at}`",
            _mark(change.client, change),
            _mark(change.server, change),
            _before_after(change),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    if report.deprecations:
        lines += ["", "## Deprecated", "", *(f"* {_describe(deprecation)}" for deprecation in report.deprecations)]
    return "\n".join(lines) + "\n"


def as_json(report: DiffReport) -> str:
    """Return the report as JSON."""
    document = {
        "older": report.older,
        "newer": report.newer,
        "changes": [
            asdict(change) | {"client": str(change.client), "server": str(change.server)} for change in report.changes
        ],
        "deprecations": [asdict(deprecation) for deprecation in report.deprecations],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def as_html(report: DiffReport, templates: Path) -> str:
    """Return one HTML page without scripts; all text of a schema is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), undefined=jinja2.StrictUndefined, autoescape=True
    )
    return environment.get_template("diff.html.jinja2").render(
        difference=report, rules=DIFF_RULES, describe=describe_witness
    )


def _before_after(change: DiffChange) -> str:
    moved = (
        " → ".join(text or "nothing" for text in (change.before, change.after)) if change.before or change.after else ""
    )
    shown = "".join(f"\n{describe_witness(witness)}" for witness in change.witnesses)
    return moved + (f" (may be removed from {change.removable})" if change.removable else "") + shown


def describe_witness(witness: Witness) -> str:
    """Return a witness in one line of limited length."""
    value = json.dumps(witness.value, ensure_ascii=False)
    value = value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}…"
    return f"{witness.accepted_by} accepts, and {witness.refused_by} refuses, {value}"


def _mark(side: Severity, change: DiffChange) -> str:
    return f"{side}, waived" if change.waived and side else str(side)


def _describe(deprecation: Deprecation) -> str:
    removal = f", may be removed from {deprecation.removable}" if deprecation.removable else ""
    return f"{deprecation.at}, since {deprecation.since}{removal}"


# Waivers: changes that are accepted, each with a reason.
#
# [[waive]]
# rule = "field-removed"
# at = "Tool.*"                    # a pattern as for file names
# reason = "Our code does not read it."


@dataclass(frozen=True, slots=True)
class Waiver:
    """The changes of a rule at some places, and the reason why they are accepted."""

    rule: str
    at: str
    reason: str

    def covers(self, change: DiffChange) -> bool:
        """Return True if the waiver applies to the change."""
        return change.rule == self.rule and fnmatchcase(change.at, self.at)


def read_waivers(path: Path) -> list[Waiver]:
    """Return the waivers of a file. Raises CodegenError for a row without an existing rule, a place or a reason."""
    waivers: list[Waiver] = []
    tables = read_toml(path, " as waivers")
    rows = tables.get("waive", [])
    if tables.keys() - {"waive"} or not is_list(rows):
        raise CodegenError(f"{path}: may have rows of [[waive]] alone, and has {', '.join(tables)}")
    for row in rows:
        texts = list(row.values()) if is_object(row) and row.keys() == {"rule", "at", "reason"} else [""]
        if not all(isinstance(text, str) and text for text in texts):
            raise CodegenError(f"{path}: a waiver needs `rule`, `at` and `reason`, and no other keys: {row}")
        if row["rule"] not in DIFF_RULES:
            raise CodegenError(f"{path}: unknown rule {row['rule']!r}; the rules are {', '.join(DIFF_RULES)}")
        waivers.append(Waiver(row["rule"], row["at"], row["reason"]))
    return waivers


def waive(changes: Iterable[DiffChange], waivers: Iterable[Waiver]) -> list[DiffChange]:
    """Return the changes, those under a waiver marked with its reason. Raises CodegenError for an unused waiver."""
    result = list(changes)
    for waiver in waivers:
        if not any(waiver.covers(change) for change in result):
            raise CodegenError(f"the waiver of {waiver.rule!r} at {waiver.at!r} covers no change; remove it")
        result = [replace(change, waived=waiver.reason) if waiver.covers(change) else change for change in result]
    return result
