"""Reports: text for people, JSON, SARIF 2.1.0, annotations of GitHub Actions, and Markdown for a pull request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from mcp_runtime.usage.texts import plain

from .findings import Finding
from .sizes import Savings, is_exact, savings_of
from .snapshot import Snapshot, text_of
from .table import EFFECTS, LEVELS, Level, Rule, table

_COLOURS: Final[dict[Level, str]] = {"error": "31", "warning": "33", "note": "36"}
_SARIF: Final[dict[Level, str]] = {"error": "error", "warning": "warning", "note": "note"}
_GITHUB: Final[dict[Level, str]] = {"error": "error", "warning": "warning", "note": "notice"}
_SHOWN: Final = 3  # Findings of one rule that the text shows.
_SHOWN_HOSTS: Final = 3
_INFORMATION: Final = "https://modelcontextprotocol.io"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found of these servers; `file` is where an annotation stands."""

    snapshots: Sequence[Snapshot]
    findings: Sequence[Finding]
    file: str = "server"
    colour: bool = False
    whole: bool = False

    @property
    def counts(self) -> str:
        counted = Counter(finding.level for finding in self.findings)
        return ", ".join(_number(counted[level], level) for level in LEVELS)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def head_of(snapshot: Snapshot, whole: bool = False) -> str:
    """Return what a server is, in one line: names, versions, how much it has and costs."""
    name = " ".join(filter(None, (text_of(snapshot.info.get("name")), text_of(snapshot.info.get("version")))))
    parts = [
        _number(len(items), noun)
        for items, noun in (
            (snapshot.tools, "tool"),
            (snapshot.resources, "resource"),
            (snapshot.templates, "template"),
            (snapshot.prompts, "prompt"),
        )
        if items
    ]
    if snapshot.broken:
        stopped = "has not answered everything" if snapshot.revision else "has not started"
        return f"{name or snapshot.name}: {stopped if snapshot.command else 'has not answered'}"
    savings = savings_of(list(snapshot.tools))
    about = "" if is_exact() else "about "
    revision = f" ({snapshot.revision})" if snapshot.revision else ""
    return (
        f"{name or snapshot.name}{revision}: {', '.join(parts) or 'nothing'}; {about}{savings.now:,} tokens for a model"
    )


def _savings(savings: Savings) -> list[str]:
    measures = (
        ("descriptions of at most 300 characters", savings.shorter_descriptions),
        ("no argument described twice", savings.without_repetition),
        ("signatures instead of schemas", savings.signatures),
        ("two tools instead: search, or code mode", savings.search),
    )
    return [f"{value:>9,}  {text}" for text, value in measures if value < savings.now * 0.98]


def hosts_of(finding: Finding) -> str:
    """Return who minds, in words; the first few of many."""
    minding = [fact for fact in finding.facts if fact.effect != "information"]
    facts = [str(fact) for fact in minding or finding.facts]
    more = f" and {len(facts) - _SHOWN_HOSTS} more" if len(facts) > _SHOWN_HOSTS else ""
    return "; ".join(facts[:_SHOWN_HOSTS]) + more


def as_text(report: Report) -> str:
    """Return the findings by rule, the worst first, with the line to write."""
    lines: list[str] = []
    for snapshot in report.snapshots:
        lines.append(_bold(report, plain(head_of(snapshot))))
    for _, group in groupby(report.findings, key=lambda finding: (finding.level, finding.rule.code)):
        lines += ["", *_rule_lines(report, list(group))]
    budget = any(finding.rule.name in ("budget", "tokens-server") for finding in report.findings)
    for snapshot in report.snapshots if budget else ():
        if measures := _savings(savings_of(list(snapshot.tools))):
            lines += ["", "tokens that would remain:", *measures]
    lines += ["", _bold(report, report.counts)]
    if any(finding.rule for finding in report.findings):
        lines[-1] += f"; mcp-generated lint explain {report.findings[0].rule.code} says more"
    return "\n".join(lines) + "\n"


def _rule_lines(report: Report, findings: list[Finding]) -> list[str]:
    first = findings[0]
    level = f"\x1b[{_COLOURS[first.level]};1m{first.level}\x1b[0m" if report.colour else first.level
    owasp = f" ({first.rule.owasp})" if first.rule.owasp else ""
    lines = [f"{level} {first.rule.code} {first.rule.name}{owasp}"]
    shown = findings if report.whole else findings[:_SHOWN]
    for finding in shown:
        server = f"{finding.server}: " if len(report.snapshots) > 1 else ""
        more = f" (and {_number(len(finding.more), 'more place')})" if finding.more else ""
        lines.append(f"  {plain(f'{server}{finding.place}: {finding.message}')}{more}")
    if len(findings) > len(shown):
        lines.append(f"  and {len(findings) - len(shown)} more; --all shows them")
    if first.facts:
        lines.append(f"  hosts: {hosts_of(first)}")
    lines.append(f"  write: {plain(first.write)}")
    return lines


