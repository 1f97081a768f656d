"""The front end for plain JSON Schema with definitions, such as those of the Agent Client Protocol and of DAP.

A schema that composes objects (`allOf`, `anyOf` and `oneOf` beside `properties`) is written out: one object for each
alternative, with the name of the definition and of what tells it apart. Objects stay open. Definitions with `x-method`
and `x-side` are the params and results of messages; `x-side` is the side that receives them.

| written                                                | read as                                                   |
|--------------------------------------------------------|-----------------------------------------------------------|
| `oneOf` of constants                                   | an enumeration                                            |
| the same with a string of any value; `_enum`           | a string with known values                                |
| `{"allOf": [{"$ref": …}]}`                             | the reference                                             |
| `not`, `unevaluatedProperties`, `additionalProperties: false` | nothing: they only refuse                           |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from ..errors import SchemaError
from ..importer.schema_references import REF, Schema
from ..json_types import is_list, is_object
from ..model.names import pascal
from .document import DIRECTIONS, Direction, ProtocolDocument, ProtocolMessage, document_schema, marks

_PLACES: Final = ("#/$defs/", "#/definitions/", "#/components/schemas/")
_KEYWORDS: Final = ("type", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems")
_BOUNDS: Final = frozenset(("minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems"))
_UNIONS: Final = ("anyOf", "oneOf")
_RESULT_ENDS: Final = ("Response", "Result")
_HIDDEN: Final = "x-docs-ignore"  # Envelopes of JSON-RPC, which the runtime reads itself.


def read_json_schema(document: Schema, name: str, sides: Mapping[str, str]) -> ProtocolDocument:
    """Return what a JSON Schema document describes. Raises SchemaError for a form that cannot be read.

    `sides` are the names of the two sides, by `client` and `server`, as `x-side` has them.
    """
    definitions = document.get("$defs", document.get("definitions"))
    if not is_object(definitions) or not definitions:
        raise SchemaError(f"{name}: the document has neither `$defs` nor `definitions`; pass a schema with definitions")
    reader = SchemaReader(definitions, name)
    schema = document_schema(name, reader.read())
    return ProtocolDocument(schema, tuple(_messages(definitions, name, sides)))


def _messages(definitions: Schema, name: str, sides: Mapping[str, str]) -> Iterator[ProtocolMessage]:
    """Yield the messages of the definitions that name their method; a method of both sides twice."""
    receivers: dict[str, Direction] = {sides["server"].lower(): DIRECTIONS[0], sides["client"].lower(): DIRECTIONS[1]}
    by_method: dict[str, list[str]] = {}
    for key, schema in definitions.items():
        if is_object(schema) and "x-method" in schema:
            by_method.setdefault(str(schema["x-method"]), []).append(key)
    for method, keys in by_method.items():
        results = [key for key in keys if key.endswith(_RESULT_ENDS)]
        params = [key for key in keys if key not in results]
        if len(results) > 1 or len(params) > 1:
            raise SchemaError(f"{name}: {method} has {', '.join(keys)}; give it one type of params and one result")
        described = definitions[(params or results)[0]]
        side = str(described.get("x-side", "")).lower()
        directions: tuple[Direction, ...] = (receivers[side],) if side in receivers else DIRECTIONS
        for direction in directions:
            yield ProtocolMessage(
                "request" if results else "notification",
                direction,
                method,
                params[0] if params else None,
                results[0] if results else None,
                marks(described).get("x-doc", ""),
                bool(described.get("deprecated")),
            )


@dataclass(frozen=True, slots=True)
class _Alternative:
    """One way to fill in a composed object: the definitions it extends, and its own properties."""

    extends: tuple[str, ...] = ()
    properties: Schema = field(default_factory=dict[str, Any])
    required: tuple[str, ...] = ()
    title: str = ""


class SchemaReader:
    """The reader of the definitions of one document. `read` normalizes all, `schema` a schema beside them."""

    def __init__(self, definitions: Schema, name: str) -> None:
        self._raw = definitions
        self._name = name
        self._done: Schema = {}
        self._arms: dict[str, list[str]] = {}  # The definitions of the alternatives of a composed definition.
        self._open: list[str] = []

    def read(self) -> Schema:
        """Return the normalized definitions."""
        for key, schema in self._raw.items():
            if not (is_object(schema) and schema.get(_HIDDEN)):
                self._define(key)
        return self._done

    def define(self, name: str, schema: Any) -> None:
        """Add a definition of a schema that has no name in the document."""
        if name in self._raw:
            raise self._error(name, f"would be the name of a message's type, and is a definition; rename {name}")
        self._raw[name] = schema
        self._define(name)

    def _define(self, key: str) -> None:
        if key in self._done or key in self._open:
            return
        if key not in self._raw:
            raise self._error(key, "is referred to, and not defined; define it")
        raw = self._raw[key]
        self._open.append(key)
        body = self.schema(raw, (key,))
        self._open.remove(key)
        self._done[key] = (marks(raw) if is_object(raw) else {}) | body

    def schema(self, raw: Any, place: tuple[str, ...]) -> Schema:
        """Return a normalized schema; `place` is the definition and the properties on the way to it."""
        if raw is True:
            return {}
        if not is_object(raw):
            raise self._error(".".join(place), f"is {raw!r}, and not a schema; write one")
        described = marks(raw)
        if "$ref" in raw:
            return described | {"$ref": REF + self._target(raw["$ref"])}
        parts = raw.get("allOf", [])
        if len(parts) == 1 and not raw.keys() & {"properties", *_UNIONS}:
            return described | self.schema(parts[0], place)
        if "properties" in raw or parts:
            return described | self._composed(raw, place)
        union = next((raw[key] for key in _UNIONS if key in raw), None)
        if union is not None:
            return described | self._union(union, place)
        return described | self._plain(raw, place)

    def _plain(self, raw: Schema, place: tuple[str, ...]) -> Schema:
        kind = raw.get("type")
        if "const" in raw or "enum" in raw:
            return _values(raw["enum"] if "enum" in raw else [raw["const"]])
        if is_list(kind) and len(kind) > 1:
            if len(kind) >= 6:
                return {}
            rest = {key: value for key, value in raw.items() if key not in ("type", "description")}
            return self._union([{"type": item} | (rest if item != "null" else {}) for item in kind], place)
        body: Schema = {key: raw[key] for key in _KEYWORDS if key in raw}
        if is_list(kind):
            body["type"] = kind[0]
        if body.get("type") == "array":
            items = raw.get("prefixItems", raw.get("items", {}))
            arms = items if is_list(items) else [items]
            inner = (*place, "item")
            body["items"] = self._union(arms, inner) if len(arms) > 1 else self._inside(arms[0], inner)
        if body.get("type") == "object":
            values = raw.get("additionalProperties", True)
            body["additionalProperties"] = self._inside(values, (*place, "value")) if is_object(values) else True
        if "_enum" in raw and body.get("type") == "string":
            body["x-known"] = list(raw["_enum"])
        return body

    def _inside(self, raw: Any, place: tuple[str, ...]) -> Schema:
        """Return a schema inside of a list, a map or a union: one with bounds gets a name."""
        schema = self.schema(raw, place)
        if not schema.keys() & _BOUNDS:
            return schema
        return {"$ref": REF + self._hoisted("".join(map(pascal, place)), schema)}

    def _union(self, arms: list[Any], place: tuple[str, ...]) -> Schema:
        """Return a union of the arms; objects without a name get one."""
        consts = [arm["const"] for arm in arms if is_object(arm) and "const" in arm]
        others = [arm for arm in arms if not (is_object(arm) and "const" in arm)]
        if consts and not others:
            return _values(consts)
        if consts and len(others) == 1 and others[0].get("type") in ("string", "integer"):
            kind = others[0]["type"]
            return {"type": kind} | ({"x-known": consts} if kind == "string" else {})
        read: list[Schema] = []
        for number, arm in enumerate(arms, 1):
            schema = self._inside(arm, (*place, _arm_name(arm, number)) if len(arms) > 2 else place)
            if "properties" in schema and len(arms) > 1:
                schema = {"$ref": REF + self._hoisted("".join(map(pascal, place)) + _arm_name(arm, number), schema)}
            plain: Schema = (
                {key: value for key, value in schema.items() if key not in marks(arm)} if is_object(arm) else schema
            )
            plain.pop("x-doc", None)
            inner: list[Schema] = plain["anyOf"] if plain.keys() == {"anyOf"} else [plain]
            for item in inner:
                if item not in read:
                    read.append(item)
        return read[0] if len(read) == 1 else {"anyOf": read}

    def _composed(self, raw: Schema, place: tuple[str, ...]) -> Schema:
        """Return an object, or the union of its alternatives."""
        alternatives = self._alternatives(raw, place)
        bodies = [self._object(alternative) for alternative in alternatives]
        if len(bodies) == 1:
            return bodies[0]
        stem = "".join(map(pascal, place))
        names = [
            self._hoisted(stem + alternative.title, body)
            for alternative, body in zip(alternatives, bodies, strict=True)
        ]
        if len(place) == 1:
            self._arms[place[0]] = names
        return {"anyOf": [{"$ref": REF + name} for name in names]}

    def _alternatives(self, raw: Schema, place: tuple[str, ...]) -> list[_Alternative]:
        properties = {key: self.schema(inner, (*place, key)) for key, inner in raw.get("properties", {}).items()}
        own = _Alternative((), properties, tuple(raw.get("required", ())))
        factors = [[own]]
        factors[:0] = [self._parts(part, place) for part in raw.get("allOf", ())]
        for key in _UNIONS:
            arms = [
                arm
                for arm in raw.get(key, ())
                if is_object(arm) and arm.keys() & {"properties", "allOf", "$ref", *_UNIONS}
            ]
            if arms:
                factors.append(
                    [
                        _titled(part, _arm_name(arm, number))
                        for number, arm in enumerate(arms, 1)
                        for part in self._parts(arm, place)
                    ]
                )
        return [_joined(choice) for choice in product(*factors)]

    def _parts(self, part: Any, place: tuple[str, ...]) -> list[_Alternative]:
        """Return the alternatives of one part of a composition."""
        if is_object(part) and "$ref" in part:
            name = self._target(part["$ref"])
            self._define(name)
            if name in self._arms:
                return [_Alternative((arm,), title=arm.removeprefix(name)) for arm in self._arms[name]]
            target = self._done.get(name, {})
            if "$ref" in target:
                return self._parts({"$ref": target["$ref"]}, place)
            return [_Alternative((name,) if "properties" in target else ())]
        return self._alternatives(part, place) if is_object(part) else [_Alternative()]

    def _object(self, alternative: _Alternative) -> Schema:
        """Return an object with the properties that it inherits, and its own."""
        properties: Schema = {}
        required: list[str] = []
        for base in alternative.extends:
            properties |= self._done[base]["properties"]
            required += self._done[base].get("required", [])
        properties |= alternative.properties
        required += alternative.required
        names = [name for name in dict.fromkeys(required) if name in properties]
        extends = {"x-extends": list(alternative.extends)} if alternative.extends else {}
        return {**extends, "type": "object", "properties": properties} | ({"required": names} if names else {})

    def _hoisted(self, name: str, body: Schema) -> str:
        """Define an object under a name of its own, and return the name."""
        while name in self._raw or self._done.get(name, body) != body:
            name += "Variant"
        self._done[name] = body
        return name

    def _target(self, reference: Any) -> str:
        place = next((place for place in _PLACES if str(reference).startswith(place)), None)
        if place is None:
            raise self._error(str(reference), "does not refer to a definition of this document; write it there")
        name = str(reference).removeprefix(place)
        if name not in self._raw and name not in self._done:
            raise self._error(name, "is referred to, and not defined; define it")
        return name

    def _error(self, at: str, text: str) -> SchemaError:
        return SchemaError(f"{self._name}: {at} {text}", at=at)


def _titled(alternative: _Alternative, title: str) -> _Alternative:
    return _Alternative(alternative.extends, alternative.properties, alternative.required, title + alternative.title)


def _joined(parts: Iterable[_Alternative]) -> _Alternative:
    """Return the alternative that has all of these."""
    extends: list[str] = []
    properties: Schema = {}
    required: list[str] = []
    title = ""
    for part in parts:
        extends += part.extends
        properties |= part.properties
        required += part.required
        title += part.title
    return _Alternative(tuple(dict.fromkeys(extends)), properties, tuple(required), title)


def _arm_name(arm: Any, number: int) -> str:
    """Return the end of the name of an arm: its constant, its title, the definition it refers to, or its number."""
    if not is_object(arm):
        return f"Variant{number}"
    for inner in arm.get("properties", {}).values():
        if is_object(inner) and isinstance(inner.get("const"), str) and pascal(inner["const"]):
            return pascal(inner["const"])
    return pascal(str(arm.get("title", ""))) or f"Variant{number}"


def _values(values: list[Any]) -> Schema:
    """Return an enumeration; null among the values is an arm of its own."""
    present = [value for value in values if value is not None]
    kinds = {
        "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "integer" for value in present
    }
    body: Schema = {"enum": present} if len(present) != 1 else {"const": present[0]}
    if len(kinds) == 1:
        body["type"] = kinds.pop()
    if len(present) == len(values):
        return body
    return {"anyOf": [body, {"type": "null"}]} if present else {"type": "null"}
