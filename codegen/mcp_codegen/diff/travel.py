"""Revisions go in, who sends and who receives a value of each type comes out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from ..ir import Alias, Array, Map, Method, Object, Ref, Revision, Type, Union
from .changes import RULES, Severity

Side = Literal["client", "server"]

_SENDERS: Final[dict[str, tuple[Side, Side]]] = {
    "client_to_server": ("client", "server"),
    "server_to_client": ("server", "client"),
}


@dataclass
class Travel:
    """Which types each side sends, over all the revisions compared; `sorts` are the names for something else."""

    sorts: set[str] = field(default_factory=set[str])
    sent: dict[Side, set[str]] = field(default_factory=lambda: {"client": set[str](), "server": set[str]()})

    def severities(self, rule: str, type: str) -> tuple[Severity, Severity]:
        """What a change of this type means for clients and for servers; a type that nobody sends concerns both, but
        a union that nobody sends only sorts what is sent."""
        senders: list[Side] = [side for side, types in self.sent.items() if type in types]
        if not senders and type in self.sorts:
            return Severity.COMPATIBLE, Severity.COMPATIBLE
        return judge(rule, senders or ["client", "server"])


def judge(rule: str, senders: Iterable[Side]) -> tuple[Severity, Severity]:
    """The severities for clients and servers of a change in what these sides send."""
    client = server = Severity.COMPATIBLE
    for side in senders:
        mine, theirs = RULES[rule].sender, RULES[rule].receiver
        client = max(client, mine if side == "client" else theirs)
        server = max(server, theirs if side == "client" else mine)
    return client, server


def sender(row: Method) -> Side:
    return _SENDERS[row.direction][0]


def travel(*revisions: Revision) -> Travel:
    """Follow every message of the revisions into the types it holds."""
    found = Travel()
    for revision in revisions:
        found.sorts |= {name for name, each in revision.types.items() if isinstance(each, Alias)}
        for row in revision.methods:
            asks, answers = _SENDERS[row.direction]
            follow(Ref(row.type), revision, found.sent[asks])
            for answer in (row.result, *(interim.type for interim in row.interim)):
                if answer is not None:
                    follow(Ref(answer), revision, found.sent[answers])
    return found


def follow(start: Type, revision: Revision, seen: set[str]) -> None:
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
