"""JSON-RPC 2.0: decode and encode messages (https://www.jsonrpc.org/specification). Nothing here is specific to MCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import SchemaSerializer, from_json, to_json

from ..usage.texts import unwritable
from .framing import BOM, OversizedMessage
from .json_text import (
    DIGITS_AS_ZERO,
    LONG,
    MANY_DIGITS,
    MAX_PARTS,
    has_more_parts,
    is_finite,
    is_json,
    may_have_infinity,
    require_finite,
)
from .models import is_list, is_object

if TYPE_CHECKING:
    from pydantic import BaseModel

Id = int | str

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MAX_BATCH: Final = 1000  # The default limit of the messages of a batch.

_MAX_DIGITS: Final = 15  # Of a number that is written as a text.
_MAX_ID_LENGTH: Final = 1024  # Characters. A response repeats the id, so the peer must not choose its size freely.

_ID: Final = rb'"id"\s*:\s*(?P<id>0|[1-9]\d{0,14}|"[!#-\[\]-~]{0,%d}")\s*' % _MAX_ID_LENGTH
_RESPONSE: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:%b,\s*)?"(?:result|error)"\s*:' % _ID)
_REQUEST: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:%b,\s*)?"method"\s*:' % _ID)
_LAST_ID: Final = re.compile(rb",\s*%b\}\s*\Z" % _ID)


@dataclass(slots=True)
class RequestMessage:
    """A request; `params` is an object, or None if it is absent or null."""

    id: Id
    method: str
    params: Any = None


@dataclass(slots=True)
class NotificationMessage:
    """A notification; `params` is an object, or None if it is absent or null."""

    method: str
    params: Any = None


@dataclass(slots=True)
class ResultMessage:
    """A response with a result."""

    id: Id
    result: Any


@dataclass(slots=True)
class ErrorMessage:
    """A response with an error; `id` is None if its sender could not read the id of the request."""

    id: Id | None
    code: int
    message: str
    data: Any = None


@dataclass(slots=True)
class MalformedMessage:
    """An invalid message. `id` is its id, None if it has no valid id.

    `is_response` is True if the message looks like a response: it then settles a pending request, and no error response
    is sent for it. It is None if the message could be either. `is_too_large` is True if the message exceeds a limit.
    """

    code: int
    message: str
    id: Id | None = None
    is_response: bool | None = False
    is_too_large: bool = False


Message = RequestMessage | NotificationMessage | ResultMessage | ErrorMessage | MalformedMessage


class OutgoingMessage(NamedTuple):
    """A message of ours and its bytes, for transports that read more of it than the bytes; `message` is None for a
    response."""

    message: RequestMessage | NotificationMessage | None
    encoded: bytes


def decode(data: bytes, max_parts: int = MAX_PARTS, max_batch: int = MAX_BATCH) -> Message | list[Message]:
    """Decode one message or a batch. Does not raise: an invalid message is returned as MalformedMessage.

    The limits are checked first: those of parts before anything is parsed, those of a batch before its items are read.
    """
    if len(data) > max_parts and has_more_parts(data, max_parts):
        return reject_parts(data, max_parts)
    try:
        value = from_json(data.removeprefix(BOM), allow_inf_nan=False)
    except ValueError as error:
        if is_json(data):  # Whoever sent it waits for an answer to its id.
            has_digits = b"0" * 4301 in data.translate(DIGITS_AS_ZERO)  # The parser reads no more digits, as Python.
            return _reject_large(data, f"JSON that cannot be read here: {error}", has_digits)
        id = id_of_response(data)
        return MalformedMessage(PARSE_ERROR, f"not JSON: {error}", id, id is not None)
    digits = data.translate(DIGITS_AS_ZERO) if len(data) <= LONG else b""
    # `rpartition` takes one argument, which costs less than `rfind`; from the end, digits are passed in larger steps.
    if (
        (digits.rpartition(b"0e")[1] or (len(digits) > 308 and MANY_DIGITS in digits))
        if digits
        else may_have_infinity(data)
    ) and not is_finite(value):
        return _reject_infinity(value)
    if is_object(value):
        return read(value)
    if not is_list(value):
        return _reject_non_object(value)
    if len(value) > max_batch:
        return MalformedMessage(INVALID_REQUEST, f"a batch has at most {max_batch} messages", is_too_large=True)
    messages = [read(item) if is_object(item) else _reject_non_object(item) for item in value]
    return messages or MalformedMessage(INVALID_REQUEST, "a batch must not be empty")


def id_of_response(data: bytes) -> Id | None:
    """Return the id of a response that cannot be parsed, such as one that is nested too deep, or of which only the
    beginning and the end were stored; None for other messages.

    The id is next to the result or the error, or at the end.
    """
    return _id_of(_RESPONSE, data)


def reject_oversized(message: OversizedMessage) -> MalformedMessage:
    """Return the malformed message for one that is longer than the limit."""
    return _reject_large(message, message.reason)


def reject_parts(data: bytes, max_parts: int) -> MalformedMessage:
    """Return the malformed message for one with too many values."""
    remedy = "send less at once; HTTPLimits(max_parts=…) of a server over HTTP raises it"
    return _reject_large(data, f"a message has at most {max_parts} values, a member of an object counts as 4: {remedy}")


def _reject_large(data: bytes, reason: str, is_too_large: bool = True) -> MalformedMessage:
    """Return the malformed message for one that is not read. The id of a request is next to its method, or at the end,
    as that of a response."""
    id = id_of_response(data)
    whose = (id, True) if id is not None else (_id_of(_REQUEST, data), False)
    return MalformedMessage(INVALID_REQUEST, reason, *whose, is_too_large)


def _id_of(form: re.Pattern[bytes], data: bytes) -> Id | None:
    match = form.match(data)
    if match is not None and match["id"] is None:
        match = _LAST_ID.search(data, max(len(data) - _MAX_ID_LENGTH - 64, 0))
    id: Id | None = None if match is None else from_json(match["id"])
    return id


def _reject_infinity(value: Any) -> MalformedMessage:
    """Return the malformed message for a message or a batch with a number such as 1e400, which is read as infinity."""
    message = read(value) if is_object(value) else None
    if isinstance(message, MalformedMessage):
        return message
    id = None if message is None or isinstance(message, NotificationMessage) else message.id
    is_response = isinstance(message, ResultMessage | ErrorMessage)
    return MalformedMessage(INVALID_REQUEST, "a number is too large: 1.8e308 is the limit", id, is_response)


def _reject_non_object(value: object) -> MalformedMessage:
    return MalformedMessage(INVALID_REQUEST, f"a message must be an object, not {type(value).__name__}")


def read(value: dict[str, Any]) -> Message:
    """Return the message that a parsed JSON object represents."""
    id, method, params = value.get("id"), value.get("method"), value.get("params")
    valid_id = id if type(id) is int or (type(id) is str and len(id) <= _MAX_ID_LENGTH) else None
    if value.get("jsonrpc") != "2.0":
        is_response = False if "method" in value else ("result" in value or "error" in value) or None
        return MalformedMessage(INVALID_REQUEST, 'jsonrpc has to be "2.0"', valid_id, is_response)
    if not isinstance(method, str):
        return _read_response(value, valid_id)
    if type(params) is not dict and params is not None:  # Libraries of several languages write null for no params.
        return MalformedMessage(INVALID_REQUEST, "params has to be an object", valid_id)
    if valid_id is not None:
        return RequestMessage(valid_id, method, params)
    if "id" in value:
        return MalformedMessage(
            INVALID_REQUEST, f"id has to be an integer or a string of at most {_MAX_ID_LENGTH} characters"
        )
    return NotificationMessage(method, params)


def named_id(id: Id | None, known: Container[Id | None]) -> Id | None:
    """Return which of the known ids an id of a response names, None if it names none.

    Some servers write the number of a request as a text. The official clients take it as well.
    """
    return next((each for each in (id, _number(id)) if each in known), None)


def _number(value: object) -> int | None:
    """Return a number that may be written as a text; None if it is none."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= _MAX_DIGITS:
        return int(value)
    return value if type(value) is int else None


