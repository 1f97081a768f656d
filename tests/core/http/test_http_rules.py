"""The rules of HTTP, row by row: what is said in the head of a request, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_runtime.http.headers import (
    HTTPError,
    accepts,
    check_parameter_headers,
    decode_value,
    encode_value,
    media_type,
    parameter_headers,
    read_headers,
)
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.server_rules import resume_position

LOCAL = OriginPolicy.create(None, None)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"])
def test_a_local_server_goes_by_the_names_of_the_loopback(host: str) -> None:
    assert LOCAL.check({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "evil.example:localhost",
     "localhost:80.evil.example", "127.0.0.1:1@evil.example", "[::1].evil.example", "localhost:", "0.0.0.0:8000"],
)  # fmt: skip
def test_no_other_host_is_taken_for_one_of_them(host: str) -> None:
    rejection = LOCAL.check({"host": host})
    assert rejection is not None and rejection.status in (400, 421)


@pytest.mark.parametrize(
    "origin", ["http://localhost", "http://localhost:3000", "https://127.0.0.1:1", "http://[::1]:5"]
)
def test_pages_of_the_loopback_may_call_a_local_server(origin: str) -> None:
    assert LOCAL.check({"host": "localhost", "origin": origin}) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://localhost.evil.example", "http://localhost@evil.example",
     "http://127.0.0.1:1@evil.example", "http://127.0.0.1:80.evil.example", "chrome-extension://abcdef", "file://",
     "http://localhost:3000/path", "http://localhost:99999999", "ftp://localhost", "http://LOCALHOST.evil",
     "//localhost"],
)  # fmt: skip
def test_other_pages_may_not(origin: str) -> None:
    rejection = LOCAL.check({"host": "localhost", "origin": origin})
    assert rejection is not None and rejection.status == 403


def test_hosts_and_origins_can_be_named() -> None:
    named = OriginPolicy.create(["api.example.com:8443"], ["https://app.example.com"])
    assert named.check({"host": "api.example.com:8443", "origin": "https://app.example.com"}) is None
    assert named.check({"host": "api.example.com"}) is not None
    assert named.check({"host": "api.example.com:8443", "origin": "http://localhost"}) is not None
    assert OriginPolicy.create(["*"], None).check({"host": "anything"}) is None
    assert OriginPolicy.create(["*"], None).check({}) is None


@pytest.mark.parametrize(
    ("header", "json", "stream"),
    [
        (None, True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("APPLICATION/JSON;q=0.5", True, False),
        ("text/*", False, True),
        ("application/json;q=0, */*", False, True),
        ("text/html, image/webp", False, False),
        ("garbage;;;q=,,", False, False),
        ("", False, False),
        ("*/*;q=nan", False, False),
    ],
)
def test_accept_is_read_with_its_ranges_and_weights(header: str | None, json: bool, stream: bool) -> None:
    assert (accepts(header, "application/json"), accepts(header, "text/event-stream")) == (json, stream)


def test_a_media_type_has_no_case_and_its_parameters_do_not_count() -> None:
    assert media_type("Application/JSON; charset=utf-8") == "application/json"


@pytest.mark.parametrize("name", ["Host", "Origin", "Mcp-Session-Id", "Mcp-Method", "Mcp-Param-Region", "Content-Type"])
def test_a_header_that_may_come_once_comes_once(name: str) -> None:
    twice = read_headers([(name.encode(), b"a"), (name.lower().encode(), b"a")])
    assert isinstance(twice, HTTPError) and twice.status == 400


@pytest.mark.parametrize("raw", [[(b"x", b"y")] * 201, [(b"x", b"y" * 70_000)]])
def test_too_many_headers_and_too_long_ones_are_refused(raw: list[tuple[bytes, bytes]]) -> None:
    rejection = read_headers(raw)
    assert isinstance(rejection, HTTPError) and rejection.status == 431


@pytest.mark.parametrize(
    "text", ["us-west1", "Hello, 世界", " padded ", "line1\nline2", "=?base64?x?=", "", "a b", "é"]
)
@pytest.mark.transport_rule("2026-07-28/23")
def test_a_text_comes_back_from_the_header_that_repeats_it(text: str) -> None:
    header = encode_value(text)
    assert decode_value(header) == text and header.isascii() and header.isprintable()


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?base64?SGVsbG8?=", None),
        ("=?base64?SGVs!!!bG8=?=", None),
        ("=?base64?/w==?=", None),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("caf\xe9", None),
    ],
)
@pytest.mark.transport_rule("2026-07-28/23")
def test_the_base64_form_is_read_strictly_and_whatever_lacks_its_marks_is_text(header: str, text: str | None) -> None:
    assert decode_value(header) == text


TOOL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "query": {"type": "object", "properties": {"limit": {"type": "integer", "x-mcp-header": "Limit"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    },
}


@pytest.mark.transport_rule("2026-07-28/25")
def test_a_schema_says_which_arguments_headers_repeat() -> None:
    assert parameter_headers(TOOL) == {"region": ("region",), "limit": ("query", "limit"), "dry": ("dry",)}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A B"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A\r\nX: y"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 5}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"$defs": {"x": {"type": "string", "x-mcp-header": "A"}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
        {"type": "string", "x-mcp-header": "A"},
        {"properties": {"a": {"x-mcp-header": "A"}}},
    ],
)
@pytest.mark.transport_rule("2026-07-28/25")
def test_a_schema_that_says_so_where_it_may_not_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        parameter_headers(schema)


@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"region": "us"}, {"mcp-param-region": "us"}, True),
        ({"region": "us"}, {"mcp-param-region": "eu"}, False),
        ({"region": "us"}, {}, False),
        ({}, {"mcp-param-region": "us"}, False),
        ({"region": None}, {}, True),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8=?="}, True),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8?="}, False),
        ({"query": {"limit": 42}}, {"mcp-param-limit": "42.0"}, True),
        ({"query": {"limit": 42}}, {"mcp-param-limit": "4e9999999"}, False),
        ({"query": {"limit": 42}}, {"mcp-param-limit": "forty-two"}, False),
        ({"dry": True}, {"mcp-param-dry": "true"}, True),
        ({"dry": True}, {"mcp-param-dry": "True"}, False),
        ({"query": []}, {}, True),
        ({}, {"mcp-param-unknown": "x"}, True),
    ],
)
@pytest.mark.transport_rule("2026-07-28/27", "2026-07-28/28")
def test_headers_and_arguments_have_to_agree(arguments: Any, headers: dict[str, str], fits: bool) -> None:
    assert (check_parameter_headers(headers, arguments, parameter_headers(TOOL)) is None) is fits


@pytest.mark.parametrize(("last", "position"), [("abc-7", ("abc", 7)), ("a_b-c-0", ("a_b-c", 0)), (None, None)])
@pytest.mark.transport_rule("2025-11-25/06")
def test_an_event_id_names_its_stream_and_its_place(last: str | None, position: Any) -> None:
    assert resume_position({} if last is None else {"last-event-id": last}) == position


@pytest.mark.parametrize("last", ["", "abc", "abc-", "abc-x", "abc--1x", "abc-²", "-" + "9" * 16])
def test_an_event_id_of_somebody_else_is_refused(last: str) -> None:
    assert isinstance(resume_position({"last-event-id": last}), HTTPError)
