"""The HTTP rules of a server: which requests it rejects, and which revision and session a POST belongs to.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Any, Final

from pydantic_core import from_json

from ..protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MalformedMessage,
    Message,
    NotificationMessage,
    RequestMessage,
)
from ..protocol.models import is_list, is_object
from ..protocol.revision import META, Handshake, Revision, Stateless
from .headers import (
    EVENT_STREAM,
    JSON,
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PROTOCOL_VERSION,
    SESSION_ID,
    Headers,
    HTTPError,
    Raw,
    accepts,
    decode_value,
    media_type,
    read_headers,
)
from .origins import OriginPolicy

_VERSION: Final = f"{META}protocolVersion"
_METHODS: Final = ("GET", "POST", "DELETE")
LENGTH: Final = b"content-length"


class RequestKind(Enum):
    """The kind of a POST: an initialize request, a message of a session, or a stateless message."""

    INITIALIZE = "initialize request"
    SESSION = "session message"
    STATELESS = "stateless message"


@dataclass(frozen=True, slots=True)
class ServedRevisions:
    """The revisions that one endpoint serves: `stateless` and `stateful` by id, oldest first, and the methods of the
    requests that open a session. `sessions` is False if stateful revisions are served without sessions."""

    stateless: Mapping[str, Revision]
    stateful: Mapping[str, Revision]
    initialize_methods: frozenset[str]
    sessions: bool = True

    @classmethod
    def create(cls, revisions: Mapping[str, Revision], *, sessions: bool = True) -> ServedRevisions:
        """Group revisions by lifecycle."""
        stateless = {id: revision for id, revision in revisions.items() if isinstance(revision.lifecycle, Stateless)}
        stateful = {id: revision for id, revision in revisions.items() if id not in stateless}
        lifecycles = [revision.lifecycle for revision in stateful.values()]
        methods = frozenset(
            lifecycle.initialize_request.method for lifecycle in lifecycles if isinstance(lifecycle, Handshake)
        )
        return cls(stateless, stateful, methods, sessions)

    @property
    def newest_stateless(self) -> Revision:
        """The newest stateless revision."""
        return list(self.stateless.values())[-1]

    @property
    def methods(self) -> str:
        """The HTTP methods that the endpoint serves, as the value of an Allow header."""
        return ", ".join(_METHODS) if self.stateful and self.sessions else "POST"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The parsed and checked head of a request.

    `headers` are without Content-Length. `origin_error` is the error of Host and Origin, checked before the path;
    `error` is the first error of all checks. `accepts_json` is True if the client accepts a JSON response. `kind` is
    the kind of a POST if its headers determine it. For stateless requests, `revision` is the revision of the
    MCP-Protocol-Version header; `protocol_version`, `method` and `name` are the values of the headers that repeat the
    body, and `name_param` is the property of the params that `name` repeats.
    """

    headers: Headers
    origin_error: HTTPError | None
    error: HTTPError | None
    accepts_json: bool = True
    kind: RequestKind | None = None
    revision: Revision | None = None
    protocol_version: str | None = None
    method: str = ""
    name: str | None = None
    name_param: str | None = None


def check_method(method: str, headers: Headers, served: ServedRevisions) -> HTTPError | None:
    """Return the error of the HTTP method or of the headers that it needs, None if they are valid."""
    if method not in _METHODS or (method != "POST" and not (served.stateful and served.sessions)):
        return HTTPError(405, f"this endpoint allows only {served.methods}")
    if method == "POST":
        return _check_post(headers)
    if method == "GET" and not accepts(headers.get("accept"), EVENT_STREAM):
        return HTTPError(406, f"a GET request must accept {EVENT_STREAM}")
    if headers.get(PROTOCOL_VERSION) in served.stateless:
        return HTTPError(405, f"{headers[PROTOCOL_VERSION]} allows only POST")
    if SESSION_ID not in headers:
        return HTTPError(400, f"the header {SESSION_ID} is missing")
    return _check_version(headers, served)


