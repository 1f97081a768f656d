"""Arguments of a model change the value of their parameter, and nothing else of the request that is sent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from support.servers.apis import app_of, document

from mcp_generated import App, LocalError

HOSTILE = [
    "a\r\nX-Admin: 1", "a\nX-Admin: 1", "a\rX-Admin: 1", "\r\n\r\nGET /admin HTTP/1.1\r\n\r\n", "a\0b", "\0", "\x7f",
    "a;b", "a; admin=1", ";", "a;admin=1;", "a,b", "a, admin=1", "=", "a=b", "admin=1", '"', '"a"', '"; admin=1; x="',
    "\\", "a\\", "'", "ä", "é;ü", "…", "\u2028X-Admin: 1", "\u560a\u560dX-Admin: 1", "\u0085X", "😀", "%0d%0aX:%201",
    "%00", "%3B%20admin=1", "a b", " a", "a ", "\ta", "a\tb", "&admin=1", "a&admin=1", "?admin=1", "#", "a#b", "+",
    "..", "../x", "/", "//h", "a/../../x", "[x]", "{x}", "$Path=/", "a; Path=/; HttpOnly", "__Host-a=1", "\x1b[31m",
    "a" * 9000,
]  # fmt: skip
PATHS = [{"style": style, "explode": explode} for style in ("simple", "label", "matrix") for explode in (True, False)]
QUERIES = [
    {"style": style, "explode": explode, "allowReserved": reserved}
    for style in ("form", "spaceDelimited", "pipeDelimited")
    for explode in (True, False)
    for reserved in (True, False)
]
COOKIES: list[dict[str, Any]] = [
    {},
    {"explode": False},
    {"allowReserved": True},
    {"explode": False, "allowReserved": True},
    {"style": "cookie"},
]
PLACES: list[tuple[str, dict[str, Any]]] = [
    *(("path", style) for style in PATHS),
    *(("query", style) for style in [*QUERIES, {"style": "deepObject"}]),
    *(("header", style) for style in ({}, {"explode": True})),
    *(("cookie", style) for style in COOKIES),
]


def is_repeated(place: tuple[str, dict[str, Any]]) -> bool:
    """Return whether an earlier place has the same location."""
    return next(other for other in PLACES if other[0] == place[0]) is not place


BOTH = {"path": [{}, {"x-multi-segment": True}, {"x-encoded-slash": True}]}


def shapes(value: str) -> list[Any]:
    """Return what a model can make of a hostile text: the text, in a list, and in an object on either side."""
    return [value, ["a", value], {"k": value}, {value: "v"}, {"k": {"l": value}}]


class API(BaseHTTPRequestHandler):
    """An API that notes the heads of its requests, as they arrive."""

    heads: list[tuple[str, list[tuple[str, str]]]]

    def do_GET(self) -> None:
        """Answer any request."""
        self.heads.append((self.requestline, self.headers.items()))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def api() -> Iterator[tuple[str, list[Any]]]:
    """Return the base URL of an API, and the heads of the requests that it has got."""
    handler = type("Noting", (API,), {"heads": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1", handler.heads
    server.shutdown()
    server.server_close()


def operation(location: str, more: dict[str, Any]) -> tuple[dict[str, Any], str]:
    name = "X-Id" if location == "header" else "id"
    parameter = {"name": name, "in": location, "required": location == "path", "schema": {}, **more}
    others = [
        {"name": "X-Other", "in": "header", "schema": {"type": "string"}},
        {"name": "other", "in": "cookie", "schema": {"type": "string"}},
    ]
    path = "/notes/{id}/end" if location == "path" else "/notes/end"
    return document({f"GET {path}": {"operationId": "run", "parameters": [parameter, *others]}}), name


@pytest.mark.edges("path-style0]", "query-style1]", "header-style2]", "cookie-style3]")
@pytest.mark.long
@pytest.mark.advisory("CVE-2026-32871")
@pytest.mark.parametrize(("location", "style"), sorted(PLACES, key=is_repeated))
async def test_no_argument_changes_another_part_of_a_request(location: str, style: dict[str, Any], api: Any) -> None:
    base, heads = api
    in_head = location in ("header", "cookie")
    for more in BOTH.get(location, [{}]):
        spec, name = operation(location, {**style, **more})
        async with httpx2.AsyncClient(base_url=base, headers={"authorization": "Bearer of-the-app"}) as client:
            app = App.from_openapi(spec, client)
            others = {"X-Other": "o", "other": "o"}
            await app.call_tool("run", {name: "plain", **others})
            line, expected = heads.pop()
            for hostile in HOSTILE:
                for value in shapes(hostile) if in_head else [hostile, {hostile: hostile}]:
                    result = await app.call_tool("run", {name: value, **others})
                    assert len(heads) == (0 if result.is_error else 1), (value, result)
                    for sent_line, head in heads:
                        check_line(location, line, sent_line)
                        check_head(location, expected, head)
                    heads.clear()


def check_line(location: str, line: str, sent: str) -> None:
    """Assert that a request has the method, the path and, if the parameter is elsewhere, the query of another one."""
    assert sent.count(" ") == 2 and sent.isascii(), sent
    target, plain = sent.split(" ")[1], line.split(" ")[1]
    if location == "path":
        assert target.startswith("/v1/notes/") and target.endswith("/end") and not {*"?#"} & {*target}, sent
        assert ".." not in unquote(unquote(target)).replace("\\", "/").split("/"), sent
    else:
        assert target.partition("?")[0] == plain.partition("?")[0] and "#" not in target, sent
        assert location == "query" or target == plain, sent


def check_head(location: str, expected: list[tuple[str, str]], sent: list[tuple[str, str]]) -> None:
    """Assert that a request has the headers of another one, but for the value of the parameter."""
    assert [name.lower() for name, _ in sent] == [name.lower() for name, _ in expected]
    own = {"header": "x-id", "cookie": "cookie"}.get(location, "")
    for (name, value), (_, plain) in zip(sent, expected, strict=True):
        if name.lower() != own:
            assert value == plain, name
        elif location == "cookie":
            cookies = value.split("; ")
            assert cookies[-1] == "other=o" and not any(";" in cookie for cookie in cookies)
            assert value.isascii() and value.isprintable() and not {'"', "\\"} & {*value}
        else:
            assert value.isascii() and value.isprintable()


@pytest.mark.parametrize("location", ["query", "cookie"])
async def test_a_key_of_an_object_is_not_another_parameter(location: str) -> None:
    parameters = [{"name": name, "in": location, "schema": {}} for name in ("options", "admin")]
    app, requests = app_of(document({"GET /a": {"operationId": "run", "parameters": parameters}}))
    result = await app.call_tool("run", {"options": {"admin": "1"}})
    assert result.is_error and "'options' cannot have the key 'admin'" in result.content[0].text and requests == []
    assert not (await app.call_tool("run", {"options": {"colour": "1"}, "admin": "2"})).is_error


@pytest.mark.parametrize("value", [["a,b"], {"a,b": "x"}, {"k": "v,w=x"}, {"a=b": "c"}, [["a", "b"]]])
async def test_an_item_of_a_header_adds_no_item(value: Any) -> None:
    for explode in (True, False):
        parameter = {"name": "X-Id", "in": "header", "schema": {}, "explode": explode}
        app, requests = app_of(document({"GET /a": {"operationId": "run", "parameters": [parameter]}}))
        result = await app.call_tool("run", {"X-Id": value})
        if value == {"a=b": "c"} and not explode:
            assert requests[0].headers["x-id"] == "a=b,c"
        else:
            assert result.is_error and "cannot have the item" in result.content[0].text and requests == []


async def test_a_cookie_of_openapi_3_2_is_sent_as_it_is_or_refused() -> None:
    parameter = {"name": "theme", "in": "cookie", "schema": {}, "style": "cookie"}
    app, requests = app_of(document({"GET /a": {"operationId": "run", "parameters": [parameter]}}))
    await app.call_tool("run", {"theme": "dark%3B/+="})
    assert requests[-1].headers["cookie"] == "theme=dark%3B/+="
    for value in ("a;b", "a b", 'a"', "a,b", "a\\b", "é", "a\r\nb", {"a b": "c"}, {"a;b": "c"}):
        result = await app.call_tool("run", {"theme": value})
        assert result.is_error and "cookie" in result.content[0].text, value
    assert len(requests) == 1


@pytest.mark.parametrize("name", ["Host", "Content-Length", "transfer-encoding", "Connection", "Expect", "Upgrade"])
async def test_no_argument_sets_a_header_that_frames_the_request(name: str, caplog: pytest.LogCaptureFixture) -> None:
    parameters = [{"name": name, "in": "header", "required": True, "schema": {"type": "string"}}]
    with caplog.at_level(logging.WARNING):
        app, requests = app_of(document({"POST /a": {"operationId": "run", "parameters": parameters}}))
    assert f"the header parameter {name!r} of /a is left out" in caplog.text
    assert not (await app.call_tool("run", {})).is_error and requests[0].url.host == "api.test"


@pytest.mark.parametrize("name", ["X\r\nY", "X Y", "", "X:", "Ä"])
def test_a_document_cannot_name_a_header_that_is_none(name: str) -> None:
    parameters = [{"name": name, "in": "header", "schema": {"type": "string"}}]
    with pytest.raises(LocalError, match="is not the name of a header"):
        app_of(document({"GET /a": {"operationId": "run", "parameters": parameters}}))


def test_a_document_cannot_have_a_media_type_with_a_header_inside() -> None:
    body = {"content": {"text/plain\r\nX-Admin: 1": {"schema": {}}}}
    with pytest.raises(LocalError, match="is not a media type"):
        app_of(document({"POST /a": {"operationId": "run", "requestBody": body}}))


async def test_names_of_a_multipart_body_add_no_part() -> None:
    body = {"content": {"multipart/form-data": {"schema": {"type": "object"}}}}
    app, requests = app_of(document({"POST /a": {"operationId": "run", "requestBody": body}}))
    await app.call_tool("run", {"body": {'a"\r\nX: 1': "v\r\n--b"}})
    content = requests[0].read()
    assert b"\r\nX: 1" not in content and content.count(b"Content-Disposition") == 1
