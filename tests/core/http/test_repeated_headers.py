"""Headers that may repeat: several lines of a name are one list, in their order (RFC 9110, section 5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_generated import App
from mcp_runtime.http.headers import accepts, read_headers

JSON, STREAM = b"application/json", b"text/event-stream"
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"c","version":"1"}}}'
)


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ([b"a"], "a"),
        ([b"a", b"b"], "a, b"),
        ([b"b", b"a", b"b"], "b, a, b"),
        ([b"", b"a"], ", a"),
        ([b"a, b", b"c"], "a, b, c"),
    ],
)
@pytest.mark.parametrize("name", [b"accept", b"Accept", b"x-forwarded-for", b"traceparent"])
def test_lines_of_one_name_are_joined_in_their_order(name: bytes, lines: list[bytes], value: str) -> None:
    mixed = [(name if number % 2 else name.upper(), line) for number, line in enumerate(lines)]
    headers = read_headers([(b"host", b"localhost"), *mixed, (b"x-last", b"1")])
    assert headers == {"host": "localhost", name.decode().lower(): value, "x-last": "1"}


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ([JSON, STREAM], "both"),
        ([STREAM, JSON], "both"),
        ([b"application/json, text/event-stream"], "both"),
        ([b"text/html", b"application/json;q=0.5", b"text/event-stream"], "both"),
        ([b"text/html", b"*/*"], "both"),
        ([b"text/html", b"text/plain"], "none"),
        ([b"text/html", JSON], "json"),
        ([b"text/event-stream;q=0", JSON], "json"),
        ([b"application/json;q=0", b"text/html", b"text/event-stream;q=0"], "none"),
    ],
)
async def test_an_accept_header_that_is_split_counts_as_one(lines: list[bytes], kinds: str) -> None:
    header = b", ".join(lines).decode()
    expected = {"both": (True, True), "json": (True, False), "none": (False, False)}[kinds]
    assert (accepts(header, JSON.decode()), accepts(header, STREAM.decode())) == expected
    raw = [(b"host", b"localhost"), (b"content-type", JSON), *((b"accept", line) for line in lines)]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "query_string": b""}
    parts = iter([{"type": "http.request", "body": INITIALIZE, "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    application: Any = App("served").asgi(revisions=["2025-11-25"])
    await application(scope, receive, send)
    await application.close()
    assert sent[0]["status"] == (406 if kinds == "none" else 200)
