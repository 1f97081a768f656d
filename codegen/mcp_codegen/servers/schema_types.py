"""JSON Schemas that a server sent go in, types of the IR come out: as exact as Python can say, `any` where it cannot.

Nothing is fetched and nothing is trusted: a reference that leads elsewhere, a schema that is none, and whatever is
too deep or too large is `any`. Objects with properties get a class; everything else is written where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..json_types import is_list, is_object
from ..model.ir import (
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
from ..model.names import field_names, pascal, type_name
from .contract import Json
from .references import target

ANY: Final = Plain("any")
NULL: Final = Plain("null")

_DEPTH: Final = 24  # Lists in lists: Python's own parser has a limit of about 90.
_NODES: Final = 4000  # Of one tool: definitions that use each other twice grow without end.
_LONGEST_NAME: Final = 60
_LONGEST_DOC: Final = 2000
_KINDS: Final[dict[str, Literal["string", "integer", "number", "boolean", "null"]]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
# Names that stand in annotations: a property that had one would hide it from the properties after it.
SHADOWED_BUILTINS: Final = frozenset({"bool", "dict", "float", "int", "list", "object", "str"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """What may be given: `shape` has the properties, `rest` the type of those it does not name, if there may be any,
    `defaults` what a property is taken to be where it is not given."""

    shape: Object
    rest: Type | None
    defaults: Mapping[str, object]


class SchemaTypeReader:
    """Reads the schemas of one server; `types` are the classes that were needed so far."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.types: dict[str, Object] = {}
        self._taken = set(taken)

    def name(self, wanted: str) -> str:
        """A class name that nothing has yet."""
        name = type_name(pascal(wanted)[:_LONGEST_NAME])
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def read(self, schema: object, hint: str) -> Type:
        """The type of a whole schema, whose classes are named after the hint."""
        return _SchemaReading(self, schema).type(schema, hint, 0)

    def arguments(self, schema: object, hint: str) -> Arguments | None:
        """What a schema lets be given; None where it does not say that it describes an object."""
        return _SchemaReading(self, schema).arguments(schema, hint)


class _SchemaReading:
    """Reads one document; references lead to places in it."""

    def __init__(self, reader: SchemaTypeReader, root: object) -> None:
        self._reader = reader
        self._root = root
        self._left = _NODES
        self._classes: dict[str, str] = {}
        self._open: set[str] = set()

    def arguments(self, schema: object, hint: str) -> Arguments | None:
        merged = self._merged(schema)
        if merged is None or merged.get("type", "object") != "object":
            return None
        more = merged.get("additionalProperties")
        rest = None if not (is_object(more) or more is True) else self.type(more, f"{hint} value", 1)
        known = _properties(merged).items()
        defaults = {wire: each["default"] for wire, each in known if is_object(each) and "default" in each}
        return Arguments(self._object("", merged, hint, 0), rest, defaults)

    def type(self, schema: object, hint: str, depth: int) -> Type:
        self._left -= 1
        if not is_object(schema) or depth > _DEPTH or self._left < 0:
            return ANY
        if isinstance(schema.get("$ref"), str):
            return self._followed(schema["$ref"], hint, depth)
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

    def _kind(self, kind: str, schema: Json, hint: str, depth: int) -> Type:
        match kind:
            case "object":
                if not schema.get("properties") or not is_object(schema["properties"]):
                    values = schema.get("additionalProperties")
                    return Map(self.type(values, f"{hint} value", depth + 1))
                return self._class(schema, hint, depth)
            case "array":
                items = schema.get("items")
                fixed = "prefixItems" in schema
                return Array(ANY if fixed else self.type(items, f"{hint} item", depth + 1))
            case _:
                return Plain(_KINDS[kind]) if kind in _KINDS else ANY

    def _class(self, schema: Json, hint: str, depth: int, pointer: str | None = None) -> Ref:
        name = self._reader.name(hint)
        if pointer is not None:
            self._classes[pointer] = name
        self._reader.types[name] = Object(name, ())  # Holds the place: what is outside comes before what is inside.
        self._reader.types[name] = self._object(name, schema, hint, depth)
        return Ref(name)

    def _object(self, name: str, schema: Json, hint: str, depth: int) -> Object:
        properties = schema.get("properties")
        known = properties if is_object(properties) else {}
        required = schema.get("required")
        needed = {each for each in required if isinstance(each, str)} if is_list(required) else set[str]()
        names = field_names(known)
        fields = [
            Field(
                wire=wire,
                name=names[wire],
                type=self.type(each, f"{hint} {wire}", depth + 1),
                required=wire in needed,
                doc=described(each),
                deprecated=is_object(each) and each.get("deprecated") is True,
            )
            for wire, each in known.items()
        ]
        return Object(name, tuple(_apart(fields)), doc=described(schema))

    def _followed(self, pointer: str, hint: str, depth: int) -> Type:
        """What a reference leads to. A class is made once; anything else is written out, but never inside itself."""
        if pointer in self._classes:
            return Ref(self._classes[pointer])
        found = self._target(pointer)
        if found is None or pointer in self._open:
            return ANY
        name = pointer.rpartition("/")[2]
        hint = hint if name in ("#", "") else name
        if found.get("type", "object") == "object" and found.get("properties") and not _combined(found):
            return self._class(found, hint, depth, pointer)
        self._open.add(pointer)
        made = self.type(found, hint, depth + 1)
        self._open.discard(pointer)
        return made

    def _target(self, pointer: str) -> Json | None:
        """The schema at a place in this document."""
        found = target(pointer, self._root)
        return found if is_object(found) else None

    def _merged(self, schema: object, seen: frozenset[str] = frozenset()) -> Json | None:
        """A schema with its references and the parts of allOf put into one; alternatives make properties optional."""
        self._left -= 1
        if not is_object(schema) or self._left < 0:
            return None
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            found = None if pointer in seen else self._target(pointer)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            base = None if found is None else self._merged(found, seen | {pointer})
            return None if base is None else _both(base, rest)
        parts = [self._merged(part, seen) for part in schema["allOf"]] if is_list(schema.get("allOf")) else []
        merged = {key: value for key, value in schema.items() if key not in ("allOf", "anyOf", "oneOf")}
        for part in parts:
            merged = merged if part is None else _both(merged, part)
        for arms in (schema.get("anyOf"), schema.get("oneOf")):
            if is_list(arms):
                merged = _either(merged, [self._merged(arm, seen) for arm in arms])
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
        groups = [tuple(dict.fromkeys(value for value in scalars if fits(value))) for fits in kinds]
        return union([*(Values(group) for group in groups if group), *([NULL] if None in values else [])])


