"""The rules that name and rate a change, the change itself, and the deprecated parts of a revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Final

from ..errors import Json
from ..model.ir import Revision
from ..paths import read_toml

# The years between the deprecation and the removal of a feature: feature lifecycle of the specification.
_WINDOW_YEARS: Final = 1


class Severity(IntEnum):
    """The effect of a change on an unchanged program: it works, it works for now, or it breaks."""

    COMPATIBLE = 0
    DEPRECATED = 1
    BREAKING = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    """The severity of a change for the sender and for the receiver of a message with it; `text` is its meaning.

    It is breaking only where a witness shows it.
    """

    sender: Severity
    receiver: Severity
    text: str


def _rules() -> Mapping[str, Rule]:
    rows = read_toml(Path(__file__).with_name("rules.toml"))
    return {
        name: Rule(Severity[sender.upper()], Severity[receiver.upper()], text)
        for name, (sender, receiver, text) in rows.items()
    }


DIFF_RULES: Final = _rules()


@dataclass(frozen=True, slots=True)
class Witness:
    """A value, such as a message or a part of one, that one revision accepts and the other refuses.

    `at` is the type of the value in the revision that accepts it, or the place that no type shows.
    """

    at: str
    accepted_by: str
    refused_by: str
    value: Json = field(compare=False)


@dataclass(frozen=True, slots=True)
class DiffChange:
    """One change: its place, the state before and after, and its severity for either side.

    `removable` is the first day on which something deprecated may be removed; `waived` the reason why the change is
    accepted; `witnesses` show why it is breaking.
    """

    rule: str
    at: str
    before: str
    after: str
    client: Severity
    server: Severity
    removable: str = ""
    waived: str = ""
    witnesses: tuple[Witness, ...] = ()

    @property
    def severity(self) -> Severity:
        """Return the higher severity of the two sides."""
        return max(self.client, self.server)


def removable_from(revision: str) -> str:
    """Return the first day on which a feature that this revision deprecates may be removed; empty if its id is not a
    date."""
    try:
        day = date.fromisoformat(revision)
    except ValueError:
        return ""
    leap = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year + _WINDOW_YEARS, day=28 if leap else day.day).isoformat()


# The deprecated parts of a revision, with the day from which each may be removed.


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Something deprecated: the revision that deprecated it, and the day from which it may be removed."""

    at: str
    since: str
    removable: str


def deprecations(history: Sequence[Revision]) -> list[Deprecation]:
    """Return what is deprecated in the last of these revisions, since the first revision from which on it always
    was."""
    *earlier, newest = history
    deprecated: list[Deprecation] = []
    before = [_deprecated(revision) for revision in earlier]
    for at in _deprecated(newest):
        since = newest.id
        for revision, names in zip(reversed(earlier), reversed(before), strict=True):
            if at not in names:
                break
            since = revision.id
        deprecated.append(Deprecation(at, since, removable_from(since)))
    return deprecated


def _deprecated(revision: Revision) -> list[str]:
    """Return the deprecated methods, the deprecated types, and the deprecated fields of other types."""
    names = [row.method for row in revision.methods if row.deprecated]
    names += [name for name, type in revision.types.items() if type.deprecated]
    for type in revision.objects():
        if not type.deprecated:
            names += [f"{type.name}.{field.wire}" for field in revision.own_fields(type) if field.deprecated]
    return list(dict.fromkeys(names))