def _read_response(value: dict[str, Any], id: Id | None) -> Message:
    if value.get("method") is not None or ("result" not in value and "error" not in value):
        is_response = False if "method" in value else None
        return MalformedMessage(INVALID_REQUEST, "method has to be a string", id, is_response)
    error = value.get("error")  # Of the member that a response does not have, null says the same as its absence.
    if error is None and "result" in value and id is not None:
        return ResultMessage(id, value["result"])
    if value.get("result") is None and (message := _read_error(id, error)) is not None:
        return message
    return MalformedMessage(
        INVALID_REQUEST, "a response must have an id, and either a result or an error with code and message", id, True
    )


def _read_error(id: Id | None, error: object) -> ErrorMessage | None:
    """Return the message of an error, None if it says nothing. Whoever waits for it reads what it says, although its
    code is a text, or only one of code and text is there."""
    if not is_object(error):
        return ErrorMessage(id, INTERNAL_ERROR, error) if isinstance(error, str) else None
    code, text = _number(error.get("code")), error.get("message")
    if code is None and not isinstance(text, str):
        return None
    words = text if isinstance(text, str) else ""
    return ErrorMessage(id, INTERNAL_ERROR if code is None else code, words, error.get("data"))


# ---- writing --------------------------------------------------------------------------------------------------------


