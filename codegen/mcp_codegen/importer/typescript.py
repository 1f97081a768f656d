"""A parser of schema.ts: its interfaces, type aliases and constants, in the order of the file, from the syntax tree of
tree-sitter; other constructs are refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import tree_sitter
import tree_sitter_typescript
from tree_sitter import Node

from ..errors import SchemaError
from . import syntax as ts

# The values of TypeScript literals, read from the syntax tree as ECMAScript defines them.

Value = str | int | float | bool | None

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_CODE_POINT: Final = re.compile(r"\\u\{([0-9A-Fa-f]+)\}|\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
_PREFIXES: Final = {"0x": 16, "0o": 8, "0b": 2}
_WRAPPERS: Final = ("as_expression", "satisfies_expression", "parenthesized_expression", "literal_type")
_MAX_INTEGER: Final = (1 << 53) - 1  # Number.MAX_SAFE_INTEGER
_LANGUAGE: Final = tree_sitter.Language(tree_sitter_typescript.language_typescript())
_STEPS: Final = 20  # Steps that the parser may take for any text, however small.
_BYTES_A_STEP: Final = 10  # It may take one more for each 10 bytes: valid texts have 14 (semicolons) to 800.
_CHUNK: Final = 8192

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

# The types of TypeScript that JSON has as well.
_KEYWORDS: Final = frozenset({"any", "boolean", "null", "number", "object", "string", "unknown"})
# The pattern of a substitution in a template literal type, and the characters of its text that patterns escape.
_SUBSTITUTED: Final = {"${string}": ".*", "${number}": "[0-9]*", "${bigint}": "[0-9]*"}
_ESCAPED: Final = re.compile(r"[\\^$.*+?()[\]{}|]")


class NoLiteralError(ValueError):
    """The node is not literal with a value in JSON. The argument names the construct, and what to write instead."""


def literal_value(node: Node) -> Value:
    """Return the value of a string, number, boolean or `null`, with or without `as const`. Raises NoLiteralError."""
    match node.type:
        case "string":
            return _string(node)
        case "template_string":
            return _template_text(node)
        case "number":
            return _number(_text(node))
        case "unary_expression":
            return _signed(node)
        case "true" | "false":
            return node.type == "true"
        case "null":
            return None
        case "undefined":
            raise NoLiteralError("`undefined` is not a JSON value; write `name?: T` for a property that may be missing")
        case kind if kind in _WRAPPERS:
            inner = [child for child in node.named_children if child.type != "comment"]
            if inner:
                return literal_value(inner[0])
        case _:
            pass
    raise NoLiteralError(f"{_shown(node)} is not literal; write a string, an integer, a boolean or `null`")


def _string(node: Node) -> str:
    parts = [_escape(_text(part)) if part.type == "escape_sequence" else _text(part) for part in node.named_children]
    return _whole("".join(parts), node)


def _template_text(node: Node) -> str:
    if any(part.type == "template_substitution" for part in node.named_children):
        raise NoLiteralError(f"{_shown(node)} has a substitution; write the text that it gives as a string")
    parts: list[str] = []
    text, start = node.text or b"", node.start_byte
    at = 1
    for part in node.named_children:
        if part.type == "escape_sequence":
            parts += [text[at : part.start_byte - start].decode(), _escape(_text(part))]
            at = part.end_byte - start
    return _whole("".join([*parts, text[at:-1].decode()]), node)


def _escape(written: str) -> str:
    match = _CODE_POINT.fullmatch(written)
    if match is not None:
        number = int(match[1] or match[2] or match[3], 16)
        if number > 0x10FFFF:
            raise NoLiteralError(f"{written} is not a Unicode character; correct the escape sequence")
        return chr(number)
    after = written[1:]
    return "" if after in ("\n", "\r\n", "\r") else _ESCAPES.get(after, after)


def _whole(text: str, node: Node) -> str:
    """Return the text with its surrogate pairs joined."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NoLiteralError(f"{_shown(node)} has half of a surrogate pair; write the whole character") from None


