"""The declarations and types of a schema.ts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The JSDoc tags that become keywords of JSON Schema: with a text, and with a JSON value.
TEXT_TAGS: Final = ("format", "pattern")
JSON_TAGS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "examples", "default"),
)


@dataclass(frozen=True, slots=True)
class Keyword:
    """A built-in type, such as `string` or `unknown`."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal type, such as `"user"`, `-32042` or `true`."""

    value: str | int


@dataclass(frozen=True, slots=True)
class Name:
    """A reference to a declaration, with its type arguments (`Omit<Base, "error">`)."""

    name: str
    arguments: tuple[TsType, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeOf:
    """The type of a constant: `typeof JSONRPC_VERSION`."""

    constant: str


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """The type of a property: `X["params"]`."""

    owner: TsType
    property: str


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """`T[]` or `Array<T>`."""

    items: TsType


@dataclass(frozen=True, slots=True)
class TupleOf:
    """`[A, B?, ...C[]]`; at least `minimum` items, and any number of `rest` after the others."""

    items: tuple[TsType, ...]
    minimum: int
    rest: TsType | None


@dataclass(frozen=True, slots=True)
class TemplateOf:
    """A template literal type, as the pattern of its strings."""

    pattern: str


@dataclass(frozen=True, slots=True)
class UnionOf:
    """`A | B`; nested unions are flattened."""

    arms: tuple[TsType, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """`A & B`."""

    parts: tuple[TsType, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """One property, with its JSDoc tags."""

    name: str
    optional: bool
    type: TsType
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class ObjectLiteral:
    """`{ … }`; `index` is the value type of the index signature, or None without one."""

    members: tuple[Member, ...]
    index: TsType | None = None


TsType = (
    Keyword | Literal | Name | TypeOf | PropertyOf | ArrayOf | TupleOf | TemplateOf | UnionOf | AllOf | ObjectLiteral
)


@dataclass(frozen=True, slots=True)
class InterfaceDeclaration:
    """`interface X extends A, B { … }`."""

    name: str
    bases: tuple[Name, ...]
    body: ObjectLiteral
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class TypeAliasDeclaration:
    """`type X = …`, or `type X<A, B> = …` with parameters."""

    name: str
    type: TsType
    tags: dict[str, str]
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstantDeclaration:
    """`const X = …`, a string or a number."""

    name: str
    value: str | int


Declaration = InterfaceDeclaration | TypeAliasDeclaration | ConstantDeclaration