def _bold(report: Report, text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if report.colour else text


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.rule.code,
        "rule": finding.rule.name,
        "level": finding.level,
        "server": finding.server,
        "place": finding.place,
        "more": list(finding.more),
        "message": finding.message,
        "write": finding.write,
        "owasp": finding.rule.owasp or None,
        "hosts": [
            {"host": fact.host, "effect": fact.effect, "year": fact.year, "sure": fact.sure, "because": fact.because}
            for fact in finding.facts
        ],
    }


def as_json(report: Report) -> str:
    """Return one object with the servers and all findings."""
    servers = [
        {
            "name": snapshot.name,
            "server": snapshot.info,
            "revision": snapshot.revision,
            "tools": len(snapshot.tools),
            "tokens": savings_of(list(snapshot.tools)).now,
            "exact": is_exact(),
        }
        for snapshot in report.snapshots
    ]
    findings = [_object(finding) for finding in report.findings]
    return json.dumps({"rules": table().version, "servers": servers, "findings": findings}, indent=2) + "\n"


def as_sarif(report: Report) -> str:
    """Return a SARIF log of one run."""
    used = {finding.rule.code: finding.rule for finding in report.findings}
    rules = [
        {
            "id": rule.code,
            "name": rule.name,
            "shortDescription": {"text": rule.text},
            "fullDescription": {"text": rule.why},
            "properties": {"tags": [rule.area, *([rule.owasp] if rule.owasp else [])]},
        }
        for rule in used.values()
    ]
    results = [
        {
            "ruleId": finding.rule.code,
            "level": _SARIF[finding.level],
            "message": {"text": _whole(finding)},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": report.file}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": f"{finding.server}.{finding.place}"}],
                }
            ],
        }
        for finding in report.findings
    ]
    driver = {"name": "mcp-generated lint", "version": table().version, "informationUri": _INFORMATION, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2) + "\n"


def _whole(finding: Finding) -> str:
    hosts = f" {hosts_of(finding)}." if finding.facts else ""
    return f"{finding.place}: {finding.message}.{hosts} Write: {finding.write}"


def as_github(report: Report) -> str:
    """Return a workflow command for each finding."""
    return "".join(
        f"::{_GITHUB[finding.level]} file={_property(report.file)},title={finding.rule.code} {finding.rule.name}::"
        f"{_message(_whole(finding))}\n"
        for finding in report.findings
    )


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def as_markdown(report: Report) -> str:
    """Return a table for a pull request."""
    lines = [f"**{_cell(head_of(snapshot))}**" for snapshot in report.snapshots]
    lines += ["", "| | rule | where | what | hosts | write |", "|---|---|---|---|---|---|"]
    for finding in report.findings:
        cells = (
            finding.level,
            f"{finding.rule.code} {finding.rule.name}",
            f"`{finding.place}`",
            finding.message,
            hosts_of(finding),
            finding.write,
        )
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join([*lines, "", report.counts]) + "\n"


def _cell(text: str) -> str:
    return plain(" ".join(text.split())).replace("|", "\\|")


REPORTS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
    "markdown": as_markdown,
}


def rules_text() -> str:
    """Return all rules, one a line, and the date of the table."""
    rows = sorted(table().rules.values(), key=lambda rule: rule.code)
    lines = [f"{rule.code}  {rule.level:<8} {rule.name:<26} {rule.text}" for rule in rows]
    return (
        "\n".join([*lines, f"{len(rows)} rules, {sum(len(rule.facts) for rule in rows)} facts, {table().version}"])
        + "\n"
    )


def explanation_of(rule: Rule) -> str:
    """Return what a rule is about, who minds since when, and what to write."""
    owasp = f"\nOWASP MCP Top 10: {rule.owasp} {table().owasp[rule.owasp]}\n" if rule.owasp else ""
    rows = [
        f"  {table().hosts[fact.host]:<32} {EFFECTS[fact.effect]:<20} {fact.year}  "
        + "; ".join(
            filter(None, (f"limit {fact.limit}" if fact.limit else "", fact.keyword, fact.accepts, fact.because))
        )
        for fact in rule.facts
    ]
    hosts = "\nHosts:\n" + "\n".join(row.rstrip() for row in rows) + "\n" if rows else ""
    write = rule.write.replace("{{", "{").replace("}}", "}")
    return f"{rule.code} {rule.name} ({rule.level})\n\n{rule.text}\n\n{rule.why}\n{owasp}{hosts}\nWrite: {write}\n"
