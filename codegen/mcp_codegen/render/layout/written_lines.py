"""Logical lines as black writes them: in one line where they fit, else split at their brackets.

Only the forms that generated modules have most are written; the others are for black.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .logical_lines import INDENT, LogicalLine

# What black adds to a logical line, removes from it or replaces: white space, commas at the end, and quotation marks.
_LAYOUT: Final = re.compile(r"""[\s,'"]+""")
_LAYOUT_OF_IMPORTS: Final = re.compile(r"[\s,()]+")
_END_OF_PARAMETERS: Final = re.compile(r"\s*(,?)\s*\)")


class _OtherFormError(Exception):
    """A logical line has a form that is not written here, or one that is too long for its lines."""


def written_line(line: LogicalLine, width: int) -> str | None:
    """Return the text of a logical line as black writes it, None if black has to write it."""
    if line.node is None or not line.text.isascii() or "\\" in line.text:
        return None
    try:
        text = "\n".join(_Writer(line, width).lines(line.node))
    except _OtherFormError:
        return None
    layout = _LAYOUT_OF_IMPORTS if line.kind == "import" else _LAYOUT
    # Anything else, such as parentheses that are not needed, is for black to keep or to remove.
    return text if layout.sub("", text) == layout.sub("", line.text) else None


@dataclass(frozen=True, slots=True)
class _Item:
    """What stands between two commas: a text that is never split, and an expression after it."""

    prefix: str
    node: ast.expr


@dataclass(frozen=True, slots=True)
class _Bracketed:
    """An expression that ends in a bracket.

    `exploded`: black never writes several items in one line inside of these brackets, once it splits them. `magic`: the
    source has a comma after the last item, so black splits them in any case.
    """

    head: str
    items: list[_Item]
    closing: str
    exploded: bool
    magic: bool


class _Writer:
    def __init__(self, line: LogicalLine, width: int) -> None:
        assert line.node is not None
        self._source = line.text.split("\n")
        self._first = line.node.lineno
        self._depth = line.depth
        self._width = width
        self._flat: dict[ast.expr, str] = {}
        self._magic: set[ast.expr] = set()

    def lines(self, node: ast.stmt | ast.expr) -> list[str]:
        """Return the lines of a statement, of the header of a definition or of a decorator."""
        match node:
            case ast.expr():
                return self._written("@", node, "", self._depth)
            case ast.Expr(value=value):
                return self._written("", value, "", self._depth)
            case ast.Return(value=ast.expr() as value):
                return self._written("return ", value, "", self._depth)
            case ast.Raise(exc=ast.expr() as value, cause=None):
                return self._written("raise ", value, "", self._depth)
            case ast.Return() | ast.Pass():
                return [self._line(type(node).__name__.lower(), self._depth)]
            case ast.Assign(targets=[target], value=value):
                return self._written(f"{self._target(target)} = ", value, "", self._depth)
            case ast.AnnAssign(target=ast.Name(name), annotation=annotation, value=None):
                return self._written(f"{name}: ", annotation, "", self._depth)
            case ast.AnnAssign(target=ast.Name(name), annotation=annotation, value=ast.expr() as value):
                return self._written(f"{name}: {self._plain(annotation)} = ", value, "", self._depth)
            case ast.ImportFrom() | ast.Import():
                return self._imported(node)
            case ast.ClassDef():
                return [self._line(self._class(node), self._depth)]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._function(node)
            case _:
                raise _OtherFormError

    def _line(self, text: str, depth: int) -> str:
        line = " " * (INDENT * depth) + text
        if len(line) > self._width:
            raise _OtherFormError
        return line

    def _written(self, prefix: str, node: ast.expr, suffix: str, depth: int) -> list[str]:
        """Return the lines of an expression between two texts."""
        flat = f"{prefix}{self._text(node)}{suffix}"
        if node not in self._magic and INDENT * depth + len(flat) <= self._width:
            return [self._line(flat, depth)]
        inner = node
        while isinstance(inner, ast.Await):
            prefix, inner = f"{prefix}await ", inner.value
        if isinstance(inner, ast.Call) and any(isinstance(part, ast.Call) for part in ast.walk(inner.func)):
            raise _OtherFormError  # A chain of calls.
        parts = self._bracketed(inner)
        if not parts.items:
            raise _OtherFormError
        head, tail = self._line(prefix + parts.head, depth), self._line(parts.closing + suffix, depth)
        return [head, *self._body(parts, depth + 1), tail]

    def _body(self, parts: _Bracketed, depth: int) -> list[str]:
        joined = ", ".join(map(self._item, parts.items))
        is_free = not parts.magic and not any(item.node in self._magic for item in parts.items)
        is_one = len(parts.items) == 1
        if is_free and (is_one or not parts.exploded) and INDENT * depth + len(joined) <= self._width:
            return [self._line(joined, depth)]
        if is_one and not parts.magic:
            raise _OtherFormError
        return [line for item in parts.items for line in self._written(item.prefix, item.node, ",", depth)]

    def _item(self, item: _Item) -> str:
        return item.prefix + self._text(item.node)

    def _plain(self, node: ast.expr) -> str:
        """Return the text of an expression that is not split."""
        text = self._text(node)
        if node in self._magic:
            raise _OtherFormError
        return text

    def _text(self, node: ast.expr) -> str:
        """Return the text of an expression in one line, and note whether it has to be split nevertheless."""
        if node not in self._flat:
            self._flat[node] = self._new_text(node)
        return self._flat[node]

    def _new_text(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name):
                return name
            case ast.Constant():
                return self._constant(node)
            case ast.Attribute(ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript() as owner, name):
                return f"{self._plain(owner)}.{name}"
            case ast.Await(value):
                text = f"await {self._text(value)}"
                if value in self._magic:
                    self._magic.add(node)
                return text
            case ast.BinOp(first, ast.BitOr(), second):
                return f"{self._plain(first)} | {self._plain(second)}"
            case ast.UnaryOp(ast.USub(), ast.Constant() as number):
                return f"-{self._text(number)}"
            case _:
                parts = self._bracketed(node)
                items = [self._item(item) for item in parts.items]
                if parts.magic or any(item.node in self._magic for item in parts.items):
                    self._magic.add(node)
                comma = "," if isinstance(node, ast.Tuple) and len(items) == 1 else ""
                return f"{parts.head}{', '.join(items)}{comma}{parts.closing}"

    def _constant(self, node: ast.Constant) -> str:
        source = self._slice(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        if isinstance(node.value, str):
            if '"' in node.value or source not in (f"'{node.value}'", f'"{node.value}"'):
                raise _OtherFormError
            return f'"{node.value}"'
        if source != repr(node.value):
            raise _OtherFormError
        return source

    def _bracketed(self, node: ast.expr) -> _Bracketed:
        match node:
            case ast.Call(func, args, keywords):
                named = [_Item("**" if one.arg is None else f"{one.arg}=", one.value) for one in keywords]
                magic = self._has_comma(node, [*args, *keywords])
                return _Bracketed(f"{self._plain(func)}(", [*map(_expression, args), *named], ")", False, magic)
            case ast.Subscript(value, ast.Tuple(parts) as key) if parts and not self._is_parenthesized(key):
                if self._has_comma(node, parts):
                    raise _OtherFormError
                return _Bracketed(f"{self._plain(value)}[", [*map(_expression, parts)], "]", False, False)
            case ast.Subscript(value, key) if not isinstance(key, (ast.Slice, ast.Tuple)):
                if self._has_comma(node, [key]):
                    raise _OtherFormError
                return _Bracketed(f"{self._plain(value)}[", [_Item("", key)], "]", False, False)
            case ast.Tuple(parts) if self._is_parenthesized(node):
                magic = self._has_comma(node, parts) and len(parts) > 1
                return _Bracketed("(", [*map(_expression, parts)], ")", True, magic)
            case ast.List(parts):
                return _Bracketed("[", [*map(_expression, parts)], "]", True, self._has_comma(node, parts))
            case ast.Dict(keys, values):
                prefixes = ["**" if key is None else f"{self._plain(key)}: " for key in keys]
                items = [_Item(prefix, value) for prefix, value in zip(prefixes, values, strict=True)]
                return _Bracketed("{", items, "}", True, self._has_comma(node, values))
            case _:
                raise _OtherFormError

    def _has_comma(self, node: ast.expr, parts: Sequence[ast.expr | ast.keyword]) -> bool:
        """Return True if the source has a comma between the last part and the bracket after it."""
        if not parts:
            return False
        rest = self._slice(parts[-1].end_lineno, parts[-1].end_col_offset, node.end_lineno, node.end_col_offset)
        between = rest[:-1].strip()
        if between not in ("", ","):
            raise _OtherFormError
        return between == ","

    def _is_parenthesized(self, node: ast.Tuple) -> bool:
        return self._slice(node.lineno, node.col_offset, node.lineno, node.col_offset + 1) == "("

    def _slice(self, line: int | None, column: int | None, end_line: int | None, end_column: int | None) -> str:
        start, end = (line or 0) - self._first, (end_line or 0) - self._first
        if start == end:
            return self._source[start][column:end_column]
        return "\n".join([self._source[start][column:], *self._source[start + 1 : end], self._source[end][:end_column]])

    def _target(self, node: ast.expr) -> str:
        match node:
            case ast.Name() | ast.Attribute(ast.Name()):
                return self._text(node)
            case ast.Tuple(parts) if len(parts) > 1 and not self._is_parenthesized(node):
                return ", ".join(map(self._target, parts))
            case _:
                raise _OtherFormError

    def _imported(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        names = [f"{one.name} as {one.asname}" if one.asname else one.name for one in node.names]
        start = "import "
        if isinstance(node, ast.ImportFrom):
            start = f"from {'.' * node.level}{node.module or ''} import "
        indent = " " * (INDENT * self._depth)
        if len(flat := f"{indent}{start}{', '.join(names)}") <= self._width:
            return [flat]
        if isinstance(node, ast.Import) or "(" in self._source[0]:
            raise _OtherFormError
        return [f"{indent}{start}(", *(self._line(f"{name},", self._depth + 1) for name in names), f"{indent})"]

    def _class(self, node: ast.ClassDef) -> str:
        if getattr(node, "type_params", None):
            raise _OtherFormError
        parts = [*map(self._plain, node.bases)]
        parts += [f"{one.arg or '**'}{'=' * bool(one.arg)}{self._plain(one.value)}" for one in node.keywords]
        return f"class {node.name}({', '.join(parts)}):" if parts else f"class {node.name}:"

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
        if getattr(node, "type_params", None):
            raise _OtherFormError
        start = f"{'async ' * isinstance(node, ast.AsyncFunctionDef)}def {node.name}("
        end = f") -> {self._plain(node.returns)}:" if node.returns is not None else "):"
        parameters = list(self._parameters(node.args))
        flat = " " * (INDENT * self._depth) + start + ", ".join(parameters) + end
        has_comma = bool(parameters) and self._has_comma_after(node.args)
        if not has_comma and len(flat) <= self._width:
            return [flat]
        if len(parameters) < 2 or '"' in end:
            raise _OtherFormError
        depth = self._depth + 1
        body = ", ".join(parameters)
        if has_comma or INDENT * depth + len(body) > self._width:
            lines = [self._line(f"{parameter},", depth) for parameter in parameters]
        else:
            lines = [self._line(body, depth)]
        return [self._line(start, self._depth), *lines, self._line(end, self._depth)]

    def _parameters(self, parameters: ast.arguments) -> Iterator[str]:
        positional = [*parameters.posonlyargs, *parameters.args]
        defaults = [*[None] * (len(positional) - len(parameters.defaults)), *parameters.defaults]
        for number, (one, default) in enumerate(zip(positional, defaults, strict=True), 1):
            yield self._parameter("", one, default)
            if number == len(parameters.posonlyargs):
                yield "/"
        if parameters.vararg is not None:
            yield self._parameter("*", parameters.vararg, None)
        elif parameters.kwonlyargs:
            yield "*"
        for one, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            yield self._parameter("", one, default)
        if parameters.kwarg is not None:
            yield self._parameter("**", parameters.kwarg, None)

    def _parameter(self, stars: str, parameter: ast.arg, default: ast.expr | None) -> str:
        if parameter.annotation is None:
            return f"{stars}{parameter.arg}" + (f"={self._plain(default)}" if default is not None else "")
        text = f"{stars}{parameter.arg}: {self._plain(parameter.annotation)}"
        return text + (f" = {self._plain(default)}" if default is not None else "")

    def _has_comma_after(self, parameters: ast.arguments) -> bool:
        """Return True if the source has a comma between the last parameter and the bracket after it."""
        nodes = [part for part in ast.walk(parameters) if isinstance(part, (ast.arg, ast.expr))]
        line, column = max((node.end_lineno or 0, node.end_col_offset or 0) for node in nodes)
        rest = self._slice(line, column, self._first + len(self._source) - 1, len(self._source[-1]))
        if (match := _END_OF_PARAMETERS.match(rest)) is None:
            raise _OtherFormError
        return bool(match[1])


def _expression(node: ast.expr) -> _Item:
    return _Item("*", node.value) if isinstance(node, ast.Starred) else _Item("", node)
