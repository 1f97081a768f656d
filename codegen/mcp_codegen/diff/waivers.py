"""A file of waivers and changes go in, the changes come out with the reasons why some of them are accepted.

[[waive]]
rule = "field-removed"
at = "Tool.*"                    # a pattern as of file names
reason = "Nothing here reads it."
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
        return change.rule == self.rule and fnmatchcase(change.at, self.at)


def read_waivers(path: Path) -> list[Waiver]:
    """Raises CodegenError for a file that is not one of waivers, each with a rule there is and a reason."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("waive", [])
    except (OSError, ValueError) as fault:
        raise CodegenError(f"{path}: cannot be read as waivers: {fault}") from fault
    found: list[Waiver] = []
    for row in rows:
        if not is_object(row) or row.keys() != {"rule", "at", "reason"} or not all(row.values()):
            raise CodegenError(f"{path}: a waiver has a rule, a place `at` and a reason, this one does not: {row}")
        if row["rule"] not in DIFF_RULES:
            raise CodegenError(f"{path}: there is no rule {row['rule']!r}; the rules are {', '.join(DIFF_RULES)}")
        found.append(Waiver(row["rule"], row["at"], row["reason"]))
    return found


def waive(changes: Iterable[DiffChange], waivers: Iterable[Waiver]) -> list[DiffChange]:
    """Raises CodegenError for a waiver that no change needs."""
    judged = list(changes)
    for waiver in waivers:
        if not any(waiver.covers(change) for change in judged):
            raise CodegenError(f"the waiver of {waiver.rule!r} at {waiver.at!r} covers no change; remove it")
        judged = [replace(each, waived=waiver.reason) if waiver.covers(each) else each for each in judged]
    return judged
