"""The HTTP rules of a client: request headers, classification of responses, fallback, and reconnection.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ..protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorMessage,
    Message,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
    named_id,
)
from ..protocol.models import is_object
from ..protocol.revision import Handshake, Revision, Stateless
from .headers import (
    ARGUMENTS,
    EVENT_STREAM,
    JSON,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    ArgumentPaths,
    argument_at,
    encode_value,
    header_text,
    media_type,
)

Outgoing = RequestMessage | NotificationMessage | None  # None for a response.

_ACCEPT: Final = f"{JSON}, {EVENT_STREAM}"
# The httpx2 request extension that carries the negotiated revision to the auth flow; it is not sent.
REVISION_EXTENSION: Final = "mcp.negotiated_revision"
_MAX_SESSION_ID_LENGTH: Final = 4096  # Characters; tokens of several hundred are in use as ids.
_JSONRPC_CODES: Final = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)
_LEGACY_STATUSES: Final = (400, 404, 405)  # The responses of HTTP+SSE servers to a POST at their SSE endpoint.
_UNRELATED_STATUSES: Final = (401, 403, 407, 408, 429)  # These do not depend on the server's protocol version.
# What `_meta` has of a trace is repeated in headers: proxies know nothing of MCP. https://www.w3.org/TR/trace-context/
_TRACE: Final = ("traceparent", "tracestate", "baggage")
_FIRST_DELAY: Final = 0.5  # Seconds, as the next three.
_MAX_DELAY: Final = 30.0
_MIN_DELAY: Final = 0.1  # Seconds: a server that closes each stream and has `retry: 0` must not keep a client busy.
_MAX_RETRY: Final = 300.0  # The limit of the server's `retry`, so that a server cannot make a client wait forever.


@dataclass(frozen=True, slots=True)
class NegotiatedRevision:
    """The revision of an HTTP request, and a function that returns all revisions that the client accepts."""

    revision: Revision
    alternatives: Callable[[], Iterable[Revision]] = tuple


class ResponseKind(Enum):
    """The kind of a response to a POST."""

    JSON = "one JSON message"
    EVENTS = "an event stream"
    ACCEPTED = "accepted"
    SESSION_LOST = "session not found"
    ERROR = "error status"
    UNEXPECTED = "unexpected status or media type"


def post_headers(message: Outgoing, revision: Revision, session: str | None, paths: ArgumentPaths) -> dict[str, str]:
    """Return the headers of the POST that sends a message, None for a response."""
    params: dict[str, Any] = message.params if message is not None and is_object(message.params) else {}
    headers = {"accept": _ACCEPT, "content-type": JSON, **_trace_headers(params)}
    stateless = isinstance(revision.lifecycle, Stateless)
    if revision.http.version_header and (stateless or not is_initialize(message, revision)):
        headers[PROTOCOL_VERSION] = revision.id
    if session is not None and not stateless:
        headers[SESSION_ID] = session
    elif message is not None and stateless:
        headers[METHOD] = message.method
        headers |= _parameter_headers(message.method, params, revision, paths)
    return headers


def _trace_headers(params: dict[str, Any]) -> dict[str, str]:
    """Return the trace that a message is part of; what no header can have is left out."""
    meta: Any = params.get("_meta")
    if not is_object(meta) or meta.keys().isdisjoint(_TRACE):
        return {}
    found = {key: meta[key] for key in _TRACE if isinstance(meta.get(key), str)}
    return {key: text for key, text in found.items() if text.isascii() and text.isprintable()}


def get_headers(revision: Revision, session: str | None) -> dict[str, str]:
    """Return the headers of the GET that opens an SSE stream, or of the DELETE that ends the session."""
    headers = {"accept": EVENT_STREAM}
    if session is not None and not isinstance(revision.lifecycle, Stateless):
        headers[SESSION_ID] = session
    if revision.http.version_header:
        headers[PROTOCOL_VERSION] = revision.id
    return headers


def _parameter_headers(method: str, params: dict[str, Any], revision: Revision, paths: ArgumentPaths) -> dict[str, str]:
    """Return the headers that repeat properties of the params: Mcp-Name and Mcp-Param-*."""
    name = params.get(revision.http.name_params.get(method, ""))
    headers = {NAME: encode_value(name)} if isinstance(name, str) else {}
    for header, path in paths.items():
        if (text := header_text(argument_at(params.get(revision.name_of(ARGUMENTS)), path))) is not None:
            headers[PARAM_PREFIX + header] = encode_value(text)
    return headers


def is_initialize(message: Outgoing, revision: Revision) -> bool:
    """Return True if this is the initialize request of the revision."""
    lifecycle = revision.lifecycle
    return (
        isinstance(lifecycle, Handshake)
        and isinstance(message, RequestMessage)
        and message.method == lifecycle.initialize_request.method
    )


def classify_response(status: int, content_type: str, has_request: bool, in_session: bool) -> ResponseKind:
    """Classify the response to a POST.

    `has_request` is True if the POST contained a request, `in_session` if it had a session id.
    """
    if status == 404 and in_session:
        return ResponseKind.SESSION_LOST
    if status >= 300 or status < 200:
        return ResponseKind.ERROR
    if not has_request:
        return ResponseKind.ACCEPTED
    # Any status of success may have a response, though the specification has 200 only: some servers say 201.
    match media_type(content_type):
        case "application/json":
            return ResponseKind.JSON
        case "text/event-stream":
            return ResponseKind.EVENTS
        case _:
            return ResponseKind.UNEXPECTED


def may_be_legacy_sse(status: int, revision: Revision) -> bool:
    """Return True if an error status of the initialize request may come from a server with the HTTP+SSE transport.

    The first revision with Streamable HTTP names all 4xx statuses; those about authorization, timeouts and rate limits
    are excluded here (https://modelcontextprotocol.io/specification/draft/basic/transports#backwards-compatibility).
    """
    if revision.http.version_header:
        return status in _LEGACY_STATUSES
    return 400 <= status < 500 and status not in _UNRELATED_STATUSES


def may_know_other_lifecycle(status: int | None, code: int, revision: Revision) -> bool:
    """Return True if an error response to the first request may come from a server with the other lifecycle.

    This excludes error codes that only a server with this lifecycle sends, redirects and authorization errors. Servers
    that know no other method fail in all ways, with 404 and 500 too. `code` is the JSON-RPC error code, 0 if there is
    none; `status` is the HTTP status, None on other transports.
    """
    statuses = revision.http.statuses
    if code in statuses and code not in _JSONRPC_CODES:
        return False
    return status is None or status == 200 or (status >= 400 and status not in _UNRELATED_STATUSES)


def is_session_id(id: str) -> bool:
    """Return True if a session id has only visible ASCII characters, and at most the allowed number of them."""
    return 0 < len(id) <= _MAX_SESSION_ID_LENGTH and all("!" <= character <= "~" for character in id)


def is_response_to(message: Message, id: Any) -> bool:
    """Return True if the message is the response to the request with this id, which is not a boolean."""
    return isinstance(message, ResultMessage | ErrorMessage) and (message.id == id or named_id(message.id, (id,)) == id)


def reconnect_delay(failures: int, retry: int | None, chance: float) -> float:
    """Return the seconds to wait before a stream is reopened after a number of consecutive failures.

    `retry` is the server's minimum in milliseconds; without it, the delay grows exponentially. `chance`, a random
    number from 0 to 1, spreads the reconnections of clients that lost their streams at the same time.
    """
    if retry is not None:
        minimum = min(max(retry / 1000, _MIN_DELAY), _MAX_RETRY)
        return minimum * (1 + 0.1 * chance) + (_backoff(failures - 1) if failures > 1 else 0)
    return _backoff(failures) * (0.5 + 0.5 * chance)


def _backoff(failures: int) -> float:
    return min(_FIRST_DELAY * 2.0 ** min(failures, 10), _MAX_DELAY)
