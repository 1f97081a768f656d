"""Lines that are written without black are as black writes them: random ones, of all lengths around that of a line."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Callable

import black
import pytest

from mcp_codegen.render.layout.formatter import MODE, format_texts
from mcp_codegen.render.layout.logical_lines import logical_lines
from mcp_codegen.render.layout.written_lines import written_line

MODULES = int(os.environ.get("MCP_LAYOUTS", "4"))
STATEMENTS = 150


class _Statements:
    """Random statements in the forms that the templates have, with and without commas at the end."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def module(self) -> str:
        kinds = [self.assignment, self.annotated, self.call, self.imported, self.function, self.decorated, self.named]
        parts = [text for _ in range(STATEMENTS) if _is_python(text := self._random.choice(kinds)())]
        return "\n".join(["import a", "class A:", "    x = 1", *(self._nested(part) for part in parts)]) + "\n"

    def _nested(self, text: str) -> str:
        """Return a statement, in a class or at the top."""
        indent = self._random.choice(["", "    "])
        head = "class B:\n    x = 1\n" if indent else ""
        return head + "\n".join(indent + line for line in text.split("\n"))

    def name(self) -> str:
        return self._random.choice(["a", "name", "a_name", "another_long_name"]) * self._random.choice([1, 1, 1, 2])

    def dotted(self) -> str:
        return ".".join(self.name() for _ in range(self._random.choice([1, 1, 2, 3])))

    def expression(self, depth: int = 0) -> str:
        leaves: list[Callable[[], str]] = [
            self.dotted,
            lambda: repr(self.name()),
            lambda: f'"{self.name()}"',
            lambda: self._random.choice(["None", "True", "1", "-32700", "0.5", "()", "[]", "{}", "f()"]),
        ]
        if depth > 3 or self._random.random() < 0.4:
            return self._random.choice(leaves)()
        inner: list[Callable[[int], str]] = [
            lambda level: f"{self.dotted()}({self.items(self.argument, level)})",
            lambda level: f"{self.dotted()}({self.items(self.argument, level)})",
            lambda level: f"({self.items(self.expression, level, least=2)})",
            lambda level: f"[{self.items(self.expression, level)}]",
            lambda level: f"{{{self.items(self.entry, level)}}}",
            lambda level: f"{self.dotted()}[{self.items(self.expression, level, comma=False)}]",
            lambda level: f"{self.name()} | {self.expression(level)}" if level > 1 else self.name(),
        ]
        return self._random.choice(inner)(depth + 1)

    def items(self, make: Callable[[int], str], depth: int, *, least: int = 1, comma: bool = True) -> str:
        count = self._random.choice([least, 2, 3, 4, 7])
        last = self._random.choice(["", "", "", ","]) if comma else ""
        return ", ".join(make(depth) for _ in range(count)) + last

    def argument(self, depth: int) -> str:
        return self._random.choice(["", "", "key=", "another_key="]) + self.expression(depth)

    def entry(self, depth: int) -> str:
        return f"{self.expression(4)}: {self.expression(depth)}"

    def assignment(self) -> str:
        return f"{self._random.choice([self.name(), 'a, b', 'self.a'])} = {self.expression()}"

    def annotated(self) -> str:
        value = self._random.choice(["", " = None", f" = {self.expression()}"])
        return f"{self.name()}: {self.dotted()}[{self.items(self.expression, 2, comma=False)}]{value}"

    def call(self) -> str:
        start = self._random.choice(["", "", "raise "])
        return f"{start}{self.dotted()}({self.items(self.argument, 1)})"

    def imported(self) -> str:
        names = ", ".join(self.name() for _ in range(self._random.choice([1, 3, 12])))
        return f"from {self._random.choice(['', '..'])}{self.dotted()} import {names}"

    def parameters(self) -> str:
        plain = [self.name() for _ in range(self._random.choice([0, 1, 3]))]
        typed = [f"{self.name()}: {self.dotted()}" for _ in range(self._random.choice([0, 1, 3]))]
        ends = self._random.choice(
            [[], ["*", "a=1"], [f"*, b: int | None = {self.expression(4)}"], ["*c", "**d: e[f]"]]
        )
        parts = [*plain, *typed, *ends]
        return ", ".join(parts) + (self._random.choice(["", "", ","]) if parts else "")

    def function(self) -> str:
        start = self._random.choice(["def", "async def"])
        result = self._random.choice(
            ["", f" -> {self.dotted()}", f" -> {self.dotted()}[{self.dotted()}, {self.name()}]"]
        )
        body = self._random.choice(["return ", "return await ", ""])
        header = f"{start} {self.name()}({self.parameters()}){result}:"
        return f"{header}\n    {body}{self.dotted()}({self.items(self.argument, 1)})"

    def decorated(self) -> str:
        return f"@{self.dotted()}({self.items(self.argument, 2)})\n{self.function()}"

    def named(self) -> str:
        return f"class {self.name()}({self.items(self.dotted_at, 1, comma=False)}):\n    pass"

    def dotted_at(self, _: int) -> str:
        return self.dotted()


def _is_python(text: str) -> bool:
    """Whether it is: an argument with a name may stand before one without."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("seed", range(MODULES))
def test_random_lines_are_written_as_by_black(seed: int) -> None:
    text = _Statements(seed).module()
    written = [written_line(line, MODE.line_length) is not None for line in logical_lines(text)]
    assert sum(written) > len(written) / 2
    assert format_texts([text]) == [black.format_str(text, mode=MODE)]
