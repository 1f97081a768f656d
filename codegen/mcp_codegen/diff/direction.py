"""The directions of types: the sides that send and that receive values of each type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..model.ir import Alias, Array, Map, Method, Object, Ref, Revision, Side, Type, Union

_SENDERS: Final[dict[str, tuple[Side, Side]]] = {
    "client_to_server": ("client", "server"),
    "server_to_client": ("server", "client"),
}


@dataclass
class Directions:
    """The types that each side sends, over all compared revisions; `aliases` are the names that are not objects."""

    aliases: set[str] = field(default_factory=set[str])
    senders: dict[Side, set[str]] = field(default_factory=lambda: {"client": set[str](), "server": set[str]()})

    def of(self, type: str) -> list[Side]:
        """Return the sides that send a type. One that neither side sends counts for both, but an alias that neither
        side sends only groups messages and counts for none."""
        senders: list[Side] = [side for side, types in self.senders.items() if type in types]
        return senders or ([] if type in self.aliases else ["client", "server"])


def sender(row: Method) -> Side:
    """Return the side that sends a message."""
    return _SENDERS[row.direction][0]


def directions(*revisions: Revision) -> Directions:
    """Return the directions of all types in the messages of these revisions."""
    result = Directions()
    for revision in revisions:
        result.aliases |= {name for name, type in revision.types.items() if isinstance(type, Alias)}
        for row in revision.methods:
            requester, responder = _SENDERS[row.direction]
            reachable_types(Ref(row.type), revision, result.senders[requester])
            for response in (row.result, *(interim.type for interim in row.interim)):
                if response is not None:
                    reachable_types(Ref(response), revision, result.senders[responder])
    return result


def reachable_types(start: Type, revision: Revision, seen: set[str]) -> None:
    """Add to `seen` every type that a value of this type may contain."""
    pending = [start]
    while pending:
        match pending.pop():
            case Ref(name) if name not in seen and name in revision.types:
                seen.add(name)
                pending += _inside(revision.types[name])
            case Array(items):
                pending.append(items)
            case Map(values):
                pending.append(values)
            case Union(arms):
                pending += arms
            case _:
                pass


def _inside(type: Object | Alias) -> list[Type]:
    if isinstance(type, Alias):
        return [type.type]
    return [*(field.type for field in type.fields), *(Ref(name) for name in type.extends)]
