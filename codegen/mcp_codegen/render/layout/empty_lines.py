"""The empty lines around logical lines, by the rules of black (its class EmptyLineTracker)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .logical_lines import LogicalLine


@dataclass(slots=True)
class Spaced:
    """A logical line, with the numbers of the empty lines before and after it."""

    line: LogicalLine
    before: int
    after: int
    previous: Spaced | None


def spaced(lines: Iterable[LogicalLine]) -> list[Spaced]:
    """Return the logical lines of a module with their empty lines."""
    spacing = _Spacing()
    result = [spacing.add(line) for line in lines]
    if result:
        result[-1].after = 0
    return result


class _Spacing:
    def __init__(self) -> None:
        self._previous: Spaced | None = None
        self._definitions: list[LogicalLine] = []  # Those that the present line stands in, and the last one before it.
        self._leading_comment: Spaced | None = None

    def add(self, line: LogicalLine) -> Spaced:
        """Return a line with its empty lines, which may change those of a comment before it."""
        previous = self._previous
        before, after = self._around(line)
        before = max(0, before - (previous.after if previous is not None else 0))
        if self._follows_docstring_of_module(line):
            before = 1
        added = Spaced(line, before, after, previous)
        if line.kind == "comment":
            self._add_comment(added)
        elif line.kind != "decorator" or before:
            self._leading_comment = None
        self._previous = added
        return added

    def _add_comment(self, added: Spaced) -> None:
        previous = added.previous
        if previous is None or (
            previous.line.kind != "decorator"
            and (previous.line.kind != "comment" or added.before)
            and (self._leading_comment is None or added.before)
        ):
            self._leading_comment = added

    def _follows_docstring_of_module(self, line: LogicalLine) -> bool:
        block = self._previous
        if block is None or block.line.kind != "docstring" or block.line.depth or line.kind in ("class", "def"):
            return False
        while (block := block.previous) is not None:
            if block.line.kind != "comment":
                return False
        return True

    def _around(self, line: LogicalLine) -> tuple[int, int]:
        before = min(line.blank, 1 if line.depth else 2)
        has_blank = before > 0
        definition = None
        while self._definitions and self._definitions[-1].depth >= line.depth:
            definition = self._definitions.pop()
        if line.kind in ("def", "class"):
            self._definitions.append(line)
        if self._previous is None:
            return 0, 0
        previous = self._previous.line
        if line.kind == "docstring" and previous.kind in ("class", "def"):
            return 0, int(previous.kind == "class")
        if definition is not None:
            is_clause = bool(definition.depth) and not line.depth and line.text == "else:"
            before = 1 if line.depth or is_clause else 2
        if line.kind in ("decorator", "def", "class"):
            return self._before_definition(line, before, has_blank), 0
        if previous.kind == "import" and line.kind != "import" and line.depth == previous.depth:
            return (before or 1) if line.depth else 1, 0
        return before, 0

    def _before_definition(self, line: LogicalLine, before: int, has_blank: bool) -> int:
        assert self._previous is not None
        previous = self._previous.line
        if previous.kind == "decorator":
            return 0
        if previous.depth < line.depth and previous.kind in ("class", "def"):
            return int(has_blank)
        newlines = 1 if line.depth else 2
        if previous.kind != "comment" or previous.depth != line.depth or before:
            return newlines
        comment = self._leading_comment
        if comment is None or comment.previous is None or comment.before > 1:
            return 0
        if comment.previous.line.kind in ("class", "def", "block"):
            return 0
        comment.before = max(comment.before, newlines) - comment.previous.after
        return 0
