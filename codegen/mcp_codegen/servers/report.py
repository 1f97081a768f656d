"""The report of `check`: text, JSON, SARIF 2.1.0, or annotations of GitHub Actions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import click

from ..output import plain
from ..render.source import GENERATOR
from .contract import RULES, SEVERITIES, ContractChange, ContractSeverity

_LEVELS: Final[dict[ContractSeverity, str]] = {"breaking": "error", "review": "warning", "compatible": "note"}
_COLOURS: Final[dict[ContractSeverity, str]] = {"breaking": "red", "review": "yellow", "compatible": "green"}
_COMMANDS: Final[dict[ContractSeverity, str]] = {"breaking": "error", "review": "warning", "compatible": "notice"}


def as_text(changes: Sequence[ContractChange], lock: str) -> str:
    """Return one line for each change, the most severe first, and a line that counts them."""
    ordered = sorted(changes, key=lambda change: -SEVERITIES.index(change.severity))
    lines = [
        (
            f"{click.style(f'{change.severity:<10}', fg=_COLOURS[change.severity])}  {plain(change.message)} "
            f" [{change.rule}]"
        )
        for change in ordered
    ]
    return "\n".join([*lines, f"{lock}: {_counted(changes)}"]) + "\n"


def as_json(changes: Sequence[ContractChange], lock: str) -> str:
    """Return one JSON object with all changes."""
    objects = [{name: getattr(change, name) for name in ("rule", "severity", "where", "message")} for change in changes]
    return json.dumps({"lock": lock, "changes": objects}, indent=2) + "\n"


def as_sarif(changes: Sequence[ContractChange], lock: str) -> str:
    """Return a SARIF 2.1.0 log of one run."""
    used = sorted({change.rule for change in changes})
    rules = [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in used]
    results = [
        {
            "ruleId": change.rule,
            "level": _LEVELS[change.severity],
            "message": {"text": change.message},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": lock}, "region": {"startLine": 1}},
                    "logicalLocations": [{"fullyQualifiedName": change.where}],
                }
            ],
        }
        for change in changes
    ]
    driver: dict[str, Any] = {"name": "mcp-codegen", "version": GENERATOR, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2) + "\n"


def as_github(changes: Sequence[ContractChange], lock: str) -> str:
    """Return a workflow command of GitHub Actions for each change."""
    lines = [
        f"::{_COMMANDS[change.severity]} file={_property(lock)},title={change.rule}::{_message(change.message)}"
        for change in changes
    ]
    return "".join(f"{line}\n" for line in lines)


Report = Callable[[Sequence[ContractChange], str], str]

REPORTS: Final[Mapping[str, Report]] = MappingProxyType(
    {"text": as_text, "json": as_json, "sarif": as_sarif, "github": as_github}
)


def _counted(changes: Sequence[ContractChange]) -> str:
    counts = Counter(change.severity for change in changes)
    return ", ".join(f"{counts[name]} {name}" for name in reversed(SEVERITIES) if counts[name]) or "no changes"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
