"""One side of one conversation, without I/O: bytes in, events out, and the bytes to send for what this side says.

The same rules judge what is sent and what is received: the method exists in this direction, the phase allows it, its
capability was declared, and its params fit the schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from . import jsonrpc
from .errors import ErrorResponse, InvalidMessage, InvalidResponse, McpError, NotAllowed
from .jsonrpc import ErrorMessage, Id, Malformed, NotificationMessage, RequestMessage, ResultMessage
from .lifecycle import Capabilities, Phase, allowed, declared, split
from .spec import OPPOSITE, Direction, Handshake, Notification, Request, Revision, Sent
from .wire import complaint, reader

Side = Literal["client", "server"]

_SENDS: Final[dict[Side, Direction]] = {"client": "client_to_server", "server": "server_to_client"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer wants an answer to this request."""

    id: Id
    row: Request[Any]
    params: Any


@dataclass(frozen=True, slots=True)
class Told:
    """The peer sent a notification."""

    row: Notification
    params: Any


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request of ours: a result, or why there is none."""

    id: Id
    outcome: BaseModel | McpError


@dataclass(frozen=True, slots=True)
class Refused:
    """What came is not acted upon; `reply` is to be sent back, where an answer is due."""

    why: str
    reply: bytes | None


Event = Asked | Told | Answered | Refused


@dataclass
class Peer:
    """One side. `own` and `theirs` are the capabilities the two sides have declared so far."""

    revision: Revision
    side: Side
    phase: Phase = Phase.NEW
    own: Capabilities = field(default_factory=dict[str, Any])
    theirs: Capabilities = field(default_factory=dict[str, Any])
    _waiting: dict[Id, tuple[Request[Any], Any]] = field(default_factory=dict[Id, tuple[Request[Any], Any]])
    _next_id: int = 0

    @property
    def _lifecycle(self) -> Handshake:
        if not isinstance(self.revision.lifecycle, Handshake):
            raise NotAllowed(f"{self.revision.id}: its lifecycle, without a handshake, is not served yet")
        return self.revision.lifecycle

    # ---- what this side says --------------------------------------------------------------------------------------

    def ask(self, row: Request[Any], params: Any) -> tuple[Id, bytes]:
        """The id and the bytes of a request. Raises NotAllowed or InvalidMessage."""
        checked = self._checked(row, params)
        self._next_id += 1
        self._waiting[self._next_id] = (row, params)
        return self._next_id, jsonrpc.encode(RequestMessage(self._next_id, row.method, checked))

    def tell(self, row: Notification, params: Any) -> bytes:
        """The bytes of a notification. Raises NotAllowed or InvalidMessage."""
        data = jsonrpc.encode(NotificationMessage(row.method, self._checked(row, params)))
        if row is self._lifecycle.opened:
            self.phase = Phase.OPEN
        return data

    def answer(self, asked: Asked, result: Any) -> bytes:
        """The bytes of a result. Raises InvalidMessage where it is not what the method may give."""
        kinds = (asked.row.result, *(interim.result for interim in asked.row.interim))
        if not isinstance(result, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise InvalidMessage(
                f"{asked.row.method!r} in {self.revision.id} is answered by {names}, not by {type(result).__name__}"
            )
        return jsonrpc.encode(ResultMessage(asked.id, result))

    def refuse(self, asked: Asked, code: int, message: str, data: Any = None) -> bytes:
        """The bytes of an error that answers a request."""
        return jsonrpc.encode(ErrorMessage(asked.id, code, message, data))

    def forget(self, id: Id) -> None:
        """Nobody waits for this answer any more; it is dropped when it comes."""
        self._waiting.pop(id, None)

    def _checked(self, row: Sent, params: Any) -> Any:
        """The params to send, if this may be said now."""
        what = f"{row.method!r} in {self.revision.id}"
        if row.direction != _SENDS[self.side]:
            raise NotAllowed(f"{what} is not sent by the {self.side}")
        if not allowed(self._lifecycle, self.phase, row):
            raise NotAllowed(f"{what} cannot be sent {self.phase.value}")
        if not self._is_declared(row):
            raise NotAllowed(f"{what} needs the capability {row.capability!r}, which was not declared")
        if not params and not row.params_required:
            return None
        try:
            reader(row.params)(_plain(params))
        except ValidationError as fault:
            raise InvalidMessage(f"{what}: params: {complaint(fault)}") from None
        return params

    def _is_declared(self, row: Sent) -> bool:
        if not row.capability:
            return True
        side, path = split(row.capability)
        return declared(self.own if side == self.side else self.theirs, path)

    # ---- what the peer says ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Event:
        """What these bytes, one message, mean."""
        try:
            message = jsonrpc.decode(data)
        except Malformed as fault:
            return Refused(str(fault), jsonrpc.encode(fault.reply))
        match message:
            case RequestMessage():
                return self._received_request(message)
            case NotificationMessage():
                return self._received_notification(message)
            case ResultMessage() | ErrorMessage():
                return self._received_answer(message)

    def _received_request(self, message: RequestMessage) -> Event:
        row = self.revision.table(OPPOSITE[_SENDS[self.side]]).get(message.method)
        if not isinstance(row, Request) or not self._is_declared(row):
            return self._refused(message, jsonrpc.METHOD_NOT_FOUND, f"no method {message.method!r} is served here")
        if not allowed(self._lifecycle, self.phase, row):
            return self._refused(message, jsonrpc.INVALID_REQUEST, f"{row.method!r} cannot be asked {self.phase.value}")
        try:
            params = self._read_params(row, message.params)
        except ValidationError as fault:
            return self._refused(message, jsonrpc.INVALID_PARAMS, f"{row.method!r}: params: {complaint(fault)}")
        if row is self._lifecycle.open:
            self.phase = Phase.OPENING
        return Asked(message.id, row, params)

    def _refused(self, message: RequestMessage, code: int, why: str) -> Refused:
        text = f"{why} ({self.revision.id})"
        return Refused(text, jsonrpc.encode(ErrorMessage(message.id, code, text)))

    def _received_notification(self, message: NotificationMessage) -> Event:
        row = self.revision.table(OPPOSITE[_SENDS[self.side]]).get(message.method)
        if not isinstance(row, Notification):
            return Refused(f"no notification {message.method!r} is known here", None)
        if not allowed(self._lifecycle, self.phase, row):
            return Refused(f"{row.method!r} cannot be told {self.phase.value}", None)
        try:
            params = self._read_params(row, message.params)
        except ValidationError as fault:
            return Refused(f"{row.method!r}: params: {complaint(fault)}", None)
        if row is self._lifecycle.opened:
            self.phase = Phase.OPEN
        return Told(row, params)

    def _read_params(self, row: Sent, params: Any) -> Any:
        """The params as the row's type; none at all are an empty object where they may be left out."""
        if row.params is None:
            return None
        return reader(row.params)({} if params is None and not row.params_required else params)

    def _received_answer(self, message: ResultMessage | ErrorMessage) -> Event:
        if message.id is None or message.id not in self._waiting:
            return Refused(f"an answer to nothing that was asked: id {message.id!r}", None)
        row, params = self._waiting.pop(message.id)
        if isinstance(message, ErrorMessage):
            return Answered(message.id, ErrorResponse(message.code, message.message, message.data))
        try:
            result = row.read_result(message.result, params)
        except ValidationError as fault:
            why = f"{row.method!r} in {self.revision.id}: the answer is not what it may be: {complaint(fault)}"
            return Answered(message.id, InvalidResponse(why))
        if row is self._lifecycle.open:
            self.phase = Phase.OPENING
        return Answered(message.id, result)


def _plain(params: Any) -> Any:
    """The params as parsed JSON: models among them written out, so that they are judged as the peer will judge them."""
    return from_json(to_json(params, by_alias=True))