class _Writers(dict[type[Any], Callable[[Any], bytes]]):
    """What writes values of a class as JSON: a look-up here costs less than one in a model, which has `__getattr__`."""

    def __missing__(self, cls: type[Any]) -> Callable[[Any], bytes]:
        serializer = getattr(cls, "__pydantic_serializer__", None)
        if serializer is not None and type(serializer) is not SchemaSerializer:
            return _write_first  # The serializer of the class is built now.
        # Pydantic would warn of content of an unknown type, with all that is in it.
        write: Callable[[Any], bytes] = (
            partial(to_json, by_alias=True) if serializer is None else partial(serializer.to_json, warnings=False)
        )
        self[cls] = write
        return write


def _write_first(value: Any) -> bytes:
    written: bytes = value.__pydantic_serializer__.to_json(value, warnings=False)
    return written


_WRITERS: Final = _Writers()


def serialize(value: Any) -> bytes:
    """Serialize a model or plain JSON. Raises ValueError for values that JSON cannot express, such as NaN; its message
    names the place and the reason."""
    try:
        written = _WRITERS[type(value)](value)
    except ValueError as error:
        raise ValueError(unwritable(value, _is_writable) or str(error)) from None
    # NaN, infinity, or a NaN that became null? The words may be part of a string. To look for one byte costs least.
    if (
        (b"N"[0] in written and b"NaN" in written)
        or (b"I"[0] in written and b"Infinity" in written)
        or written.partition(b"null")[1]
    ):
        try:
            require_finite(written, value)
        except ValueError as error:
            raise ValueError(unwritable(value) or str(error)) from None
    return written


def _is_writable(value: object) -> bool:
    try:
        to_json(value)
    except ValueError:
        return False
    return True


def to_plain(model: BaseModel) -> Any:
    """Return a model as plain JSON values."""
    return model.__pydantic_serializer__.to_python(model)


def request(id: Id, method: str, params: Any) -> bytes:
    """Encode a request; without params if they are None."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b%b}' % (to_json(id), to_json(method), _member(b"params", params))


def notification(method: str, params: Any) -> bytes:
    """Encode a notification; without params if they are None."""
    return b'{"jsonrpc":"2.0","method":%b%b}' % (to_json(method), _member(b"params", params))


def result(id: Id, value: Any, meta: bytes = b"") -> bytes:
    """Encode a result response; `meta` is the serialized `_meta` to add to a result without `_meta`."""
    body, name = serialize(value), b"%d" % id if type(id) is int else to_json(id)
    if not meta:
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (name, body)
    comma = b"" if body == b"{}" else b","
    return b'{"jsonrpc":"2.0","id":%b,"result":{"_meta":%b%b%b}' % (name, meta, comma, body[1:])


def error(id: Id | None, code: int, message: str, data: Any = None, null_id: bool = False) -> bytes:
    """Encode an error response. If `id` is None, `id` is absent, or null if `null_id` is True."""
    id_member = b"" if id is None and not null_id else b'"id":%b,' % to_json(id)
    return b'{"jsonrpc":"2.0",%b"error":{"code":%d,"message":%b%b}}' % (
        id_member,
        code,
        to_json(message),
        _member(b"data", data),
    )


def batch(messages: list[bytes]) -> bytes:
    """Encode a batch of encoded messages."""
    return b"[%b]" % b",".join(messages)


def _member(name: bytes, value: Any) -> bytes:
    return b"" if value is None else b',"%b":%b' % (name, serialize(value))
