"""Format modules as black does."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final

import black
from black.mode import TargetVersion

from .empty_lines import spaced
from .logical_lines import INDENT, LogicalLine, UnreadFormError, logical_lines
from .written_lines import written_line

MODE: Final = black.Mode(line_length=120, target_versions={TargetVersion.PY311})
_HEADERS: Final = ("def", "class", "block")
_Key = tuple[int, str]


def format_texts(texts: Sequence[str]) -> list[str]:
    """Return modules as black formats them."""
    modules = [_read(text) for text in texts]
    waiting: dict[_Key, LogicalLine] = {}
    written: dict[_Key, str] = {}
    for lines in modules:
        for line in lines or ():
            key = line.depth, line.text
            if key not in written and key not in waiting:
                text = line.text if _is_settled(line) else written_line(line, MODE.line_length)
                if text is None:
                    waiting[key] = line
                else:
                    written[key] = text
    split = _formatted(list(waiting.values()))
    if split is not None:
        written |= split
    return [
        black.format_str(text, mode=MODE) if lines is None or split is None else _joined(lines, written)
        for text, lines in zip(texts, modules, strict=True)
    ]


def _read(text: str) -> list[LogicalLine] | None:
    """Return the logical lines of a module; None if it has a form that only black reads."""
    try:
        lines = logical_lines(text)
    except UnreadFormError:
        return None
    is_clear = all(line.kind != "docstring" or _is_settled_docstring(line) for line in lines)
    return lines if lines and is_clear else None


def _joined(lines: Iterable[LogicalLine], written: dict[_Key, str]) -> str:
    parts: list[str] = []
    for item in spaced(lines):
        text = written[item.line.depth, item.line.text]
        parts.append("\n" * item.before + text + "\n" + "\n" * item.after)
    return "".join(parts)


def _formatted(lines: Sequence[LogicalLine]) -> dict[_Key, str] | None:
    """Return the texts of logical lines as black writes them, all by one call; None if it changes their number."""
    by_depth: dict[int, list[LogicalLine]] = {}
    for line in lines:
        by_depth.setdefault(line.depth, []).append(line)
    if not lines:
        return {}
    parts: list[str] = []
    for depth, members in by_depth.items():
        # The first statement of a block is a name: a text would be a docstring there.
        parts += [f"{' ' * (INDENT * level)}{'if x:' if level < depth else 'x'}" for level in range(depth + 1)]
        for line in members:
            parts.append(line.text)
            if line.kind in _HEADERS:
                parts.append(f"{' ' * (INDENT * (depth + 1))}pass")
            elif line.kind == "decorator":
                parts.append(f"{' ' * (INDENT * depth)}class x: pass")
    text = black.format_str("\n".join(parts) + "\n", mode=MODE)
    source = text.split("\n")
    body = ast.parse(text).body
    result: dict[_Key, str] = {}
    for depth, members in by_depth.items():
        statements, body = _take(body, depth, len(members) + 1)
        if statements is None:
            return None
        for line, node in zip(members, statements[1:], strict=True):
            first, end = _place(line, node)
            result[depth, line.text] = "\n".join(source[first - 1 : end])
    return result


def _place(line: LogicalLine, node: Any) -> tuple[int, int]:
    """Return the first and the last line of a logical line in the statement that was made of it."""
    if line.kind == "decorator":
        return node.decorator_list[0].lineno, node.lineno - 1
    return node.lineno, node.body[0].lineno - 1 if line.kind in _HEADERS else node.end_lineno


def _take(body: list[ast.stmt], depth: int, count: int) -> tuple[list[ast.stmt] | None, list[ast.stmt]]:
    """Return as many statements of a depth, and the statements after them; None if there are not as many."""
    if not depth:
        return (body[:count] if len(body) >= count else None), body[count:]
    nested: list[ast.stmt] = body
    for _ in range(depth):
        if not nested or not isinstance(nested[0], ast.If):
            return None, body
        nested = nested[0].body
    return (nested if len(nested) == count else None), body[1:]


def _is_settled(line: LogicalLine) -> bool:
    """Return True for a logical line that black is sure to leave as it is."""
    text = line.text.lstrip(" ")
    if line.kind in ("comment", "docstring") or text == "else:":
        return True
    return line.kind == "text" and text.startswith('"""') and "\\" not in text and line.text == line.text.rstrip()


def _is_settled_docstring(line: LogicalLine) -> bool:
    """Return True for a docstring that black is sure to leave as it is."""
    indent = " " * (INDENT * line.depth)
    text = line.text.removeprefix(indent)
    if len(text) < 7 or not (text.startswith('"""') and text.endswith('"""')) or "\\" in text:
        return False
    body = text[3:-3]
    first, *others = body.split("\n")
    if first != first.strip() or not first or first.startswith('"') or body.endswith('"'):
        return False
    if not others:
        return True
    inner = [other for other in others[:-1] if other.strip()]
    is_even = all(other == other.rstrip() and (not other or other.startswith(indent)) for other in others[:-1])
    least = min((len(other) - len(other.lstrip()) for other in inner), default=-1)
    return others[-1] == indent and is_even and least == len(indent)
