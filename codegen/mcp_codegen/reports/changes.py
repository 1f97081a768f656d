"""The rules that name and rate a change, the change itself, and the deprecated parts of a revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import IntEnum
from typing import Final

from ..errors import Json
from ..model.ir import Revision


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


_FINE: Final = Severity.COMPATIBLE
_LATER: Final = Severity.DEPRECATED
_BREAKS: Final = Severity.BREAKING

DIFF_RULES: Final[Mapping[str, Rule]] = {
    "method-added": Rule(_FINE, _FINE, "A new method that needs a capability, or a notification that may be ignored."),
    "method-required": Rule(_FINE, _BREAKS, "A new request that needs no capability: the receiver must answer it."),
    "method-removed": Rule(_BREAKS, _FINE, "A method was removed: its senders get an error."),
    "method-deprecated": Rule(_LATER, _LATER, "A method will be removed."),
    "method-restored": Rule(_FINE, _FINE, "A method is no longer deprecated."),
    "method-kind": Rule(_BREAKS, _BREAKS, "A message became part of another message, or the reverse."),
    "method-renamed": Rule(_BREAKS, _BREAKS, "The same method under another name."),
    "params-added": Rule(_FINE, _FINE, "A message without params may have params now."),
    "params-removed": Rule(_BREAKS, _BREAKS, "A message no longer has params."),
    "params-required": Rule(_BREAKS, _FINE, "The params may no longer be left out."),
    "params-optional": Rule(_FINE, _BREAKS, "The params may be left out."),
    "params-type": Rule(_FINE, _FINE, "The params are of another type; its fields are reported separately."),
    "result-type": Rule(_FINE, _FINE, "The result is of another type; its fields are reported separately."),
    "interim-added": Rule(_BREAKS, _FINE, "A further interim result is possible; the requester must handle it."),
    "interim-removed": Rule(_FINE, _BREAKS, "An interim result is no longer possible."),
    "interim-on-request": Rule(_FINE, _FINE, "An interim result that only params request is possible, or no longer."),
    "capability-changed": Rule(_BREAKS, _BREAKS, "A method needs another capability."),
    "type-added": Rule(_FINE, _FINE, "A new type; its uses are reported separately."),
    "type-removed": Rule(_FINE, _FINE, "A type was removed; its uses are reported separately."),
    "type-renamed": Rule(_FINE, _FINE, "The same type under another name: bindings change, the wire does not."),
    "type-deprecated": Rule(_LATER, _LATER, "A type will be removed."),
    "type-restored": Rule(_FINE, _FINE, "A type is no longer deprecated."),
    "type-extends": Rule(_FINE, _FINE, "A type has other bases; the fields it gains or loses are reported."),
    "type-form": Rule(_BREAKS, _BREAKS, "An object became something else, or the reverse."),
    "field-added": Rule(_FINE, _FINE, "A new optional field."),
    "field-added-required": Rule(_BREAKS, _FINE, "A new required field."),
    "field-renamed": Rule(_BREAKS, _BREAKS, "The same field under another name."),
    "field-removed": Rule(_BREAKS, _FINE, "An optional field was removed: its value is ignored."),
    "field-removed-required": Rule(_BREAKS, _BREAKS, "A required field was removed."),
    "field-required": Rule(_BREAKS, _FINE, "A field may no longer be left out."),
    "field-optional": Rule(_FINE, _BREAKS, "A field may be left out."),
    "field-deprecated": Rule(_LATER, _LATER, "A field will be removed."),
    "field-restored": Rule(_FINE, _FINE, "A field is no longer deprecated."),
    "value-wider": Rule(_FINE, _BREAKS, "More values, types or union arms are allowed."),
    "value-narrower": Rule(_BREAKS, _FINE, "Fewer values, types or union arms are allowed."),
    "value-changed": Rule(_BREAKS, _BREAKS, "Other values, types or union arms are allowed."),
    "value-described": Rule(_FINE, _FINE, "The same values, described differently."),
    "revision-id": Rule(_FINE, _FINE, "The constant that is the id of the revision itself."),
    "constant-added": Rule(_FINE, _FINE, "A new constant, such as an error code."),
    "constant-removed": Rule(_BREAKS, _BREAKS, "A constant was removed."),
    "constant-changed": Rule(_BREAKS, _BREAKS, "A constant has another value."),
    "code-reserved": Rule(_BREAKS, _FINE, "An error code is reserved: another code is sent instead."),
    "code-free": Rule(_FINE, _BREAKS, "An error code is no longer reserved."),
    "batches-added": Rule(_FINE, _BREAKS, "A message on the wire may be a list of messages."),
    "batches-removed": Rule(_BREAKS, _FINE, "A message on the wire may no longer be a list of messages."),
    "error-id": Rule(_FINE, _BREAKS, "The id of an error for an unreadable request is encoded differently."),
    "lifecycle-changed": Rule(_BREAKS, _BREAKS, "A connection is initialized differently."),
    "http-changed": Rule(_BREAKS, _BREAKS, "Messages are sent over HTTP differently; see the overlay."),
}

# The years between the deprecation and the removal of a feature: feature lifecycle of the specification.
_WINDOW_YEARS: Final = 1


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
