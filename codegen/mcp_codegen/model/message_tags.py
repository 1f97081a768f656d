"""Tags of messages in schema.ts that say what else a row of the overlay says, or what nothing does.

`@direction client_to_server` or `server_to_client`: the side that sends a message, for one that is in no union.
`@capability server.tools` or `none`: the capability that it needs. `@result FetchedPage`: the result of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import RuleError
from ..json_types import is_object
from .overlay import DIRECTIONS, OverlayRows
from .types import NamedTypes

TAGS: Final = ("direction", "capability", "result")
_NO_CAPABILITY: Final = "none"


@dataclass(frozen=True, slots=True)
class MessageTags:
    """The tags of one message; empty for a tag that it does not have."""

    direction: str = ""
    capability: str | None = None
    result: str = ""


NO_TAGS: Final[Mapping[str, MessageTags]] = {}


def read_message_tags(schema: Mapping[str, Any], types: NamedTypes, revision: str) -> dict[str, MessageTags]:
    """Return the tags of the messages of a normalized schema, by type. Raises RuleError for a wrong value."""
    tags: dict[str, MessageTags] = {}
    for name, definition in schema.get("$defs", {}).items():
        written = {tag: definition.get(f"x-{tag}") for tag in TAGS} if is_object(definition) else {}
        if any(value is not None for value in written.values()):
            tags[name] = _tags(name, written, types, revision)
    return tags


def sent_without_union(
    tags: Mapping[str, MessageTags], rows: OverlayRows, direction: str, ending: str, in_unions: set[str]
) -> list[str]:
    """Return the messages that are in no union, and that one side sends by their tag, or else by a row of the overlay.

    Args:
        tags: The tags of messages, by type.
        rows: The rows of the table `direction`.
        direction: The direction of the messages.
        ending: The end of their names, which tells requests from notifications.
        in_unions: The messages that are in a union.
    """
    names = [name for name, of in tags.items() if of.direction == direction and name.endswith(ending)]
    listed = [name for name, row in rows.rows.items() if row.use == direction and name.endswith(ending)]
    free = [name for name in listed if name not in in_unions and not (name in tags and tags[name].direction)]
    for name in free:
        rows.use(name)
    return [*(name for name in names if name not in in_unions), *free]


def check_direction(tags: Mapping[str, MessageTags], name: str, direction: str, revision: str) -> None:
    """Raise RuleError if the tag of a message has another direction than its union."""
    tagged = tags[name].direction if name in tags else ""
    if tagged not in ("", direction):
        text = f"{revision}: {name} has @direction {tagged}, but it is in a union of messages {direction}; correct one"
        raise RuleError(text, rule="direction", at=name)


def _tags(name: str, written: Mapping[str, Any], types: NamedTypes, revision: str) -> MessageTags:
    direction, capability, result = (None if written[tag] is None else str(written[tag]) for tag in TAGS)
    if direction is not None and direction not in DIRECTIONS:
        raise _error(revision, name, "direction", direction, f"write {' or '.join(DIRECTIONS)}")
    if result is not None and result not in types:
        raise _error(revision, name, "result", result, "name a type of the schema")
    if capability is not None and not capability:
        raise _error(revision, name, "capability", capability, f"name one, side first, or write {_NO_CAPABILITY}")
    return MessageTags(direction or "", "" if capability == _NO_CAPABILITY else capability, result or "")


def _error(revision: str, name: str, tag: str, value: str, remedy: str) -> RuleError:
    return RuleError(f"{revision}: {name} has @{tag} {value:.100}, which it cannot have; {remedy}", rule=tag, at=name)
