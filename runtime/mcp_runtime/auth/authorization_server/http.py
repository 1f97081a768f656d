"""ASGI's dictionaries go in and out; between them, a request that was read and a reply that is to be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...http.asgi import Receive, Scope, Send
from ...http.body import BodyReader
from ...http.headers import HTTPError, read_headers
from .models import OAuthError, OAuthErrorCode
from .requests import Fields, parse_form, unique_params

_FORM: Final = "application/x-www-form-urlencoded"
_MAX_QUERY_LENGTH: Final = 16 * 1024
_EVERY: Final = (("cache-control", "no-store"), ("pragma", "no-cache"), ("x-content-type-options", "nosniff"))


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request, read as a whole. `scope` is ASGI's own."""

    method: str
    path: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    scope: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def address(self) -> str:
        """Where the request comes from, as the server of HTTP knows it."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    def cookie(self, name: str) -> str | None:
        """The value of a cookie, as it stands; what other cookies look like does not matter."""
        pairs = (each.strip().partition("=") for each in self.headers.get("cookie", "").split(";"))
        return next((value for found, _, value in pairs if found == name), None)

    def parameters(self) -> Fields:
        """The fields of the query. Raises Refused."""
        return unique_params(parse_form(self.query))

    def form(self) -> Fields:
        """The fields of a form. Raises Refused."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, f"the body is {_FORM}")
        try:
            return unique_params(parse_form(self.body.decode()))
        except UnicodeDecodeError:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the body is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """An answer of HTTP. None of them is to be kept by a cache."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def json(cls, value: Mapping[str, Any], status: int = 200, *headers: tuple[str, str]) -> HTTPResponse:
        """JSON."""
        return cls(status, json.dumps(value).encode(), (("content-type", "application/json"), *headers))

    @classmethod
    def error(cls, error: OAuthError, *headers: tuple[str, str]) -> HTTPResponse:
        """What a program is told that is refused (RFC 6749 5.2)."""
        more = (("www-authenticate", 'Basic realm="token endpoint"'),) if error.status == 401 else ()
        said = {"error": error.code.value, "error_description": error.reason}
        return cls.json(said, error.status, *more, *headers)

    @classmethod
    def redirect(cls, url: str, *headers: tuple[str, str]) -> HTTPResponse:
        """The browser goes there with GET, whatever it came with: a form is never sent on (RFC 9700 4.12)."""
        return cls(303, b"", (("location", url), ("referrer-policy", "no-referrer"), *headers))

    async def send(self, send: Send) -> None:
        """Send it."""
        pairs = (*self.headers, *_EVERY, ("content-length", str(len(self.body))))
        head = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        await send({"type": "http.response.body", "body": self.body})


async def read_request(scope: Scope, receive: Receive, body_reader: BodyReader) -> HTTPRequest | HTTPResponse:
    """The request, or the reply to one that cannot be read. Raises Left."""
    headers = read_headers(scope["headers"])
    query = bytes(scope.get("query_string", b""))
    if isinstance(headers, HTTPError):
        return HTTPResponse(headers.status)
    if len(query) > _MAX_QUERY_LENGTH:
        return HTTPResponse(414)
    body = await body_reader.read(receive)
    if isinstance(body, HTTPError):
        return HTTPResponse(body.status, headers=(("connection", "close"),))
    return HTTPRequest(scope["method"], scope["path"], query.decode("latin-1"), headers, body, scope)
