"""What a client sends over HTTP, and what a server answered, go in; headers and verdicts come out."""

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
)
from ..protocol.models import is_object
from ..protocol.revision import Handshake, Revision, Stateless
from .headers import (
    EVENT_STREAM,
    JSON,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    encode_value,
    media_type,
)
from .param_headers import ArgumentPaths, argument_at, header_text

Outgoing = RequestMessage | NotificationMessage | None  # None for a response.

_ACCEPT: Final = f"{JSON}, {EVENT_STREAM}"
REVISION_EXTENSION: Final = (
    "mcp.spoken"  # The extension of a request of httpx2 that says what is spoken; it is not sent.
)
_MAX_SESSION_ID_LENGTH: Final = 4096  # Characters; tokens of several hundred are in use as ids.
_JSONRPC_CODES: Final = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)
_LEGACY_STATUSES: Final = (400, 404, 405)  # What a server of the older pair of endpoints answers a POST with.
_UNRELATED_STATUSES: Final = (401, 403, 407, 408, 429)  # Says nothing about what a server speaks.
_FIRST_DELAY: Final = 0.5  # Seconds.
_MAX_DELAY: Final = 30.0
_MIN_DELAY: Final = 0.01
_MAX_RETRY: Final = 300.0  # A server does not say that a client is to wait for ever.


@dataclass(frozen=True, slots=True)
class NegotiatedRevision:
    """The revision that an HTTP request is of; until one is agreed, `others` that its server may be of instead."""

    revision: Revision
    alternatives: Callable[[], Iterable[Revision]] = tuple


class ResponseKind(Enum):
    """How a POST was answered."""

    JSON = "one message"
    EVENTS = "a stream"
    ACCEPTED = "accepted"
    SESSION_LOST = "the session is gone"
    ERROR = "refused"
    UNEXPECTED = "not an answer"


def post_headers(message: Outgoing, revision: Revision, session: str | None, paths: ArgumentPaths) -> dict[str, str]:
    """Return the headers of the POST that sends a message, None for a response."""
    headers = {
        "accept": _ACCEPT,
        "content-type": JSON,
        **_common_headers(revision, session, is_initialize(message, revision)),
    }
    if message is not None and isinstance(revision.lifecycle, Stateless):
        headers[METHOD] = message.method
        headers |= _parameter_headers(message, revision, paths)
    return headers


def get_headers(revision: Revision, session: str | None) -> dict[str, str]:
    """Return the headers of the GET that opens an SSE stream, or of the DELETE that ends the session."""
    return {"accept": EVENT_STREAM, **_common_headers(revision, session, False)}


def _common_headers(revision: Revision, session: str | None, initializes: bool) -> dict[str, str]:
    headers: dict[str, str] = {}
    if session is not None and not isinstance(revision.lifecycle, Stateless):
        headers[SESSION_ID] = session
    if revision.http.version_header and not initializes:
        headers[PROTOCOL_VERSION] = revision.id
    return headers


def _parameter_headers(
    message: RequestMessage | NotificationMessage, revision: Revision, paths: ArgumentPaths
) -> dict[str, str]:
    """The headers that repeat a name, and arguments, of the params."""
    params: dict[str, Any] = message.params if is_object(message.params) else {}
    name = params.get(revision.http.name_params.get(message.method, ""))
    found = {NAME: encode_value(name)} if isinstance(name, str) else {}
    for header, path in paths.items():
        text = header_text(argument_at(params.get("arguments"), path))
        if text is not None:
            found[PARAM_PREFIX + header] = encode_value(text)
    return found


def is_initialize(message: Outgoing, revision: Revision) -> bool:
    """Whether this is the request that opens a session."""
    lifecycle = revision.lifecycle
    return (
        isinstance(lifecycle, Handshake)
        and isinstance(message, RequestMessage)
        and message.method == lifecycle.initialize_request.method
    )


def classify_response(status: int, content_type: str, has_request: bool, in_session: bool) -> ResponseKind:
    """How a POST was answered; `asked` tells that it held a request, `in_session` that it named a session."""
    if status == 404 and in_session:
        return ResponseKind.SESSION_LOST
    if status >= 300 or status < 200:
        return ResponseKind.ERROR
    if not has_request:
        return ResponseKind.ACCEPTED
    if status != 200:
        return ResponseKind.UNEXPECTED  # A request is not merely accepted.
    match media_type(content_type):
        case "application/json":
            return ResponseKind.JSON
        case "text/event-stream":
            return ResponseKind.EVENTS
        case _:
            return ResponseKind.UNEXPECTED


def may_be_legacy_sse(status: int, revision: Revision) -> bool:
    """Whether a refusal of the opening request may come from a server of the older pair of endpoints. The first
    revision with one endpoint says: any refusal of this class that is not about who asks, or how often."""
    if revision.http.version_header:
        return status in _LEGACY_STATUSES
    return 400 <= status < 500 and status not in _UNRELATED_STATUSES


def may_know_other_lifecycle(status: int | None, code: int, revision: Revision) -> bool:
    """Whether an error (0 for none) that answers the first request says that the server may know another lifecycle:
    it is not one that only a server of this lifecycle gives, nor about who asks, nor that something broke.
    `status` is that of HTTP, None over another transport."""
    statuses = revision.http.statuses
    if code in statuses and code not in _JSONRPC_CODES:
        return False
    if status is None or status == 200:
        return True
    if code == METHOD_NOT_FOUND and status == 404:
        return False
    return 400 <= status < 500 and status not in _UNRELATED_STATUSES


def is_session_id(id: str) -> bool:
    """Whether a session id has visible ASCII characters alone, and not too many of them."""
    return 0 < len(id) <= _MAX_SESSION_ID_LENGTH and all("!" <= character <= "~" for character in id)


def is_response_to(message: Message, id: Any) -> bool:
    """Whether this is the answer to the request with this id."""
    return isinstance(message, (ResultMessage, ErrorMessage)) and type(message.id) is type(id) and message.id == id


def reconnect_delay(failures: int, retry: int | None, chance: float) -> float:
    """Seconds to wait before a stream is opened again, after so many failures in a row: what the server said in
    milliseconds, at least; else longer each time. `chance`, from 0 to 1, spreads clients that all lost it at once."""
    if retry is not None:
        least = min(max(retry / 1000, _MIN_DELAY), _MAX_RETRY)
        return least * (1 + 0.1 * chance) + (_backoff(failures - 1) if failures > 1 else 0)
    return _backoff(failures) * (0.5 + 0.5 * chance)


def _backoff(failures: int) -> float:
    return min(_FIRST_DELAY * 2.0 ** min(failures, 10), _MAX_DELAY)
