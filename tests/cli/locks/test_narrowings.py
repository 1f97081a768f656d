"""What narrows a schema is never called compatible, and two lines that differ look different."""

from __future__ import annotations

import os
from typing import Any

import pytest
from support.schemas.narrowings import OPERATORS, narrowings

from mcp_codegen.servers.compare import SchemaDirection, compare, compare_schemas
from mcp_codegen.servers.contract import moved, read_contract

COUNT = int(os.environ.get("MCP_NARROWINGS", "80"))


def severities(direction: SchemaDirection, before: Any, after: Any) -> set[str]:
    return {change.severity for change in compare_schemas(direction, before, after, "it")}


@pytest.mark.long
def test_a_narrowing_of_what_is_sent_and_a_widening_of_what_is_received_are_not_compatible() -> None:
    seen: set[str] = set()
    for operator, wider, narrower, instance in narrowings(20261123, COUNT):
        seen.add(operator)
        for direction, before, after in (("input", wider, narrower), ("output", narrower, wider)):
            assert severities(direction, before, after) & {"breaking", "review"}, (operator, before, after, instance)
    assert len(seen) > len(OPERATORS) / 2


TEXT, SHORT, LONG, NODE = (
    {"type": "string"},
    {"type": "string", "maxLength": 5},
    {"type": "string", "minLength": 10},
    {},
)
ONE: Any = {"$ref": "#/$defs/one"}


def holder(schema: Any, **definitions: Any) -> Any:
    return {"type": "object", "properties": {"x": schema, "y": schema}, "$defs": definitions}


# What narrowed, the schema before, and the one after.
NARROWED: dict[str, tuple[Any, Any]] = {
    "one of two alternatives of a kind": ({"anyOf": [SHORT, LONG]}, {"anyOf": [{"type": "string", "minLength": 8}]}),
    "an alternative that overlaps": (
        {"oneOf": [{"type": "integer"}]},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    ),
    "an alternative twice": ({"oneOf": [TEXT]}, {"oneOf": [TEXT, dict(TEXT)]}),
    "a wider alternative that overlaps": ({"oneOf": [SHORT, LONG]}, {"oneOf": [TEXT, LONG]}),
    "a required name without a property": ({"title": "a"}, {"title": "b", "required": ["g"]}),
    "a property that nothing matches": ({"properties": {}}, {"properties": {"g": False}}),
    "a property behind the same reference": (
        {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "$defs": {"one": TEXT}},
        {"properties": {"a": ONE, "b": ONE}, "$defs": {"one": TEXT}},
    ),
    "a definition under keywords that it has": (
        {**ONE, "maxLength": 3, "title": "a", "$defs": {"one": {"maxLength": 9}}},
        {**ONE, "maxLength": 3, "title": "b", "$defs": {"one": {"maxLength": 2}}},
    ),
    "a reference with another keyword": (
        holder({**ONE, "maxLength": 9}, one=SHORT),
        {
            **holder({**ONE, "maxLength": 9}, one=SHORT),
            "properties": {"x": {**ONE, "maxLength": 9}, "y": {**ONE, "maxLength": 2}},
        },
    ),
}


@pytest.mark.parametrize("what", NARROWED)
def test_it_is_not_compatible(what: str) -> None:
    before, after = NARROWED[what]
    assert severities("input", before, after) & {"breaking", "review"}


def test_alternatives_that_contain_themselves_are_compared_once() -> None:
    def tree(**more: Any) -> Any:
        node = {"type": "object", "properties": {"next": {"anyOf": [ONE, {"type": "null"}]}, **more}}
        return {"properties": {"x": ONE}, "$defs": {"one": node}}

    changes = list(compare_schemas("input", tree(size=LONG), tree(size=TEXT), "it"))
    assert [(change.rule, change.where) for change in changes] == [("type-widened", "it/x/size")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"minLength": 0}, {}),
        ({}, {"uniqueItems": False}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"oneOf": [{"type": "null"}, {"type": "string"}]}),
    ],
)
def test_what_allows_the_same_is_no_breaking_change(before: Any, after: Any) -> None:
    assert not severities("input", before, after) & {"breaking"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a" * 100, "a" * 99 + "b"),
        ("a" * 100, "a" * 101),
        ("b" + "a" * 99, "a" * 100),
        ([1] * 80, [1] * 79 + [2]),
        (1, True),
    ],
)
def test_lines_of_values_that_differ_look_different_and_are_short(before: Any, after: Any) -> None:
    older, newer = moved(before, after).removeprefix("from ").split(" to ")
    assert older != newer and max(len(older), len(newer)) <= 66


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        ({}, {"annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}}, []),
        ({"annotations": {"openWorldHint": True}}, {"annotations": {}}, []),
        ({}, {"execution": {"taskSupport": "forbidden"}}, []),
        ({}, {"annotations": {"destructiveHint": False}}, ["hint-changed"]),
        ({"annotations": {"readOnlyHint": True}}, {}, ["hint-changed"]),
        ({}, {"execution": {"taskSupport": "required"}}, ["other-changed"]),
    ],
)
def test_a_default_of_the_specification_is_no_change_where_nothing_stands(
    before: Any, after: Any, rules: list[str]
) -> None:
    contracts = [read_contract([{"name": "a", "inputSchema": {}, **item}], "x") for item in (before, after)]
    assert [change.rule for change in compare(*contracts)] == rules
