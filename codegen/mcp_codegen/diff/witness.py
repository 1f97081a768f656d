"""Witnesses of breaking changes: a value that one revision accepts and the other refuses, checked by jsonschema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Final

from ..json_types import Json
from ..model.ir import Method, Object, Ref, Revision, Side
from .candidates import Candidates, bounds_of
from .changes import DIFF_RULES, DiffChange, Severity, Witness
from .definitions import Schema, definitions, place_schema, property_schema, type_schema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# What the two sides send over HTTP: values of which one revision accepts some that the other refuses.
_HTTP: Final[dict[str, list[Json]]] = {
    "streamable": [{"event": "endpoint", "data": "/messages"}, {"event": "message", "data": "{}"}],
    "priming_event": [{"id": "1", "data": ""}],
    "resource_metadata": [{"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}],
}
_REQUEST: Final[list[Json]] = [{"headers": {"Content-Type": "application/json"}}]


@dataclass(frozen=True, slots=True)
class Place:
    """Where two revisions may differ: a type with its name in either, and one of its properties; or a place that no
    type shows, and the values to try there. What is at a place `in_response` goes from the receiver of a request to
    its sender."""

    older: str
    newer: str
    property: str = ""
    is_type: bool = True
    values: tuple[Json, ...] = ()
    in_response: bool = False


def no_type(name: str, values: Iterable[Json], in_response: bool = False) -> Place:
    """Return a place that no type shows."""
    return Place(name, name, is_type=False, values=tuple(values), in_response=in_response)


class Evidence:
    """The witnesses for the changes between two revisions."""

    def __init__(self, older: Revision, newer: Revision) -> None:
        self._sides = (_RevisionSide(older), _RevisionSide(newer))

    def change(
        self, rule: str, at: str, before: object, after: object, *, senders: Iterable[Side], place: Place
    ) -> DiffChange:
        """Return a change, rated for clients and for servers. A sender breaks if it may send what the newer revision
        refuses, a receiver if it may receive what the older one refuses: without a witness nobody breaks."""
        rated = DIFF_RULES[rule]
        severities = {"sender": rated.sender, "receiver": rated.receiver}
        witnesses: list[Witness] = []
        directions = {"sender": self._sides, "receiver": self._sides[::-1]}
        for role, (accepting, refusing) in directions.items():
            if severities[role] is Severity.BREAKING:
                sides = (refusing, accepting) if place.in_response else (accepting, refusing)
                witness = self._find(*sides, place)
                severities[role] = Severity.COMPATIBLE if witness is None else Severity.BREAKING
                witnesses += [] if witness is None else [witness]
        client = server = Severity.COMPATIBLE
        for side in senders:
            roles = ("sender", "receiver") if side == "client" else ("receiver", "sender")
            client, server = max(client, severities[roles[0]]), max(server, severities[roles[1]])
        texts = ["" if value is None else str(value) for value in (before, after)]
        is_breaking = Severity.BREAKING in (client, server)
        shown = tuple(witnesses) if is_breaking else ()
        return DiffChange(rule, at, texts[0], texts[1], client, server, witnesses=shown)

    def calls(self, *methods: Method) -> tuple[Json, ...]:
        """Return messages of these rows, as both revisions may have them."""
        calls: list[Json] = []
        for side, method in product(self._sides, methods):
            params: Iterable[Json] = ()
            if method.params is not None and method.params in side.revision.types:
                params = Candidates(side.revision).of(Ref(method.params))
            envelope: dict[str, Json] = {} if method.kind == "input_request" else {"jsonrpc": "2.0"}
            envelope |= {"id": 1} if method.kind == "request" else {}
            calls.append({**envelope, "method": method.method})
            calls += [{**envelope, "method": method.method, "params": value} for value in params]
        return tuple(calls)

    def values(self, name: str) -> tuple[Json, ...]:
        """Return values of a type of either revision."""
        return tuple(
            value
            for side in self._sides
            if name in side.revision.types
            for value in Candidates(side.revision).of(Ref(name))
        )

    def _find(self, accepting: _RevisionSide, refusing: _RevisionSide, place: Place) -> Witness | None:
        names = (place.older, place.newer) if accepting is self._sides[0] else (place.newer, place.older)
        accepts = accepting.validator(names[0], place.is_type)
        refuses = refusing.validator(names[1], place.is_type, place.property)  # Not for another property's sake.
        for value in self._candidates(accepting, names[0], place):
            if accepts.is_valid(value) and not refuses.is_valid(value):
                return Witness(names[0], accepting.revision.id, refusing.revision.id, value)
        return None

    def _candidates(self, accepting: _RevisionSide, name: str, place: Place) -> Iterator[Json]:
        if not place.is_type:
            yield from place.values
            return
        candidates = Candidates(accepting.revision, self._bounds(place))
        defined = accepting.revision.types.get(name)
        if isinstance(defined, Object) and place.property:
            yield from candidates.with_field(defined, place.property)
        elif defined is not None:
            yield from candidates.of(Ref(name))

    def _bounds(self, place: Place) -> Iterator[float | str]:
        for side, name in zip(self._sides, (place.older, place.newer), strict=True):
            defined = side.revision.types.get(name)
            if isinstance(defined, Object):
                field = defined.field(place.property)
                yield from bounds_of(field.type if field is not None else None)
            elif defined is not None:
                yield from bounds_of(defined.type)


class _RevisionSide:
    """One of the two revisions, with validators for its types and places."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self._validators: dict[tuple[str, str], Validator] = {}

    @cached_property
    def _definitions(self) -> dict[str, Schema]:
        return definitions(self.revision)

    def validator(self, name: str, is_type: bool, wire: str = "") -> Validator:
        """Return the validator of a type, of one of its properties, or of what stands at a place that no type shows."""
        from jsonschema import Draft202012Validator  # A comparison without breaking changes does not need it.

        key = (name, wire)
        schema: Schema
        if key not in self._validators:
            if is_type and wire and isinstance(self.revision.types.get(name), Object):
                schema = property_schema(self.revision.types[name], wire)
            elif is_type:
                schema = type_schema(Ref(name)) if name in self._definitions else {"not": {}}
            else:
                schema = place_schema(self.revision, name)
            self._validators[key] = Draft202012Validator({**schema, "$defs": self._definitions})
        return self._validators[key]


def http_values(feature: str) -> tuple[Json, ...]:
    """Return the HTTP messages to try for a feature of the HTTP transport."""
    return tuple(_HTTP.get(feature, _REQUEST))
