"""The normalized schema: the official definitions of a schema.ts, plus what the official schema.json omits.

The normalized schema extends JSON Schema with these annotations, which validators ignore:

| key           | at         | meaning                                                                        |
|---------------|------------|--------------------------------------------------------------------------------|
| `x-constants` | root       | the constants of schema.ts, by name                                            |
| `x-extends`   | definition | the interfaces it extends; `properties` repeats their properties, first        |
| `x-omits`     | definition | the inherited properties that it omits                                         |
| `x-open`      | object     | unknown properties are allowed, although the official schema.json omits that   |
| `x-known`     | string     | the values the specification names; any other string is valid too              |
| `x-constant`  | const      | the name of the constant                                                       |
| `x-official`  | anywhere   | the schema that the official schema.json has here; `false`: it has none        |
| `x-category`  | definition | the heading under which the specification documents it                         |
| `x-internal`  | definition | the specification does not document it separately                              |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SchemaError
from .syntax import (
    JSON_TAGS,
    TEXT_TAGS,
    AllOf,
    ArrayOf,
    ConstantDeclaration,
    Declaration,
    InterfaceDeclaration,
    Keyword,
    Literal,
    Member,
    Name,
    ObjectLiteral,
    PropertyOf,
    TsType,
    TypeAliasDeclaration,
    TypeOf,
    UnionOf,
)

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
REF: Final = "#/$defs/"

_SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems")
_TAG_TYPES: Final[dict[str, type]] = {"uniqueItems": bool, **dict.fromkeys(_SIZES, int)}


def normalize(declarations: list[Declaration], revision: str) -> Schema:
    """Return the normalized schema of a revision. Raises SchemaError for a form that cannot be read."""
    try:
        return _Normalizer(declarations, revision).schema()
    except RecursionError:
        raise SchemaError(
            f"{revision}: types of schema.ts are inside of each other beyond the limit; name the inner ones"
        ) from None


@dataclass(frozen=True, slots=True)
class _Base:
    """The inherited part of an interface from one base: its members, those of further bases first, and whether
    unknown properties are allowed."""

    name: str
    members: tuple[Member, ...]
    is_open: bool
    omitted: tuple[str, ...] = ()


class _Normalizer:
    """One normalization. Holds the declarations by name, because inheritance is resolved on the fly."""

    def __init__(self, declarations: list[Declaration], revision: str) -> None:
        self._revision = revision
        self._constants = {item.name: item.value for item in declarations if isinstance(item, ConstantDeclaration)}
        self._types = {item.name: item for item in declarations if not isinstance(item, ConstantDeclaration)}
        self._open_bases: list[str] = []  # The interfaces whose bases are being read.

    def schema(self) -> Schema:
        return {
            "$schema": DIALECT,
            "title": f"Model Context Protocol {self._revision}",
            "x-constants": self._constants,
            "$defs": {name: self._definition(declared) for name, declared in self._types.items()},
        }

    def _definition(self, declared: InterfaceDeclaration | TypeAliasDeclaration) -> Schema:
        marks: Schema = {}
        if "category" in declared.tags:
            marks["x-category"] = declared.tags["category"].strip("`")
        if "internal" in declared.tags:
            marks["x-internal"] = True
        if "deprecated" in declared.tags:
            marks["deprecated"] = True
        body = (
            self._interface(declared)
            if isinstance(declared, InterfaceDeclaration)
            else self._type(declared.type, declared.tags)
        )
        return marks | body

    def _interface(self, declared: InterfaceDeclaration) -> Schema:
        bases = [self._base(base, declared.name) for base in declared.bases]
        inherited = [member for base in bases for member in base.members]
        body = self._object(ObjectLiteral((*inherited, *declared.body.members), declared.body.index))
        if declared.body.index is None and any(base.is_open for base in bases):
            body["x-open"] = True
        marks: Schema = {}
        if bases:
            marks["x-extends"] = [base.name for base in bases]
        if omitted := [name for base in bases for name in base.omitted]:
            marks["x-omits"] = omitted
        return marks | body

    def _base(self, base: Name, user: str) -> _Base:
        """Return what `user` inherits from one entry of its extends clause."""
        if base.name == "Omit":
            if len(base.arguments) != 2 or not isinstance(base.arguments[0], Name):
                raise self._error(f"{user} extends an Omit that is not Omit<NAME, …>; write the name of an interface")
            omitted = self._names(base.arguments[1], user)
            whole = self._base(base.arguments[0], user)
            members = tuple(member for member in whole.members if member.name not in omitted)
            return _Base(whole.name, members, whole.is_open, tuple(omitted))
        declared = self._types.get(base.name)
        if (
            isinstance(declared, TypeAliasDeclaration)
            and isinstance(declared.type, Name)
            and declared.type.name == "Record"
        ):
            return _Base(base.name, (), True)
        if not isinstance(declared, InterfaceDeclaration) or base.arguments:
            raise self._error(
                f"{user} extends {base.name}, which is not an interface of this schema; declare it in schema.ts"
            )
        if base.name in self._open_bases:
            raise self._error(f"{base.name} extends itself, by way of {user}; remove one `extends`")
        self._open_bases.append(base.name)
        above = [self._base(further, declared.name) for further in declared.bases]
        inherited = (member for ancestor in above for member in ancestor.members)
        self._open_bases.pop()
        is_open = declared.body.index is not None or any(ancestor.is_open for ancestor in above)
        return _Base(base.name, (*inherited, *declared.body.members), is_open)

    def _object(self, literal: ObjectLiteral) -> Schema:
        properties: Schema = {}
        required: dict[str, bool] = {}
        for member in literal.members:
            if "deprecated" in member.tags:
                properties[member.name] = {"deprecated": True} | self._type(member.type, member.tags)
            else:
                properties[member.name] = self._type(member.type, member.tags)
            required[member.name] = not member.optional
        body: Schema = {"type": "object"}
        if properties or literal.index is None:
            body["properties"] = properties
        if any(required.values()):
            body["required"] = [name for name, is_required in required.items() if is_required]
        if literal.index is not None:
            body["additionalProperties"] = self._type(literal.index, {})
        return body

    def _type(self, written: TsType, tags: dict[str, str]) -> Schema:
        match written:
            case Keyword(name):
                schema = self._keyword(name, tags)
            case Literal(value):
                schema = {"type": _json_type(value), "const": value}
            case TypeOf(constant):
                if constant not in self._constants:
                    raise self._error(f"`typeof {constant}` names no constant of schema.ts; declare it with `const`")
                value = self._constants[constant]
                schema = {"type": _json_type(value), "const": value, "x-constant": constant}
            case Name("Record", (_, Keyword("never"))):
                schema = Schema(type="object", properties=Schema())
            case Name("Record", (_, values)):
                inner = self._type(values, {})
                schema = (
                    {"type": "object", "additionalProperties": inner} if inner else {"type": "object", "x-open": True}
                )
            case Name("Date", ()) if "Date" not in self._types:
                schema = {"type": "string", "format": "date-time"}
            case Name(name, ()):
                if name not in self._types:
                    raise self._error(f"{name} is used but not declared; declare it in schema.ts")
                schema = {"$ref": REF + name}
            case Name(name, _):
                raise self._error(
                    f"the generic type {name}<…> is not supported; only Record, Omit and Array are: write the type "
                    "that it gives"
                )
            case PropertyOf(owner, name):
                return self._type(self._property(owner, name), tags)
            case ArrayOf(items):
                schema = Schema(type="array", items=self._type(items, {}))
            case UnionOf(arms):
                schema = self._union(arms, tags)
            case AllOf(parts):
                schema = Schema(allOf=[self._type(part, {}) for part in parts])
            case ObjectLiteral():
                schema = self._object(written)
        if written in (Keyword("never"), Keyword("undefined")):
            raise self._error(
                "`never` and `undefined` have no value in JSON; write `name?: T` for a property that may be missing, "
                "or the type that is meant"
            )
        schema |= {tag: tags[tag] for tag in TEXT_TAGS if tag in tags}
        return schema | {tag: self._value(tag, tags[tag]) for tag in JSON_TAGS if tag in tags}

    def _property(self, owner: TsType, name: str) -> TsType:
        """Return the type of a property of an interface, or of an object."""
        members: tuple[Member, ...] = ()
        if isinstance(owner, PropertyOf):
            owner = self._property(owner.owner, owner.property)
        if isinstance(owner, Name):
            declared = self._types.get(owner.name)
            if isinstance(declared, InterfaceDeclaration):
                members = self._base(owner, owner.name).members
            elif isinstance(declared, TypeAliasDeclaration) and declared.type != owner:
                return self._property(declared.type, name)
        elif isinstance(owner, ObjectLiteral):
            members = owner.members
        declared_type = next((member.type for member in reversed(members) if member.name == name), None)
        if declared_type is None:
            raise self._error(f"an indexed access with {name!r} names no property; write the type itself")
        return declared_type

    def _value(self, tag: str, written: str) -> Any:
        try:
            value = json.loads(written)
        except ValueError as error:
            raise self._error(
                f"@{tag} has the value {written!r}, which is not JSON; correct the tag in schema.ts"
            ) from error
        expected = _TAG_TYPES.get(tag, (int, float))
        if tag != "default" and (not isinstance(value, expected) or isinstance(value, bool) != (expected is bool)):
            raise self._error(f"@{tag} has the value {written!r}, which it cannot have; correct the tag in schema.ts")
        return value

    def _names(self, written: TsType, user: str) -> list[str]:
        arms = written.arms if isinstance(written, UnionOf) else (written,)
        names = [arm.value for arm in arms if isinstance(arm, Literal) and isinstance(arm.value, str)]
        if len(names) < len(arms):
            raise self._error(f"{user} omits what is no name; write the names of the properties as literals")
        return names

    def _error(self, text: str) -> SchemaError:
        return SchemaError(f"{self._revision}: {text}")

    def _keyword(self, name: str, tags: dict[str, str]) -> Schema:
        if name in ("unknown", "any"):
            return {}
        if name == "object":
            return {"type": "object", "additionalProperties": True}
        if name == "number":
            return {"type": tags.get("TJS-type", "integer")}
        return {"type": name}

    def _union(self, arms: tuple[TsType, ...], tags: dict[str, str]) -> Schema:
        literals = [arm.value for arm in arms if isinstance(arm, Literal)]
        keywords = [arm.name for arm in arms if isinstance(arm, Keyword)]
        if len(literals) == len(arms):
            kinds = list(dict.fromkeys(_json_type(value) for value in literals))
            return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": literals}
        if literals and len(literals) + 1 == len(arms) and keywords == ["string"]:
            return {"type": "string", "x-known": literals}
        schemas: list[Schema] = []
        for arm in arms:
            schema = self._type(arm, tags if arm == Keyword("number") else {})
            if arm == Keyword("number") and "boolean" in keywords:
                # A union of number and boolean means any JSON number; the official tool wrongly writes «integer».
                schema = Schema({"type": "number", "x-official": {"type": "integer"}})
            if arm == Keyword("null") and "nullable" not in tags:
                schema["x-official"] = False
            schemas.append(schema)
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}


def _json_type(value: str | int) -> str:
    return "string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "integer"
