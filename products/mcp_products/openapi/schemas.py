"""Schemas of OpenAPI documents as JSON Schemas: references become `$defs`, and extensions of OpenAPI 3.0 are converted.

https://spec.openapis.org/oas/v3.0.4.html#schema-object
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from mcp_products.json_schema.validator import compile_schema
from mcp_runtime.errors import InvalidSchemaError
from mcp_runtime.protocol.models import is_list, is_object

from .document import OpenAPIDocument

_DROPPED: Final = frozenset({"discriminator", "xml", "externalDocs", "example", "examples", "nullable", "id", "$id"})
_SCHEMAS: Final = frozenset(
    {"items", "not", "additionalProperties", "contains", "propertyNames", "if", "then", "else", "unevaluatedProperties"}
)
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_LITERALS: Final = frozenset({"enum", "const", "default", "required"})


@dataclass(frozen=True, slots=True)
class _ConvertedComponent:
    """A converted component: its schema, the bytes of its JSON text, and the names of the components it refers to."""

    schema: Any
    size: int
    references: dict[str, str]


_Components = dict[tuple[str, str], _ConvertedComponent]  # By reference and dropped keyword.
_EMPTY: Final = _ConvertedComponent({}, 2, {})


class SchemaConverter:
    """Converts schemas of one document; each result is a JSON Schema of its own with the definitions that it needs."""

    def __init__(self, document: OpenAPIDocument) -> None:
        self._document = document
        self._components: _Components = {}

    def convert(self, schema: object, drop: str, max_bytes: int) -> dict[str, Any]:
        """Return a schema as a JSON Schema 2020-12.

        Args:
            schema: A schema of the document.
            drop: A keyword, such as readOnly: properties that have it are left out.
            max_bytes: The maximum size of the definitions; references beyond it accept any value.
        """
        run = _Conversion(self._document, self._components, drop, max_bytes)
        converted = run.convert(schema)
        converted = converted if is_object(converted) else {}
        definitions = run.definitions()
        return {**converted, "$defs": definitions} if definitions else dict(converted)

    def merged_properties(self, source: object) -> dict[str, Any] | None:
        """Return an object schema with its `allOf` merged, or None if it is not an object with named properties."""
        schema: Mapping[str, Any] = self._document.resolve(source)
        merged: dict[str, Any] = {**schema, "properties": {**(schema.get("properties") or {})}}
        required = _required(schema)
        for part in merged.pop("allOf", None) or ():
            inner = self.merged_properties(part)
            if inner is None:
                return None
            merged["properties"] = {**inner["properties"], **merged["properties"]}
            required += inner["required"]
        if schema.get("oneOf") or schema.get("anyOf") or schema.get("type", "object") != "object":
            return None
        return {**merged, "required": required} if merged["properties"] else None


class _Conversion:
    """The conversion of one schema. Components are converted when they are first referred to."""

    def __init__(self, document: OpenAPIDocument, components: _Components, drop: str, max_bytes: int) -> None:
        self._document = document
        self._components = components
        self._drop = drop
        self._max_bytes = max_bytes
        self._names: dict[str, str] = {}
        self._used_names: set[str] = set()
        self._waiting: deque[str] = deque()
        self._references: dict[str, str] = {}  # Those of the component that is being converted, with their names.

    def definitions(self) -> dict[str, Any]:
        """Return the definitions of all components that are referred to, up to the limit of size."""
        definitions: dict[str, Any] = {}
        size = 0
        while self._waiting:
            reference = self._waiting.popleft()
            component = self._component(reference) if size < self._max_bytes else _EMPTY
            size += component.size
            definitions[self._names[reference]] = component.schema if size < self._max_bytes else {}
        return definitions

    def _component(self, reference: str) -> _ConvertedComponent:
        """Return a component; one that an earlier conversion has converted to the same names is used again."""
        component = self._components.get((reference, self._drop))
        if component is not None and all(self._name(key) == name for key, name in component.references.items()):
            return component
        self._references = {}
        schema = self.convert(self._document.target(reference))
        component = _ConvertedComponent(schema, len(to_json(schema)), self._references)
        self._components[reference, self._drop] = component
        return component

    def convert(self, schema: object) -> Any:
        if not is_object(schema):
            return schema if isinstance(schema, bool) else {}
        if isinstance(reference := schema.get("$ref"), str):
            return self._reference(reference, schema)
        converted = {key: self._keyword(key, value) for key, value in schema.items() if self._stays(key)}
        if "required" in converted:  # Some documents have `true`, as OpenAPI has it for parameters.
            properties = schema.get("properties")
            named: Mapping[str, Any] = properties if is_object(properties) else {}
            converted["required"] = [name for name in _required(schema) if not self._is_dropped(named.get(name))]
        return _from_3_0(schema, converted) if self._document.is_3_0 else converted

    def _stays(self, key: str) -> bool:
        return key not in _DROPPED and not key.startswith("x-")

    def _reference(self, reference: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        name = self._references[reference] = self._name(reference)
        converted: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        if "description" in schema:
            converted["description"] = schema["description"]
        return converted

    def _name(self, reference: str) -> str:
        """Return the name of a component among the definitions; a new one is converted later."""
        if reference in self._names:
            return self._names[reference]
        base = name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "schema"
        number = 0
        while name in self._used_names:
            number += 1
            name = f"{base}{number}"
        self._names[reference] = name
        self._used_names.add(name)
        self._waiting.append(reference)
        return name

    def _keyword(self, key: str, value: Any) -> Any:
        if key in _LITERALS:
            return value
        if key in _SCHEMAS and not is_list(value):
            return self.convert(value)
        if key in _LISTS and is_list(value):
            return [self.convert(item) for item in value]
        if key in _MAPS and is_object(value):
            present = {name: item for name, item in value.items() if not self._is_dropped(item)}
            return {name: self.convert(item) for name, item in present.items()}
        return value

    def _is_dropped(self, schema: object) -> bool:
        return is_object(schema) and schema.get(self._drop) is True


def _required(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the required properties, without what is not a name."""
    value = schema.get("required")
    return [name for name in value if isinstance(name, str)] if is_list(value) else []


