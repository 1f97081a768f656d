"""The rules by which a change is named and judged, and what a change is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import Final


class Severity(IntEnum):
    """What an unchanged program makes of a change: it works as before, it works for now, it does not."""

    COMPATIBLE = 0
    DEPRECATED = 1
    BREAKING = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    """How serious a change is for who sends the message it is in, and for who receives it; `says` is what it means."""

    sender: Severity
    receiver: Severity
    text: str


_FINE: Final = Severity.COMPATIBLE
_LATER: Final = Severity.DEPRECATED
_BREAKS: Final = Severity.BREAKING

DIFF_RULES: Final[Mapping[str, Rule]] = {
    "method-added": Rule(_FINE, _FINE, "A new method, behind a capability, or a notification that may be ignored."),
    "method-required": Rule(_FINE, _BREAKS, "A new request that no capability guards: who receives it has to answer."),
    "method-removed": Rule(_BREAKS, _FINE, "A method is gone: who sends it is refused."),
    "method-deprecated": Rule(_LATER, _LATER, "A method will be removed."),
    "method-restored": Rule(_FINE, _FINE, "A method is no longer deprecated."),
    "method-kind": Rule(_BREAKS, _BREAKS, "What was a message of its own travels inside another, or the reverse."),
    "params-added": Rule(_FINE, _FINE, "A message without params may have some."),
    "params-removed": Rule(_BREAKS, _BREAKS, "A message has no params any more."),
    "params-required": Rule(_BREAKS, _FINE, "The params may no longer be left out."),
    "params-optional": Rule(_FINE, _BREAKS, "The params may be left out."),
    "params-type": Rule(_FINE, _FINE, "The params are of another type, with the fields reported beside it."),
    "result-type": Rule(_FINE, _FINE, "The result is of another type, with the fields reported beside it."),
    "interim-added": Rule(_BREAKS, _FINE, "Something else may answer before the result; the asker has to see to it."),
    "interim-removed": Rule(_FINE, _BREAKS, "What could answer before the result may do so no more."),
    "capability-changed": Rule(_BREAKS, _BREAKS, "Another capability has to be declared for a method."),
    "type-added": Rule(_FINE, _FINE, "A new type; where it is used is reported by itself."),
    "type-removed": Rule(_BREAKS, _BREAKS, "A type is gone, and with it its name in the bindings."),
    "type-renamed": Rule(_FINE, _FINE, "The same type under another name: bindings change, the wire does not."),
    "type-deprecated": Rule(_LATER, _LATER, "A type will be removed."),
    "type-restored": Rule(_FINE, _FINE, "A type is no longer deprecated."),
    "type-extends": Rule(_FINE, _FINE, "A type inherits from others; the fields it gains or loses are reported."),
    "type-form": Rule(_BREAKS, _BREAKS, "An object became something else, or the reverse."),
    "field-added": Rule(_FINE, _FINE, "A new optional field."),
    "field-added-required": Rule(_BREAKS, _FINE, "A new field that has to be sent."),
    "field-removed": Rule(_BREAKS, _FINE, "An optional field is gone: what is sent in it is not heard."),
    "field-removed-required": Rule(_BREAKS, _BREAKS, "A field that was always there is gone."),
    "field-required": Rule(_BREAKS, _FINE, "A field may no longer be left out."),
    "field-optional": Rule(_FINE, _BREAKS, "A field may be left out."),
    "field-deprecated": Rule(_LATER, _LATER, "A field will be removed."),
    "field-restored": Rule(_FINE, _FINE, "A field is no longer deprecated."),
    "value-wider": Rule(_FINE, _BREAKS, "More values, types or union arms are allowed."),
    "value-narrower": Rule(_BREAKS, _FINE, "Fewer values, types or union arms are allowed."),
    "value-changed": Rule(_BREAKS, _BREAKS, "Other values, types or union arms are allowed."),
    "value-described": Rule(_FINE, _FINE, "The same values, described more closely or in other words."),
    "revision-id": Rule(_FINE, _FINE, "The constant that is the id of the revision itself."),
    "constant-added": Rule(_FINE, _FINE, "A new constant, such as an error code."),
    "constant-removed": Rule(_BREAKS, _BREAKS, "A constant is gone."),
    "constant-changed": Rule(_BREAKS, _BREAKS, "A constant has another value."),
    "batches-added": Rule(_FINE, _BREAKS, "A message on the wire may be a list of messages."),
    "batches-removed": Rule(_BREAKS, _FINE, "A message on the wire may no longer be a list of messages."),
    "error-id": Rule(_FINE, _BREAKS, "An error whose request could not be read says so in another way."),
    "lifecycle-changed": Rule(_BREAKS, _BREAKS, "A conversation opens in another way."),
    "http-changed": Rule(_BREAKS, _BREAKS, "Messages travel over HTTP in another way; the overlay says how."),
}

# How long a feature stays after its deprecation, by the feature lifecycle of the specification.
_WINDOW_YEARS: Final = 1


@dataclass(frozen=True, slots=True)
class DiffChange:
    """One change: where, what it was and what it is, and what it means for either side.

    `removable` is the day from which what is deprecated may be removed; `waived` the reason why it is accepted.
    """

    rule: str
    at: str
    before: str
    after: str
    client: Severity
    server: Severity
    removable: str = ""
    waived: str = ""

    @property
    def severity(self) -> Severity:
        """The more serious of the two."""
        return max(self.client, self.server)


def removable_from(revision: str) -> str:
    """The first day on which what this revision deprecates may be removed; empty where its id is not a date."""
    try:
        day = date.fromisoformat(revision)
    except ValueError:
        return ""
    leap = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year + _WINDOW_YEARS, day=28 if leap else day.day).isoformat()