def _number(written: str) -> int | float:
    plain = written.replace("_", "").lower()
    if plain.endswith("n"):
        raise NoLiteralError(f"{written} is a bigint, which JSON has not; write {plain[:-1]}")
    try:
        base = _PREFIXES.get(plain[:2])
        number = int(plain[2:], base) if base is not None else float(plain)
        if abs(number) > _MAX_INTEGER or number != int(number):
            return float(number)
        return int(number)
    except (ValueError, OverflowError):
        raise NoLiteralError(f"{written[:40]} is not a number; write a decimal number") from None


def _signed(node: Node) -> int | float:
    operator, operand = node.child_by_field_name("operator"), node.child_by_field_name("argument")
    sign = {"-": -1, "+": 1}.get(_text(operator) if operator is not None else "")
    value = literal_value(operand) if operand is not None and operand.type == "number" else None
    if sign is None or not isinstance(value, (int, float)):
        raise NoLiteralError(f"{_shown(node)} is not literal; write its value")
    return sign * value


def _shown(node: Node) -> str:
    text = " ".join(_text(node).split())
    return f"`{text if len(text) <= 60 else text[:57] + '…'}`"


def _text(node: Node) -> str:
    return (node.text or b"").decode()


# The syntax tree of a schema.ts, from the parser of tree-sitter.


def syntax_tree(text: str, source: str) -> Node:
    """Return the root of the syntax tree. Raises SchemaError, with `source` and the line, if the text is not a valid
    TypeScript."""
    data = text.encode()
    root = _checked(data, source)
    if root.has_error:
        _refuse(source, _first_error(root))
    return tree_sitter.Parser(_LANGUAGE).parse(data).root_node  # The nodes of this one have their texts.


def _checked(data: bytes, source: str) -> Node:
    """Return the root of the syntax tree. Raises SchemaError for a text that the parser would try to mend for minutes,
    as happens with a few hundred bytes.

    The parser can be stopped only while a function gives it the text, and then the nodes have no `text`. Releases of
    tree-sitter before 0.26.1 crash when they are stopped.
    """
    steps = reached = 0

    def takes_too_long(offset: int, has_error: bool) -> bool:
        nonlocal steps, reached
        steps, reached = steps + 1, offset
        return steps > _STEPS + len(data) // _BYTES_A_STEP

    try:
        parser = tree_sitter.Parser(_LANGUAGE)
        return parser.parse(lambda at, _: data[at : at + _CHUNK], progress_callback=takes_too_long).root_node
    except ValueError:
        _refuse(source, data.count(b"\n", 0, reached) + 1)


def _refuse(source: str, line: int) -> NoReturn:
    raise SchemaError(
        f"{source}:{line}: is not valid TypeScript; correct the syntax of this line", at=f"line {line}"
    ) from None


def _first_error(node: Node) -> int:
    """Return the line of the first syntax error below `node`."""
    while True:
        below = next((child for child in node.children if child.is_error or child.is_missing or child.has_error), None)
        if below is None or below.is_error or below.is_missing:
            return (below or node).start_point.row + 1
        node = below


# The constructs of TypeScript that are refused: what they are called, and what to write instead.


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
    """Return the text about a base of an interface that is not an interface of the schema."""
    remedy = "declare it in schema.ts"
    if is_declared:
        remedy = f"declare {base} as an interface"
    elif base == "Record":
        remedy = f"write `[key: string]: T` in {user}"
    elif base in _UTILITIES:
        remedy = f"write the properties in {user}"
    return f"{user} extends {base}, which is not an interface of this schema; {remedy}"


def parse(text: str, source: str) -> list[ts.Declaration]:
    """Return the declarations of one schema.ts. `source` names it in errors. Raises SchemaError for anything outside
    the supported subset."""
    root = syntax_tree(text, source)
    try:
        nodes = [(node, tags) for node, tags in _with_tags(root) if node.type != "empty_statement"]
        declarations = [item for node, tags in nodes for item in _declarations(node, tags, source)]
    except RecursionError:
        raise SchemaError(f"{source}: has types inside of types beyond the limit; name the inner ones") from None
    named: dict[str, list[tuple[ts.Declaration, int]]] = {}
    for declared, line in declarations:
        named.setdefault(declared.name, []).append((declared, line))
    return [_merged(written, source) for written in named.values()]


