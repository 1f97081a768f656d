"""Bytes of one message go in, a JSON-RPC 2.0 message comes out, and the other way round; nothing of MCP is in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json, to_json

from .wire import is_object

Id = int | str

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603


@dataclass(frozen=True, slots=True)
class RequestMessage:
    id: Id
    method: str
    params: Any = None


@dataclass(frozen=True, slots=True)
class NotificationMessage:
    method: str
    params: Any = None


@dataclass(frozen=True, slots=True)
class ResultMessage:
    id: Id
    result: Any


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """`id` is None where the sender could not read the id of what it answers."""

    id: Id | None
    code: int
    message: str
    data: Any = None


Message = RequestMessage | NotificationMessage | ResultMessage | ErrorMessage


class Malformed(Exception):
    """Bytes that are no JSON-RPC message; `reply` is the error that says so to whoever sent them."""

    def __init__(self, code: int, message: str, id: Id | None = None) -> None:
        super().__init__(message)
        self.reply = ErrorMessage(id, code, message)


def decode(data: bytes) -> Message:
    """Read one message. Raises Malformed for anything else, with the id where one can be read."""
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as fault:
        raise Malformed(PARSE_ERROR, f"not JSON: {fault}") from None
    if not is_object(value):
        raise Malformed(INVALID_REQUEST, f"a message is an object, not {type(value).__name__}")
    return _message(value)


def _message(value: dict[str, Any]) -> Message:
    id = value.get("id")
    known = id if type(id) in (int, str) else None
    if value.get("jsonrpc") != "2.0":
        raise Malformed(INVALID_REQUEST, 'jsonrpc has to be "2.0"', known)
    if "id" in value and known is None and "error" not in value:
        raise Malformed(INVALID_REQUEST, "id has to be a string or an integer")
    method = value.get("method")
    if isinstance(method, str):
        params = value.get("params")
        if "params" in value and not is_object(params):
            raise Malformed(INVALID_REQUEST, "params has to be an object", known)
        return NotificationMessage(method, params) if known is None else RequestMessage(known, method, params)
    if "result" in value and "error" not in value and known is not None:
        return ResultMessage(known, value["result"])
    error = value.get("error")
    if is_object(error) and "result" not in value:
        code, text = error.get("code"), error.get("message")
        if type(code) is int and isinstance(text, str):
            return ErrorMessage(known, code, text, error.get("data"))
    raise Malformed(INVALID_REQUEST, "neither a request nor a notification nor a response", known)


def encode(message: Message) -> bytes:
    """The message as one line of JSON, without a line end."""
    return to_json(_frame(message), by_alias=True, inf_nan_mode="strings")


def _frame(message: Message) -> Mapping[str, Any]:
    match message:
        case RequestMessage(id, method, None):
            return {"jsonrpc": "2.0", "id": id, "method": method}
        case RequestMessage(id, method, params):
            return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        case NotificationMessage(method, None):
            return {"jsonrpc": "2.0", "method": method}
        case NotificationMessage(method, params):
            return {"jsonrpc": "2.0", "method": method, "params": params}
        case ResultMessage(id, result):
            return {"jsonrpc": "2.0", "id": id, "result": result}
        case ErrorMessage(id, code, text, data):
            error = {"code": code, "message": text} | ({} if data is None else {"data": data})
            return ({} if id is None else {"id": id}) | {"jsonrpc": "2.0", "error": error}
