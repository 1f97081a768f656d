"""Our edition of a schema goes in, named types come out: inline objects get names, unions get their tags.

An inline object is named after the place that declares it (`CallToolRequest` + `params` → `CallToolRequestParams`, the
convention the specification itself follows in its later revisions), unless the overlay has a better name for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pydantic_core import SchemaError as CoreSchemaError
from pydantic_core import SchemaValidator

from ..errors import SchemaError
from ..importer.normalize import REF, Schema
from ..json_types import is_list, is_object
from .docs import Docs
from .ir import (
    Alias,
    Array,
    Field,
    Map,
    Object,
    Plain,
    Ref,
    Scalar,
    Type,
    Union,
    Values,
)
from .names import field_names, pascal, type_name
from .overlay import Overlay

Named = dict[str, Object | Alias]
Place = tuple[str, ...]  # A definition, then the properties that lead from it to an inline schema.

_KINDS: Final = ("string", "integer", "number", "boolean", "null")


def read_types(edition: Schema, revision: str, overlay: Overlay, docs: Docs) -> Named:
    """Every definition and every inline object of the edition, by Python name."""
    return TypeReader(edition, revision, overlay, docs).read()


class TypeReader:
    """One reading of one edition; collects the types that get their names on the way."""

    def __init__(self, edition: Schema, revision: str, overlay: Overlay, docs: Docs) -> None:
        definitions = edition.get("$defs")
        if not is_object(definitions) or not definitions:
            raise SchemaError(f"{revision}: the schema has no definitions under $defs")
        self._definitions: Schema = definitions
        self._revision = revision
        self._names = names = overlay.table("name", revision)
        self._defaults = overlay.table("default", revision)
        self._docs = docs
        self._python = {name: names.choose(name, type_name(name)) for name in definitions}
        self._types: Named = {}

    def read(self) -> Named:
        for name, schema in self._definitions.items():
            self._define(self._python[name], schema, (name,))
        return {
            name: self._with_bases(each) if isinstance(each, Object) else each for name, each in self._types.items()
        }

    def _define(self, python: str, schema: Any, place: Place) -> None:
        """Read a definition or an inline object and record it under its name."""
        if not is_object(schema):
            raise self._fault(place, f"is {type(schema).__name__}, not a schema")
        category = str(schema.get("x-category", ""))
        doc, deprecated = self._docs.of_type(python), bool(schema.get("deprecated"))
        if self._is_record(schema, place):
            parts = [part["$ref"].removeprefix(REF) for part in schema.get("allOf", ()) if "$ref" in part]
            extends = tuple(self._python[self._target(base, place)] for base in (*schema.get("x-extends", ()), *parts))
            closed = schema.get("additionalProperties") is False
            fields = self._fields(schema, place)
            self._record(Object(python, fields, extends, (), doc, deprecated, category, closed), place)
        else:
            self._record(Alias(python, self._type(schema, place), doc, deprecated, category), place)

    def _record(self, defined: Object | Alias, place: Place) -> None:
        """Keep a type; the same name twice must mean the same type."""
        if self._types.setdefault(defined.name, defined) != defined:
            raise self._fault(place, f"would be called {defined.name}, a name that already means another type", "name")

    def _is_record(self, schema: Schema, place: Place) -> bool:
        """Whether it is an object with properties of its own, also where it is put together with allOf."""
        if "allOf" in schema:
            return all(self._is_record(self._resolve(part, place), place) for part in schema["allOf"])
        return "properties" in schema

    def _resolve(self, schema: Schema, place: Place) -> Schema:
        """What a chain of references leads to."""
        seen: list[str] = []
        while "$ref" in schema:
            name = self._target(str(schema["$ref"]).removeprefix(REF), place)
            if name in seen:
                raise self._fault((name,), "refers to itself, so it means nothing")
            seen.append(name)
            schema = self._definitions[name]
        return schema

    def _members(self, schema: Schema, place: Place) -> tuple[Schema, list[str]]:
        """Properties and required names, those of the parts of an allOf put together in order."""
        properties: Schema = {}
        required: list[str] = []
        for part in schema.get("allOf", ()):
            inner, needed = self._members(self._resolve(part, place), place)
            properties |= inner
            required += needed
        own, own_required = schema.get("properties", {}), schema.get("required", [])
        if not is_object(own) or not is_list(own_required):
            raise self._fault(place, "has properties or required names that are not of the form JSON Schema gives them")
        return properties | own, required + own_required

    def _fields(self, schema: Schema, place: Place) -> tuple[Field, ...]:
        properties, required = self._members(schema, place)
        attributes = field_names(properties)
        fields: list[Field] = []
        for wire, inner in properties.items():
            declared = self._declaring(schema, wire, place)
            doc = self._docs.of_property(self._type_at(declared), wire)
            deprecated = is_object(inner) and bool(inner.get("deprecated"))
            of_type = self._type(inner, (*declared, wire))
            fill = self._default(schema, place, wire) if wire in required else None
            if fill is not None and isinstance(of_type, Values) and fill not in of_type.values:
                raise self._fault((*place, wire), f"is usually {fill!r}, says the overlay, but cannot be", "overlay")
            fields.append(Field(wire, attributes[wire], of_type, wire in required, doc, deprecated, fill))
        return tuple(fields)

    def _default(self, schema: Schema, place: Place, wire: str) -> Scalar | None:
        """The usual value of a property, said for this type or for one that it inherits the property from."""
        label = ".".join((*place, wire))
        if label in self._defaults:
            value: Scalar = self._defaults.use(label)
            return value
        for base in schema.get("x-extends", ()):
            above = self._definitions.get(base, {})
            if wire in above.get("properties", {}) and (found := self._default(above, (base,), wire)) is not None:
                return found
        return None

    def _declaring(self, schema: Schema, wire: str, place: Place) -> Place:
        """The definition that first declared this property, so that an inherited inline object has one name alone."""
        for base in schema.get("x-extends", ()):
            above = self._definitions.get(base, {})
            if wire in above.get("properties", {}) and above["properties"][wire] == schema["properties"][wire]:
                return self._declaring(above, wire, (base,))
        return place

    def _type(self, schema: Any, place: Place) -> Type:
        if not is_object(schema):
            raise self._fault(place, f"is {type(schema).__name__}, not a schema")
        if "$ref" in schema:
            self._resolve(schema, place)
            return Ref(self._python[self._target(str(schema["$ref"]).removeprefix(REF), place)])
        if self._is_record(schema, place):
            python = self._type_at(place)
            self._define(python, schema, place)
            return Ref(python)
        if "const" in schema or "enum" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            if not values or not all(isinstance(value, (str, int)) for value in values):
                raise self._fault(place, f"has values that are neither strings nor integers: {values!r}")
            return Values(tuple(values))
        if "anyOf" in schema:
            return self._union(schema["anyOf"], place)
        return self._plain(schema, place)

    def _type_at(self, place: Place) -> str:
        """The Python name of a definition, or of the inline object that stands at this place."""
        if len(place) == 1:
            return self._python[place[0]]
        return self._names.choose(".".join(place), type_name(self._type_at(place[:-1]) + pascal(place[-1])))

    def _union(self, arms: list[Schema], place: Place) -> Type:
        union = Union(tuple(self._type(arm, place) for arm in arms), self._tag(arms, place))
        python = self._names.choose(".".join(place), "") if len(place) > 1 else ""
        if not python:
            return union
        self._record(Alias(python, union, self._docs.of_type(python)), place)
        return Ref(python)

    def _tag(self, arms: list[Schema], place: Place) -> str | None:
        """The property that tells the arms of a union apart: required, and constant with another value in each."""
        records = [self._resolve(arm, place) for arm in arms if "$ref" in arm]
        if len(records) < len(arms) or not all(self._is_record(record, place) for record in records):
            return None
        members = [self._members(record, place) for record in records]
        for wire in members[0][0]:
            values = {str(properties[wire].get("const")) for properties, needed in members if wire in needed}
            if len(values) == len(arms) and "None" not in values:
                return wire
        return None

    def _plain(self, schema: Schema, place: Place) -> Type:
        kind = schema.get("type")
        if is_list(kind):
            return Union(tuple(self._type({**schema, "type": each}, place) for each in kind))
        if kind == "array":
            return Array(
                self._type(schema.get("items", {}), (*place, "item")), schema.get("maxItems"), schema.get("minItems")
            )
        if kind == "object":
            values = schema.get("additionalProperties", {})
            return Map(self._type(values, (*place, "value")) if is_object(values) else Plain("any"))
        if kind in _KINDS:
            return self._bounded(schema, kind, place)
        if kind is None and not schema.keys() & {"allOf", "oneOf", "not"}:
            return Plain("any")
        raise self._fault(place, f"is a schema of a form that is not read here: {', '.join(sorted(schema))}")

    def _bounded(self, schema: Schema, kind: Any, place: Place) -> Plain:
        """A plain type with the bounds of its values."""
        lowest, highest, known = schema.get("minimum"), schema.get("maximum"), tuple(schema.get("x-known", ()))
        pattern = schema.get("pattern")
        if pattern is not None:
            try:
                SchemaValidator({"type": "str", "pattern": pattern})
            except CoreSchemaError as fault:
                raise self._fault(place, f"has the pattern {pattern!r}, which has no linear form: {fault}") from fault
        return Plain(kind, lowest, highest, known, schema.get("minLength"), schema.get("maxLength"), pattern)

    def _target(self, name: str, place: Place) -> str:
        if name not in self._definitions:
            raise self._fault(place, f"refers to {name!r}, which is not defined", "reference")
        return name

    def _with_bases(self, each: Object) -> Object:
        """Keep as Python bases those of `extends` that nothing is overridden of."""
        bases = [self._types[name] for name in each.extends]
        kept = [
            base.name
            for base in bases
            if isinstance(base, Object) and all(each.field(above.wire) == above for above in base.fields)
        ]
        return replace(each, bases=tuple(kept))

    def _fault(self, place: Place, what: str, rule: str = "form") -> SchemaError:
        where = ".".join(place)
        return SchemaError(f"{self._revision}: {where or 'a definition'} {what}", rule=rule, at=where)
