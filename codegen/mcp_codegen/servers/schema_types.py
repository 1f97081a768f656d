"""The JSON Schemas of a server as types of the IR, as precise as Python allows, `any` otherwise.

Nothing is fetched and nothing is trusted: a reference to elsewhere, an invalid schema, and anything too deep or too
large is `any`. Objects with properties become classes; every other type is written inline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..errors import JsonObject, is_list, is_object
from ..model.ir import Array, Field, Map, Object, Plain, Ref, Scalar, Type, Union, Values
from ..model.names import field_names, pascal, type_name
from .contract import fingerprint, resolve_pointer

ANY: Final = Plain("any")
NULL: Final = Plain("null")

_MAX_DEPTH: Final = 24  # Nested lists: Python's own parser has a limit of about 90.
_MAX_NODES: Final = 4000  # In one tool: definitions that use each other twice grow exponentially.
_MAX_NAME: Final = 60
_MAX_DOC: Final = 2000
_KINDS: Final[dict[str, Literal["string", "integer", "number", "boolean", "null"]]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
# Endings of names of lists, and of their items.
_PLURALS: Final = (
    *(("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")),
    *((f"{end}s", f"{end}s") for end in ("s", "u", "i")),  # No plural: `address`, `status`, `analysis`.
    ("s", ""),
)
# Names in annotations: a property of that name would shadow it for the properties after it.
SHADOWED_BUILTINS: Final = frozenset({"bool", "dict", "float", "int", "list", "object", "str"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a tool: `shape` has the properties, `rest` the type of further properties, or None if there
    are none, `defaults` the default values by wire name."""

    shape: Object
    rest: Type | None
    defaults: Mapping[str, object]


class SchemaTypeReader:
    """The reader of the schemas of one server; `types` are the classes so far."""

    def __init__(self, used_names: Iterable[str]) -> None:
        self.types: dict[str, Object] = {}
        self.names: dict[str, str] = {}  # Of classes, by the fingerprint of their schema.
        self._used_names = set(used_names)

    def name(self, hint: str) -> str:
        """Return an unused class name."""
        name = type_name(pascal(hint)[:_MAX_NAME])
        while name in self._used_names:
            name += "_"
        self._used_names.add(name)
        return name

    def read(self, schema: object, hint: str) -> Type:
        """Return the type of a whole schema; its classes are named after the hint."""
        return _SchemaReading(self, schema).type(schema, hint, 0)

    def arguments(self, schema: object, hint: str) -> Arguments | None:
        """Return the arguments that a schema allows; None if it does not describe an object."""
        return _SchemaReading(self, schema).arguments(schema, hint)


