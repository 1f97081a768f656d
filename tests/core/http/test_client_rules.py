"""The rules of a client over HTTP, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from support.project import package

from mcp_generated import REVISIONS
from mcp_runtime.http.client_rules import (
    ResponseKind,
    classify_response,
    get_headers,
    is_session_id,
    may_be_legacy_sse,
    may_know_other_lifecycle,
    post_headers,
    reconnect_delay,
)
from mcp_runtime.http.headers import read_tool_headers
from mcp_runtime.http.urls import may_follow_redirect, redact_url
from mcp_runtime.protocol.jsonrpc import NotificationMessage, RequestMessage
from mcp_runtime.protocol.revision import Revision


def revision(id: str) -> Revision:
    record: Revision = package(id, "methods").REVISION
    return record


STATELESS = "2026-07-28"
CALL = RequestMessage(1, "tools/call", {"name": "tool", "arguments": {"a": "é", "b": {"c": 7}, "d": None, "e": True}})


@pytest.mark.parametrize("id", REVISIONS)
@pytest.mark.clause("2025-03-26/transports/12", "2025-03-26/transports/24")
def test_a_post_takes_both_kinds_of_answer(id: str) -> None:
    headers = post_headers(CALL, revision(id), None, {})
    assert headers["accept"] == "application/json, text/event-stream"
    assert headers["content-type"] == "application/json"
    assert get_headers(revision(id), None)["accept"] == "text/event-stream"


@pytest.mark.parametrize("id", REVISIONS)
@pytest.mark.clause("draft/lifecycle/13")
def test_the_revision_is_named_where_it_is_known_and_has_a_header_for_that(id: str) -> None:
    named = id if id >= "2025-06-18" else None
    for message in (CALL, None, NotificationMessage("notifications/initialized")):
        assert post_headers(message, revision(id), None, {}).get("mcp-protocol-version") == named
    opening = post_headers(RequestMessage(1, "initialize", {}), revision(id), None, {})
    assert ("mcp-protocol-version" in opening) is (id == STATELESS)


@pytest.mark.parametrize("id", REVISIONS)
def test_a_session_is_named_where_there_are_sessions(id: str) -> None:
    assert post_headers(CALL, revision(id), "s", {}).get("mcp-session-id") == (None if id == STATELESS else "s")


@pytest.mark.parametrize("id", REVISIONS)
@pytest.mark.transport_rule("2026-07-28/23", "2026-07-28/27")
def test_headers_repeat_the_body_in_the_stateless_revision_alone(id: str) -> None:
    paths = {"first": ("a",), "second": ("b", "c"), "null": ("d",), "flag": ("e",), "absent": ("f", "g")}
    headers = post_headers(CALL, revision(id), None, paths)
    repeated = {name: value for name, value in headers.items() if name in ("mcp-method", "mcp-name") or "param" in name}
    expected = {
        "mcp-method": "tools/call",
        "mcp-name": "tool",
        "mcp-param-first": "=?base64?w6k=?=",
        "mcp-param-second": "7",
        "mcp-param-flag": "true",
    }
    assert repeated == (expected if id == STATELESS else {})


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("prompts/get", {"name": " p "}, "=?base64?IHAg?="),
        ("tools/list", {"name": "no"}, None),
    ],
)
@pytest.mark.transport_rule("2026-07-28/22")
def test_a_name_or_an_address_is_repeated_where_the_method_has_one(method: str, params: Any, name: str | None) -> None:
    assert post_headers(RequestMessage(1, method, params), revision(STATELESS), None, {}).get("mcp-name") == name


@pytest.mark.parametrize(
    ("status", "kind", "is_request", "in_session", "answer"),
    [
        (200, "application/json; charset=utf-8", True, True, ResponseKind.JSON),
        (200, "Text/Event-Stream", True, True, ResponseKind.EVENTS),
        (200, "text/html", True, False, ResponseKind.UNEXPECTED),
        (201, "application/json", True, True, ResponseKind.JSON),
        (202, "application/json", True, True, ResponseKind.JSON),
        (202, "", True, False, ResponseKind.UNEXPECTED),
        (202, "", False, True, ResponseKind.ACCEPTED),
        (204, "", False, True, ResponseKind.ACCEPTED),
        (404, "", True, True, ResponseKind.SESSION_LOST),
        (404, "", True, False, ResponseKind.ERROR),
        (400, "application/json", True, True, ResponseKind.ERROR),
        (302, "", True, True, ResponseKind.ERROR),
        (503, "", False, True, ResponseKind.ERROR),
    ],
)
def test_a_status_and_a_content_type_say_how_a_post_was_answered(
    status: int, kind: str, is_request: bool, in_session: bool, answer: ResponseKind
) -> None:
    assert classify_response(status, kind, is_request, in_session) is answer


@pytest.mark.parametrize(
    ("status", "code", "otherwise"),
    [
        (400, 0, True),  # An empty body, or one of another kind.
        (400, -32600, True),
        (400, -32000, True),
        (404, 0, True),
        (405, 0, True),
        (200, -32601, True),
        (None, -32601, True),  # Over another transport.
        (400, -32020, False),
        (400, -32021, False),
        (400, -32022, False),
        (None, -32022, False),
        (404, -32601, True),
        (401, 0, False),
        (403, 0, False),
        (403, -32600, False),
        (429, 0, False),
        (500, -32603, True),
        (500, -32022, False),
        (503, 0, True),
        (302, 0, False),
    ],
)
@pytest.mark.transport_rule("2026-07-28/32", "2026-07-28/33")
def test_a_refusal_says_whether_the_server_may_know_another_lifecycle(status: Any, code: int, otherwise: bool) -> None:
    assert may_know_other_lifecycle(status, code, revision(STATELESS)) is otherwise


@pytest.mark.parametrize(
    ("status", "first", "later"),
    [(400, True, True), (404, True, True), (405, True, True), (406, True, False), (415, True, False)]
    + [(status, False, False) for status in (401, 403, 408, 429, 500, 503, 200, 302)],
)
@pytest.mark.transport_rule("2025-11-25/10", "2026-07-28/36")
def test_a_refused_opening_may_be_that_of_an_older_server(status: int, first: bool, later: bool) -> None:
    assert may_be_legacy_sse(status, revision("2025-03-26")) is first
    assert (
        may_be_legacy_sse(status, revision("2025-06-18")) is may_be_legacy_sse(status, revision("2025-11-25")) is later
    )


@pytest.mark.parametrize(
    ("id", "fine"),
    [
        ("a", True),
        ("!~", True),
        ("a" * 4096, True),
        ("", False),
        ("a b", False),
        ("é", False),
        ("a" * 4097, False),
        ("a\x7f", False),
        ("a\n", False),
    ],
)
def test_a_session_id_has_visible_characters_alone(id: str, fine: bool) -> None:
    assert is_session_id(id) is fine


@pytest.mark.parametrize(
    ("status", "method", "target", "followed"),
    [
        (307, "POST", "http://a/other", True),
        (308, "POST", "http://A:80/other", True),
        (308, "GET", "http://a/other", True),
        (302, "GET", "http://a/other", True),
        (301, "POST", "http://a/other", False),
        (302, "POST", "http://a/other", False),
        (303, "POST", "http://a/other", False),
        (302, "DELETE", "http://a/other", False),
        (307, "POST", "http://b/other", False),
        (307, "POST", "https://a/other", False),
        (307, "POST", "http://a:8080/", False),
        (307, "POST", "http://a@b/", False),
        (307, "POST", "http://a:x/", False),
    ],
)
def test_a_redirect_is_followed_where_origin_and_method_stay(
    status: int, method: str, target: str, followed: bool
) -> None:
    assert may_follow_redirect(status, method, "http://a/mcp", target) is followed


@pytest.mark.transport_rule("2025-11-25/04")
def test_waiting_grows_within_bounds_and_what_the_server_says_is_the_least() -> None:
    for failures in range(20):
        least, maximum = reconnect_delay(failures, None, 0.0), reconnect_delay(failures, None, 1.0)
        assert 0.25 <= least <= maximum <= 30
        for retry in (0, 1, 1000, 10**9):
            assert (
                max(0.01, min(retry / 1000, 300))
                <= reconnect_delay(failures, retry, 0.0)
                <= reconnect_delay(failures, retry, 1.0)
                <= 360
            )
    assert reconnect_delay(0, 1000, 0.0) == 1.0
    assert reconnect_delay(3, None, 0.5) > reconnect_delay(1, None, 0.5)


def test_a_url_is_shown_without_what_may_be_secret_in_it() -> None:
    assert redact_url("https://user:secret@host:1/mcp?key=secret#secret") == "https://host:1/mcp"


@pytest.mark.transport_rule("2026-07-28/26")
def test_tools_whose_annotations_are_not_allowed_are_left_out() -> None:
    fine = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    fine["properties"]["a"]["properties"]["b"]["x-mcp-header"] = "B"  # type: ignore[index]
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    listed = [{"name": "fine", "inputSchema": fine}, {"name": "bad", "inputSchema": bad}, 7]
    tools = read_tool_headers(listed, revision(STATELESS))
    assert [tool if tool == 7 else tool["name"] for tool in tools.tools] == ["fine", 7]
    assert dict(tools.paths) == {"fine": {"b": ("a", "b")}} and list(tools.rejected) == ["bad"]
