"""Waivers: changes that are accepted, each with a reason.

[[waive]]
rule = "field-removed"
at = "Tool.*"                    # a pattern as for file names
reason = "Our code does not read it."
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import CodegenError
from ..json_types import is_object
from .changes import DIFF_RULES, DiffChange


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
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("waive", [])
    except (OSError, ValueError) as error:
        raise CodegenError(f"{path}: cannot be read as waivers: {error}") from error
    waivers: list[Waiver] = []
    for row in rows:
        if not is_object(row) or row.keys() != {"rule", "at", "reason"} or not all(row.values()):
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
