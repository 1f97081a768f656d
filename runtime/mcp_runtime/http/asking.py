"""What a client sends over HTTP, and what a server answered, go in; headers and verdicts come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from ..jsonrpc import (
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
from ..spec import Handshake, Revision, Stateless
from ..wire import is_list, is_object
from .headers import EVENTS, JSON, METHOD, NAME, PARAMETER, SESSION, VERSION, encode_value, media_type
from .rules import argument_at, repeated, text_of

Paths = Mapping[str, tuple[str, ...]]

_ACCEPT: Final = f"{JSON}, {EVENTS}"
SPOKEN: Final = "mcp.spoken"  # The extension of a request of httpx2 that says what is spoken; it is not sent.

_LONGEST_SESSION: Final = 4096  # Characters; tokens of several hundred are in use as ids.
_PLAIN: Final = (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR)
_OLDER: Final = (400, 404, 405)  # What a server of the older pair of endpoints answers a POST with.
_FINAL: Final = (401, 403, 407, 408, 429)  # Says nothing about what a server speaks.
_FIRST_DELAY: Final = 0.5  # Seconds.
_LONGEST_DELAY: Final = 30.0
_LEAST_DELAY: Final = 0.01
_LONGEST_RETRY: Final = 300.0  # A server does not say that a client is to wait for ever.


@dataclass(frozen=True, slots=True)
class Spoken:
    """The revision that an HTTP request is of; until one is agreed, `others` that its server may be of instead."""

    revision: Revision
    others: Callable[[], Iterable[Revision]] = tuple


class Answer(Enum):
    """How a POST was answered."""

    JSON = "one message"
    EVENTS = "a stream"
    TAKEN = "accepted"
    LOST = "the session is gone"
    REFUSED = "refused"
    WRONG = "not an answer"


@dataclass(frozen=True, slots=True)
class Tools:
    """The result of a list without the tools whose annotations are not allowed; the paths of the others by name;
    and what was left out, with the reason."""

    kept: list[Any]
    paths: Mapping[str, Paths]
    left_out: Mapping[str, str]


def headers_for(
    message: Message | list[Message] | None, revision: Revision, session: str | None, paths: Paths
) -> dict[str, str]:
    """The headers of a POST; of a GET or DELETE where there is no message."""
    headers = {"accept": EVENTS} if message is None else {"accept": _ACCEPT, "content-type": JSON}
    stateless = isinstance(revision.lifecycle, Stateless)
    if session is not None and not stateless:
        headers[SESSION] = session
    if revision.http.version_header and not is_opening(message, revision):
        headers[VERSION] = revision.id
    if stateless and isinstance(message, (RequestMessage, NotificationMessage)):
        headers[METHOD] = message.method
        headers |= _repeated_in(message, revision, paths)
    return headers


def _repeated_in(message: RequestMessage | NotificationMessage, revision: Revision, paths: Paths) -> dict[str, str]:
    """The headers that repeat a name, and arguments, of the params."""
    params: dict[str, Any] = message.params if is_object(message.params) else {}
    name = params.get(revision.http.names.get(message.method, ""))
    found = {NAME: encode_value(name)} if isinstance(name, str) else {}
    for header, path in paths.items():
        text = text_of(argument_at(params.get("arguments"), path))
        if text is not None:
            found[PARAMETER + header] = encode_value(text)
    return found


def is_opening(message: Message | list[Message] | None, revision: Revision) -> bool:
    """Whether this is the request that opens a session."""
    lifecycle = revision.lifecycle
    return (
        isinstance(lifecycle, Handshake)
        and isinstance(message, RequestMessage)
        and message.method == lifecycle.open.method
    )


def judge(status: int, content_type: str, asked: bool, in_session: bool) -> Answer:
    """How a POST was answered; `asked` tells that it held a request, `in_session` that it named a session."""
    if status == 404 and in_session:
        return Answer.LOST
    if status >= 300 or status < 200:
        return Answer.REFUSED
    if not asked:
        return Answer.TAKEN
    if status != 200:
        return Answer.WRONG  # A request is not merely accepted.
    match media_type(content_type):
        case "application/json":
            return Answer.JSON
        case "text/event-stream":
            return Answer.EVENTS
        case _:
            return Answer.WRONG


def is_older(status: int, revision: Revision) -> bool:
    """Whether a refusal of the opening request may come from a server of the older pair of endpoints. The first
    revision with one endpoint says: any refusal of this class that is not about who asks, or how often."""
    if revision.http.version_header:
        return status in _OLDER
    return 400 <= status < 500 and status not in _FINAL


def speaks_otherwise(status: int | None, code: int, revision: Revision) -> bool:
    """Whether an error (0 for none) that answers the first request says that the server may know another lifecycle:
    it is not one that only a server of this lifecycle gives, nor about who asks, nor that something broke.
    `status` is that of HTTP, None over another transport."""
    statuses = revision.http.statuses
    if code in statuses and code not in _PLAIN:
        return False
    if status is None or status == 200:
        return True
    if code == METHOD_NOT_FOUND and status == 404:
        return False
    return 400 <= status < 500 and status not in _FINAL


def is_session(id: str) -> bool:
    """Whether a session id has visible ASCII characters alone, and not too many of them."""
    return 0 < len(id) <= _LONGEST_SESSION and all("!" <= character <= "~" for character in id)


def answers(message: Message, id: Any) -> bool:
    """Whether this is the answer to the request with this id."""
    return isinstance(message, (ResultMessage, ErrorMessage)) and type(message.id) is type(id) and message.id == id


def delay(failures: int, retry: int | None, chance: float) -> float:
    """Seconds to wait before a stream is opened again, after so many failures in a row: what the server said in
    milliseconds, at least; else longer each time. `chance`, from 0 to 1, spreads clients that all lost it at once."""
    if retry is not None:
        least = min(max(retry / 1000, _LEAST_DELAY), _LONGEST_RETRY)
        return least * (1 + 0.1 * chance) + (_backoff(failures - 1) if failures > 1 else 0)
    return _backoff(failures) * (0.5 + 0.5 * chance)


def _backoff(failures: int) -> float:
    return min(_FIRST_DELAY * 2.0 ** min(failures, 10), _LONGEST_DELAY)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL. Raises ValueError."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or usual


def follows(status: int, method: str, url: str, target: str) -> bool:
    """Whether a redirect is followed: to the same origin and with the same method alone, because what is sent has
    credentials in it."""
    if status not in (307, 308) and not (status in (301, 302, 303) and method == "GET"):
        return False
    try:
        return origin(url) == origin(target)
    except ValueError:
        return False


def plain(url: str) -> str:
    """A URL as it may stand in an error or a log: without user, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def read_tools(listed: Any) -> Tools:
    """What a list of tools says of the headers that repeat their arguments."""
    kept: list[Any] = []
    paths: dict[str, Paths] = {}
    left_out: dict[str, str] = {}
    for tool in listed if is_list(listed) else ():
        if not is_object(tool):
            kept.append(tool)
            continue
        name = str(tool.get("name"))
        try:
            paths[name] = repeated(tool.get("inputSchema"))
            kept.append(tool)
        except ValueError as fault:
            left_out[name] = str(fault)
    return Tools(kept, paths, left_out)
