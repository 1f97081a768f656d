"""Revisions go in, who sends and who receives a value of each type comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from ..model.ir import Alias, Array, Map, Method, Object, Ref, Revision, Type, Union
from .changes import DIFF_RULES, Severity

Side = Literal["client", "server"]

_SENDERS: Final[dict[str, tuple[Side, Side]]] = {
    "client_to_server": ("client", "server"),
    "server_to_client": ("server", "client"),
}


@dataclass
class Directions:
    """Which types each side sends, over all the revisions compared; `sorts` are the names for something else."""

    sorts: set[str] = field(default_factory=set[str])
    senders: dict[Side, set[str]] = field(default_factory=lambda: {"client": set[str](), "server": set[str]()})

    def severities(self, rule: str, type: str) -> tuple[Severity, Severity]:
        """What a change of this type means for clients and for servers; a type that nobody sends concerns both, but
        a union that nobody sends only sorts what is sent."""
        senders: list[Side] = [side for side, types in self.senders.items() if type in types]
        if not senders and type in self.sorts:
            return Severity.COMPATIBLE, Severity.COMPATIBLE
        return severity(rule, senders or ["client", "server"])


def severity(rule: str, senders: Iterable[Side]) -> tuple[Severity, Severity]:
    """The severities for clients and servers of a change in what these sides send."""
    client = server = Severity.COMPATIBLE
    for side in senders:
        mine, theirs = DIFF_RULES[rule].sender, DIFF_RULES[rule].receiver
        client = max(client, mine if side == "client" else theirs)
        server = max(server, theirs if side == "client" else mine)
    return client, server


def sender(row: Method) -> Side:
    return _SENDERS[row.direction][0]


def directions(*revisions: Revision) -> Directions:
    """Follow every message of the revisions into the types it holds."""
    found = Directions()
    for revision in revisions:
        found.sorts |= {name for name, each in revision.types.items() if isinstance(each, Alias)}
        for row in revision.methods:
            asks, answers = _SENDERS[row.direction]
            reachable_types(Ref(row.type), revision, found.senders[asks])
            for answer in (row.result, *(interim.type for interim in row.interim)):
                if answer is not None:
                    reachable_types(Ref(answer), revision, found.senders[answers])
    return found


def reachable_types(start: Type, revision: Revision, seen: set[str]) -> None:
    """Add every type that a value of this one may hold."""
    waiting = [start]
    while waiting:
        match waiting.pop():
            case Ref(name) if name not in seen and name in revision.types:
                seen.add(name)
                waiting += _inside(revision.types[name])
            case Array(items):
                waiting.append(items)
            case Map(values):
                waiting.append(values)
            case Union(arms):
                waiting += arms
            case _:
                pass


def _inside(each: Object | Alias) -> list[Type]:
    if isinstance(each, Alias):
        return [each.type]
    return [*(field.type for field in each.fields), *(Ref(name) for name in each.extends)]
