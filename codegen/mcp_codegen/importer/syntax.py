"""The declarations and types of a schema.ts, generic types with their arguments, and the tags of JSDoc blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import Any, Final

# The JSDoc tags that become keywords of JSON Schema: with a text, and with a JSON value.
TEXT_TAGS: Final = ("format", "pattern")
JSON_TAGS: Final = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "examples", "default"),
)

# Tags that say what no type says. The normalized schema keeps them, with `x-` before their name: see model/tags.py.
MESSAGE_TAGS: Final = ("direction", "capability", "result")
DEFINITION_TAGS: Final = (*MESSAGE_TAGS, "role", "named", "constructs", "requires")
PROPERTY_TAGS: Final = ("named", "constructs", "essential", "requires", "header")
CONSTANT_TAGS: Final = ("httpStatus", "reserved", "transport")
# What a JSDoc block says, among its tags, and the keyword for it. A text in the words of the specification ends with a
# mark, because all others are ours.
TEXT: Final = ""
DOC: Final = "x-doc"
FROM_SPECIFICATION: Final = " (Text of the specification.)"
MARKS: Final = tuple(dict.fromkeys(f"x-{tag}" for tag in (*DEFINITION_TAGS, *PROPERTY_TAGS)))

_SITE: Final = "https://modelcontextprotocol.io"
_LINK: Final = re.compile(r"\{@link\s+([^\s|}]+)\s*\|?\s*([^}]*?)\s*\}")  # {@link Name | what it shows}
_SPACE: Final = re.compile(r"\s+")
_TAG: Final = re.compile(r"[\s*/]*@([\w-]+)(.*)")  # At the beginning of a line.
# Tags of the JSON Schema tool with its prefix, which mean the same as without it.
_TOOL_TAGS: Final = frozenset(f"TJS-{name}" for name in (*TEXT_TAGS, *JSON_TAGS))
_SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems")
_TAG_TYPES: Final[dict[str, type]] = {"uniqueItems": bool, "examples": list, **dict.fromkeys(_SIZES, int)}


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
    tags: dict[str, str]


Declaration = InterfaceDeclaration | TypeAliasDeclaration | ConstantDeclaration


# Generic types: aliases with arguments in the place of the parameters, and the keys of a `Record` or an `Omit`.


def substitute(written: TsType, arguments: Mapping[str, TsType]) -> TsType:
    """Return a type with arguments in the place of the names of parameters."""
    match written:
        case Name(name, ()) if name in arguments:
            return arguments[name]
        case Name(name, inner):
            return Name(name, tuple(substitute(argument, arguments) for argument in inner))
        case ArrayOf(items):
            return ArrayOf(substitute(items, arguments))
        case TupleOf(items, minimum, rest):
            tail = None if rest is None else substitute(rest, arguments)
            return TupleOf(tuple(substitute(item, arguments) for item in items), minimum, tail)
        case UnionOf(arms):
            return UnionOf(tuple(substitute(arm, arguments) for arm in arms))
        case AllOf(parts):
            return AllOf(tuple(substitute(part, arguments) for part in parts))
        case PropertyOf(owner, name):
            return PropertyOf(substitute(owner, arguments), name)
        case ObjectLiteral(members, index):
            return ObjectLiteral(
                tuple(replace(member, type=substitute(member.type, arguments)) for member in members),
                None if index is None else substitute(index, arguments),
            )
        case _:
            return written


def size(written: TsType | None) -> int:
    """Return how many types are written in a type, itself included."""
    match written:
        case None:
            return 0
        case Name(_, parts) | UnionOf(parts) | AllOf(parts):
            return 1 + sum(size(part) for part in parts)
        case ArrayOf(part) | PropertyOf(part, _):
            return 1 + size(part)
        case TupleOf(items, _, rest):
            return 1 + sum(size(item) for item in items) + size(rest)
        case ObjectLiteral(members, index):
            return 1 + sum(size(member.type) for member in members) + size(index)
        case _:
            return 1


def literal_texts(written: TsType, types: Mapping[str, Declaration]) -> list[str]:
    """Return the texts of a literal, of a union of literals, or of an alias of these; nothing for another type."""
    alias = types.get(written.name) if isinstance(written, Name) else None
    written = alias.type if isinstance(alias, TypeAliasDeclaration) else written
    arms = written.arms if isinstance(written, UnionOf) else (written,)
    texts = [arm.value for arm in arms if isinstance(arm, Literal) and isinstance(arm.value, str)]
    return texts if len(texts) == len(arms) else []


def without_nothing(written: TsType) -> TsType:
    """Return a type without `null` and `undefined`, as `NonNullable` gives it."""
    if not isinstance(written, UnionOf):
        return written
    arms = tuple(arm for arm in written.arms if arm not in (Keyword("null"), Keyword("undefined")))
    return arms[0] if len(arms) == 1 else UnionOf(arms)


# The tags of JSDoc blocks, and the values of those that become keywords of JSON Schema.


def marks_of(tags: Mapping[str, str], kept: tuple[str, ...]) -> dict[str, str]:
    """Return the annotations of the normalized schema for the text, and for those tags that are kept."""
    text = {DOC: tags[TEXT] + FROM_SPECIFICATION} if tags.get(TEXT) else {}
    return text | {f"x-{tag}": tags[tag].strip("`") for tag in kept if tag in tags}


def read_tags(comment: str) -> dict[str, str]:
    """Return the tags of a JSDoc block, with the rest of their lines, and the first paragraph of its text."""
    lines = comment.removesuffix("*/").rstrip("*").split("\n")
    tags = {match[1]: match[2].strip() for line in lines if (match := _TAG.match(line)) is not None}
    tags |= {name.removeprefix("TJS-"): tags[name] for name in tags if name in _TOOL_TAGS}
    return {TEXT: _first_paragraph(lines)} | tags


def _first_paragraph(lines: list[str]) -> str:
    """Return the text before the first blank line or tag, in one line; a link is what it shows."""
    written = [line.strip().removeprefix("/**").removeprefix("*").strip() for line in lines]
    begun = dropwhile(lambda line: not line, written)
    paragraph = " ".join(takewhile(lambda line: line and not _TAG.match(line), begun))
    text = _SPACE.sub(" ", _LINK.sub(lambda link: link[2] or f"`{link[1]}`", paragraph))
    return text.replace("](/", f"]({_SITE}/")


def tag_value(tag: str, written: str) -> Any:
    """Return the value of a tag. Raises ValueError for one that the keyword cannot have."""
    try:
        value = json.loads(written)
    except ValueError:
        raise ValueError(f"@{tag} has the value {written!r}, which is not JSON; correct the tag in schema.ts") from None
    expected = _TAG_TYPES.get(tag, (int, float))
    if tag != "default" and (not isinstance(value, expected) or isinstance(value, bool) != (expected is bool)):
        raise ValueError(f"@{tag} has the value {written!r}, which it cannot have; correct the tag in schema.ts")
    return value
