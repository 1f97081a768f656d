"""What changed between a lock and a live server: a rule, how bad it is, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["compatible", "review", "breaking"]

SEVERITIES: Final[tuple[Severity, ...]] = ("compatible", "review", "breaking")

RULES: Final[dict[str, str]] = {
    "server-renamed": "The server calls itself something else.",
    "revision-changed": "The server agrees to another revision of the protocol.",
    "instructions-changed": "What the server tells a model about itself says something else.",
    "item-added": "Something new is offered.",
    "item-removed": "Something is no longer offered.",
    "description-changed": "What a model reads about it says something else.",
    "text-changed": "A title or other text for people says something else.",
    "hint-changed": "An annotation that others may rely on says something else.",
    "property-added": "There is a property more.",
    "required-property-added": "There is a property more, and it has to be given.",
    "property-removed": "There is a property less.",
    "became-required": "A property has to be given now.",
    "became-optional": "A property need not be given any more.",
    "type-narrowed": "Fewer values are allowed than before.",
    "type-widened": "More values are allowed than before.",
    "type-changed": "Other values are allowed than before.",
    "default-changed": "What is assumed where nothing is given is something else.",
    "schema-added": "There is a schema where there was none.",
    "schema-removed": "There is no schema where there was one.",
    "schema-changed": "A schema differs in a way that no other rule knows.",
    "uri-template-changed": "The URIs of a resource template are made differently.",
    "mime-type-changed": "The content of a resource template is of another type.",
    "other-changed": "Something differs that no other rule knows.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `where` is a path such as `tools/get_alerts/input/state`."""

    rule: str
    severity: Severity
    where: str
    message: str
