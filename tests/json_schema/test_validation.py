"""Validation of values against JSON Schemas of unknown origin: the same verdicts as jsonschema's, in bounded time."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_products.json_schema.cost import automaton_size
from mcp_products.json_schema.validator import DRAFT_7, LATEST, MAX_SCHEMA_CHARACTERS, compile_schema
from mcp_runtime.errors import InvalidSchemaError, MCPError

# Seconds of CPU. The bound is 0.1 on a quiet machine; a busy one counts more, and what is not bounded takes far longer.
BOUND = 0.5

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.text("abc", max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
LEAVES = st.sampled_from(
    [
        {"type": "string", "pattern": "^a+b?$"},
        {"type": ["integer", "null"]},
        {"minimum": 2, "maximum": 10},
        {"enum": [1, "a", None, [1]]},
        {"const": {"a": 1}},
        {"minLength": 2},
        {"multipleOf": 2},
        {"uniqueItems": True, "minItems": 2},
        {"required": ["a"]},
        {"$ref": "#/$defs/shared"},
        True,
        False,
    ]
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "anyOf": some,
            "allOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "contains": inner,
            "items": inner,
        },
    )


SCHEMAS = st.recursive(LEAVES, _nested, max_leaves=8)


@pytest.mark.long
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(SCHEMAS, VALUES, st.sampled_from([LATEST, DRAFT_7]))
def test_the_verdict_is_that_of_jsonschema(schema: Any, value: Any, dialect: str) -> None:
    whole = {"$schema": dialect, "allOf": [schema], "$defs": {"shared": {"type": ["object", "string"]}}}
    judge = {LATEST: jsonschema.Draft202012Validator, DRAFT_7: jsonschema.Draft7Validator}[dialect]
    assert (compile_schema(whole).first_error(value) is None) == judge(whole).is_valid(value)


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/x", "https://example.com/s.json", "file:///etc/passwd", "other"]
)
@pytest.mark.advisory("CVE-2026-116686")
def test_a_reference_that_leads_elsewhere_is_refused_and_never_fetched(reference: str) -> None:
    with pytest.raises(InvalidSchemaError, match="never fetched"):
        compile_schema({"properties": {"a": {"$ref": reference}}})


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "https://example.com/own", 7])
def test_another_dialect_is_refused_by_name(dialect: object) -> None:
    with pytest.raises(InvalidSchemaError, match="dialect"):
        compile_schema({"$schema": dialect})


def test_a_schema_says_its_dialect_and_is_of_the_newest_where_it_does_not() -> None:
    tuples = {"items": [{"type": "string"}]}
    assert compile_schema({"$schema": f"{DRAFT_7}#", **tuples}).first_error([1]) == '0: 1 is not of type "string"'
    with pytest.raises(InvalidSchemaError):
        compile_schema(tuples)


def _doubling(levels: int, keyword: str) -> dict[str, Any]:
    steps = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**steps, f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def _tower(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def _deep_list(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def _deep(levels: int, inner: Any = None) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def _trees(size: int) -> list[Any]:
    """Return all lists of lists with this number of brackets inside: the leaves of all of them are the same."""
    texts = [[""]]  # What is inside the outer brackets, by the number of brackets.
    for _ in range(size):
        halves = zip(texts, reversed(texts), strict=True)
        texts.append([f"[{first}]{rest}" for firsts, rests in halves for first in firsts for rest in rests])
    trees: list[Any] = json.loads(f"[{','.join(f'[{text}]' for text in texts[size])}]".replace("][", "],["))
    return trees


def _unevaluated(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"unevaluatedProperties": False, keyword: [schema]}
    return schema


_SAME_AS_FLOATS = [(1 << 63) + i for i in range(6000)]
_ROW = {f"k{i}": "x" * 9 for i in range(900)}
_MAZE = {
    f"d{i}": {"properties": {k: {"$ref": f"#/$defs/d{(i * n + 1) % 700}"} for k, n in (("a", 1), ("b", 7))}}
    for i in range(700)
}
_TEXT = "".join(random.Random(1).choices("ab", k=1 << 16))
ATTACKS: dict[str, tuple[Any, Any]] = {
    **{f"alternatives that double {n} times": (_doubling(n, "anyOf"), 1) for n in (8, 12, 17, 18, 40)},
    "conditions that double": (_doubling(30, "allOf"), "x"),
    "a loop of references": ({"$ref": "#"}, 1),
    "a loop of two": ({
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"
    }, 1),
    "a maze of references and a deep value": ({"$defs": _MAZE, "$ref": "#/$defs/d0"}, _deep(190)),
    "a chain of references": ({
        "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(900)}, "$ref": "#/$defs/d0"
    }, 1),
    "a tower": (_tower(5000), 1),
    "unevaluated, nested": ({
        "unevaluatedProperties": False,
        "allOf": [{"unevaluatedProperties": False, "allOf": [{"unevaluatedProperties": False}] * 9}] * 9,
    }, {"a": 1}),
    "the classic pattern": ({"pattern": "^(a+)+$"}, "a" * (1 << 16) + "!"),
    "a pattern with many states": ({"pattern": "[ab]*a[ab]{400}c"}, _TEXT),
    "a pattern with some states": ({"pattern": "[ab]*a[ab]{40}c"}, _TEXT),
    "a pattern that grows": ({"pattern": "((a{100}){100}){100}"}, "a"),
    "patterns for names": (
        {"patternProperties": {f"[ab]*a[ab]{{90}}{i}": True for i in range(90)}},
        {_TEXT[i : i + 900]: 1 for i in range(70)},
    ),
    "names of a pattern": (
        {"propertyNames": {"pattern": "[ab]*a[ab]{90}c"}}, {_TEXT[i : i + 900]: 1 for i in range(70)},
    ),
    "many patterns": ({"allOf": [{"pattern": f"(\\w{{1,30}}x{i}){{1,5}}@"} for i in range(900)]}, "abc"),
    "a wide schema": ({"allOf": [{}] * 40_000}, 1),
    "a wide enum and a long list": ({"items": {"enum": list(range(9000))}}, [1.5] * 9000),
    "a long list that fits nowhere": ({"items": {"anyOf": [{"type": "integer"}] * 9}}, ["x"] * 9000),
    "more parts than any value has": ({"type": "array"}, [0] * 1_000_000),
    "a deep value": ({"properties": {"a": {"$ref": "#"}}}, _deep(5000)),
    "unique things": ({"uniqueItems": True}, [[i % 7] * 9 + [i] for i in range(9000)]),
    "unique integers that are the same as floats": ({"uniqueItems": True}, _SAME_AS_FLOATS),
    "unique integers beyond all floats": ({"uniqueItems": True}, [10**400 + i for i in range(4000)]),
    "unique integers that are the same in a hash table": (
        {"uniqueItems": True}, [i * ((1 << 61) - 1) for i in range(1, 9000)]
    ),
    "unique lists with the same leaves": ({"uniqueItems": True}, _trees(10)),
    "unique objects with lists that have the same leaves": (
        {"items": {"uniqueItems": True}}, [[{"a": tree} for tree in _trees(10)]]
    ),
    "unique things, in a deep list": (
        {"$defs": {"d": {"uniqueItems": True, "items": {"$ref": "#/$defs/d"}}}, "$ref": "#/$defs/d"},
        _deep_list(150, list(range(9000))),
    ),
    "unique things, often": ({"allOf": [{"uniqueItems": True}] * 800}, list(range(9000))),
    **{
        f"{keyword} of {name} by {other}": ({"items": {keyword: divisor}}, [number] * 9000)
        for keyword in ("multipleOf", "minimum", "exclusiveMaximum", "const")
        for name, number in {"a large float": 1e300, "a small one": 1e-300, "many digits": 7 * 10**4000}.items()
        for other, divisor in {"0.1": 0.1, "1e-300": 1e-300, "1e300": 1e300, "many digits": 10**4000}.items()
    },
    "an enum of many digits": ({"items": {"enum": [10**1000 + i for i in range(90)]}}, [10**1000 - 1] * 900),
    "an enum without duplicates": ({"$schema": DRAFT_7, "enum": _SAME_AS_FLOATS}, 1),
    "an enum of lists without duplicates": ({"$schema": DRAFT_7, "enum": _trees(10)}, 1),
    "a list of required things": ({"required": _trees(10)}, 1),
    "required things of a property": ({"dependentRequired": {"a": _trees(10)}}, 1),
    **{
        f"unevaluated, with {keyword}s that double": (
            {**_doubling(20, keyword), f"unevaluated{kind}": False}, {"a": 1} if kind == "Properties" else [1]
        )
        for keyword in ("anyOf", "allOf", "oneOf") for kind in ("Properties", "Items")
    },
    **{
        f"unevaluated in each other, by {keyword}": (_unevaluated(60, keyword), {"a": 1})
        for keyword in ("allOf", "oneOf")
    },
    "a long union that an object fits nowhere": ({"anyOf": [{"type": "string"}] * 800}, [_ROW] * 50),
    "a long union that the parts fit nowhere": (
        {"oneOf": [{"items": {"additionalProperties": {"type": "null"}}}] * 90}, [_ROW] * 50
    ),
    "a union of required things": ({"anyOf": [{"required": [f"r{i}" for i in range(90)]}] * 50}, _ROW),
    "a union of nothing": ({"anyOf": [{"properties": dict.fromkeys(_ROW, False)}] * 40}, _ROW),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_schema_and_no_value_takes_long(attack: str) -> None:
    schema, value = ATTACKS[attack]
    best = float("inf")
    for _ in range(3):  # A busy machine makes any single measurement longer, so the best of three counts.
        began = time.thread_time()
        try:
            compile_schema(schema).first_error(value)
        except MCPError as error:
            assert str(error)
        best = min(best, time.thread_time() - began)
    assert best < BOUND


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, 1.0], False), ([1, True], True), ([0, False, None, "", [], {}], True), ([[1], [1.0]], False),
        ([{"a": 1, "b": [2]}, {"b": [2], "a": 1}], False), (["1", 1], True), ([["a", "b"], ["ab"], ["a", ["b"]]], True),
        ([["1:"], ["1", ""]], True), ([2**70, float(2**70)], False), ([2**63, 2**63 + 1], True), ([0.5, 0.5], False),
        ([[[], []], [[[]]]], True), ([{"a": {}}, {"a": []}], True), (["x", ["x"]], True), ([-1, 1], True),
    ],
)  # fmt: skip
def test_unique_items_are_compared_as_json(items: list[Any], is_unique: bool) -> None:
    for draft in (LATEST, DRAFT_7):
        error = compile_schema({"$schema": draft, "uniqueItems": True}).first_error(items)
        assert (error is None) == is_unique == jsonschema.Draft202012Validator({"uniqueItems": True}).is_valid(items)
        assert is_unique or (error is not None and error.endswith("has non-unique elements"))
    assert compile_schema({"uniqueItems": False}).first_error(items) is None


def test_an_error_of_a_union_says_why_no_branch_matches() -> None:
    row = {
        "type": "object",
        "properties": {f"k{i}": {"anyOf": [{"type": "integer"}, {"type": "null"}]} for i in range(9)},
    }
    rows: list[dict[str, Any]] = [{f"k{i}": i for i in range(9)} for _ in range(50)]
    rows[30]["k4"] = "four"
    error = compile_schema({"type": "array", "items": row}).first_error(rows)
    assert error is not None and error.startswith("30.k4: ") and "anyOf" in error


def test_what_is_usual_is_not_refused() -> None:
    row = {
        "type": "object",
        "properties": {f"k{i}": {"type": ["integer", "null"]} for i in range(20)},
        "required": ["k0"],
    }
    rows = compile_schema({"type": "array", "items": row})
    assert rows.first_error([{f"k{i}": i for i in range(20)}] * 5000) is None
    assert rows.first_error([{"k1": 1}]) == '0: "k0" is a required property'
    ids = compile_schema({"type": "array", "uniqueItems": True, "items": {"type": "integer", "minimum": 1}})
    assert ids.first_error([(1 << 60) + i for i in range(9000)]) is None
    prices = compile_schema({"type": "array", "items": {"type": "number", "multipleOf": 0.01, "maximum": 1e9}})
    assert prices.first_error([i / 100 for i in range(9000)]) is None
    open_row = {**row, "allOf": [{"properties": {"more": {}}}] * 3, "unevaluatedProperties": False}
    assert compile_schema({"items": open_row}).first_error([{f"k{i}": i for i in range(20)}] * 1000) is None
    tree = compile_schema({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})
    assert tree.first_error({"left": {"right": {"left": {}}}, "right": {}}) is None
    mail = compile_schema(
        {"type": "array", "items": {"type": "string", "pattern": r"^[\w.+-]+@[\w-]+(\.[\w-]+){1,8}$"}}
    )
    assert mail.first_error(["someone@example.com"] * 1000) is None


@pytest.mark.parametrize(
    "schema", [{"type": "text"}, {"pattern": "("}, {"minimum": "1"}, {"pattern": "(?=a)"}, {"$ref": "#/no"}]
)
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchemaError):
        compile_schema(schema)


def test_a_schema_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidSchemaError, match=str(MAX_SCHEMA_CHARACTERS)):
        compile_schema({"description": "x" * MAX_SCHEMA_CHARACTERS})


@pytest.mark.parametrize(
    ("pattern", "states"),
    [("abc", 4), ("a{3}", 4), ("(ab){10}", 31), ("((a{10}){10}){10}", 1111), ("[a-z]{5}", 6), (r"\{3}", 4),
     ("[]a]b", 3), ("a[b", 4), ("a[b\\", 5), ("[", 2)]
)  # fmt: skip
def test_counted_repetitions_of_a_pattern_are_written_out(pattern: str, states: int) -> None:
    assert automaton_size(pattern) == states


@pytest.mark.parametrize("part", ["[", "[^", "[a", "[]", "(", "{1", "[\\\\"])
def test_the_size_of_a_long_pattern_is_bounded_by_its_length(part: str) -> None:
    pattern = part * 300_000  # As many as would take hours if each of them were compared with all that follow.
    assert 1 <= automaton_size(pattern) <= len(pattern) + 1
