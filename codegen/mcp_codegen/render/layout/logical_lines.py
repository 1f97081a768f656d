"""The logical lines of a module: statements, headers of blocks, decorators and comments, with their places."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["comment", "decorator", "def", "class", "block", "import", "docstring", "text", "statement"]

INDENT: Final = 4
_FMT_OFF: Final = "# fmt: off"
_FMT_ON: Final = "# fmt: on"
_COMMENT: Final = re.compile(r"#( \S.*)?")
_REMARK: Final = re.compile(r"  # \S(.*\S)?")
_BLOCKS: Final = (ast.If, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While)
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NOT_READ: Final = (ast.Try, ast.TryStar, ast.Match)


class UnreadFormError(Exception):
    """A module has a form that is not read here, such as a comment after a statement."""


@dataclass(slots=True)
class LogicalLine:
    """A statement without the statements inside it. `text` has its indentation; `blank` are the empty lines before it.

    `node` is its syntax tree; None for a comment, `else`, and a statement with a comment after it.
    """

    kind: Kind
    depth: int
    text: str
    blank: int
    node: ast.stmt | ast.expr | None = None


def logical_lines(text: str) -> list[LogicalLine]:
    """Return the logical lines of a module. Raises UnreadFormError."""
    if any(char in text for char in "\t\f\r\v"):
        raise UnreadFormError("white space other than spaces and ends of lines")
    reader = _LineReader(text.rstrip("\n").split("\n"))
    reader.read_block(ast.parse(text).body, 0)
    reader.read_gap(len(reader.source), 0)
    return reader.lines


class _LineReader:
    """Reads the source from the top; `place` is the number of its lines that have been read."""

    def __init__(self, source: list[str]) -> None:
        self.source = source
        self.lines: list[LogicalLine] = []
        self._place = 0
        self._blank = 0

    def read_block(self, body: Sequence[ast.stmt], depth: int) -> None:
        """Read the statements of a block, and the lines before each of them."""
        for number, node in enumerate(body):
            decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
            start = _first_line(node)
            self.read_gap(start, depth)
            if self._place > start:  # In a region that is not formatted.
                if (node.end_lineno or 0) > self._place:
                    raise UnreadFormError("a region without formatting that ends in a statement")
                continue
            for decorator in decorators:
                if decorator.lineno - 1 != self._place or decorator.end_lineno != decorator.lineno:
                    raise UnreadFormError("a decorator of several lines")
                self._add("decorator", depth, self._place + 1, decorator)
            while self._place < node.lineno - 1 and not self.source[self._place]:
                self._place += 1  # black removes the empty lines after decorators.
            if node.lineno - 1 != self._place:
                raise UnreadFormError("something between a decorator and its definition")
            self._read_statement(node, depth, is_first=number == 0)

    def read_gap(self, end: int, depth: int) -> None:
        """Read empty lines and comments up to a line of the source."""
        while self._place < end:
            line = self.source[self._place].lstrip(" ")
            if not line:
                self._blank += 1
                self._place += 1
                continue
            column = len(self.source[self._place]) - len(line)
            if _COMMENT.fullmatch(line) is None or line != line.rstrip() or column % INDENT:
                raise UnreadFormError("something other than a comment between two statements")
            deepest = self.lines[-1].depth if self.lines else 0
            if not depth <= column // INDENT <= max(depth, deepest):
                raise UnreadFormError("a comment that does not belong to the block around it")
            stop = self._place + 1
            if line == _FMT_OFF:
                rest = self.source[stop:]
                on = " " * column + _FMT_ON
                stop += rest.index(on) if on in rest else len(rest)
                if (on not in rest and column) or self._blank > 1:
                    raise UnreadFormError("a region without formatting that has no end")
            self._add("comment", column // INDENT, stop)

    def _read_statement(self, node: ast.stmt, depth: int, *, is_first: bool) -> None:
        if isinstance(node, _NOT_READ):
            raise UnreadFormError(f"a {type(node).__name__}")
        if isinstance(node, (*_BLOCKS, *_DEFINITIONS)):
            kind: Kind = "block" if isinstance(node, _BLOCKS) else "class" if isinstance(node, ast.ClassDef) else "def"
            self._add(kind, depth, self._end_of_header(_first_line(node.body[0])), node)
            self.read_block(node.body, depth + 1)
            if not isinstance(node, (*_DEFINITIONS, ast.With, ast.AsyncWith)) and node.orelse:
                self._read_else(node.orelse, depth)
            return
        rest = self.source[(node.end_lineno or 0) - 1].encode()[node.end_col_offset :].decode()
        if rest and (_REMARK.fullmatch(rest) is None or node.end_lineno != node.lineno):
            raise UnreadFormError("something after a statement, in the same line")
        self._add(_kind(node, is_first), depth, node.end_lineno or 0, None if rest else node)

    def _end_of_header(self, body: int) -> int:
        """Return the end of the header whose block begins at a line."""
        end = body
        while end > self._place and self.source[end - 1].lstrip(" ")[:1] in ("", "#"):
            end -= 1
        if end <= self._place or not self.source[end - 1].endswith(":"):
            raise UnreadFormError("a block in the line of its header")
        return end

    def _read_else(self, body: Sequence[ast.stmt], depth: int) -> None:
        header = " " * (depth * INDENT) + "else:"
        lines = self.source[self._place : _first_line(body[0])]
        if header not in lines:
            raise UnreadFormError("an elif")
        self.read_gap(self._place + lines.index(header), depth)
        self._add("block", depth, self._place + 1)
        self.read_block(body, depth + 1)

    def _add(self, kind: Kind, depth: int, end: int, node: ast.stmt | ast.expr | None = None) -> None:
        """Add the lines from the present place to an end as one logical line."""
        first = self.source[self._place]
        text = "\n".join(self.source[self._place : end])
        if len(first) - len(first.lstrip(" ")) != depth * INDENT:
            raise UnreadFormError("an indentation other than of four spaces")
        if "\n" in text and "#" in text and kind not in ("comment", "docstring", "text") and _has_comment(text):
            raise UnreadFormError("a comment in a statement of several lines")
        self.lines.append(LogicalLine(kind, depth, text, self._blank, node))
        self._place, self._blank = end, 0


def _first_line(node: ast.stmt) -> int:
    """Return the index of the first line of a statement, with its decorators."""
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1


def _kind(node: ast.stmt, is_first: bool) -> Kind:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return "import"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return "docstring" if is_first else "text"
    return "statement"


def _has_comment(text: str) -> bool:
    try:
        return any(
            part.type == tokenize.COMMENT for part in tokenize.generate_tokens(io.StringIO(text.lstrip()).readline)
        )
    except (tokenize.TokenError, IndentationError):
        return True