def _check_post(headers: Headers) -> HTTPError | None:
    if media_type(headers.get("content-type", "")) != JSON:
        return HTTPError(415, f"the content type of a message must be {JSON}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        return HTTPError(415, "content codings are not supported; send the message without Content-Encoding")
    accept = headers.get("accept")
    if not accepts(accept, JSON) and not accepts(accept, EVENT_STREAM):
        return HTTPError(406, f"a POST request must accept {JSON} or {EVENT_STREAM}")
    return None


def _check_version(headers: Headers, served: ServedRevisions) -> HTTPError | None:
    version = headers.get(PROTOCOL_VERSION)
    if version is not None and version not in served.stateful:
        return HTTPError(400, f"no session uses this protocol version; supported are {', '.join(served.stateful)}")
    return None


def request_kind(headers: Headers, served: ServedRevisions) -> RequestKind | None:
    """Return the kind of a POST if its headers determine it, else None."""
    version = headers.get(PROTOCOL_VERSION)
    if version in served.stateful and SESSION_ID in headers and served.sessions:
        return RequestKind.SESSION
    return RequestKind.STATELESS if served.stateless and (version in served.stateless or not served.stateful) else None


def classify(head: RequestHead, message: Message | list[Message], served: ServedRevisions) -> RequestKind | HTTPError:
    """Return the kind of a POST whose headers do not determine it, or the error to reject it with."""
    headers = head.headers
    if served.stateless and isinstance(message, (RequestMessage, NotificationMessage)):
        if _VERSION in _meta(message.params or {}):  # The body carries its protocol version.
            return RequestKind.STATELESS
    if (
        isinstance(message, RequestMessage)
        and message.method in served.initialize_methods
        and (SESSION_ID not in headers or not served.sessions)
    ):
        return RequestKind.INITIALIZE
    if (error := _check_version(headers, served)) is not None:
        return error
    if SESSION_ID in headers or not served.sessions:
        return RequestKind.SESSION
    if isinstance(message, MalformedMessage):
        return HTTPError(400, message.message, message.code)
    return HTTPError(400, f"the header {SESSION_ID} is missing; only an initialize request may omit it")


def _meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = params.get("_meta")
    return meta if is_object(meta) else {}


def check_stateless(
    head: RequestHead, message: Message | list[Message], served: ServedRevisions
) -> Revision | HTTPError:
    """Return the revision of a stateless message, or the error if its headers do not match its body."""
    if isinstance(message, RequestMessage) and (params := message.params) is not None:
        if (
            message.method == head.method
            and params.get(head.name_param) == head.name
            and is_object(meta := params.get("_meta"))
            and meta.get(_VERSION) == head.protocol_version
            and head.revision is not None
        ):
            return head.revision
    return _describe_mismatch(head, message, served)


def _describe_mismatch(
    head: RequestHead, message: Message | list[Message], served: ServedRevisions
) -> Revision | HTTPError:
    """Return the error of a message whose headers do not match its body, or its revision if the difference is
    allowed."""
    if not isinstance(message, (RequestMessage, NotificationMessage)):
        return _reject_body(message, served)
    headers, revision = head.headers, head.revision
    params: Mapping[str, Any] = message.params or {}
    version = _meta(params).get(_VERSION)
    if PROTOCOL_VERSION not in headers:
        reason = f"the header {PROTOCOL_VERSION} is missing"
    elif version != headers[PROTOCOL_VERSION] and isinstance(version, str):
        reason = f"the header {PROTOCOL_VERSION} does not match the version in the body"
    elif revision is None:
        data = {"supported": list(served.stateless), "requested": headers[PROTOCOL_VERSION]}
        code = int(served.newest_stateless.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return HTTPError(400, "unsupported protocol version", code, data)
    elif headers.get(METHOD) != message.method and (isinstance(message, RequestMessage) or METHOD in headers):
        reason = f"the header {METHOD} does not match the method in the body"
    elif (
        (named := revision.http.name_params.get(message.method)) is None
        or (name := params.get(named)) == head.name
        or not isinstance(name, str)  # Invalid params; their validation reports it.
    ):
        return revision
    else:
        reason = f"the header {NAME} does not match {named!r} in the body"
    return HTTPError(400, reason, int(served.newest_stateless.constants.get("HEADER_MISMATCH", INVALID_REQUEST)))


def _reject_body(message: Message | list[Message], served: ServedRevisions) -> HTTPError:
    """Return the error of a stateless body that is neither a request nor a notification."""
    if is_list(message):
        return HTTPError(400, f"{served.newest_stateless.id} has no batches")
    if isinstance(message, MalformedMessage):
        return HTTPError(400, message.message, message.code)
    return HTTPError(400, "a stateless endpoint sends no requests and accepts no responses")


def status_of(code: int, revision: Revision) -> int:
    """Return the HTTP status of a response with this JSON-RPC error code, or with a result if the code is 0."""
    return revision.http.statuses.get(code, 200) if code else 200


def retry_headers(code: int, response: bytes) -> Raw:
    """Return the `Retry-After` header of an error response whose data has the seconds to wait, as `retryAfter`.

    See https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    """
    if code != INTERNAL_ERROR or b'"retryAfter"' not in response:
        return ()
    error: Any = from_json(response).get("error")
    data = error.get("data") if is_object(error) else None
    seconds = data.get("retryAfter") if is_object(data) else None
    return ((b"retry-after", b"%d" % ceil(seconds)),) if isinstance(seconds, (int, float)) else ()


def resume_position(headers: Headers) -> tuple[str, int] | HTTPError | None:
    """Return the stream id and the event number of a Last-Event-ID header; None without the header."""
    last = headers.get(LAST_EVENT_ID)
    if last is None:
        return None
    stream, dash, number = last.rpartition("-")
    if not dash or not number.isascii() or not number.isdigit() or len(number) > 15:
        return HTTPError(400, "the Last-Event-ID was not issued by this server", INVALID_PARAMS)
    return stream, int(number)


# Request heads: parse the method and the headers of an HTTP request.


def parse_request_head(method: str, raw: Raw, policy: OriginPolicy, revisions: ServedRevisions) -> RequestHead:
    """Parse and check the head of a request.

    Args:
        method: The HTTP method.
        raw: The header fields of the ASGI scope, names in lower case.
        policy: The allowed values of Host and Origin.
        revisions: The revisions that the endpoint serves.

    The result has the error to reject the request with, if its head breaks a rule.
    """
    headers = read_headers(raw)
    if isinstance(headers, HTTPError):
        return RequestHead({}, headers, headers)
    origin_error = policy.check(headers)
    version, header_method, name = headers.get(PROTOCOL_VERSION), headers.get(METHOD, ""), headers.get(NAME)
    revision = revisions.stateless.get(version or "")
    return RequestHead(
        {name: text for name, text in headers.items() if name != "content-length"},
        origin_error,
        origin_error or check_method(method, headers, revisions),
        accepts(headers.get("accept"), JSON),
        request_kind(headers, revisions),
        revision,
        version,
        header_method,
        None if name is None else decode_value(name),
        None if revision is None else revision.http.name_params.get(header_method),
    )


class RequestHeadParser:
    """A parser of the heads of requests to one endpoint."""

    def __init__(self, policy: OriginPolicy, revisions: ServedRevisions) -> None:
        """Create a parser; the arguments are those of `parse_request_head`."""
        self._policy = policy
        self._revisions = revisions

    def read(self, method: str, raw: Raw) -> tuple[RequestHead, bytes]:
        """Return the parsed head, and the value of Content-Length, empty if the header is absent."""
        head = parse_request_head(method, raw, self._policy, self._revisions)
        return head, next((value for name, value in raw if name == LENGTH), b"")