class _SchemaReading:
    """The reading of one document, in which references are resolved."""

    def __init__(self, reader: SchemaTypeReader, root: object) -> None:
        self._reader = reader
        self._root = root
        self._remaining_nodes = _MAX_NODES
        self._classes: dict[str, str] = {}
        self._open: set[str] = set()

    def arguments(self, schema: object, hint: str) -> Arguments | None:
        merged = self._merged(schema)
        if merged is None or merged.get("type", "object") != "object":
            return None
        additional = merged.get("additionalProperties")
        rest = None if not (is_object(additional) or additional is True) else self.type(additional, f"{hint} value", 1)
        properties = _properties(merged).items()
        defaults = {wire: part["default"] for wire, part in properties if is_object(part) and "default" in part}
        return Arguments(self._object("", merged, hint, 0), rest, defaults)

    def type(self, schema: object, hint: str, depth: int) -> Type:
        self._remaining_nodes -= 1
        if not is_object(schema) or depth > _MAX_DEPTH or self._remaining_nodes < 0:
            return ANY
        if isinstance(schema.get("$ref"), str):
            return self._referenced(schema["$ref"], hint, depth)
        if "const" in schema:
            return self._values([schema["const"]])
        if is_list(schema.get("enum")):
            return self._values(schema["enum"])
        if is_list(schema.get("allOf")):
            merged = self._merged(schema)
            return ANY if merged is None else self.type(merged, hint, depth + 1)
        arms = schema.get("anyOf", schema.get("oneOf"))
        if is_list(arms) and not is_object(schema.get("properties")):
            return union(
                self.type(arm, f"{hint} {_title(arm) or number + 1}", depth + 1) for number, arm in enumerate(arms)
            )
        kinds = schema.get("type")
        if is_list(kinds):
            return union(self._kind(str(kind), schema, hint, depth) for kind in kinds)
        if isinstance(kinds, str):
            return self._kind(kinds, schema, hint, depth)
        return self._kind("object", schema, hint, depth) if is_object(schema.get("properties")) else ANY

    def _kind(self, kind: str, schema: JsonObject, hint: str, depth: int) -> Type:
        match kind:
            case "object":
                if not schema.get("properties") or not is_object(schema["properties"]):
                    values = schema.get("additionalProperties")
                    return Map(self.type(values, f"{hint} value", depth + 1))
                return self._class(schema, hint, depth)
            case "array":
                items = schema.get("items")
                fixed = "prefixItems" in schema
                return Array(ANY if fixed else self.type(items, _item_hint(items, hint), depth + 1))
            case _:
                return Plain(_KINDS[kind]) if kind in _KINDS else ANY

    def _class(self, schema: JsonObject, hint: str, depth: int, pointer: str | None = None) -> Ref:
        mark = fingerprint(schema, self._root)  # Of two tools with equal schemas, both take the class of the first.
        is_new = mark not in self._reader.names
        name = self._reader.names[mark] = self._reader.name(hint) if is_new else self._reader.names[mark]
        if pointer is not None:
            self._classes[pointer] = name
        if not is_new:
            return Ref(name)
        self._reader.types[name] = Object(name, ())  # A placeholder: outer classes come before inner ones.
        self._reader.types[name] = self._object(name, schema, hint, depth)
        return Ref(name)

    def _object(self, name: str, schema: JsonObject, hint: str, depth: int) -> Object:
        value = schema.get("properties")
        properties = value if is_object(value) else {}
        required = schema.get("required")
        required_names = {item for item in required if isinstance(item, str)} if is_list(required) else set[str]()
        names = field_names(properties)
        fields = [
            Field(
                wire=wire,
                name=names[wire],
                type=self.type(part, f"{hint} {wire}", depth + 1),
                required=wire in required_names,
                doc=description_of(part),
                deprecated=is_object(part) and part.get("deprecated") is True,
            )
            for wire, part in properties.items()
        ]
        return Object(name, tuple(_without_shadowing(fields)), doc=description_of(schema))

    def _referenced(self, pointer: str, hint: str, depth: int) -> Type:
        """Return the type that a reference points to. A class is created once; other types are written inline, but
        never inside themselves."""
        if pointer in self._classes:
            return Ref(self._classes[pointer])
        definition = self._target(pointer)
        if definition is None or pointer in self._open:
            return ANY
        name = pointer.rpartition("/")[2]
        hint = hint if name in ("#", "") else name
        if definition.get("type", "object") == "object" and definition.get("properties") and not _combined(definition):
            return self._class(definition, hint, depth, pointer)
        self._open.add(pointer)
        type = self.type(definition, hint, depth + 1)
        self._open.discard(pointer)
        return type

    def _target(self, pointer: str) -> JsonObject | None:
        """Return the schema at a place in this document, or None."""
        value = resolve_pointer(pointer, self._root)
        return value if is_object(value) else None

    def _merged(self, schema: object, seen: frozenset[str] = frozenset()) -> JsonObject | None:
        """Return a schema merged with its references and the parts of allOf. Properties of alternatives become
        optional."""
        self._remaining_nodes -= 1
        if not is_object(schema) or self._remaining_nodes < 0:
            return None
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            definition = None if pointer in seen else self._target(pointer)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            base = None if definition is None else self._merged(definition, seen | {pointer})
            return None if base is None else _merge(base, rest)
        parts = [self._merged(part, seen) for part in schema["allOf"]] if is_list(schema.get("allOf")) else []
        merged = {key: value for key, value in schema.items() if key not in ("allOf", "anyOf", "oneOf")}
        for part in parts:
            merged = merged if part is None else _merge(merged, part)
        for arms in (schema.get("anyOf"), schema.get("oneOf")):
            if is_list(arms):
                merged = _merge_alternatives(merged, [self._merged(arm, seen) for arm in arms])
        return merged

    def _values(self, values: list[Any]) -> Type:
        scalars = [value for value in values if isinstance(value, (str, bool)) or type(value) is int]
        others = [value for value in values if value is not None and not isinstance(value, (str, bool, int))]
        if others:
            numbers = all(isinstance(value, float) for value in others) and not any(
                isinstance(v, (str, bool)) for v in scalars
            )
            return Plain("number") if numbers else ANY
        kinds: list[Callable[[Scalar], bool]] = [_is_text, _is_truth, _is_whole]
        groups = [tuple(dict.fromkeys(value for value in scalars if is_kind(value))) for is_kind in kinds]
        return union([*(Values(group) for group in groups if group), *([NULL] if None in values else [])])