def _from_3_0(schema: Mapping[str, Any], converted: dict[str, Any]) -> dict[str, Any]:
    """Convert `nullable` and the boolean `exclusiveMinimum` and `exclusiveMaximum` of OpenAPI 3.0."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(flag := converted.get(exclusive), bool):
            del converted[exclusive]
            if flag and limit in converted:
                converted[exclusive] = converted.pop(limit)
    if schema.get("nullable") is True:
        if isinstance(kind := converted.get("type"), str):
            converted["type"] = [kind, "null"]
            if "enum" in converted and None not in converted["enum"]:
                converted["enum"] = [*converted["enum"], None]
        else:
            return {"anyOf": [converted, {"type": "null"}]}
    return converted


def usable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema if a validator accepts it; else without what it rejects: patterns, then constraints.

    Raises LocalError without the extra that validates schemas.
    """
    if _is_usable(schema):
        return schema
    constrained: dict[str, Any] = _without(schema, {"pattern", "patternProperties", "format"})
    if _is_usable(constrained):
        return constrained
    properties: dict[str, Any] = schema.get("properties") or {}
    described = {name: _description(item) for name, item in properties.items()}
    return {key: schema[key] for key in ("required", "additionalProperties") if key in schema} | {
        "type": "object",
        "properties": described,
    }


def _is_usable(schema: dict[str, Any]) -> bool:
    try:
        compile_schema(schema)
    except InvalidSchemaError:
        return False
    return True


def _description(schema: object) -> dict[str, Any]:
    text = schema.get("description") if is_object(schema) else None
    return {"description": text} if isinstance(text, str) else {}


def _without(value: Any, keywords: Iterable[str], *, by_name: bool = False) -> Any:
    """Return a schema without these keywords; `by_name` for an object whose keys are names, such as `properties`."""
    if is_object(value):
        omitted = set[str]() if by_name else {key for key in keywords if isinstance(value.get(key), (str, dict))}
        return {
            key: _without(item, keywords, by_name=not by_name and key in _MAPS)
            for key, item in value.items()
            if key not in omitted
        }
    return [_without(item, keywords) for item in value] if is_list(value) else value
