"""The headers of a request go in; what they say comes out, or the Turned that tells what is wrong with them."""

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

# Two of one of these would let two readers of the request see different things.
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
_BEGIN: Final = "=?base64?"
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HTTPError:
    """A request is turned away with this HTTP status, and a JSON-RPC error with this code, text and data."""

    status: int
    reason: str
    code: int = -32600
    data: object = None


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> Headers | HTTPError:
    """The headers by their name in lower case; several of one name are joined, where they may be."""
    if len(raw) > _MAX_HEADERS or len(b"".join([part for pair in raw for part in pair])) > _MAX_HEADER_BYTES:
        return HTTPError(431, f"more than {_MAX_HEADERS} headers, or more than {_MAX_HEADER_BYTES} bytes of them")
    pairs = [(key.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")) for key, value in raw]
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    found.clear()
    for name, text in pairs:
        if name in found and (name in _SINGLE or name.startswith(PARAM_PREFIX)):
            return HTTPError(400, f"the header {name} is there twice")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


@lru_cache(256)
def media_type(header: str) -> str:
    """The media type of a Content-Type header, in lower case and without parameters."""
    return header.partition(";")[0].strip().lower()


@lru_cache(256)
def accepts(header: str | None, kind: str) -> bool:
    """Whether an Accept header admits a media type (RFC 9110, section 12.5.1); none at all admits every one."""
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
    """The value of a header that repeats a text of the body: as it is, or in the Base64 form where it has to be."""
    if _SAFE.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str | None:
    """The text that such a header repeats; None for one that is not well-formed."""
    found = _ENCODED.fullmatch(header) if header.startswith(_BEGIN) else None
    if found is None:
        return header if _SAFE.fullmatch(header) or not header else None
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