def _merged(written: list[tuple[ts.Declaration, int]], source: str) -> ts.Declaration:
    """Return the declaration that TypeScript makes of those with the same name. Raises SchemaError if they contradict
    each other."""
    first, _ = written[0]
    bases: dict[ts.Name, None] = {}
    members: dict[str, ts.Member] = {}
    index: ts.TsType | None = None
    tags: dict[str, str] = {}
    for declared, line in written:
        if isinstance(first, ts.InterfaceDeclaration) and isinstance(declared, ts.InterfaceDeclaration):
            own = [(members.setdefault(member.name, member), member) for member in declared.body.members]
            is_same = all((one.type, one.optional) == (other.type, other.optional) for one, other in own)
            bases |= dict.fromkeys(declared.bases)
            index = index or declared.body.index
            tags |= declared.tags
        else:
            is_same = declared == first
        if not is_same:
            text = f"{source}:{line}: {declared.name} is declared again, with another body; declare it once"
            raise SchemaError(text, at=declared.name)
    if len(written) == 1 or not isinstance(first, ts.InterfaceDeclaration):
        return first
    return ts.InterfaceDeclaration(first.name, tuple(bases), ts.ObjectLiteral(tuple(members.values()), index), tags)


def _with_tags(parent: Node) -> Iterator[tuple[Node, dict[str, str]]]:
    """Yield each named child with the tags of the JSDoc block before it. A `//` comment between the two is ignored."""
    tags: dict[str, str] = {}
    for node in parent.named_children:
        if node.type == "comment":
            if text_of(node).startswith("/**"):
                tags = ts.read_tags(text_of(node))
        else:
            yield node, tags
            tags = {}


def _declarations(node: Node, tags: dict[str, str], source: str) -> Iterator[tuple[ts.Declaration, int]]:
    """Yield the declarations of a statement, with their lines."""
    inner = node
    if node.type == "export_statement":
        exported = node.child_by_field_name("declaration")
        if exported is None:
            refuse(node, "an export without a declaration", "`export` before each declaration", source)
        inner = exported
    line = inner.start_point.row + 1
    match inner.type:
        case "interface_declaration":
            yield _interface(inner, tags, source), line
        case "type_alias_declaration":
            written = inner.child_by_field_name("type_parameters")
            parameters = (
                tuple(text_of(_field(child, "name", source)) for child in _children(written)) if written else ()
            )
            alias = _type(_field(inner, "value", source), source)
            yield ts.TypeAliasDeclaration(text_of(_field(inner, "name", source)), alias, tags, parameters), line
        case "lexical_declaration":
            kind = _field(inner, "kind", source)
            if kind.type != "const":
                refuse(inner, "`let`", "`const`", source)
            for declarator in _children(inner):
                if declarator != kind:
                    yield _constant(declarator, tags, source), declarator.start_point.row + 1
        case _:
            refuse_node(inner, source)


def _interface(node: Node, tags: dict[str, str], source: str) -> ts.InterfaceDeclaration:
    _refuse_parameters(node, source)
    bases: list[ts.Name] = []
    for clause in _children(node):
        for written in _children(clause) if clause.type == "extends_type_clause" else ():
            base = _type(written, source)
            if not isinstance(base, ts.Name):
                refuse(written, "a base that is not a name", "the name of an interface after `extends`", source)
            bases.append(base)
    name = text_of(_field(node, "name", source))
    return ts.InterfaceDeclaration(name, tuple(bases), _object(_field(node, "body", source), source), tags)


def _constant(declarator: Node, tags: dict[str, str], source: str) -> ts.ConstantDeclaration:
    name, value = _field(declarator, "name", source), declarator.child_by_field_name("value")
    if value is None or name.type != "identifier":
        refuse(declarator, "a constant without a name or a value", "`const NAME = value`", source)
    read = _read(value, source)
    if isinstance(read, bool) or not isinstance(read, (str, int)):
        refuse(value, f"a constant of {text_of(value)[:40]}", "a string or an integer", source)
    return ts.ConstantDeclaration(text_of(name), read, tags)


def _refuse_parameters(node: Node, source: str) -> None:
    parameters = node.child_by_field_name("type_parameters")
    if parameters is not None:
        refuse(parameters, "a generic interface", "one interface for each use", source)


