"""The rows of the method tables of a protocol, and what each side does with them: check params, call handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from pydantic import ValidationError
from pydantic_core import from_json

from mcp_runtime.errors import InvalidMessageError, JSONRPCError
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import OversizedMessage
from mcp_runtime.protocol.json_text import is_finite
from mcp_runtime.protocol.jsonrpc import MalformedMessage, NotificationMessage, RequestMessage
from mcp_runtime.protocol.models import format_validation_error, is_list, is_object, validator


@dataclass(slots=True)
class RequestRow:
    """A request: its method, and the types of its params and of its result; None for none.

    `positions` are the names of params that may come in a list, in their order; with `sends_list` they are sent in one.
    """

    method: str
    params: Any
    result: Any
    positions: tuple[str, ...] = ()
    sends_list: bool = False


@dataclass(slots=True)
class NotificationRow:
    """A notification: its method, and the type of its params; None for none. The rest is as in requests."""

    method: str
    params: Any
    positions: tuple[str, ...] = ()
    sends_list: bool = False


Row = RequestRow | NotificationRow


class Handlers:
    """The handlers of one side. Subclasses are generated: their methods `on_…` handle the messages of the other one."""

    _receives: ClassVar[Mapping[str, tuple[Row, str]]] = {}  # By method: its row, and the name of its handler.

    def _handled(self, message: RequestMessage) -> Any:
        """Return what the call of the handler of a request returns. Raises JSONRPCError if there is none."""
        row, name = self._receives.get(message.method, (None, ""))
        if not isinstance(row, RequestRow):
            raise JSONRPCError(jsonrpc.METHOD_NOT_FOUND, f"{message.method} is not a method of this side")
        return self._call(name, row, message.params)

    def _call(self, name: str, row: Row, params: Any) -> Any:
        """Return what the call of a handler with validated params returns. Raises JSONRPCError for invalid ones."""
        handler = getattr(self, name)
        if row.params is None:
            return handler()
        try:
            read = validator(row.params)(_by_name(row, {} if params is None else params))
        except ValidationError as error:
            raise JSONRPCError(jsonrpc.INVALID_PARAMS, format_validation_error(error)) from None
        return handler(read)

    def _not_handled(self, method: str) -> JSONRPCError:
        """Return the error for a request without a handler."""
        return JSONRPCError(jsonrpc.METHOD_NOT_FOUND, f"{method} is not handled by this {type(self).__name__}")


def decoded(data: bytes) -> jsonrpc.Message | list[jsonrpc.Message]:
    """Return a message, also one whose params are a list, which MCP does not have."""
    message = jsonrpc.reject_oversized(data) if isinstance(data, OversizedMessage) else jsonrpc.decode(data)
    if not isinstance(message, MalformedMessage) or message.is_too_large or message.code != jsonrpc.INVALID_REQUEST:
        return message
    try:
        value = from_json(data)
    except ValueError:  # JSON that the parser does not read, such as what is nested too deep.
        return message
    if not is_object(value) or not is_list(params := value.get("params")) or not is_finite(value):
        return message
    listed: Any = jsonrpc.read({**value, "params": {}})
    if isinstance(listed, RequestMessage):
        return RequestMessage(listed.id, listed.method, cast(Any, params))
    return NotificationMessage(listed.method, cast(Any, params)) if isinstance(listed, NotificationMessage) else listed


def checked(row: Row, params: Any) -> Any:
    """Return the params to send. Raises InvalidMessageError for those of another type."""
    if params is None and row.params is None:
        return None
    if not isinstance(row.params, type) or isinstance(params, row.params):
        return _by_position(row, params) if row.sends_list else params
    name = row.params.__name__
    raise InvalidMessageError(f"{row.method} needs params of the type {name}, not {type(params).__name__}; create one")


def _by_position(row: Row, params: Any) -> list[Any]:
    """Return params as a list. Those that are absent at its end are left out, and null stands for others."""
    values: dict[str, Any] = params.model_dump(mode="json", by_alias=True)
    last = max((number for number, name in enumerate(row.positions, 1) if name in values), default=0)
    return [values.get(name) for name in row.positions[:last]]


def _by_name(row: Row, params: Any) -> Any:
    """Return params by name. Raises JSONRPCError for a list with more than the method has places for."""
    if not is_list(params):
        return params
    if len(params) > len(row.positions):
        places = f"at most {len(row.positions)} params by position" if row.positions else "params by name"
        raise JSONRPCError(jsonrpc.INVALID_PARAMS, f"{row.method} takes {places}, and got a list of {len(params)}")
    return dict(zip(row.positions, params, strict=False))
