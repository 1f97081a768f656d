"""A parser of schema.ts: its interfaces, type aliases and constants, in the order of the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import tree_sitter
import tree_sitter_typescript
from tree_sitter import Node

from ..errors import SchemaError


@dataclass(frozen=True, slots=True)
class Keyword:
    """A built-in type, such as `string` or `unknown`."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal type, such as `"user"` or `-32042`."""

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
class ArrayOf:
    """`T[]` or `Array<T>`."""

    items: TsType


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


TsType = Keyword | Literal | Name | TypeOf | ArrayOf | UnionOf | AllOf | ObjectLiteral


@dataclass(frozen=True, slots=True)
class InterfaceDeclaration:
    """`interface X extends A, B { … }`."""

    name: str
    bases: tuple[Name, ...]
    body: ObjectLiteral
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class TypeAliasDeclaration:
    """`type X = …`."""

    name: str
    type: TsType
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class ConstantDeclaration:
    """`const X = …`, a string or a number."""

    name: str
    value: str | int


Declaration = InterfaceDeclaration | TypeAliasDeclaration | ConstantDeclaration

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_typescript.language_typescript())
_TAG: Final = re.compile(r"^[\s*/]*@([\w-]+)[ \t]*(.*?)[ \t]*(?:\*+/)?[ \t]*$", re.MULTILINE)


def parse(text: str, source: str) -> list[Declaration]:
    """Return the declarations of one schema.ts. `source` names it in errors. Raises SchemaError for anything outside
    the supported subset."""
    root = tree_sitter.Parser(_LANGUAGE).parse(text.encode()).root_node
    if root.has_error:
        raise SchemaError(f"{source}:{_first_error(root)}: is not valid TypeScript; correct the syntax of this line")
    return [_declaration(node, tags, source) for node, tags in _with_tags(root) if node.type != "empty_statement"]


def _first_error(node: Node) -> int:
    """Return the line of the first syntax error below `node`."""
    for child in node.children:
        if child.is_error or child.is_missing:
            return child.start_point.row + 1
        if child.has_error:
            return _first_error(child)
    return node.start_point.row + 1


def _with_tags(parent: Node) -> Iterator[tuple[Node, dict[str, str]]]:
    """Yield each named child with the tags of the JSDoc block before it. A `//` comment between the two is ignored."""
    tags: dict[str, str] = {}
    for node in parent.named_children:
        if node.type == "comment":
            if _text(node).startswith("/**"):
                tags = {match[1]: match[2] for match in _TAG.finditer(_text(node))}
        else:
            yield node, tags
            tags = {}


def _declaration(node: Node, tags: dict[str, str], source: str) -> Declaration:
    inner = _field(node, "declaration") if node.type == "export_statement" else node
    match inner.type:
        case "interface_declaration":
            clauses = [child for child in inner.named_children if child.type == "extends_type_clause"]
            bases = tuple(_type(base, source) for clause in clauses for base in clause.named_children)
            base_names = tuple(base for base in bases if isinstance(base, Name))
            return InterfaceDeclaration(
                _text(_field(inner, "name")), base_names, _object(_field(inner, "body"), source), tags
            )
        case "type_alias_declaration":
            return TypeAliasDeclaration(_text(_field(inner, "name")), _type(_field(inner, "value"), source), tags)
        case "lexical_declaration":
            declarator = inner.named_children[0]
            value = ast.literal_eval(_text(_field(declarator, "value")))
            return ConstantDeclaration(_text(_field(declarator, "name")), value)
        case kind:
            raise _unknown(inner, kind, source)


def _object(node: Node, source: str) -> ObjectLiteral:
    members: list[Member] = []
    index: TsType | None = None
    for child, tags in _with_tags(node):
        annotation = _field(child, "type").named_children[0]
        if child.type == "index_signature":
            index = _type(annotation, source)
        elif child.type == "property_signature":
            name = _field(child, "name")
            written = ast.literal_eval(_text(name)) if name.type == "string" else _text(name)
            optional = any(part.type == "?" for part in child.children)
            members.append(Member(written, optional, _type(annotation, source), tags))
        else:
            raise _unknown(child, child.type, source)
    return ObjectLiteral(tuple(members), index)


def _type(node: Node, source: str) -> TsType:
    reader = _TYPES.get(node.type)
    if reader is None:
        raise _unknown(node, node.type, source)
    return reader(node, source)


def _literal(node: Node, source: str) -> TsType:
    text = _text(node)
    return Keyword("null") if text == "null" else Literal(ast.literal_eval(text))


def _generic(node: Node, source: str) -> TsType:
    name = _text(_field(node, "name"))
    arguments = tuple(_type(child, source) for child in _field(node, "type_arguments").named_children)
    return ArrayOf(arguments[0]) if name == "Array" else Name(name, arguments)


def _union(node: Node, source: str) -> TsType:
    arms: list[TsType] = []
    for child in node.named_children:
        if child.type != "comment":
            arm = _type(child, source)
            arms.extend(arm.arms if isinstance(arm, UnionOf) else [arm])
    return arms[0] if len(arms) == 1 else UnionOf(tuple(arms))


def _intersection(node: Node, source: str) -> TsType:
    return AllOf(tuple(_type(child, source) for child in node.named_children if child.type != "comment"))


_TYPES: Final[dict[str, Callable[[Node, str], TsType]]] = {
    "predefined_type": lambda node, _: Keyword(_text(node)),
    "literal_type": _literal,
    "type_identifier": lambda node, _: Name(_text(node)),
    "generic_type": _generic,
    "type_query": lambda node, _: TypeOf(_text(node.named_children[0])),
    "array_type": lambda node, source: ArrayOf(_type(node.named_children[0], source)),
    "parenthesized_type": lambda node, source: _type(node.named_children[0], source),
    "union_type": _union,
    "intersection_type": _intersection,
    "object_type": lambda node, source: _object(node, source),
}


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    assert child is not None, f"the TypeScript grammar has no {name} in {node.type}"
    return child


def _text(node: Node) -> str:
    return (node.text or b"").decode()


def _unknown(node: Node, kind: str, source: str) -> SchemaError:
    return SchemaError(
        f"{source}:{node.start_point.row + 1}: {kind} is outside the TypeScript subset of schemas; use "
        "interfaces, type aliases and constants"
    )
