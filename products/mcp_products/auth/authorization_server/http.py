"""HTTP requests and responses of the authorization server, read from and sent to ASGI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_runtime.http.asgi import BodyReader, Receive, Scope, Send
from mcp_runtime.http.headers import HTTPError, read_headers

from .models import OAuthError, OAuthErrorCode
from .requests import Fields, parse_form, unique_params

_FORM: Final = "application/x-www-form-urlencoded"
_MAX_QUERY_LENGTH: Final = 16 * 1024
_COMMON_HEADERS: Final = (("cache-control", "no-store"), ("pragma", "no-cache"), ("x-content-type-options", "nosniff"))


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """An HTTP request with its whole body.

    Args:
        method: HTTP method.
        path: Path, decoded.
        query: Query, not decoded.
        headers: Headers, by name in lower case.
        body: Body. Default: empty.
        scope: ASGI scope of the request. Default: empty.
    """

    method: str
    path: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    scope: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def address(self) -> str:
        """The address of the client as the HTTP server reports it; empty if it reports none."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie, not decoded; None if there is none. Malformed other cookies are ignored."""
        cookies = (cookie.strip().partition("=") for cookie in self.headers.get("cookie", "").split(";"))
        return next((value for cookie_name, _, value in cookies if cookie_name == name), None)

    def parameters(self) -> Fields:
        """Return the parameters of the query. Raises OAuthError."""
        return unique_params(parse_form(self.query))

    def form(self) -> Fields:
        """Return the fields of a form. Raises OAuthError."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, f"the Content-Type must be {_FORM}")
        try:
            return unique_params(parse_form(self.body.decode()))
        except UnicodeDecodeError:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the body must be UTF-8") from None


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """An HTTP response, which caches must not store.

    Args:
        status: HTTP status code.
        body: Body. Default: empty.
        headers: Headers besides those all responses have. Default: none.
    """

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def json(cls, value: Mapping[str, Any], status: int = 200, *headers: tuple[str, str]) -> HTTPResponse:
        """Return a response with a JSON body."""
        return cls(status, json.dumps(value).encode(), (("content-type", "application/json"), *headers))

    @classmethod
    def error(cls, error: OAuthError, *headers: tuple[str, str]) -> HTTPResponse:
        """Return the response of an endpoint for an error (https://www.rfc-editor.org/rfc/rfc6749#section-5.2)."""
        challenge = (("www-authenticate", 'Basic realm="token endpoint"'),) if error.status == 401 else ()
        body = {"error": error.code.value, "error_description": error.reason}
        return cls.json(body, error.status, *challenge, *headers)

    @classmethod
    def redirect(cls, url: str, *headers: tuple[str, str]) -> HTTPResponse:
        """Return a redirect with status 303, after which browsers always send GET: a form with credentials is not sent
        on (https://www.rfc-editor.org/rfc/rfc9700#section-4.12)."""
        return cls(303, b"", (("location", url), ("referrer-policy", "no-referrer"), *headers))

    async def send(self, send: Send) -> None:
        """Send the response by ASGI."""
        fields = (*self.headers, *_COMMON_HEADERS, ("content-length", str(len(self.body))))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def read_request(scope: Scope, receive: Receive, body_reader: BodyReader) -> HTTPRequest | HTTPResponse:
    """Return the request, or the response to a request that cannot be read. Raises ClientDisconnectError."""
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
