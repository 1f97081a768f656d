"""CORS: which headers let a web page of another origin read the responses of a server.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .asgi import Send
from .headers import PROTOCOL_VERSION, SESSION_ID, Raw

_EXPOSED: Final = ", ".join(("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "DPoP-Nonce", "Retry-After"))
_REQUEST_HEADERS: Final = (
    f"content-type, accept, authorization, {SESSION_ID}, {PROTOCOL_VERSION}, mcp-method, mcp-name, last-event-id"
)
_MAX_AGE: Final = b"600"  # Seconds for which a browser may cache the response to a preflight request.
_ALLOW_ORIGIN: Final = b"access-control-allow-origin"


class CORSPolicy:
    """The origins whose pages may read responses. Credentials are never allowed: tokens are in the requests."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Create a policy for origins such as `https://app.example.com`; `*` allows all."""
        self._origins = frozenset(origin.lower().encode() for origin in origins)

    def sender(self, raw: Raw, send: Send) -> Send:
        """Return a function that sends the response to a request with the headers that its origin needs."""
        origin = next((value for name, value in raw if name == b"origin"), None)
        if origin is None or (origin.lower() not in self._origins and b"*" not in self._origins):
            return send
        added = ((_ALLOW_ORIGIN, origin), (b"access-control-expose-headers", _EXPOSED.encode()), (b"vary", b"origin"))

        async def send_with_cors(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"]]
                if not any(name.lower() == _ALLOW_ORIGIN for name, _ in headers):
                    headers += added
                message = {**message, "headers": headers}
            await send(message)

        return send_with_cors


def preflight_headers(raw: Raw, methods: str) -> Raw:
    """Return the headers of the response to a preflight request (OPTIONS).

    All request headers are allowed: the names of `Mcp-Param-…` headers depend on the tools.
    """
    requested = next((value for name, value in raw if name == b"access-control-request-headers"), b"")
    return (
        (b"access-control-allow-methods", methods.encode()),
        (b"access-control-allow-headers", requested or _REQUEST_HEADERS.encode()),
        (b"access-control-max-age", _MAX_AGE),
        (b"vary", b"access-control-request-headers"),
    )