def _object(node: Node, source: str) -> ts.ObjectLiteral:
    members: list[ts.Member] = []
    index: ts.TsType | None = None
    for child, tags in _with_tags(node):
        if child.type == "index_signature":
            if any(part.type == "mapped_type_clause" for part in child.children):
                refuse(child, *REFUSED["mapped_type_clause"], source)
            key = child.child_by_field_name("index_type")
            if key is not None and text_of(key) != "string":
                refuse(child, f"an index signature of {text_of(key)[:40]}", "`[key: string]: T`", source)
            index = _annotation(child, source)
        elif child.type == "property_signature":
            members.append(_member(child, tags, source))
        else:
            refuse_node(child, source)
    for name, times in Counter(member.name for member in members).items():
        if times > 1:
            refuse(node, f"the property {name!r} twice", "it once", source)
    return ts.ObjectLiteral(tuple(members), index)


def _member(node: Node, tags: dict[str, str], source: str) -> ts.Member:
    name = _field(node, "name", source)
    if name.type == "computed_property_name":
        refuse(name, "a computed name", "the name itself", source)
    written = str(_read(name, source)) if name.type == "string" else text_of(name)
    optional = any(part.type == "?" for part in node.children)
    written_type = _annotation(node, source)
    if optional and isinstance(written_type, ts.UnionOf):
        arms = tuple(arm for arm in written_type.arms if arm != ts.Keyword("undefined"))
        written_type = ts.UnionOf(arms) if len(arms) > 1 else arms[0] if arms else written_type
    return ts.Member(written, optional, written_type, tags)


def _annotation(node: Node, source: str) -> ts.TsType:
    annotation = node.child_by_field_name("type")
    if annotation is None:
        refuse(node, "a property without a type", "its type after a colon", source)
    return _type(_children(annotation)[0], source)


def _type(node: Node, source: str) -> ts.TsType:
    reader = _TYPES.get(node.type)
    return refuse_node(node, source) if reader is None else reader(node, source)


def _keyword(node: Node, source: str) -> ts.TsType:
    name = text_of(node)
    if name == "never":
        return ts.Keyword(name)  # `Record<string, never>` is an empty object; the normalizer refuses it elsewhere.
    if name not in _KEYWORDS:
        refuse(node, f"`{name}`", f"a type of JSON: {', '.join(sorted(_KEYWORDS))}", source)
    return ts.Keyword(name)


def _literal(node: Node, source: str) -> ts.TsType:
    if text_of(node) == "undefined":
        return ts.Keyword("undefined")  # Nothing beside another type of an optional property, and refused elsewhere.
    value = _read(node, source)
    if value is None:
        return ts.Keyword("null")
    if isinstance(value, float):
        refuse(node, f"the literal {value}", "`number`, or an integer", source)
    return ts.Literal(value)


def _read(node: Node, source: str) -> str | int | float | bool | None:
    try:
        return literal_value(node)
    except NoLiteralError as error:
        raise SchemaError(f"{source}:{node.start_point.row + 1}: {error}") from None


def _generic(node: Node, source: str) -> ts.TsType:
    name = _field(node, "name", source)
    if name.type != "type_identifier":
        refuse_node(name, source)
    arguments = tuple(_type(child, source) for child in _children(_field(node, "type_arguments", source)))
    if text_of(name) in ("Array", "ReadonlyArray"):
        if len(arguments) != 1:
            refuse(node, f"`{text_of(node)[:40]}`", "`Array<T>` with one type", source)
        return ts.ArrayOf(arguments[0])
    return ts.Name(text_of(name), arguments)


def _query(node: Node, source: str) -> ts.TsType:
    (operand,) = _children(node)[:1] or [node]
    if operand.type != "identifier":
        refuse(node, f"`{text_of(node)[:60]}`", "`typeof NAME` with a constant of this file", source)
    return ts.TypeOf(text_of(operand))


def _property_of(node: Node, source: str) -> ts.TsType:
    owner, index = (_type(child, source) for child in _children(node)[:2])
    if not isinstance(index, ts.Literal) or not isinstance(index.value, str):
        refuse(node, "an indexed access without a name", 'the name of a property, such as `X["params"]`', source)
    return ts.PropertyOf(owner, index.value)