def union(arms: Iterable[Type]) -> Type:
    """Return a union of these types, flat and without duplicates."""
    flat: dict[str, Type] = {}  # By their repr, because 1 == True in Python.
    for arm in arms:
        flat |= {repr(inner): inner for inner in (arm.arms if isinstance(arm, Union) else (arm,))}
    if not flat or repr(ANY) in flat:
        return ANY
    return Union(tuple(flat.values())) if len(flat) > 1 else next(iter(flat.values()))


def description_of(schema: object) -> str:
    """Return the description of a schema, in one paragraph of limited length."""
    text = schema.get("description") if is_object(schema) else None
    return shorten(text) if isinstance(text, str) else ""


def shorten(text: str) -> str:
    """Return the text in one line, cut to the maximal length of a docstring."""
    line = " ".join(text[: 2 * _MAX_DOC].split())
    return line if len(line) <= _MAX_DOC else line[:_MAX_DOC].rstrip() + " ..."


def _without_shadowing(fields: list[Field]) -> list[Field]:
    """Return the fields, renamed where a name would shadow a type in annotations."""
    names = {field.name for field in fields}
    renamed: list[Field] = []
    for field in fields:
        name = field.name
        while name in SHADOWED_BUILTINS or (name != field.name and name in names):
            name += "_"
        names.add(name)
        renamed.append(replace(field, name=name))
    return renamed


def _merge(one: JsonObject, two: JsonObject) -> JsonObject:
    """Return the intersection of two schemas, as far as properties go."""
    merged = {**one, **two}
    if "properties" in one or "properties" in two:
        merged["properties"] = {**_properties(one), **_properties(two)}
        merged["required"] = [*_required(one), *_required(two)]
    return merged


def _merge_alternatives(base: JsonObject, arms: list[JsonObject | None]) -> JsonObject:
    """Return a schema merged with its alternatives: the properties of all; required are those that each requires."""
    schemas = [arm for arm in arms if arm is not None]
    all_properties: JsonObject = {name: part for arm in schemas for name, part in _properties(arm).items()}
    common = set[str](_required(schemas[0]) if schemas else []).intersection(*(_required(arm) for arm in schemas))
    properties = {
        name: all_properties[name] if name not in _properties(base) else _properties(base)[name]
        for name in all_properties
    }
    if not properties and not common:
        return base
    return _merge(base, {"properties": properties, "required": sorted(common)})


def _properties(schema: JsonObject) -> JsonObject:
    value = schema.get("properties")
    return value if is_object(value) else {}


def _required(schema: JsonObject) -> list[str]:
    value = schema.get("required")
    return [name for name in value if isinstance(name, str)] if is_list(value) else []


def _combined(schema: JsonObject) -> bool:
    return any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf", "enum", "const"))


def _item_hint(items: object, hint: str) -> str:
    """Return what a class of items is named after: its title, or the name of the list in the singular."""
    if title := _title(items):
        return title
    word = hint.rpartition(" ")[2]
    for plural, singular in _PLURALS:
        if word.endswith(plural) and len(word) > len(plural) + 1:
            return hint.removesuffix(plural) + singular
    return f"{hint} item"


def _title(schema: object) -> str:
    title = schema.get("title") if is_object(schema) else None
    return title if isinstance(title, str) and pascal(title) else ""


def _is_text(value: Scalar) -> bool:
    return isinstance(value, str)


def _is_truth(value: Scalar) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Scalar) -> bool:
    return not isinstance(value, (str, bool))
