"""ASGI's dictionaries go in and out; between them, a request that was read and a reply that is to be sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..http.headers import Turned, read_headers
from ..transports.http.arrivals import Arrivals
from ..transports.http.wire import Receive, Scope, Send
from .records import Error, Refused
from .requests import Fields, fields, once

_FORM: Final = "application/x-www-form-urlencoded"
_LONGEST_QUERY: Final = 16 * 1024
_EVERY: Final = (("cache-control", "no-store"), ("pragma", "no-cache"), ("x-content-type-options", "nosniff"))


@dataclass(frozen=True, slots=True)
class Incoming:
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
        return once(fields(self.query))

    def form(self) -> Fields:
        """The fields of a form. Raises Refused."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise Refused(Error.INVALID_REQUEST, f"the body is {_FORM}")
        try:
            return once(fields(self.body.decode()))
        except UnicodeDecodeError:
            raise Refused(Error.INVALID_REQUEST, "the body is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of HTTP. None of them is to be kept by a cache."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def json(cls, said: Mapping[str, Any], status: int = 200, *headers: tuple[str, str]) -> Reply:
        """JSON."""
        return cls(status, json.dumps(said).encode(), (("content-type", "application/json"), *headers))

    @classmethod
    def refusal(cls, fault: Refused, *headers: tuple[str, str]) -> Reply:
        """What a program is told that is refused (RFC 6749 5.2)."""
        more = (("www-authenticate", 'Basic realm="token endpoint"'),) if fault.status == 401 else ()
        said = {"error": fault.error.value, "error_description": fault.why}
        return cls.json(said, fault.status, *more, *headers)

    @classmethod
    def elsewhere(cls, url: str, *headers: tuple[str, str]) -> Reply:
        """The browser goes there with GET, whatever it came with: a form is never sent on (RFC 9700 4.12)."""
        return cls(303, b"", (("location", url), ("referrer-policy", "no-referrer"), *headers))

    async def send(self, send: Send) -> None:
        """Send it."""
        pairs = (*self.headers, *_EVERY, ("content-length", str(len(self.body))))
        head = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
        await send({"type": "http.response.start", "status": self.status, "headers": head})
        await send({"type": "http.response.body", "body": self.body})


async def read(scope: Scope, receive: Receive, arrivals: Arrivals) -> Incoming | Reply:
    """The request, or the reply to one that cannot be read. Raises Left."""
    headers = read_headers(scope["headers"])
    query = bytes(scope.get("query_string", b""))
    if isinstance(headers, Turned):
        return Reply(headers.status)
    if len(query) > _LONGEST_QUERY:
        return Reply(414)
    body = await arrivals.body(receive)
    if isinstance(body, Turned):
        return Reply(body.status, headers=(("connection", "close"),))
    return Incoming(scope["method"], scope["path"], query.decode("latin-1"), headers, body, scope)
