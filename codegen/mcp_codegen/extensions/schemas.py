"""The schema of an extension, imported: a schema.ts that refers to the core by name, or a schema.json in which every
reference is written out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from ..errors import SchemaError, is_object
from ..importer.importer import without_prose
from ..importer.normalize import DIALECT, normalize
from ..importer.references import REF, Schema
from ..importer.syntax import InterfaceDeclaration, ObjectLiteral
from ..importer.typescript import parse

_IGNORED: Final = ("$schema", "$id", "description", "title", "default", "propertyNames", "pattern", "format")
_DEFINITION_ONLY: Final = ("$schema", "$defs", "description")  # At the definition, and not at its copies.
_SAFE: Final = 2**53 - 1  # The safe integers of JavaScript; every integer on the wire is within.
_EMPTY: Final = {"Request": "RequestParams", "Notification": "NotificationParams"}

Hashed = TypeVar("Hashed", bound=Hashable)
ObjectShape = tuple[frozenset[str], frozenset[str], frozenset[tuple[str, str]]]
_IMPORT: Final = re.compile(r'^import\s+type\s*\{([^}]*)\}\s*from\s*"[^"]*";?[ \t]*$', re.MULTILINE)


def dereferenced_schema(published: Schema, name: str, core: Schema) -> Schema:
    """Return the normalized schema of one schema.json. Raises SchemaError for a form that cannot be read."""
    definitions = published.get("$defs")
    if not is_object(definitions) or not definitions:
        raise SchemaError(f"{name}: schema.json has no definitions under $defs; pass the published schema file")
    reading = _Dereferencer(name, definitions, core["$defs"])
    normalized = {key: reading.definition(key) for key in definitions}
    return {
        "$schema": DIALECT,
        "title": f"The extension {name} of the Model Context Protocol",
        "x-constants": {},
        "$defs": normalized,
        "x-imports": sorted(reading.imported),
    }


class _Dereferencer:
    """The reader of one schema; `imported` are the names of the core definitions that it refers to."""

    def __init__(self, name: str, own: Schema, core: Schema) -> None:
        self._name = name
        self._own = own
        self.imported: set[str] = set()
        self._core = core
        self._shapes = _unique({key: _shape(schema) for key, schema in core.items() if schema.get("properties")})
        self._copies = _unique({key: _copy(schema) for key, schema in own.items() if _is_distinctive(schema)})
        self._unions = _unions(core)

    def definition(self, name: str) -> Schema:
        """Return a definition of the extension itself. It is not matched with another of the same shape."""
        schema = self._own[name]
        if not is_object(schema):
            raise SchemaError(f"{self._name}: {name} must be a schema, not {type(schema).__name__}", at=name)
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
                raise SchemaError(f"{self._name}: it refers to {name}, which neither it nor the core protocol defines")
            self.imported.add(name)
        return {"$ref": REF + name}

    def _read(self, schema: Any, at: str) -> Schema:
        """Return a schema inside a definition."""
        if not is_object(schema):
            raise SchemaError(f"{self._name}: {at} must be a schema, not {type(schema).__name__}", at=at)
        name = self._copies.get(_copy(schema))
        if name is None and schema.get("properties"):
            name = self._shapes.get(_shape(schema))
        return self._reference(name) if name is not None else self._body(schema, at)

    def _body(self, schema: Schema, at: str) -> Schema:
        if "$ref" in schema:
            raise SchemaError(
                f"{self._name}: {at} refers to {schema['$ref']!r}; pass a schema.json in which every reference "
                "is written out"
            )
        if "anyOf" in schema:
            return self._union([arm for arm in schema["anyOf"] if arm != {}], at)
        if "allOf" in schema:
            return self._all_of(schema["allOf"], at)
        if schema.get("type") == "object":
            return self._object(schema, at)
        body = {key: value for key, value in schema.items() if key not in _IGNORED and not _unbounded(key, value)}
        return body | ({"items": self._read(body["items"], f"{at}.item")} if "items" in body else {})

    def _union(self, arms: list[Schema], at: str) -> Schema:
        if len(arms) == 1:
            return self._read(arms[0], at)
        if arms and all("const" in arm for arm in arms):
            return {"type": arms[0]["type"], "enum": [arm["const"] for arm in arms]}
        read = [self._read(arm, at) for arm in arms]
        name = self._unions.get(frozenset(str(arm.get("$ref")) for arm in read))
        return self._reference(name) if name is not None else {"anyOf": read}

    def _all_of(self, parts: list[Schema], at: str) -> Schema:
        """Return the parts merged into one object. Of a part that is a union, nothing is required."""
        properties: Schema = {}
        required: list[str] = []
        for part in parts:
            for arm in part.get("anyOf", (part,)):
                body = self._body(arm, at)
                properties |= body.get("properties", {})
                required += body.get("required", []) if "anyOf" not in part else []
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _object(self, schema: Schema, at: str) -> Schema:
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties", {})
        keys = _values(schema.get("propertyNames", {}))
        if keys:
            # The schema lists every key as required although its value may be undefined: none is required.
            return {"type": "object", "properties": {key: self._read(additional, f"{at}.{key}") for key in keys}}
        if not properties:
            values = self._read(additional, f"{at}.value") if is_object(additional) and additional else {}
            return {"type": "object", "additionalProperties": values or True}
        read = {key: self._read(value, f"{at}.{key}") for key, value in properties.items() if value != {"not": {}}}
        required = [key for key in schema.get("required", ()) if key in read]
        body: Schema = {"type": "object", "properties": read}
        return (
            body
            | ({"required": required} if required else {})
            | (
                {"x-open": True}
                if is_object(additional)
                else ({"additionalProperties": False} if additional is False else {})
            )
        )


def _shape(schema: Schema) -> ObjectShape:
    properties = schema.get("properties", {})
    constants = {
        (key, str(value["const"])) for key, value in properties.items() if is_object(value) and "const" in value
    }
    return frozenset(properties), frozenset(schema.get("required", ())), frozenset(constants)


def _copy(schema: Schema) -> str:
    """Return the text that all copies of a schema share."""
    return json.dumps(
        {key: without_prose(value) for key, value in schema.items() if key not in _DEFINITION_ONLY}, sort_keys=True
    )


def _is_distinctive(schema: Any) -> bool:
    """Return True if copies of the schema can be recognized."""
    return is_object(schema) and bool(
        schema.get("properties") or "anyOf" in schema or _values(schema.get("propertyNames"))
    )


def _unique(values: dict[str, Hashed]) -> dict[Hashed, str]:
    """Return the name of each value that occurs once."""
    counts = Counter(values.values())
    return {value: name for name, value in values.items() if counts[value] == 1}


def _unions(core: Schema) -> Mapping[frozenset[str], str]:
    """Return the unions of named types, by the references they consist of."""
    arms = {
        name: [str(arm.get("$ref")) for arm in schema["anyOf"]] for name, schema in core.items() if "anyOf" in schema
    }
    return {frozenset(refs): name for name, refs in arms.items() if "None" not in refs}


def _values(schema: Any) -> list[Any]:
    """Return the constants of a union of constants, else an empty list."""
    arms = schema.get("anyOf", ()) if is_object(schema) else ()
    return [arm["const"] for arm in arms] if arms and all("const" in arm for arm in arms) else []


def _unbounded(key: str, value: Any) -> bool:
    """Return True for a bound that every safe integer meets."""
    return key in ("minimum", "maximum") and abs(value) == _SAFE


# The import of the schema.ts of an extension: its own definitions, and references to those of the core by name.


def extension_schema(text: str, name: str) -> Schema:
    """Return the normalized schema of one schema.ts. `x-imports` has the names it imports from the core protocol.
    Raises SchemaError."""
    imported: dict[str, str] = {}
    for match in _IMPORT.finditer(text):
        for clause in filter(None, (part.strip() for part in match[1].split(","))):
            core, _, local = (word.strip() for word in clause.partition(" as "))
            imported[local or core] = core
    declared = parse(_IMPORT.sub("", text), f"{name}: schema.ts")
    if clash := imported.keys() & {declaration.name for declaration in declared}:
        raise SchemaError(f"{name}: {min(clash)} is both imported and declared; rename one of the two")
    stubs = [InterfaceDeclaration(local, (), ObjectLiteral(()), {}) for local in imported]
    schema = normalize([*stubs, *declared], name)
    schema["title"] = f"The extension {name} of the Model Context Protocol"
    schema["$defs"] = {key: body for key, body in schema["$defs"].items() if key not in imported}
    schema["x-imports"] = sorted(set(imported.values()))
    renamed: Schema = json.loads(json.dumps(schema), object_hook=lambda item: _renamed(item, imported))
    return renamed


def _renamed(schema: Schema, imported: dict[str, str]) -> Schema:
    """Return an object of the schema in which local names of imports are replaced by the names in the core protocol."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(REF)
        schema["$ref"] = REF + imported.get(name, name)
    if "x-extends" in schema and not is_object(schema["x-extends"]):
        schema["x-extends"] = [imported.get(name, name) for name in schema["x-extends"]]
    return schema
