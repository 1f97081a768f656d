"""The normalized schema: the official definitions of a schema.ts, plus what the official schema.json omits.

The normalized schema extends JSON Schema with these annotations, which validators ignore:

| key           | at         | meaning                                                                        |
|---------------|------------|--------------------------------------------------------------------------------|
| `x-constants` | root       | the constants of schema.ts, by name                                            |
| `x-generic`   | root       | the parameters of generic aliases, by name                                     |
| `x-extends`   | definition | the interfaces it extends; `properties` repeats their properties, first        |
| `x-omits`     | definition | the inherited properties that it omits                                         |
| `x-open`      | object     | unknown properties are allowed, although the official schema.json omits that   |
| `x-known`     | string     | the values the specification names; any other string is valid too              |
| `x-constant`  | const      | the name of the constant                                                       |
| `x-inline`    | definition | the official schema.json repeats it wherever it is used                        |
| `x-official`  | anywhere   | the schema that the official schema.json has here; `false`: it has none        |
| `x-category`  | definition | the heading under which the specification documents it                         |
| `x-internal`  | definition | the specification does not document it separately                              |
| `x-tags`      | root       | the tags of constants, by the name of the constant                             |
| others        | anywhere   | a tag of schema.ts of this name, such as `x-direction`: see `importer/syntax`  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..errors import SchemaError
from . import syntax as ts
from .references import REF, Schema, alias_targets, circular, record_schema, references, tuple_schema
from .typescript import no_interface, undeclared

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REPEATED: Final = 2_000  # Types that generic types and indexed accesses may repeat.
_REPEATED_A_DECLARATION: Final = 20  # So many more for each declaration; the official schemas repeat none.


def normalize(declarations: list[ts.Declaration], revision: str) -> Schema:
    """Return the normalized schema of a revision. Raises SchemaError for a form that cannot be read."""
    normalizer = _Normalizer(declarations, revision)
    try:
        return normalizer.schema()
    except RecursionError:
        raise normalizer.error("types are inside of each other beyond the limit; name the inner ones") from None


@dataclass(frozen=True, slots=True)
class _Base:
    """The inherited part of an interface from one base: its members, those of further bases first, and whether
    unknown properties are allowed."""

    name: str
    members: tuple[ts.Member, ...]
    is_open: bool
    omitted: tuple[str, ...] = ()


class _Normalizer:
    """One normalization. Holds the declarations by name, because inheritance is resolved on the fly."""

    def __init__(self, declarations: list[ts.Declaration], revision: str) -> None:
        self._revision = revision
        constants = [item for item in declarations if isinstance(item, ts.ConstantDeclaration)]
        self._constants = {item.name: item.value for item in constants}
        tags = {item.name: {tag: item.tags[tag] for tag in ts.CONSTANT_TAGS if tag in item.tags} for item in constants}
        self._constant_tags = {name: written for name, written in tags.items() if written}
        self._types = {item.name: item for item in declarations if not isinstance(item, ts.ConstantDeclaration)}
        self._remaining = _REPEATED + _REPEATED_A_DECLARATION * len(declarations)
        self._open_bases: list[str] = []  # The interfaces whose bases are being read.
        self._at = ""  # The definition that is being read.

    def schema(self) -> Schema:
        definitions: Schema = {}
        for name, declared in self._types.items():
            if isinstance(declared, ts.InterfaceDeclaration) or not declared.parameters:
                self._at = name
                definitions[name] = self._definition(declared)
        in_circle = circular({name: alias_targets(schema) for name, schema in definitions.items()})
        if name := next((name for name in definitions if name in in_circle), ""):
            self._at = name
            raise self.error(f"{name} circularly references itself; write the type that it stands for")
        recursive = circular({name: references(schema) for name, schema in definitions.items()})
        for name, declared in self._types.items():
            # The official tool repeats an object without a name wherever an alias of it is used.
            if isinstance(declared, ts.TypeAliasDeclaration) and name in definitions:
                is_unnamed = isinstance(self._resolved(declared.type), ts.ObjectLiteral)
                if is_unnamed and name not in recursive:
                    definitions[name] = {"x-inline": True} | definitions[name]
        generic = {
            name: list(declared.parameters)
            for name, declared in self._types.items()
            if isinstance(declared, ts.TypeAliasDeclaration) and declared.parameters and name not in definitions
        }
        return {
            "$schema": DIALECT,
            "title": f"Model Context Protocol {self._revision}",
            "x-constants": self._constants,
            **({"x-tags": self._constant_tags} if self._constant_tags else {}),
            **({"x-generic": generic} if generic else {}),
            "$defs": definitions,
        }

    def _definition(self, declared: ts.InterfaceDeclaration | ts.TypeAliasDeclaration) -> Schema:
        marks: Schema = {}
        if "category" in declared.tags:
            marks["x-category"] = declared.tags["category"].strip("`")
        flags = {"internal": "x-internal", "deprecated": "deprecated"}
        marks |= {mark: True for tag, mark in flags.items() if tag in declared.tags}
        marks |= ts.marks_of(declared.tags, ts.DEFINITION_TAGS)
        body = (
            self._interface(declared)
            if isinstance(declared, ts.InterfaceDeclaration)
            else self._type(declared.type, declared.tags)
        )
        return marks | body

    def _interface(self, declared: ts.InterfaceDeclaration) -> Schema:
        bases = [self._base(base, declared.name) for base in declared.bases]
        inherited = [member for base in bases for member in base.members]
        body = self._object(ts.ObjectLiteral((*inherited, *declared.body.members), declared.body.index))
        if declared.body.index is None and any(base.is_open for base in bases):
            body["x-open"] = True
        marks: Schema = {}
        if bases:
            marks["x-extends"] = [base.name for base in bases]
        if omitted := [name for base in bases for name in base.omitted]:
            marks["x-omits"] = omitted
        return marks | body

    def _base(self, base: ts.Name, user: str) -> _Base:
        """Return what `user` inherits from one entry of its extends clause."""
        if base.name == "Omit":
            if len(base.arguments) != 2 or not isinstance(base.arguments[0], ts.Name):
                raise self.error(f"{user} extends an Omit that is not Omit<NAME, …>; write the name of an interface")
            omitted = self._names(base.arguments[1], user)
            whole = self._base(base.arguments[0], user)
            without = {*omitted}
            members = tuple(member for member in whole.members if member.name not in without)
            return _Base(whole.name, members, whole.is_open, tuple(omitted))
        declared = self._types.get(base.name)
        written = declared.type if isinstance(declared, ts.TypeAliasDeclaration) else None
        if isinstance(written, ts.Name) and written.name == "Record":
            return _Base(base.name, (), True)
        if not isinstance(declared, ts.InterfaceDeclaration) or base.arguments:
            raise self.error(no_interface(user, base.name, declared is not None))
        if base.name in self._open_bases:
            raise self.error(f"{base.name} extends itself, by way of {user}; remove one `extends`")
        self._open_bases.append(base.name)
        above = [self._base(further, declared.name) for further in declared.bases]
        inherited = (member for ancestor in above for member in ancestor.members)
        self._open_bases.pop()
        is_open = declared.body.index is not None or any(ancestor.is_open for ancestor in above)
        return _Base(base.name, (*inherited, *declared.body.members), is_open)

    def _object(self, literal: ts.ObjectLiteral) -> Schema:
        properties: Schema = {}
        required: dict[str, bool] = {}
        for member in literal.members:
            if member.type == ts.Keyword("never"):  # No JSON object has this property.
                properties.pop(member.name, None)
                required.pop(member.name, None)
                continue
            marks: Schema = {"deprecated": True} if "deprecated" in member.tags else {}
            marks |= ts.marks_of(member.tags, ts.PROPERTY_TAGS)
            properties[member.name] = marks | self._type(member.type, member.tags)
            required[member.name] = not member.optional
        body: Schema = {"type": "object"}
        if properties or literal.index is None:
            body["properties"] = properties
        if any(required.values()):
            body["required"] = [name for name, is_required in required.items() if is_required]
        if literal.index is not None:
            body["additionalProperties"] = self._type(literal.index, {})
        return body

    def _type(self, written: ts.TsType, tags: dict[str, str]) -> Schema:
        written = self._resolved(written)
        match written:
            case ts.Keyword(name):
                schema = self._keyword(name, tags)
            case ts.Literal(value):
                schema = {"type": _json_type(value), "const": value}
            case ts.TypeOf(constant):
                if constant not in self._constants:
                    raise self.error(f"`typeof {constant}` names no constant of schema.ts; declare it with `const`")
                schema = self._type(ts.Literal(self._constants[constant]), {}) | {"x-constant": constant}
            case ts.Name("Record", (_, ts.Keyword("never"))):
                schema = Schema(type="object", properties=Schema())
            case ts.Name("Record", (keys, values)):
                schema = record_schema(self._type(values, {}), has_numbers=keys == ts.Keyword("number"))
            case ts.Name("Date", ()) if "Date" not in self._types:
                schema = {"type": "string", "format": "date-time"}
            case ts.Name(name, ()):
                if name not in self._types:
                    raise self.error(undeclared(name))
                self._parameters(name, ())
                schema = {"$ref": REF + name}
            case ts.Name(name, _):
                raise self.error(
                    f"the generic type {name}<…> is not supported; only Record, Omit, Array, NonNullable and aliases "
                    "are: write the type that it gives"
                )
            case ts.ArrayOf(items):
                schema = Schema(type="array", items=self._type(items, {}))
            case ts.TupleOf(items, minimum, rest):
                tail = None if rest is None else self._type(rest, {})
                schema = tuple_schema([self._type(item, {}) for item in items], minimum, tail)
            case ts.TemplateOf(pattern):
                schema = {"type": "string", "pattern": pattern}
            case ts.UnionOf(arms):
                schema = self._union(arms, tags)
            case ts.AllOf(parts):
                schema = Schema(allOf=[self._type(part, {}) for part in parts])
            case ts.ObjectLiteral():
                schema = self._object(written)
            case ts.PropertyOf(owner, name):  # Resolved before; its property is read again.
                return self._type(self._property(owner, name), tags)
        if written in (ts.Keyword("never"), ts.Keyword("undefined")):
            raise self.error(
                "`never` and `undefined` have no value in JSON; write `name?: T` for a property that may be missing, "
                "or the type that is meant"
            )
        schema |= {tag: tags[tag] for tag in ts.TEXT_TAGS if tag in tags}
        return schema | {tag: self._value(tag, tags[tag]) for tag in ts.JSON_TAGS if tag in tags}

    def _parameters(self, name: str, arguments: tuple[ts.TsType, ...]) -> dict[str, ts.TsType]:
        """Return the arguments of an alias by the names of its parameters."""
        declared = self._types[name]
        parameters = declared.parameters if isinstance(declared, ts.TypeAliasDeclaration) else ()
        if len(parameters) != len(arguments):
            raise self.error(
                f"{name} has {len(parameters)} type parameters, and is used with {len(arguments)}; write all"
            )
        return dict(zip(parameters, arguments, strict=True))

    def _resolved(self, written: ts.TsType) -> ts.TsType:
        """Return the type that an indexed access, a generic alias or `NonNullable` gives, and any other as it is."""
        match written:
            case ts.PropertyOf(owner, name):
                return self._resolved(self._repeated(self._property(owner, name)))
            case ts.Name("NonNullable", (inner,)) if "NonNullable" not in self._types:
                return self._resolved(ts.without_nothing(self._resolved(inner)))
            case ts.Name("Record", (keys, values)) if names := ts.literal_texts(keys, self._types):
                return self._repeated(
                    ts.ObjectLiteral(tuple(ts.Member(name, False, values, {}) for name in names), None)
                )
            case ts.Name(name, arguments) if arguments and isinstance(
                alias := self._types.get(name), ts.TypeAliasDeclaration
            ):
                parameters = self._parameters(name, arguments)
                return self._resolved(self._repeated(ts.substitute(alias.type, parameters)))
            case _:
                return written

    def _repeated(self, written: ts.TsType) -> ts.TsType:
        """Return a type that is written elsewhere. Raises SchemaError if such types repeat each other too often."""
        self._remaining -= ts.size(written)
        if self._remaining < 0:
            raise self.error(
                "generic types and indexed accesses repeat each other beyond the limit; name the inner ones"
            )
        return written

    def _property(self, owner: ts.TsType, name: str) -> ts.TsType:
        """Return the type of a property of an interface, or of an object."""
        members: tuple[ts.Member, ...] = ()
        owner = self._resolved(owner)
        if isinstance(owner, ts.Name):
            declared = self._types.get(owner.name)
            if isinstance(declared, ts.InterfaceDeclaration):
                members = self._base(owner, owner.name).members
            elif isinstance(declared, ts.TypeAliasDeclaration) and declared.type != owner:
                return self._property(declared.type, name)
        elif isinstance(owner, ts.ObjectLiteral):
            members = owner.members
        declared_type = next((member.type for member in reversed(members) if member.name == name), None)
        if declared_type is None:
            raise self.error(f"an indexed access with {name!r} names no property; write the type itself")
        return declared_type

    def _value(self, tag: str, written: str) -> Any:
        try:
            return ts.tag_value(tag, written)
        except ValueError as error:
            raise self.error(str(error)) from None

    def _names(self, written: ts.TsType, user: str) -> list[str]:
        if not (names := ts.literal_texts(written, self._types)):
            raise self.error(f"{user} omits what is not a name; write the names of the properties as literals")
        return names

    def error(self, text: str) -> SchemaError:
        at = f" (in {self._at})" if self._at and self._at not in text else ""
        return SchemaError(f"{self._revision}: {text}{at}", at=self._at)

    def _keyword(self, name: str, tags: dict[str, str]) -> Schema:
        if name in ("unknown", "any"):
            return {}
        if name == "object":
            return {"type": "object", "additionalProperties": True}
        if name == "number":
            return {"type": tags.get("TJS-type", "integer")}
        return {"type": name}

    def _union(self, written: tuple[ts.TsType, ...], tags: dict[str, str]) -> Schema:
        arms = tuple(arm for arm in written if arm != ts.Keyword("never"))
        if len(arms) < len(written):
            return self._type(arms[0] if len(arms) == 1 else ts.UnionOf(arms), tags)
        literals = [arm.value for arm in arms if isinstance(arm, ts.Literal)]
        keywords = [arm.name for arm in arms if isinstance(arm, ts.Keyword)]
        if len(literals) == len(arms):
            kinds = list(dict.fromkeys(_json_type(value) for value in literals))
            return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": literals}
        if len(literals) + 1 == len(arms) and keywords == ["string"] and {*map(_json_type, literals)} == {"string"}:
            return {"type": "string", "x-known": literals}
        schemas: list[Schema] = []
        for arm in arms:
            schema = self._type(arm, tags if arm == ts.Keyword("number") else {})
            if arm == ts.Keyword("number") and "boolean" in keywords:
                # A union of number and boolean means any JSON number; the official tool wrongly writes «integer».
                schema = Schema({"type": "number", "x-official": {"type": "integer"}})
            if arm == ts.Keyword("null") and "nullable" not in tags:
                schema["x-official"] = False
            schemas.append(schema)
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}


def _json_type(value: str | int) -> str:
    return "string" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "integer"
