"""A request's head and its parsed message go in; what HTTP has to say about them comes out, revision by revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ..protocol.jsonrpc import (
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
    accepts,
    media_type,
)

_VERSION: Final = f"{META}protocolVersion"
_METHODS: Final = ("GET", "POST", "DELETE")


class RequestKind(Enum):
    """What a POST belongs to."""

    INITIALIZE = "opening"
    SESSION = "session"
    STATELESS = "alone"


@dataclass(frozen=True, slots=True)
class ServedRevisions:
    """The revisions of one endpoint: `stateless` and `shaking` by their ids, oldest first; `opening` are the methods
    that open a session."""

    stateless: Mapping[str, Revision]
    stateful: Mapping[str, Revision]
    initialize_methods: frozenset[str]

    @classmethod
    def create(cls, revisions: Mapping[str, Revision]) -> ServedRevisions:
        stateless = {id: each for id, each in revisions.items() if isinstance(each.lifecycle, Stateless)}
        shaking = {id: each for id, each in revisions.items() if id not in stateless}
        lifecycles = [each.lifecycle for each in shaking.values()]
        opening = frozenset(each.initialize_request.method for each in lifecycles if isinstance(each, Handshake))
        return cls(stateless, shaking, opening)

    @property
    def newest_stateless(self) -> Revision:
        """The newest of those without sessions."""
        return list(self.stateless.values())[-1]

    @property
    def methods(self) -> str:
        """The HTTP methods that the endpoint serves, as in an Allow header."""
        return ", ".join(_METHODS) if self.stateful else "POST"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The headers but for the length; why the request is turned away before its path is looked at (`stranger`) and
    after (`turned`); whether its sender takes an answer as one JSON body; what a POST belongs to, where its headers tell.
    Without a session: the revision that they name; the `version`, the `method` and the `name` that they repeat, the last
    as it is meant, and which of the params `named` it is."""

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
    """What is wrong with the HTTP method, and with what it needs in its head."""
    if method not in _METHODS or (method != "POST" and not served.stateful):
        return HTTPError(405, f"this endpoint serves {served.methods}")
    if method == "POST":
        return _check_post(headers)
    if method == "GET" and not accepts(headers.get("accept"), EVENT_STREAM):
        return HTTPError(406, f"a GET is answered by {EVENT_STREAM} alone")
    if headers.get(PROTOCOL_VERSION) in served.stateless:
        return HTTPError(405, f"{headers[PROTOCOL_VERSION]} has POST alone")
    if SESSION_ID not in headers:
        return HTTPError(400, "no session is named")
    return _check_version(headers, served)


def _check_post(headers: Headers) -> HTTPError | None:
    if media_type(headers.get("content-type", "")) != JSON:
        return HTTPError(415, f"a message is {JSON}")
    if headers.get("content-encoding", "identity").lower() != "identity":
        return HTTPError(415, "a message comes without content coding")
    accept = headers.get("accept")
    if not accepts(accept, JSON) and not accepts(accept, EVENT_STREAM):
        return HTTPError(406, f"answers are {JSON} or {EVENT_STREAM}")
    return None


def _check_version(headers: Headers, served: ServedRevisions) -> HTTPError | None:
    version = headers.get(PROTOCOL_VERSION)
    if version is not None and version not in served.stateful:
        return HTTPError(400, f"no session speaks this revision; there are {', '.join(served.stateful)}")
    return None


def request_kind(headers: Headers, served: ServedRevisions) -> RequestKind | None:
    """What a POST belongs to, where its headers tell."""
    version = headers.get(PROTOCOL_VERSION)
    if version in served.stateful and SESSION_ID in headers:
        return RequestKind.SESSION
    return RequestKind.STATELESS if served.stateless and (version in served.stateless or not served.stateful) else None


def classify(head: RequestHead, message: Message | list[Message], served: ServedRevisions) -> RequestKind | HTTPError:
    """What a POST belongs to, where its headers do not tell: a session, the opening of one, or nothing but itself."""
    headers = head.headers
    if served.stateless and isinstance(message, (RequestMessage, NotificationMessage)):
        if _VERSION in _meta(message.params or {}):  # It says itself which revision it is of.
            return RequestKind.STATELESS
    if (
        isinstance(message, RequestMessage)
        and message.method in served.initialize_methods
        and SESSION_ID not in headers
    ):
        return RequestKind.INITIALIZE
    if (turned := _check_version(headers, served)) is not None:
        return turned
    if SESSION_ID in headers:
        return RequestKind.SESSION
    if isinstance(message, MalformedMessage):
        return HTTPError(400, message.message, message.code)
    return HTTPError(400, "a message that opens no session has to name one")


def _meta(params: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = params.get("_meta")
    return meta if is_object(meta) else {}


def check_stateless(
    head: RequestHead, message: Message | list[Message], served: ServedRevisions
) -> Revision | HTTPError:
    """The revision of a message that belongs to no session, if its headers say what its body says."""
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
    """What is wrong where a head and a body do not say the same, unless one of them may be silent."""
    if not isinstance(message, (RequestMessage, NotificationMessage)):
        return _reject_body(message, served)
    headers, revision = head.headers, head.revision
    params: Mapping[str, Any] = message.params or {}
    said = _meta(params).get(_VERSION)
    if PROTOCOL_VERSION not in headers:
        why = f"the header {PROTOCOL_VERSION} is missing"
    elif said != headers[PROTOCOL_VERSION] and isinstance(said, str):
        why = f"the header {PROTOCOL_VERSION} is not what the body says"
    elif revision is None:
        data = {"supported": list(served.stateless), "requested": headers[PROTOCOL_VERSION]}
        code = int(served.newest_stateless.constants["UNSUPPORTED_PROTOCOL_VERSION"])
        return HTTPError(400, "unsupported protocol version", code, data)
    elif headers.get(METHOD) != message.method and (isinstance(message, RequestMessage) or METHOD in headers):
        why = f"the header {METHOD} is not the method of the body"
    elif (
        (named := revision.http.name_params.get(message.method)) is None
        or (name := params.get(named)) == head.name
        or not isinstance(name, str)  # Params without one are wrong, which their own check will say.
    ):
        return revision
    else:
        why = f"the header {NAME} is not the {named} of the body"
    return HTTPError(400, why, int(served.newest_stateless.constants.get("HEADER_MISMATCH", INVALID_REQUEST)))


def _reject_body(message: Message | list[Message], served: ServedRevisions) -> HTTPError:
    """Why there is no use for what is neither a request nor a notification, and belongs to no session."""
    if is_list(message):
        return HTTPError(400, f"{served.newest_stateless.id} has no batches")
    if isinstance(message, MalformedMessage):
        return HTTPError(400, message.message, message.code)
    return HTTPError(400, "the server has asked nothing, so there is nothing to answer")


def status_of(code: int, revision: Revision) -> int:
    """The HTTP status that goes with an answer, by the code of its error, 0 for a result."""
    return revision.http.statuses.get(code, 200) if code else 200


def resume_position(headers: Headers) -> tuple[str, int] | HTTPError | None:
    """The stream that a GET goes on with, and the number of the last event of it that arrived; None for no stream."""
    last = headers.get(LAST_EVENT_ID)
    if last is None:
        return None
    stream, dash, number = last.rpartition("-")
    if not dash or not number.isascii() or not number.isdigit() or len(number) > 15:
        return HTTPError(400, "the Last-Event-ID is none of this server's", INVALID_PARAMS)
    return stream, int(number)
