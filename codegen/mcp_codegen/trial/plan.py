"""The plan of a conversation: what each side sends and answers, with samples of the types of a revision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from ..errors import Finding, Json
from ..importer.references import Schema
from ..model.ir import Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.names import matching_text
from ..render.calls import TABLES, MethodView, method_views
from ..render.types import literal
from ..testkit.messages import MessageFactory

# Sample values of the types of a revision, as JSON: the smallest value, and one with the optional properties.

_TEXTS: Final = (
    "text",
    "https://example.org/",
    "file:///text",
    "aGk=",
    "a",
    "A",
    "1",
    "a/b",
    "",
    *("0" * length for length in (8, 16, 32, 40, 64, 128)),
)
_ADDRESSES: Final = ("uri", "url", "uritemplate")
_DEPTH: Final = 4  # Objects inside of objects that have their optional properties.
# Optional properties without a sample: metadata, and the names that a JSON Schema requires, which it has to declare.
_OMITTED: Final = ("_meta", "required")


class NoSampleError(Exception):
    """No value of a type can be made; the argument says why."""


class Samples:
    """The samples of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._types = revision.types

    def smallest(self, written: Type) -> Json:
        """Return a value with the required properties only. Raises NoSampleError if there is none."""
        return self._make(written, "", _DEPTH)

    def whole(self, written: Type) -> Json:
        """Return a value with optional properties as well. Raises NoSampleError if there is none."""
        return self._make(written, "", 0)

    @cached_property
    def _heights(self) -> dict[str, int]:
        """Return the number of types inside of each other that the smallest value of a type has, by name. A type that
        always contains itself is missing."""
        heights: dict[str, int] = {}
        while True:
            added = {
                name: height
                for name, defined in self._types.items()
                if name not in heights and (height := _height(defined, heights)) is not None
            }
            if not added:
                return heights
            heights |= added

    def _make(self, written: Type, wire: str, depth: int) -> Json:
        match written:
            case Ref(name):
                return self._named(name, wire, depth)
            case Plain():
                return _plain(written, wire)
            case Values(values):
                return values[0]
            case Array(items, maximum, minimum):
                expected = minimum or (1 if depth < _DEPTH and _finite(items, self._heights) else 0)
                size = expected if maximum is None else min(expected, maximum)
                return [self._make(items, wire, depth + 1) for _ in range(size)]
            case Map(values):
                return {wire or "key": self._make(values, "", depth + 1)} if depth < _DEPTH - 1 else {}
            case Union(arms):
                arms = tuple(arm for arm in arms if _finite(arm, self._heights)) or arms
                simple = min(arms, key=lambda arm: _type_height(arm, self._heights) or 0)
                return self._make(arms[-1] if depth < _DEPTH - 1 else simple, wire, depth)

    def _named(self, name: str, wire: str, depth: int) -> Json:
        if name not in self._heights:
            raise NoSampleError(
                f"{name} has no finite value: it always contains itself; make one of the properties inside optional"
            )
        defined = self._types[name]
        if isinstance(defined, Alias):
            return self._make(defined.type, wire, depth)
        return {field.wire: self._property(field, depth) for field in self._chosen(defined, depth)}

    def _chosen(self, defined: Object, depth: int) -> Iterator[Field]:
        for field in defined.fields:
            optional = depth < _DEPTH - 1 and field.wire not in _OMITTED and _finite(field.type, self._heights)
            if field.required or optional:
                yield field

    def _property(self, field: Field, depth: int) -> Json:
        return field.constant if field.constant is not None else self._make(field.type, field.wire, depth + 1)


def _height(defined: Object | Alias, heights: dict[str, int]) -> int | None:
    types = (
        [field.type for field in defined.fields if field.required] if isinstance(defined, Object) else [defined.type]
    )
    inner = [_type_height(written, heights) for written in types]
    return None if None in inner else 1 + max((height for height in inner if height is not None), default=0)


def _type_height(written: Type, heights: dict[str, int]) -> int | None:
    match written:
        case Ref(name):
            return heights.get(name)
        case Array(items, _, minimum):
            return _type_height(items, heights) if minimum else 0
        case Union(arms):
            return min((height for arm in arms if (height := _type_height(arm, heights)) is not None), default=None)
        case _:
            return 0


def _finite(written: Type, heights: dict[str, int]) -> bool:
    return _type_height(written.items if isinstance(written, Array) else written, heights) is not None


def _plain(plain: Plain, wire: str) -> Json:
    match plain.kind:
        case "string":
            return _text(plain, wire)
        case "integer" | "number":
            return _number(plain)
        case "boolean":
            return True
        case "null":
            return None
        case "any":
            return {}


def _number(plain: Plain) -> int | float:
    if plain.minimum is not None and plain.maximum is not None and plain.minimum > plain.maximum:
        raise NoSampleError(f"no number is at least {plain.minimum} and at most {plain.maximum}; correct the bounds")
    number = max(1, plain.minimum) if plain.minimum is not None else 1
    return min(number, plain.maximum) if plain.maximum is not None else number


