"""HTTP headers of MCP requests: names, parsing, media types, and the encoding of repeated values."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

SESSION_ID: Final = "mcp-session-id"
PROTOCOL_VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
LAST_EVENT_ID: Final = "last-event-id"

Raw = Sequence[tuple[bytes, bytes]]  # Headers as ASGI has them.

# Headers that may occur only once: with duplicates, a proxy and the server could read different values.
_SINGLE: Final = frozenset(
    {
        "host",
        "origin",
        "content-type",
        "content-length",
        "content-encoding",
        SESSION_ID,
        PROTOCOL_VERSION,
        METHOD,
        NAME,
        LAST_EVENT_ID,
    }
)
_MAX_HEADERS: Final = 200
_MAX_HEADER_BYTES: Final = 64 * 1024
_UNREAD: Final = (408, 413, 431)  # Statuses of requests that are not read to the end.
_BEGIN: Final = "=?base64?"
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HTTPError:
    """An HTTP status to reject a request with, and the code, message and data of the JSON-RPC error in the body.

    With `close`, the connection is closed as well. `retry_after` are the seconds after which the request may be sent
    again, for a server that has not begun with it; clients send it again by themselves."""

    status: int
    reason: str
    code: int = -32600
    data: object = None
    close: bool = False
    retry_after: int | None = None

    @property
    def fields(self) -> Raw:
        """The headers of the response that belong to the error."""
        # The rest of the request body is not read, so the connection cannot be reused for another request.
        closing = ((b"connection", b"close"),) if self.close or self.status in _UNREAD else ()
        again = () if self.retry_after is None else ((b"retry-after", b"%d" % self.retry_after),)
        return (*again, *closing)


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> Headers | HTTPError:
    """Return the headers by lower-case name, or the error if there are too many or duplicates that are not allowed.

    Other headers of the same name are joined with a comma (RFC 9110, section 5.3).
    """
    if len(raw) > _MAX_HEADERS or len(b"".join([part for field in raw for part in field])) > _MAX_HEADER_BYTES:
        return HTTPError(431, f"the request has more than {_MAX_HEADERS} headers, or {_MAX_HEADER_BYTES} bytes of them")
    fields = [(key.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")) for key, value in raw]
    headers = dict(fields)
    if "transfer-encoding" in headers and "content-length" in headers:
        # A proxy may read the one, and the server the other: https://www.rfc-editor.org/rfc/rfc9112#section-6.1-15
        return HTTPError(400, "the request has Content-Length and Transfer-Encoding: send one of them", close=True)
    if len(headers) == len(fields):
        return headers
    headers.clear()
    for name, text in fields:
        if name in headers and (name in _SINGLE or name.startswith(PARAM_PREFIX)):
            return HTTPError(400, f"the header {name} occurs twice; send it once")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


@lru_cache(256)
def media_type(header: str) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return header.partition(";")[0].strip().lower()


@lru_cache(256)
def accepts(header: str | None, kind: str) -> bool:
    """Return True if an Accept header accepts a media type (RFC 9110, section 12.5.1). Without a header, all are."""
    if header is None:
        return True
    best, quality = -1, 0.0
    for part in header.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        rank = (name == "*/*", name == kind.partition("/")[0] + "/*", name == kind)
        if any(rank) and rank.index(True) > best:
            best, quality = rank.index(True), _quality(parameters)
    return quality > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def encode_value(text: str) -> str:
    """Encode a header value that repeats a text of the body: unchanged if it is safe, otherwise as `=?base64?…?=`."""
    if _SAFE.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str | None:
    """Decode a header value that repeats a text of the body; None if it is malformed."""
    match = _ENCODED.fullmatch(header) if header.startswith(_BEGIN) else None
    if match is None:
        return header if _SAFE.fullmatch(header) or not header else None
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
