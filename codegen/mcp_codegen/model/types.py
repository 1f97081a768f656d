"""The types of a normalized schema, by Python name: inline objects get names, unions get their tags.

An inline object is named after the place that declares it (`CallToolRequest` + `params` → `CallToolRequestParams`, the
convention of the later revisions of the specification), unless the overlay names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_core import SchemaError as CoreSchemaError
from pydantic_core import SchemaValidator

from ..errors import SchemaError, is_list, is_object
from ..importer.references import REF, Schema, without_texts
from ..importer.syntax import DOC
from .ir import Alias, Array, Field, Map, Object, Plain, Ref, Scalar, Type, Union, Values
from .names import field_names, pascal, type_name
from .overlay import Docs, Overlay, OverlayRows

NamedTypes = dict[str, Object | Alias]
SchemaPath = tuple[str, ...]  # A definition, then the properties on the path to an inline schema.

_PARAMS: Final = "params"
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
_KINDS: Final = ("string", "integer", "number", "boolean", "null")


def read_types(normalized: Schema, revision: str, overlay: Overlay, docs: Docs) -> NamedTypes:
    """Return every definition and every inline object of the schema, by Python name."""
    return TypeReader(normalized, revision, overlay, docs).read()


def without_covered_texts(schema: Schema, types: Mapping[str, Object | Alias]) -> Schema:
    """Return a normalized schema with the texts of the specification only where its types have no sentence."""
    objects = [definition for definition in types.values() if isinstance(definition, Object)]
    used = {definition.doc for definition in types.values()} | {field.doc for item in objects for field in item.fields}
    written: Schema = without_texts(schema, used)
    return written


class TypeReader:
    """The reader of one normalized schema; collects the types and their names."""

    def __init__(self, normalized: Schema, revision: str, overlay: Overlay, docs: Docs) -> None:
        definitions = normalized.get("$defs")
        if not is_object(definitions) or not definitions:
            raise SchemaError(f"{revision}: the schema has no definitions under $defs")
        self._definitions: Schema = definitions
        self._revision = revision
        self._names = names = overlay.table("name", revision)
        self._defaults = overlay.table("default", revision)
        self._essential = overlay.table("essential", revision)
        self._docs = docs
        self._python = {name: names.choose(name, type_name(name)) for name in definitions}
        self._defined = frozenset(self._python.values())
        self._types: NamedTypes = {}

    def read(self) -> NamedTypes:
        """Return the types by name. Raises SchemaError for a form that cannot be read."""
        for name, schema in self._definitions.items():
            self._define(self._python[name], schema, (name,))
        if circle := next((name for name in self._types if name in _targets(name, self._types)), ""):
            raise self._error((circle,), "refers to itself; refer to another definition")
        return {
            name: self._with_bases(type) if isinstance(type, Object) else type for name, type in self._types.items()
        }

    def _define(self, python: str, schema: Any, place: SchemaPath) -> None:
        """Read a definition or an inline object and record it under its name."""
        if not is_object(schema):
            raise self._error(place, f"is {type(schema).__name__}, not a schema; write an object with a type")
        category = str(schema.get("x-category", ""))
        doc, deprecated = self._docs.of_type(python) or str(schema.get(DOC, "")), bool(schema.get("deprecated"))
        since = str(schema.get("x-since", ""))
        if self._is_record(schema, place):
            parts = [part["$ref"].removeprefix(REF) for part in schema.get("allOf", ()) if "$ref" in part]
            extends = tuple(self._python[self._target(base, place)] for base in (*schema.get("x-extends", ()), *parts))
            closed = schema.get("additionalProperties") is False
            is_open = bool(schema.get("x-open")) or schema.get("additionalProperties", False) is not False
            fields = self._fields(schema, place)
            record = Object(python, fields, extends, (), doc, deprecated, category, closed, since, is_open)
            self._record(replace(record, matches=str(schema.get("x-matches", ""))), place)
        else:
            alias = Alias(python, self._type(schema, place), doc, deprecated, category, since)
            self._record(replace(alias, matches=str(schema.get("x-matches", ""))), place)

    def _record(self, defined: Object | Alias, place: SchemaPath) -> None:
        """Store a type; two types with the same name must be equal."""
        if self._types.setdefault(defined.name, defined) != defined:
            raise self._error(
                place,
                f"would be named {defined.name}, the name of another type; rename it in [[name]] of overlay.toml",
                "name",
            )

    def _is_record(self, schema: Schema, place: SchemaPath) -> bool:
        """Return True for an object with properties of its own, also one composed with allOf."""
        if "allOf" in schema:
            parts = [self._resolve(part, place) for part in schema["allOf"]]
            records = [self._is_record(part, place) for part in parts]
            return any(records) and all(
                is_record or _is_map(part) for part, is_record in zip(parts, records, strict=True)
            )
        return "properties" in schema

    def _resolve(self, schema: Schema, place: SchemaPath) -> Schema:
        """Return the schema at the end of a chain of references."""
        seen: list[str] = []
        while "$ref" in schema:
            name = self._target(str(schema["$ref"]).removeprefix(REF), place)
            if name in seen:
                raise self._error((name,), "refers to itself; refer to another definition")
            seen.append(name)
            schema = self._definitions[name]
        return schema

    def _members(self, schema: Schema, place: SchemaPath) -> tuple[Schema, list[str]]:
        """Return the properties and the required names; those of allOf are merged in order."""
        properties: Schema = {}
        required: list[str] = []
        for part in schema.get("allOf", ()):
            inner, inner_required = self._members(self._resolve(part, place), place)
            properties |= inner
            required += inner_required
        own, own_required = schema.get("properties", {}), schema.get("required", [])
        if not is_object(own) or not is_list(own_required):
            raise self._error(place, "must have an object as `properties` and a list as `required`")
        return properties | own, required + own_required

    def _fields(self, schema: Schema, place: SchemaPath) -> tuple[Field, ...]:
        properties, required = self._members(schema, place)
        attributes = field_names(properties)
        fields: list[Field] = []
        for wire, inner in properties.items():
            declared = self._declaring(schema, wire, place)
            marked = inner if is_object(inner) else {}
            theirs = "" if wire in self._docs.plain else str(marked.get(DOC, ""))
            doc = self._docs.of_property(self._type_at(declared), wire) or theirs
            deprecated, since = bool(marked.get("deprecated")), str(marked.get("x-since", ""))
            of_type = self._type(inner, (*declared, wire))
            default = self._value_of(self._defaults, schema, place, wire) if wire in required else None
            essential = wire not in required and bool(self._value_of(self._essential, schema, place, wire))
            if default is not None and isinstance(of_type, Values) and default not in of_type.values:
                raise self._error(
                    (*place, wire),
                    f"cannot have the value {default!r} that [[default]] in overlay.toml gives it; correct the row, or "
                    "limit it with `only` to the revisions that it fits",
                    "overlay",
                )
            field = Field(wire, attributes[wire], of_type, wire in required, doc, deprecated, default, since)
            fields.append(replace(field, essential=essential))
        return tuple(_without_shadowing(fields))

    def _value_of(self, rows: OverlayRows, schema: Schema, place: SchemaPath, wire: str) -> Scalar | None:
        """Return the value that rows of the overlay have for a property: of this type, or of the base that it inherits
        the property from."""
        label = ".".join((*place, wire))
        if label in rows:
            value: Scalar = rows.use(label)
            return value
        for base in schema.get("x-extends", ()):
            base_schema = self._definitions.get(base, {})
            if (
                wire in base_schema.get("properties", {})
                and (inherited := self._value_of(rows, base_schema, (base,), wire)) is not None
            ):
                return inherited
        return None

    def _declaring(self, schema: Schema, wire: str, place: SchemaPath) -> SchemaPath:
        """Return the definition that first declared this property, so that an inherited inline object has one name
        only."""
        for base in schema.get("x-extends", ()):
            base_schema = self._definitions.get(base, {})
            if (
                wire in base_schema.get("properties", {})
                and base_schema["properties"][wire] == schema["properties"][wire]
            ):
                return self._declaring(base_schema, wire, (base,))
        return place

    def _type(self, schema: Any, place: SchemaPath) -> Type:
        if not is_object(schema):
            raise self._error(place, f"is {type(schema).__name__}, not a schema; write an object with a type")
        if "$ref" in schema:
            self._resolve(schema, place)
            return Ref(self._python[self._target(str(schema["$ref"]).removeprefix(REF), place)])
        schema = self._distributed(schema, place)
        if problem := _problem(schema):
            raise self._error(place, problem)
        if self._is_record(schema, place):
            python = self._type_at(place)
            self._define(python, schema, place)
            return Ref(python)
        if "const" in schema or "enum" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            if not values or not all(isinstance(value, (str, int)) for value in values):
                text = f"has values other than strings and integers, which is not supported: {values!r}"
                raise self._error(place, f"{text}; write each value as one of these")
            return Values(tuple(values))
        if "anyOf" in schema:
            return self._union(schema["anyOf"], place)
        return self._plain(schema, place)

    def _type_at(self, place: SchemaPath) -> str:
        """Return the Python name of a definition, or of the inline object at this place."""
        if len(place) == 1:
            return self._python[place[0]]
        derived = type_name(self._type_at(place[:-1]) + pascal(place[-1]))
        return self._chosen_name(".".join(place), f"{derived}Object" if derived in self._defined else derived)

    def _chosen_name(self, label: str, derived: str) -> str:
        """Return the name that the overlay has for a place, unless it is that of a definition, or the derived one."""
        if label in self._names and self._names.rows[label].use in self._defined:
            self._names.leave_out(label, f"{self._names.rows[label].use} is the name of a definition")
        return self._names.choose(label, derived)

    def _distributed(self, schema: Schema, place: SchemaPath) -> Schema:
        """Return `A & (B | C)` as `A & B | A & C`, and any other schema as it is."""
        parts = schema.get("allOf", ())
        union = next((part for part in parts if "anyOf" in self._resolve(part, place)), None)
        if union is None:
            return schema
        arms = self._resolve(union, place)["anyOf"]
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return rest | {"anyOf": [{"allOf": [arm if part is union else part for part in parts]} for arm in arms]}

    def _union(self, arms: list[Schema], place: SchemaPath) -> Type:
        inline = [arm for arm in arms if is_object(arm) and "$ref" not in arm and self._is_record(arm, place)]
        several = len(inline) > 1 or len(place) == 1
        places = [(*place, f"variant{inline.index(arm) + 1}") if several and arm in inline else place for arm in arms]
        types = (self._type(arm, arm_place) for arm, arm_place in zip(arms, places, strict=True))
        union = Union(tuple(types), self._tag(arms, place))
        label = ".".join(place)
        python = self._chosen_name(label, "") if len(place) > 1 else ""
        if not python and len(place) == 2 and place[1] == _PARAMS and all(isinstance(arm, Ref) for arm in union.arms):
            python = self._type_at(place)  # The method table refers to params by name.
        if not python:
            return union
        alias = Alias(python, union, self._docs.of_type(python))
        if label in self._names and self._types.get(python, alias) != alias:
            self._names.leave_out(label, f"another union has the name {python}")
            return union
        self._record(alias, place)
        return Ref(python)

    def _tag(self, arms: list[Schema], place: SchemaPath) -> str | None:
        """Return the property that discriminates the arms of a union: required in each, with a different constant."""
        records = [self._resolve(arm, place) for arm in arms if "$ref" in arm]
        if len(records) < len(arms) or not all(self._is_record(record, place) for record in records):
            return None
        members = [self._members(record, place) for record in records]
        for wire in members[0][0]:
            values = {str(properties[wire].get("const")) for properties, required in members if wire in required}
            if len(values) == len(arms) and "None" not in values:
                return wire
        return None

    def _plain(self, schema: Schema, place: SchemaPath) -> Type:
        kind = schema.get("type")
        if is_list(kind):
            return Union(tuple(self._type({**schema, "type": name}, place) for name in kind))
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
        text = f"has a form that is not supported, with the keywords {', '.join(sorted(schema))}"
        raise self._error(place, f"{text}; write it with a type, an anyOf or a reference")

    def _bounded(self, schema: Schema, kind: Any, place: SchemaPath) -> Plain:
        """Return a plain type with its bounds, or raise SchemaError for a pattern that needs backtracking."""
        minimum, maximum, open_values = schema.get("minimum"), schema.get("maximum"), tuple(schema.get("x-known", ()))
        pattern = schema.get("pattern")
        if pattern is not None:
            try:
                SchemaValidator({"type": "str", "pattern": pattern})
            except CoreSchemaError as error:
                reason = str(error).strip().split("\n")[-1].removeprefix("error: ")
                raise self._error(
                    place,
                    f"has the pattern {pattern!r}, which is not a linear-time regular expression: {reason}; write it "
                    "without that",
                ) from error
        lengths = schema.get("minLength"), schema.get("maxLength")
        return Plain(kind, minimum, maximum, open_values, *lengths, pattern, str(schema.get("format", "")))

    def _target(self, name: str, place: SchemaPath) -> str:
        if name not in self._definitions:
            raise self._error(place, f"refers to {name!r}, which is not defined; define it under $defs", "reference")
        return name

    def _with_bases(self, type: Object) -> Object:
        """Return the object with those of `extends` as Python bases of which no property is overridden."""
        bases = [self._types[name] for name in type.extends]
        inherited = [
            base.name
            for base in bases
            if isinstance(base, Object) and all(type.field(field.wire) == field for field in base.fields)
        ]
        return replace(type, bases=tuple(inherited))

    def _error(self, place: SchemaPath, text: str, rule: str = "form") -> SchemaError:
        where = ".".join(place)
        return SchemaError(f"{self._revision}: {where or 'a definition'} {text}", rule=rule, at=where)


def _targets(name: str, types: NamedTypes) -> set[str]:
    """Return the types that an alias stands for, directly, in a union or through others."""
    targets: set[str] = set()
    waiting = [types[name]]
    while waiting:
        type = waiting.pop()
        written = type.type if isinstance(type, Alias) else None
        arms = written.arms if isinstance(written, Union) else (written,)
        names = {arm.name for arm in arms if isinstance(arm, Ref)} - targets
        waiting += [types[inner] for inner in names if inner in types]
        targets |= names
    return targets


def _problem(schema: Schema) -> str:
    """Return what no JSON Schema has: a union of nothing, or a bound that is not a number; an empty text without it."""
    if empty := [key for key in ("anyOf", "type") if schema.get(key) == []]:
        return f"has an empty {empty[0]}, which no value fits; name a type"
    wrong = [key for key in _BOUNDS if type(schema.get(key, 0)) not in (int, float)]
    return f"has {wrong[0]} = {str(schema[wrong[0]])[:100]}, which is not a number; write one" if wrong else ""


def _is_map(schema: Schema) -> bool:
    """Return True for an object that has no properties of its own, and allows any."""
    return schema.get("type") == "object" and "properties" not in schema


# A union of objects as one object: for results, of which a method has one class.


def merged_union(defined: Alias, types: NamedTypes) -> Object | None:
    """Return an object with the properties of all arms of a union, required if all arms require them; None if an arm is
    not an object."""
    arms = _objects(defined.type, types) if isinstance(defined.type, Union) else []
    if not arms:
        return None
    fields: dict[str, Field] = {}
    for arm in arms:
        for field in arm.fields:
            first = fields.setdefault(field.wire, field)
            if first.type != field.type:
                fields[field.wire] = replace(first, type=_either(first.type, field.type))
    required = {wire for wire in fields if all((at := arm.field(wire)) is not None and at.required for arm in arms)}
    merged = tuple(replace(field, required=wire in required, default=None) for wire, field in fields.items())
    return Object(defined.name, merged, (), (), defined.doc, defined.deprecated, defined.category)


def _objects(written: Type, types: NamedTypes) -> list[Object]:
    """Return the objects of a union, also of unions inside of it; nothing if an arm is none."""
    arms = written.arms if isinstance(written, Union) else (written,)
    objects: list[Object] = []
    for arm in arms:
        target = types.get(arm.name) if isinstance(arm, Ref) else None
        inner = [target] if isinstance(target, Object) else _objects(target.type, types) if target is not None else []
        if not inner:
            return []
        objects += inner
    return objects


def _either(first: Type, second: Type) -> Type:
    arms = dict.fromkeys((*_arms(first), *_arms(second)))
    return Union(tuple(arms))


def _arms(written: Type) -> tuple[Type, ...]:
    return written.arms if isinstance(written, Union) else (written,)


def _without_shadowing(fields: list[Field]) -> list[Field]:
    """Return the fields of an object. An attribute `list` gets another name where an annotation has a list, which would
    be the attribute."""
    if not any(_has_array(field.type) for field in fields):
        return fields
    names, name = {field.name for field in fields}, "list_"
    while name in names:
        name += "_"
    return [replace(field, name=name) if field.name == "list" else field for field in fields]


def _has_array(of_type: Type) -> bool:
    match of_type:
        case Array():
            return True
        case Map(values=values):
            return _has_array(values)
        case Union(arms=arms):
            return any(map(_has_array, arms))
        case _:
            return False
