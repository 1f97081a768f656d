"""The constructs of TypeScript that are refused: what they are called, and what to write instead."""

from __future__ import annotations

from typing import Final, NoReturn

from tree_sitter import Node

from ..errors import SchemaError

# Constructs that are refused, by the name of their node: what they are called, and what to write instead.
REFUSED: Final = {
    "abstract_class_declaration": ("a class", "an interface"),
    "ambient_declaration": ("`declare`", "the declaration with `export`"),
    "call_signature": ("a call signature", "a property with a type of JSON"),
    "class_declaration": ("a class", "an interface"),
    "conditional_type": ("a conditional type", "the type that it gives"),
    "const": ("`const` as a type", "the type that it gives"),
    "construct_signature": ("a constructor", "a property with a type of JSON"),
    "constructor_type": ("a constructor type", "a type of JSON"),
    "enum_declaration": ("an enum", 'a union of literals, such as `type X = "a" | "b"`'),
    "expression_statement": ("an expression", "interfaces, type aliases and constants only"),
    "function_declaration": ("a function", "interfaces, type aliases and constants only"),
    "function_type": ("a function type", "a type of JSON"),
    "import_statement": ("an import", "the imported declarations into this file"),
    "index_type_query": ("`keyof`", "a union of the names, as literals"),
    "internal_module": ("a namespace", "its declarations at the top of the file"),
    "intrinsic_type": ("an intrinsic type", "the type that it gives"),
    "mapped_type_clause": ("a mapped type", "an interface with the properties, or `Record<string, T>`"),
    "method_signature": ("a method", "a property with a type of JSON"),
    "module": ("a module", "its declarations at the top of the file"),
    "nested_type_identifier": ("a name in a namespace", "a name of this file"),
    "this_type": ("`this`", "the name of the interface"),
    "variable_declaration": ("`var`", "`const`"),
}
# Names that TypeScript declares, and what to write instead of them.
_PLAIN: Final = {
    **{name: f"`{name.lower()}`" for name in ("Boolean", "Number", "Object", "String")},
    **dict.fromkeys(("URL", "RegExp", "Uint8Array"), "`string`, in the form that is sent"),
    "bigint": "`number`",
}
_UTILITIES: Final = frozenset({"Partial", "Pick", "Readonly", "Required", "Exclude", "Extract"})


def refuse_node(node: Node, source: str) -> NoReturn:
    """Refuse a construct by the name of its node."""
    construct = REFUSED.get(node.type, (f"a {node.type.replace('_', ' ')}", "interfaces, type aliases and constants"))
    refuse(node, *construct, source)


def refuse(node: Node, construct: str, instead: str, source: str) -> NoReturn:
    """Raise the SchemaError that names a construct, its line, and what to write instead."""
    line = node.start_point.row + 1
    text = f"{source}:{line}: {construct} is outside of the TypeScript that schemas are read in; write {instead}"
    raise SchemaError(text, at=f"line {line}")


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode()


def undeclared(name: str) -> str:
    """Return the text about a name that is used and not declared."""
    return f"{name} is used but not declared; " + (
        f"write {_PLAIN[name]}" if name in _PLAIN else "declare it in schema.ts"
    )


def no_interface(user: str, base: str, is_declared: bool) -> str:
    """Return the text about a base of an interface that is no interface of the schema."""
    remedy = "declare it in schema.ts"
    if is_declared:
        remedy = f"declare {base} as an interface"
    elif base == "Record":
        remedy = f"write `[key: string]: T` in {user}"
    elif base in _UTILITIES:
        remedy = f"write the properties in {user}"
    return f"{user} extends {base}, which is not an interface of this schema; {remedy}"
