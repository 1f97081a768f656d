"""A change between a lock and a live server: its rule, severity and place."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal

ContractSeverity = Literal["compatible", "review", "breaking"]

SEVERITIES: Final[tuple[ContractSeverity, ...]] = ("compatible", "review", "breaking")

RULES: Final[dict[str, str]] = {
    "server-renamed": "The server has another name.",
    "revision-changed": "The server negotiates another protocol version.",
    "instructions-changed": "The instructions of the server for models changed.",
    "item-added": "A tool, prompt or resource template was added.",
    "item-removed": "A tool, prompt or resource template was removed.",
    "description-changed": "The description, which models read, changed.",
    "text-changed": "A title or other text for people changed.",
    "hint-changed": "An annotation that hosts may rely on changed.",
    "property-added": "A property was added.",
    "required-property-added": "A required property was added.",
    "property-removed": "A property was removed.",
    "became-required": "A property became required.",
    "became-optional": "A property became optional.",
    "type-narrowed": "Fewer values are allowed than before.",
    "type-widened": "More values are allowed than before.",
    "type-changed": "Other values are allowed than before.",
    "default-changed": "The default value of a property changed.",
    "schema-added": "A schema was added.",
    "schema-removed": "A schema was removed.",
    "schema-changed": "A schema changed in a way that no other rule covers.",
    "uri-template-changed": "The URI template of a resource template changed.",
    "mime-type-changed": "The MIME type of a resource template changed.",
    "other-changed": "Something changed that no other rule covers.",
}


@dataclass(frozen=True, slots=True)
class ContractChange:
    """One change; `where` is a path such as `tools/get_alerts/input/state`."""

    rule: str
    severity: ContractSeverity
    where: str
    message: str


_SHOWN: Final = 60  # Characters of a value.
_BEFORE: Final = 20  # Of these, what stands before the first difference.


def moved(before: object, after: object) -> str:
    """Return both values, cut so that the first difference between them is shown."""
    texts = (ascii(before), ascii(after))
    equal = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(*texts, strict=False)))
    start = max(0, equal - _BEFORE) if max(map(len, texts)) > _SHOWN and equal > _BEFORE else 0
    shown = [
        ("..." if start else "") + text[start : start + _SHOWN] + ("..." if len(text) > start + _SHOWN else "")
        for text in texts
    ]
    return f"from {shown[0]} to {shown[1]}"
