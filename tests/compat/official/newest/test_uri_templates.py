"""`UriTemplate`: the examples of RFC 6570 are expanded, and what was expanded is matched."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mcp_generated.compat import InvalidUriTemplate, UriTemplate

VALUES = {
    "var": "value",
    "hello": "Hello World!",
    "half": "50%",
    "empty": "",
    "path": "/foo/bar",
    "x": "1024",
    "y": "768",
    "list": ["red", "green", "blue"],
}
# https://www.rfc-editor.org/rfc/rfc6570#section-3.2
EXPANDED = {
    "{var}": "value",
    "{hello}": "Hello%20World%21",
    "{half}": "50%25",
    "O{empty}X": "OX",
    "O{undef}X": "OX",
    "{x,y}": "1024,768",
    "{+hello}": "Hello%20World!",
    "{+path}/here": "/foo/bar/here",
    "X{#var}": "X#value",
    "{#path}": "#/foo/bar",
    "X{.x,y}": "X.1024.768",
    "X{.list*}": "X.red.green.blue",
    "{/var,x}/here": "/value/1024/here",
    "{/list*}": "/red/green/blue",
    "{/list}": "/red,green,blue",
    "{;x,y}": ";x=1024;y=768",
    "{;x,y,empty}": ";x=1024;y=768;empty",
    "{;list*}": ";list=red;list=green;list=blue",
    "{?x,y}": "?x=1024&y=768",
    "{?x,y,empty}": "?x=1024&y=768&empty=",
    "?fixed=yes{&x}": "?fixed=yes&x=1024",
}


@pytest.mark.parametrize("template", EXPANDED)
def test_an_example_of_the_rfc_is_expanded(template: str) -> None:
    assert UriTemplate.parse(template).expand(VALUES) == EXPANDED[template]


@pytest.mark.parametrize("template", [item for item in EXPANDED if "undef" not in item and item != "{/list}"])
def test_what_was_expanded_is_matched(template: str) -> None:
    read = UriTemplate.parse(template)
    assert read.match(EXPANDED[template]) == {name: VALUES[name] for name in read.variable_names}


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("shop://{kind}/{name}", "shop://tea/a%2Fb", {"kind": "tea", "name": "a/b"}),
        ("shop://{kind}", "shop://tea/green", None),
        ("{+path}@{name}", "a@b@c", {"path": "a@b", "name": "c"}),
        ("{owner}@{+path}", "a@b@c", {"owner": "a", "path": "b@c"}),
        ("shop://{id}{?page,limit}", "shop://1?limit=2&other=3#part", {"id": "1", "limit": "2"}),
        ("shop://{id}{?page,limit}", "shop://1", {"id": "1"}),
        ("item{;id}", "item;identity=1", None),
    ],
)
def test_a_uri_is_matched_from_both_ends(template: str, uri: str, values: Any) -> None:
    assert UriTemplate.parse(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("shop://{name", "Unclosed"),
        ("{}", "Empty"),
        ("{a-b}", "Invalid variable name"),
        ("{a:3}", "Prefix modifier"),
        ("{a*}", "Explode modifier"),
        ("{a}{b}", "adjacent"),
        ("{+a}/x/{+b}", "more than one multi-segment"),
        ("{a}/{a}", "more than once"),
        ("x" * 9000, "maximum length"),
    ],
)
def test_a_template_that_cannot_be_matched_is_refused(template: str, reason: str) -> None:
    with pytest.raises(InvalidUriTemplate, match=reason) as raised:
        UriTemplate.parse(template)
    assert raised.value.template == template


def test_templates_are_values_and_long_uris_are_not_read() -> None:
    read = UriTemplate.parse("{+path}/end")
    assert read == UriTemplate.parse("{+path}/end") and str(read) == "{+path}/end"
    assert UriTemplate.is_template("{a}") and not UriTemplate.is_template("}{")
    assert read.match("-" * 60_000 + "/end") == {"path": "-" * 60_000}
    assert read.match("-" * 70_000 + "/end") is None and read.match("-" * 60_000) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.template = ""  # type: ignore[misc]
    with pytest.raises(TypeError, match="'path' must be str"):
        read.expand({"path": 5})  # type: ignore[dict-item]
