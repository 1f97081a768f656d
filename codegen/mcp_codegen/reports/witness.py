"""Witnesses of breaking changes: a value that one revision accepts and the other refuses, checked by jsonschema, with
the JSON Schema of a revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final

from ..errors import Json
from ..model.ir import Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Side, Type, Union, Values
from ..model.names import matching_text
from .changes import DIFF_RULES, DiffChange, Severity, Witness

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# Values to try for a type: few, simple ones first, and at its bounds and those of the type that it became.

_TEXTS: Final = ("text", "", "a", "1", "https://example.org/", "aGk=")
_ANY: Final[tuple[Json, ...]] = ({}, "text", 1, 0.5, True, [], None)
_DEPTH: Final = 12
_LIMIT: Final = 200  # Values of one type: each is validated twice.
Schema = dict[str, Any]

_NOTHING: Final[Schema] = {"not": {}}
_VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
# What HTTP messages of a revision with a feature are like, and those of a revision without it.
_HTTP_HEADS: Final[dict[str, tuple[Schema, Schema]]] = {
    "streamable": ({"properties": {"event": {"const": "message"}}}, {"properties": {"event": {"const": "endpoint"}}}),
    "version_header": ({"properties": {"headers": {"required": [_VERSION_HEADER]}}}, {}),
    "priming_event": ({}, {"properties": {"data": {"minLength": 1}}}),
    "resource_metadata": (
        {"properties": {"headers": {"properties": {"WWW-Authenticate": {"pattern": "resource_metadata="}}}}},
        {},
    ),
    "tool_headers": ({"properties": {"headers": {"required": ["Mcp-Param-Region"]}}}, {}),
}

# What the two sides send over HTTP: values of which one revision accepts some that the other refuses.
_HTTP: Final[dict[str, list[Json]]] = {
    "streamable": [{"event": "endpoint", "data": "/messages"}, {"event": "message", "data": "{}"}],
    "priming_event": [{"id": "1", "data": ""}],
    "resource_metadata": [{"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}],
}
_REQUEST: Final[list[Json]] = [{"headers": {"Content-Type": "application/json"}}]


class Candidates:
    """The values to try for the types of a revision. `bounds` are numbers near which two types may differ, and texts
    of which only one may allow some."""

    def __init__(self, revision: Revision, bounds: Iterable[float | str] = ()) -> None:
        self._types = revision.types
        listed = list(bounds)
        self._texts = [bound for bound in listed if isinstance(bound, str)]
        numbers = (bound for bound in listed if not isinstance(bound, str))
        near = {number for bound in numbers for number in (bound - 1, bound, bound + 1)}
        self._numbers = (1, 0, -1, *sorted(near), 10**9)
        self._sizes = [int(number) for number in sorted(near) if 0 <= number <= 1000]

    def of(self, written: Type) -> Iterator[Json]:
        """Yield values of a type, and some that are not: a validator decides."""
        return islice(self._values(written, 0), _LIMIT)

    def with_field(self, defined: Object, wire: str) -> Iterator[Json]:
        """Yield objects of a type in which this property is missing, or has one of its values."""
        smallest = self._smallest(defined, 0)
        yield {name: value for name, value in smallest.items() if name != wire}
        field = defined.field(wire)
        for value in islice(self._values(field.type, 0), _LIMIT) if field is not None else ():
            yield {**smallest, wire: value}

    def _values(self, written: Type, depth: int) -> Iterator[Json]:
        if depth > _DEPTH:
            return
        match written:
            case Ref(name):
                yield from self._named(name, depth)
            case Plain():
                yield from self._plain(written)
            case Values(values):
                yield from values
            case Array(items):
                yield []
                yield from ([value] for value in islice(self._values(items, depth + 1), 20))
                first: Json = next(self._values(items, depth + 1), None)
                yield from ([first] * size for size in self._sizes)
            case Map(values):
                yield {}
                yield from ({"key": value} for value in islice(self._values(values, depth + 1), 20))
            case Union(arms):
                for arm in arms:
                    yield from islice(self._values(arm, depth + 1), 30)

    def _named(self, name: str, depth: int) -> Iterator[Json]:
        defined = self._types[name]
        if isinstance(defined, Alias):
            yield from self._values(defined.type, depth + 1)
            return
        smallest = self._smallest(defined, depth)
        yield smallest
        if depth < 3:
            for field in defined.fields:
                for value in islice(self._values(field.type, depth + 3), 3):
                    yield {**smallest, field.wire: value}

    def _smallest(self, defined: Object, depth: int) -> dict[str, Json]:
        return {field.wire: self._first(field, depth) for field in defined.fields if field.required}

    def _first(self, field: Field, depth: int) -> Json:
        return field.constant if field.constant is not None else next(self._values(field.type, depth + 1), None)

    def _plain(self, plain: Plain) -> Iterator[Json]:
        match plain.kind:
            case "string":
                sizes = (size for size in self._sizes if size <= 200)
                yield from (*plain.open_values, *self._texts, *_TEXTS, *("a" * size for size in sizes))
            case "integer":
                yield from (int(number) for number in self._numbers)
            case "number":
                yield from (*self._numbers, *(number + 0.5 for number in self._numbers))
            case "boolean":
                yield from (True, False)
            case "null":
                yield None
            case "any":
                yield from _ANY


def bounds_of(written: Type | None) -> Iterator[float | str]:
    """Yield the bounds that a type names, and a text for its pattern, without those of other named types."""
    match written:
        case Plain():
            text = None if written.pattern is None else matching_text(written.pattern)
            bounds = (written.minimum, written.maximum, written.min_length, written.max_length, text)
            yield from (bound for bound in bounds if bound is not None)
        case Array(items, maximum, minimum):
            yield from (bound for bound in (maximum, minimum) if bound is not None)
            yield from bounds_of(items)
        case Map(values):
            yield from bounds_of(values)
        case Union(arms):
            for arm in arms:
                yield from bounds_of(arm)
        case _:
            return


# The JSON Schema of a revision, made of its intermediate representation: of its types, and of what no type shows.
#
# What no type shows are the messages of a direction, the results of a method, the capabilities that it needs, and the
# heads of HTTP messages. With these schemas a validator decides whether a revision accepts a value.


def definitions(revision: Revision) -> dict[str, Schema]:
    """Return the schemas of the types, as `$defs`."""
    return {name: _definition(defined) for name, defined in revision.types.items()}


def _definition(defined: Object | Alias) -> Schema:
    if isinstance(defined, Alias):
        return type_schema(defined.type)
    schema: Schema = {
        "type": "object",
        "properties": {field.wire: type_schema(field.type) for field in defined.fields},
        "required": [field.wire for field in defined.fields if field.required],
    }
    return schema | {"additionalProperties": False} if defined.closed else schema


def property_schema(defined: Object | Alias | None, wire: str) -> Schema:
    """Return the schema of objects with what a type says of one property, and of no other."""
    field = defined.field(wire) if isinstance(defined, Object) else None
    if field is not None:
        return {"properties": {wire: type_schema(field.type)}, "required": [wire] if field.required else []}
    return {"properties": {wire: False}} if isinstance(defined, Object) and defined.closed else {}


def type_schema(written: Type) -> Schema:
    """Return the schema of a type, whose references point to `$defs`."""
    match written:
        case Ref(name):
            return {"$ref": f"#/$defs/{name}"}
        case Plain("any"):
            return {}
        case Plain():
            bounds = {
                "minimum": written.minimum,
                "maximum": written.maximum,
                "minLength": written.min_length,
                "maxLength": written.max_length,
                "pattern": written.pattern,
            }
            return {"type": written.kind} | {key: bound for key, bound in bounds.items() if bound is not None}
        case Values(values):
            return {"enum": list(values)}
        case Array(items, maximum, minimum):
            sizes = {"maxItems": maximum, "minItems": minimum}
            sizes = {key: size for key, size in sizes.items() if size is not None}
            return {"type": "array", "items": type_schema(items), **sizes}
        case Map(values):
            return {"type": "object", "additionalProperties": type_schema(values)}
        case Union(arms):
            return {"anyOf": [type_schema(arm) for arm in arms]}


def place_schema(revision: Revision, place: str) -> Schema:
    """Return the schema of what stands at a place that is not a type, such as `calls client_to_server`."""
    kind, _, rest = place.partition(" ")
    match kind:
        case "calls":
            return _any_of(_call(row) for row in revision.methods if row.direction == rest)
        case "results":
            return _any_of(
                {"$ref": f"#/$defs/{name}"}
                for row in _rows(revision, rest)
                for name in (row.result, *(interim.type for interim in row.interim))
                if name is not None
            )
        case "capabilities":
            return _any_of(_capability(row.capability) for row in _rows(revision, rest))
        case "constants":
            return {"enum": list(revision.constants.values())}
        case "codes":
            ranges = [{"minimum": code.first, "maximum": code.last} for code in revision.reserved_codes]
            codes: Schema = {"enum": list(revision.constants.values())}
            return {"properties": {"code": {"anyOf": [codes, {"not": _any_of(ranges)}]}}}
        case "text":
            message: Schema = {"type": "object"}
            return {"anyOf": [message, {"type": "array", "items": message}]} if revision.batches else message
        case "unreadable":
            return (
                {"properties": {"id": {"type": "null"}}, "required": ["id"]}
                if revision.null_ids
                else {"not": {"required": ["id"]}}
            )
        case "first":
            opening = revision.lifecycle.roles.get("initialize_request")
            rows = (row for row in revision.methods if row.direction == "client_to_server" and row.kind == "request")
            return _any_of(_call(row) for row in rows if opening in (None, row.method))
        case _:
            return _http(revision, rest)


def _rows(revision: Revision, place: str) -> list[Method]:
    return [row for row in revision.methods if place == f"{row.direction} {row.method}"]


def _any_of(schemas: Any) -> Schema:
    return {"anyOf": list(schemas) or [_NOTHING]}


def _call(row: Method) -> Schema:
    """Return the schema of a message; an input request is part of a result, and has no envelope."""
    properties: Schema = {"method": {"const": row.method}}
    if row.params:
        properties["params"] = {"$ref": f"#/$defs/{row.params}"}
    required = ["method", "params"] if row.params_required else ["method"]
    if row.kind == "input_request":
        return {"properties": {**properties, "jsonrpc": False}, "required": required}
    return {"properties": properties, "required": [*required, "jsonrpc"]}


def _capability(path: str) -> Schema:
    """Return the schema of the capabilities of a side that a method needs."""
    schema: Schema = {}
    for name in reversed(path.split(".")[1:]):
        schema = {"properties": {name: schema}, "required": [name]}
    return schema


def _http(revision: Revision, feature: str) -> Schema:
    if feature.startswith("headers "):
        method = feature.partition(" ")[2]
        required = [METHOD_HEADER, NAME_HEADER] if method in revision.http.name_params else []
        return {"properties": {"headers": {"required": required}}}
    with_it, without = _HTTP_HEADS[feature]
    has_it = revision.http.tool_schemas if feature == "tool_headers" else getattr(revision.http, feature)
    return with_it if has_it else without


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
