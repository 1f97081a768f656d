"""URI templates as FastMCP has them: matched, expanded, and checked against the parameters of a function."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_products.compat.standalone.uris import (
    build_regex,
    check_variables,
    expand_uri_template,
    extract_exploded_query_params,
    extract_query_params,
    match_uri_template,
)

MATCHED: list[tuple[str, str, dict[str, Any] | None]] = [
    ("a://{x}/{y}", "a://1/2", {"x": "1", "y": "2"}),
    ("a://{x}/{y}", "a://1/2/3", None),
    ("a://{path*}/end", "a://1/2/end", {"path": "1/2"}),
    ("a://{user-id}", "a://me%20too", {"user_id": "me too"}),
    ("a://{2nd}", "a://b", {"_2nd": "b"}),
    ("a://x{?q,r*}", "a://x?r=1&r=2&q=&other=3#part", {"q": "", "r": ["1", "2"]}),
    ("a://x?q={q}", "a://x?q=1/2", {"q": "1/2"}),
    ("a://x?q={q}", "a://x?q=1&r=2", None),
    ("a://é/{x}", "a://%c3%a9/1", {"x": "1"}),
    ("a://{x}/{x}", "a://1/1", None),
]


@pytest.mark.parametrize(("template", "uri", "values"), MATCHED)
def test_a_uri_is_matched(template: str, uri: str, values: dict[str, Any] | None) -> None:
    assert match_uri_template(uri, template) == values


def test_only_written_commas_separate_the_items_of_a_list() -> None:
    values = match_uri_template("a://x?tags=a%2Cb,c", "a://x{?tags}", ["tags"])
    assert values == {"tags": ["a,b", "c"]}
    assert match_uri_template("a://x?tag=a%2Cb", "a://x{?tag}") == {"tag": "a,b"}


@pytest.mark.parametrize(
    ("template", "values", "uri"),
    [
        ("a://{x}/{rest*}", {"x": "1/2", "rest": "3/4"}, "a://1%2F2/3/4"),
        ("a://x{?q,r*}{&s}", {"r": ["1", "2"], "s": "é"}, "a://x?r=1&r=2&s=%C3%A9"),
        ("a://x{?tags}", {"tags": ["a", "b"]}, "a://x?tags=a,b"),
        ("a://x{?q}", {"q": None}, "a://x"),
        ("a://{user-id}?q={q}{&r}", {"user_id": "me", "q": "1", "r": 2}, "a://me?q=1&r=2"),
    ],
)
def test_values_are_written_into_a_uri(template: str, values: dict[str, Any], uri: str) -> None:
    assert expand_uri_template(template, values) == uri


def test_the_parameters_of_the_query_are_known() -> None:
    assert extract_query_params("a://{x}{?q,user-id}{&r*}") == {"q", "user_id", "r"}
    assert extract_exploded_query_params("a://{x}{?q}{&r*}") == {"r"}
    assert build_regex("a://{x}") is build_regex("a://{x}")


def schema(required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"properties": properties, "required": required.split()}


TEXT, LIST = {"type": "string"}, {"type": "array"}


@pytest.mark.parametrize(
    ("template", "parameters", "reason"),
    [
        ("a://x", schema(""), "at least one parameter"),
        ("a://{+x}", schema("x", x=TEXT), r"operators \{\+\.\.\.\} are not supported"),
        ("a://{x,y}", schema("x y", x=TEXT, y=TEXT), r"Set expansion syntax like \{x,y\}"),
        ("a://{a-b}/{a_b}", schema("a_b", a_b=TEXT), "both normalize to 'a_b'"),
        ("a://{x}{?q}", schema("x q", x=TEXT, q=TEXT), "must be optional"),
        ("a://{x}", schema("x y", x=TEXT, y=TEXT), "subset of the URI path parameters"),
        ("a://{x}/{z}", schema("x", x=TEXT), "subset of the function arguments"),
        ("a://{x}{?q*}", schema("x", x=TEXT, q=TEXT), "must accept a list"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(template: str, parameters: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_variables(template, parameters)


def test_lists_with_commas_are_those_that_are_no_texts_as_well() -> None:
    either = {"anyOf": [TEXT, LIST]}
    parameters = schema("x", x=TEXT, a=LIST, b=LIST, c=either)
    assert check_variables("a://{x}{?a,b*,c}", parameters) == {"a"}