def _text(plain: Plain, wire: str) -> str:
    texts = _TEXTS[1:] if wire.lower().endswith(_ADDRESSES) else _TEXTS
    least, maximum_length = plain.min_length or 0, plain.max_length
    if maximum_length is not None and least > maximum_length:
        text = f"no text has at least {least} and at most {maximum_length} characters; correct the lengths"
        raise NoSampleError(text)
    matching = () if plain.pattern is None else (matching_text(plain.pattern) or "",)
    sized = (text[:maximum_length].ljust(least, "x") for text in (*plain.open_values, *texts, *matching))
    fitting: Any = next((text for text in sized if plain.pattern is None or re.search(plain.pattern, text)), None)
    if fitting is None:
        text = f"no text is known that matches the pattern {plain.pattern!r} with these lengths; write a simpler one"
        raise NoSampleError(text)
    return str(fitting)


Plan = dict[str, Any]
_SIDES: Final = ("client", "server")
# What the runtime adds to a request that it repeats with the answers to input requests.
_REPEATED: Final = ("requestState", "inputResponses")


class PlanMaker:
    """The plan for one revision. `findings` has the types and messages of which no sample can be made."""

    def __init__(self, revision: Revision, normalized: Schema) -> None:
        self._revision = revision
        self._factory = MessageFactory(revision, normalized, seed=0)
        self._samples = Samples(revision)
        self.findings: list[Finding] = []

    def plan(self) -> Plan:
        """Return the plan as JSON, without the names of the modules. Raises CodegenError if no capabilities cover the
        methods."""
        revision = self._revision
        views = method_views(revision)
        roles = revision.lifecycle.roles
        first = roles.get("initialize_request") or roles.get("discover") or ""
        return {
            "types": {name: self._samples_of(name, name) for name in revision.types},
            "lifecycle": next((row.result or "" for row in revision.methods if row.method == first), first),
            "carrier": self._carrier(views["FromClient"]),
            "carried": next(
                (
                    row.method
                    for view, row in self._rows(views["FromClient"], "client_to_server")
                    if view.handler == self._carrier(views["FromClient"])
                ),
                "",
            ),
            "capabilities": {side: self._capabilities(side) for side in _SIDES},
            **{
                direction: [self._call(view, row) for view, row in self._rows(views[table], direction)]
                for direction, table in TABLES.items()
            },
        }

    def _rows(self, views: tuple[MethodView, ...], direction: str) -> list[tuple[MethodView, Method]]:
        rows = [row for row in self._revision.methods if row.direction == direction]
        return list(zip(views, rows, strict=True))

    def _capabilities(self, side: str) -> dict[str, Any]:
        """Return capabilities that all methods, and all params, of this revision can be sent with."""
        declared = self._factory.declared_capabilities(side)
        for row in self._revision.methods:
            for requirement in row.requirements:
                owner, *path = requirement.capability.split(".")
                at = declared
                for segment in path if owner == side else ():
                    at = at.setdefault(segment, {})
        return declared

    def _carrier(self, views: tuple[MethodView, ...]) -> str:
        """Return the handler in which the server sends its own messages: of a request with a result that carries input
        requests, if these exist."""
        rows = self._rows(views, "client_to_server")
        handled = [(view, row) for view, row in rows if view.handled and view.sent and row.kind == "request"]
        carrying = [view for view, row in handled if any(interim.value is not None for interim in row.interim)]
        return next((view.handler for view in (*carrying, *(view for view, _ in handled))), "")

    def _call(self, view: MethodView, row: Method) -> Plan:
        params = self._revision.types[row.params] if row.params is not None else None
        attributes = {literal(field.wire): field.name for field in params.fields} if isinstance(params, Object) else {}
        return {
            "at": row.type,
            "method": row.method,
            "name": view.name,
            "handler": view.handler,
            "sent": view.sent and row.method != self._revision.lifecycle.roles.get("log"),
            "handled": view.handled,
            "params": row.params,
            "whole": bool(view.whole),
            "fields": {
                parameter.name: attributes[parameter.wire]
                for parameter in view.fields
                if parameter.required or parameter.wire not in map(literal, _REPEATED)
            },
            "samples": self._samples_of(row.params, row.type) if row.params is not None else [{}],
            "result": row.result,
            "results": self._samples_of(row.result, row.type) if row.result is not None else [],
        }

    def _samples_of(self, name: str, at: str) -> list[Json]:
        try:
            return [self._samples.smallest(Ref(name)), self._samples.whole(Ref(name))]
        except NoSampleError as error:
            if not any(finding.text.endswith(str(error)) for finding in self.findings):
                self.findings.append(Finding("sample", at, f"{self._revision.id}: {error}"))
            return []
