"""A published schema.json that writes every reference out goes in, our edition comes out: names in the place of copies.

Such a file comes from a validator library, not from the specification's own tool: shapes of the core stand in it
without a name, objects are closed, `undefined` is an arm that takes anything. A copy of one of its own definitions is
that definition; an object with the property names, the required ones and the constants of one of the core is that
one, as is a union of all its arms. What is left out of our edition is prose, and what says nothing: usual values,
the bounds of whole numbers, properties that may not be there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from ..errors import SchemaError
from ..importer.normalize import DIALECT, REF, Schema
from ..importer.official import without_prose
from ..json_types import is_object

_SAYS_NOTHING: Final = ("$schema", "$id", "description", "title", "default", "propertyNames", "pattern", "format")
_APART: Final = ("$schema", "$defs", "description")  # What stands at the definition, and not at its copies.
_SAFE: Final = 2**53 - 1  # What JavaScript calls an integer; every one on the wire is within.
_EMPTY: Final = {"Request": "RequestParams", "Notification": "NotificationParams"}

Hashed = TypeVar("Hashed", bound=Hashable)
Shape = tuple[frozenset[str], frozenset[str], frozenset[tuple[str, str]]]


def dereferenced_schema(published: Schema, name: str, core: Schema) -> Schema:
    """The edition of one schema.json. Raises SchemaError for a form that is not read here."""
    definitions = published.get("$defs")
    if not is_object(definitions) or not definitions:
        raise SchemaError(f"{name}: schema.json has no definitions under $defs")
    reading = _Dereferencer(name, definitions, core["$defs"])
    own = {each: reading.definition(each) for each in definitions}
    return {
        "$schema": DIALECT,
        "title": f"The extension {name} of the Model Context Protocol",
        "x-constants": {},
        "$defs": own,
        "x-imports": sorted(reading.imported),
    }


class _Dereferencer:
    """One reading; `imported` are the names of the core that it has met."""

    def __init__(self, name: str, own: Schema, core: Schema) -> None:
        self._name = name
        self._own = own
        self.imported: set[str] = set()
        self._core = core
        self._shapes = _unique({name: _shape(each) for name, each in core.items() if each.get("properties")})
        self._copies = _unique({name: _copy(each) for name, each in own.items() if _says_something(each)})
        self._unions = _unions(core)

    def definition(self, name: str) -> Schema:
        """A definition of the extension itself, which is not matched with another of the same shape."""
        schema = self._own[name]
        if not is_object(schema):
            raise SchemaError(f"{self._name}: {name} is {type(schema).__name__}, not a schema", at=name)
        body = self._body(schema, name)
        if body.get("type") == "object" and not body.keys() & {"properties", "anyOf"}:
            return {"type": "object", "properties": {}, "x-open": True}
        params = body.get("properties", {}).get("params")
        kind = next((kind for kind in _EMPTY if name.endswith(kind)), "")
        if is_object(params) and kind and params.get("additionalProperties") is True:
            body["properties"]["params"] = self._reference(_EMPTY[kind])
        return body

    def _reference(self, name: str) -> Schema:
        if name not in self._own:
            if name not in self._core:
                raise SchemaError(f"{self._name}: it would take {name} from the core, which does not define it")
            self.imported.add(name)
        return {"$ref": REF + name}

    def _read(self, schema: Any, at: str) -> Schema:
        """A schema inside a definition."""
        if not is_object(schema):
            raise SchemaError(f"{self._name}: {at} is {type(schema).__name__}, not a schema", at=at)
        named = self._copies.get(_copy(schema))
        if named is None and schema.get("properties"):
            named = self._shapes.get(_shape(schema))
        return self._reference(named) if named is not None else self._body(schema, at)

    def _body(self, schema: Schema, at: str) -> Schema:
        if "$ref" in schema:
            raise SchemaError(f"{self._name}: {at} refers to {schema['$ref']!r}, which no shape of the core stands for")
        if "anyOf" in schema:
            return self._union([arm for arm in schema["anyOf"] if arm != {}], at)
        if "allOf" in schema:
            return self._all_of(schema["allOf"], at)
        if schema.get("type") == "object":
            return self._object(schema, at)
        body = {key: value for key, value in schema.items() if key not in _SAYS_NOTHING and not _unbounded(key, value)}
        return body | ({"items": self._read(body["items"], f"{at}.item")} if "items" in body else {})

    def _union(self, arms: list[Schema], at: str) -> Schema:
        if len(arms) == 1:
            return self._read(arms[0], at)
        if arms and all("const" in arm for arm in arms):
            return {"type": arms[0]["type"], "enum": [arm["const"] for arm in arms]}
        read = [self._read(arm, at) for arm in arms]
        named = self._unions.get(frozenset(str(arm.get("$ref")) for arm in read))
        return self._reference(named) if named is not None else {"anyOf": read}

    def _all_of(self, parts: list[Schema], at: str) -> Schema:
        """Objects put together as one; of what is an object or another, nothing is required."""
        properties: Schema = {}
        required: list[str] = []
        for part in parts:
            for arm in part.get("anyOf", (part,)):
                body = self._body(arm, at)
                properties |= body.get("properties", {})
                required += body.get("required", []) if "anyOf" not in part else []
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _object(self, schema: Schema, at: str) -> Schema:
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        keys = _values(schema.get("propertyNames", {}))
        if keys:
            # Every key is listed as required although its value may be undefined: none has to be there.
            return {"type": "object", "properties": {key: self._read(more, f"{at}.{key}") for key in keys}}
        if not properties:
            values = self._read(more, f"{at}.value") if is_object(more) and more else {}
            return {"type": "object", "additionalProperties": values or True}
        kept = {key: self._read(each, f"{at}.{key}") for key, each in properties.items() if each != {"not": {}}}
        required = [key for key in schema.get("required", ()) if key in kept]
        body: Schema = {"type": "object", "properties": kept}
        return (
            body
            | ({"required": required} if required else {})
            | ({"x-open": True} if is_object(more) else {"additionalProperties": False} if more is False else {})
        )


def _shape(schema: Schema) -> Shape:
    properties = schema.get("properties", {})
    constants = {(key, str(each["const"])) for key, each in properties.items() if is_object(each) and "const" in each}
    return frozenset(properties), frozenset(schema.get("required", ())), frozenset(constants)


def _copy(schema: Schema) -> str:
    """What two copies of a schema have in common."""
    return json.dumps({key: without_prose(value) for key, value in schema.items() if key not in _APART}, sort_keys=True)


def _says_something(schema: Any) -> bool:
    return is_object(schema) and bool(
        schema.get("properties") or "anyOf" in schema or _values(schema.get("propertyNames"))
    )


def _unique(named: dict[str, Hashed]) -> dict[Hashed, str]:
    """The names, by what each stands for; what several stand for has none."""
    counts = Counter(named.values())
    return {each: name for name, each in named.items() if counts[each] == 1}


def _unions(core: Schema) -> Mapping[frozenset[str], str]:
    """The unions of named types, by the references that they consist of."""
    arms = {name: [str(arm.get("$ref")) for arm in each["anyOf"]] for name, each in core.items() if "anyOf" in each}
    return {frozenset(refs): name for name, refs in arms.items() if "None" not in refs}


def _values(schema: Any) -> list[Any]:
    """The constants that a schema is a choice of; nothing if it is none."""
    arms = schema.get("anyOf", ()) if is_object(schema) else ()
    return [arm["const"] for arm in arms] if arms and all("const" in arm for arm in arms) else []


def _unbounded(key: str, value: Any) -> bool:
    return key in ("minimum", "maximum") and abs(value) == _SAFE
