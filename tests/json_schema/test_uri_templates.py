"""URI templates read backwards: what they match, what they refuse, and that it takes no longer than the URI is long."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
import uritemplate
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcp_products.app.components.uris import URITemplate
from mcp_runtime.errors import JSONRPCError, LocalError

TEMPLATES = [
    "a://{x}",
    "a://{x}/b/{y}",
    "a://h/{x}.{y}",
    "a://{+x}",
    "a://h{/x}/{y}",
    "a://h/{+x}/end",
    "a://h/{x}{?q,r}",
    "a://s{?q}",
]
TEXT = st.text(st.sampled_from("ab1-_~ é%?&=#:+"), min_size=1, max_size=6)


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(TEMPLATES), st.fixed_dictionaries({name: TEXT for name in "xyqr"}))
def test_what_uritemplate_expands_is_read_back(text: str, values: dict[str, str]) -> None:
    template = URITemplate(text)
    if "{+" in text:
        assume(values["x"][1:2] != ":" and not {*"%?#"} & {*values["x"]})
    assume(not any(values[name][1:2] == ":" for name in template.optional))
    variables: dict[str, Any] = {name: values[name] for name in template.names}
    assert template.match(uritemplate.expand(text, variables)) == variables


@pytest.mark.parametrize(
    ("text", "uri", "values"),
    [
        ("weather://{city}/now", "weather://Paris/now", {"city": "Paris"}),
        ("weather://{city}/now", "weather://New%20York/now", {"city": "New York"}),
        ("weather://{city}/now", "weather://a/b/now", None),
        ("weather://{city}/now", "weather:///now", None),
        ("weather://{city}/now", "weather://Paris/now/x", None),
        ("weather://{city}/now", "Weather://Paris/now", {"city": "Paris"}),
        ("data://{path}/info", "data://feature%2Fx/info", {"path": "feature/x"}),
        ("data://{path}/info", "data://a%5Cb/info", {"path": "a\\b"}),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("file:///{path*}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("a://{x}-end", "a://1-end-end", {"x": "1-end"}),
        ("a://s{?q,r}", "a://s?r=2&z=3", {"r": "2"}),
        ("a://s{?q,r}", "a://s", {}),
    ],
)
def test_a_uri_matches_or_does_not(text: str, uri: str, values: dict[str, str] | None) -> None:
    assert URITemplate(text).match(uri) == values


PLAIN = [
    "..",
    ".",
    "%2e%2e",
    "%2E%2e",
    "%252e%252e",
    "a%2F..%2Fb",
    "a%5c..",
    "%2Fetc",
    "%5cetc",
    "c:%5cx",
    "..%2f..%2fetc",
    "a%00",
    "\\b",
    "%2e%2e%2f",
    "%ff",
    "%25252e%25252e",
]
SPANNING = ["..", "a/../b", "a/..", "../a", "%2e%2e/a", "a/%2e%2e/b", "a%2f..%2fb", "%252e%252e/a", "/etc/passwd",
            "%2fetc", "a\\..\\b", "C:/x", "c%3A/x", "a/./b", "a/.. /b", "%ff"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("a://h/{x}/z", value) for value in PLAIN),
        *((text, value) for text in ("a://h/{+x}", "a://h{?x}", "a://h{?x,y}") for value in SPANNING),
    ],
)
def test_a_value_that_leads_elsewhere_is_refused_in_every_encoding(text: str, value: str) -> None:
    with pytest.raises(JSONRPCError, match="resource not found"):
        uri = text.replace("{?x}", "?x={x}").replace("{?x,y}", "?y=good&x={x}")
        URITemplate(text).match(uri.replace("{x}", value).replace("{+x}", value))


@pytest.mark.parametrize("text", ["a://{a}x{b}x{c}x{d}x{e}y", "a://{+a}/{+b}/{+c}/{+d}/z", "a://{a*}a{b*}a{c*}b"])
@pytest.mark.advisory("CVE-2026-0621")
def test_matching_is_linear_in_the_uri(text: str) -> None:
    template = URITemplate(text)
    for uri in ("a://" + "x" * 8000, "a://" + "a/" * 4000, "a://" + "a" * 8000):
        began = time.thread_time()
        for _ in range(20):
            with suppress(JSONRPCError):
                template.match(uri)
        assert time.thread_time() - began < 0.5
    assert template.match("a://" + "x" * 1_000_000) is None


@pytest.mark.parametrize(
    "text",
    [
        "no-scheme/{x}",
        "a://{x}{y}",
        "a://{x:3}",
        "a://{x",
        "a://x}",
        "a://{x}/{x}",
        "a://{&x}",
        "a://{+x,y}",
        "a://h{#x,y}",
        "a://h{#x}more",
        "a://h{?x}/more",
        "a://h{;x}more",
        "a://h{;x}{y}",
        "a://h{?x}{&y}",
        "a://h{?x}{?y}",
        "a://h?a={x}{y}",
        "a://h?{x}",
        "a://h?{x}=1",
        "a://h?a=1{/x}",
        "a://h{#x}{?y}",
        "a://{+x}{;y}",
        "a://h/{.x",
        "a://{!x}",
        "a://{}",
        "a://h?a=1/{x}",
    ],
)
def test_a_template_that_cannot_be_read_back_is_refused(text: str) -> None:
    with pytest.raises(LocalError):
        URITemplate(text)