def union(arms: Iterable[Type]) -> Type:
    """One of these types, flat and without repetition."""
    flat: dict[str, Type] = {}  # By their text: 1 and True are the same to Python.
    for arm in arms:
        flat |= {repr(each): each for each in (arm.arms if isinstance(arm, Union) else (arm,))}
    if not flat or repr(ANY) in flat:
        return ANY
    return Union(tuple(flat.values())) if len(flat) > 1 else next(iter(flat.values()))


def described(schema: object) -> str:
    """What a schema says of itself, in one paragraph that is not too long."""
    text = schema.get("description") if is_object(schema) else None
    return shortened(text) if isinstance(text, str) else ""


def shortened(text: str) -> str:
    """The text in one line, cut where it gets too long for a docstring."""
    line = " ".join(text[: 2 * _LONGEST_DOC].split())
    return line if len(line) <= _LONGEST_DOC else line[:_LONGEST_DOC].rstrip() + " ..."


def _apart(fields: list[Field]) -> list[Field]:
    """The fields, none of which has the name of a type that annotations use."""
    taken = {field.name for field in fields}
    done: list[Field] = []
    for field in fields:
        name = field.name
        while name in SHADOWED_BUILTINS or (name != field.name and name in taken):
            name += "_"
        taken.add(name)
        done.append(replace(field, name=name))
    return done


def _both(one: Json, other: Json) -> Json:
    """What two schemas ask together, as far as properties go."""
    merged = {**one, **other}
    if "properties" in one or "properties" in other:
        merged["properties"] = {**_properties(one), **_properties(other)}
        merged["required"] = [*_required(one), *_required(other)]
    return merged


def _either(base: Json, arms: list[Json | None]) -> Json:
    """A schema with alternatives: the properties of all, those required that each requires."""
    known = [arm for arm in arms if arm is not None]
    found: Json = {name: each for arm in known for name, each in _properties(arm).items()}
    common = set[str](_required(known[0]) if known else []).intersection(*(_required(arm) for arm in known))
    properties = {name: found[name] if name not in _properties(base) else _properties(base)[name] for name in found}
    if not properties and not common:
        return base
    return _both(base, {"properties": properties, "required": sorted(common)})


def _properties(schema: Json) -> Json:
    found = schema.get("properties")
    return found if is_object(found) else {}


def _required(schema: Json) -> list[str]:
    found = schema.get("required")
    return [each for each in found if isinstance(each, str)] if is_list(found) else []


def _combined(schema: Json) -> bool:
    return any(word in schema for word in ("$ref", "allOf", "anyOf", "oneOf", "enum", "const"))


def _title(schema: object) -> str:
    title = schema.get("title") if is_object(schema) else None
    return title if isinstance(title, str) and pascal(title) else ""


def _is_text(value: Scalar) -> bool:
    return isinstance(value, str)


def _is_truth(value: Scalar) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Scalar) -> bool:
    return not isinstance(value, (str, bool))
