"""What it costs to read a schema.ts is bounded by its size, also where its types repeat each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest
from support.matrices import long_after

from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import as_official
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse

CALLS: Final = 300_000  # Calls of functions for any text, however small.
CALLS_A_BYTE: Final = 30  # So many more for each byte.


def joined(template: str, count: int, separator: str = "", first: str = "") -> str:
    """Return `first`, and the template for each number from 0; `%n` is the number, and `%m` the next one."""
    repeated = (template.replace("%n", str(number)).replace("%m", str(number + 1)) for number in range(count))
    return first + separator.join(repeated)


# A text of each size; most have grown with the square of the size, with its third power, or with a power of two.
SHAPES: Final[dict[str, Callable[[int], str]]] = {
    "spaces in a tag": lambda size: f"/** @format a{' ' * size}b */ type A = string;",
    "stars in a tag": lambda size: f"/** @format a{'*' * size}b */ type A = string;",
    "empty lines in a comment": lambda size: "/**" + "\n" * size + " */ type A = string;",
    "constants in one statement": lambda size: f"const {joined('A%n = %n', size, ',')};",
    "properties": lambda size: f"interface A {{ {joined('a%n: string;', size)} }}",
    "an interface that is declared again": lambda size: joined("interface A { a%n: string }\n", size),
    "arms of a union": lambda size: f"type A = {joined('{ a%n: string }', size, '|')};",
    "arms that are the same": lambda size: f"type A = string; type B = {joined('A', size, '|')};",
    "an alias in its own union": lambda size: f"type A = {joined('A', size, '|')};",
    "aliases of aliases": lambda size: joined("type A%m = A%n;\n", size, first="type A0 = string;\n"),
    "arrays of arrays": lambda size: joined("type A%m = A%n[];\n", size // 4, first="type A0 = string[];\n"),
    "unions of a union": lambda size: joined("type A%m = A%n | A%n;\n", size // 4, first="type A0 = string | {};\n"),
    "intersections of an intersection": lambda size: joined(
        "type A%m = A%n & A%n;\n", size // 4, first="interface B {} interface C {} type A0 = B & C;\n"
    ),
    "intersections of a union": lambda size: joined(
        "type A%m = A%n & A%n;\n", size // 4, first="interface B {} interface C {} type A0 = B | C;\n"
    ),
    "an intersection of unions": lambda size: f"type A = {joined('({ a: string } | { b%n: string })', size, '&')};",
    "objects that are repeated": lambda size: joined(
        "type A%m = { a: A%n, b: A%n };\n", size // 20, first="type A0 = { a: string };\n"
    ),
    "nullable objects in objects": lambda size: f"type A = {'{ a: ' * (size // 20)}string{' } | null' * (size // 20)};",
    "indexed accesses that are repeated": lambda size: joined(
        'interface A%m { a: { b: A%n["a"], c: A%n["a"] } }\n', size // 4, first="interface A0 { a: string }\n"
    ),
    "generic aliases in their arguments": lambda size: (
        f"type P<T> = {{ a: T, b: T }}; type A = {'P<' * (size // 10)}string{'>' * (size // 10)};"
    ),
    "generic aliases in each other": lambda size: (
        joined("type P%m<T> = { a: P%n<T>, b: P%n<T> };\n", size // 10, first="type P0<T> = T;\n")
        + f"type A = P{size // 10}<string>;"
    ),
    "records of records": lambda size: (
        f"type K = {joined(chr(34) + 'a%n' + chr(34), size // 10, '|')};"
        f"type A = {'Record<K, ' * (size // 10)}string{'>' * (size // 10)};"
    ),
    "omitted properties": lambda size: (
        f"interface B {{ {joined('a%n: string;', size)} }}"
        f"interface A extends Omit<B, {joined(chr(34) + 'a%n' + chr(34), size, '|')}> {{}}"
    ),
    "items of a tuple": lambda size: f"type A = [{joined('{ a%n: string }', size, ',')}];",
}


def read_with_limit(text: str, limit: int) -> None:
    """Read a schema.ts, or refuse it. Raises AssertionError after so many calls of functions."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > limit:
            raise AssertionError(f"takes more than {limit} calls for {len(text)} bytes")

    sys.setprofile(count)
    try:
        as_official(normalize(parse(text, "schema.ts"), "one"))
    except CodegenError:
        pass
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("size", long_after(1, [200, 2_000]))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_cost_of_a_text_is_bounded_by_its_size(shape: str, size: int) -> None:
    text = SHAPES[shape](size)
    read_with_limit(text, CALLS + CALLS_A_BYTE * len(text))


@pytest.mark.parametrize("shape", ["spaces in a tag", "stars in a tag", "empty lines in a comment"])
def test_a_long_comment_is_read(shape: str) -> None:
    (alias,) = parse(SHAPES[shape](100_000), "schema.ts")
    assert alias.name == "A"


def test_as_many_arms_as_a_union_has_are_read() -> None:
    literals = [f"a{number}" for number in range(3_000)]
    text = f"type A = {' | '.join(map(repr, literals))}; type B = {' & '.join(['{ a: A }'] * 3_000)};"
    definitions = normalize(parse(text, "schema.ts"), "one")["$defs"]
    assert definitions["A"] == {"type": "string", "enum": literals}
    assert len(definitions["B"]["allOf"]) == 3_000


@pytest.mark.parametrize(
    "text",
    [
        "type P<T> = T; type A = P<A>; type B = A & { b: string };",
        "type A = NonNullable<A>; type B = A & { b: string };",
        'type A = { a: A }["a"]; type B = A & { b: string };',
        "type P<T> = T | null; type A = P<B> | string; type B = P<A>;",
    ],
)
def test_an_alias_that_stands_for_itself_by_way_of_a_generic_type_is_refused(text: str) -> None:
    with pytest.raises(CodegenError, match="circularly references itself"):
        normalize(parse(text, "schema.ts"), "one")