def _readonly(node: Node, source: str) -> ts.TsType:
    return _type(_children(node)[0], source)


def _union(node: Node, source: str) -> ts.TsType:
    arms: list[ts.TsType] = []
    for child in _operands(node):
        arm = _type(child, source)
        arms.extend(arm.arms if isinstance(arm, ts.UnionOf) else [arm])
    return arms[0] if len(arms) == 1 else ts.UnionOf(tuple(arms))


def _intersection(node: Node, source: str) -> ts.TsType:
    parts: list[ts.TsType] = []
    for child in _operands(node):
        part = _type(child, source)
        arms = part.arms if isinstance(part, ts.UnionOf) else (part,)
        if not all(isinstance(arm, (ts.AllOf, ts.Name, ts.ObjectLiteral, ts.PropertyOf)) for arm in arms):
            shown = " ".join(text_of(child).split())[:40]
            refuse(node, f"an intersection with `{shown}`", "an intersection of objects, or the plain type", source)
        parts.extend(part.parts if isinstance(part, ts.AllOf) else [part])
    return parts[0] if len(parts) == 1 else ts.AllOf(tuple(parts))


def _tuple(node: Node, source: str) -> ts.TsType:
    items: list[ts.TsType] = []
    minimum, rest = 0, None
    for child in _children(node):
        written = child.child_by_field_name("type")  # Of a named element.
        inner = _children(written)[0] if written is not None else child
        is_rest = child.type == "rest_type" or any(part.type == "rest_pattern" for part in child.children)
        item = _type(_children(inner)[0] if inner.type in ("rest_type", "optional_type") else inner, source)
        if is_rest and (not isinstance(item, ts.ArrayOf) or child != _children(node)[-1]):
            refuse(child, "a rest element that is not an array at the end", "`...T[]` as the last element", source)
        if isinstance(item, ts.ArrayOf) and is_rest:
            rest = item.items
        else:
            items.append(item)
            minimum += child.type not in ("optional_type", "optional_parameter")
    return ts.TupleOf(tuple(items), minimum, rest)


def _template(node: Node, source: str) -> ts.TsType:
    parts: list[str] = []
    for child in node.named_children:
        if child.type != "template_type":
            parts.append(_ESCAPED.sub(r"\\\g<0>", text_of(child)))
        elif (pattern := _SUBSTITUTED.get(text_of(child))) is not None:
            parts.append(pattern)
        else:
            refuse(child, "a template literal type with other types than string and number", "`string`", source)
    return ts.TemplateOf(f"^{''.join(parts)}$")


_TYPES: Final[dict[str, Callable[[Node, str], ts.TsType]]] = {
    "predefined_type": _keyword,
    "literal_type": _literal,
    "type_identifier": lambda node, _: ts.Name(text_of(node)),
    "generic_type": _generic,
    "type_query": _query,
    "lookup_type": _property_of,
    "readonly_type": _readonly,
    "array_type": lambda node, source: ts.ArrayOf(_type(_children(node)[0], source)),
    "tuple_type": _tuple,
    "template_literal_type": _template,
    "parenthesized_type": lambda node, source: _type(_children(node)[0], source),
    "union_type": _union,
    "intersection_type": _intersection,
    "object_type": lambda node, source: _object(node, source),
}


def _children(node: Node) -> list[Node]:
    """Return the named children that are not comments, and `const`, which is a type to the parser."""
    return [child for child in node.children if child.type == "const" or (child.is_named and child.type != "comment")]


def _operands(node: Node) -> list[Node]:
    """Return the operands of `A | B | C`, which is `(A | B) | C` to the parser."""
    operands: list[Node] = []
    inner: Node | None = node
    while inner is not None:
        children = _children(inner)
        is_nested = bool(children) and children[0].type == node.type
        operands += reversed(children[is_nested:])
        inner = children[0] if is_nested else None
    return operands[::-1]


def _field(node: Node, name: str, source: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        refuse(node, f"a {node.type.replace('_', ' ')} without {name}", "it in full", source)
    return child
