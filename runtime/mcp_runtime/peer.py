"""One side of one conversation, without I/O: bytes in, events out, and the bytes to send for what this side says.

The same rules judge what is sent and what is received: the method exists in this direction, the phase allows it, its
capability was declared, and its params fit the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ValidationError

from . import jsonrpc
from .errors import ErrorResponse, InvalidMessage, InvalidResponse, McpError, NotAllowed
from .jsonrpc import ErrorMessage, Id, Malformed, NotificationMessage, RequestMessage, ResultMessage
from .lifecycle import UNDECLARED, Capabilities, Phase, allowed, declared, first_phase, open_to, passes, required, split
from .spec import META, OPPOSITE, Direction, Gate, Handshake, Notification, Request, Revision, Sent
from .wire import Said, complaint, is_object, reader

Side = Literal["client", "server"]
SentT = TypeVar("SentT", bound=Sent)

_SENDS: Final[Mapping[Side, Direction]] = {"client": "client_to_server", "server": "server_to_client"}


@dataclass(slots=True)
class Asked:
    """The peer wants an answer to this request."""

    id: Id
    row: Request[Any]
    params: Any
    open: bool = True  # Until it is answered, refused or cancelled.


@dataclass(slots=True)
class Told:
    """The peer sent a notification."""

    row: Notification
    params: Any


@dataclass(slots=True)
class Answered:
    """The answer to a request of ours: a result, or why there is none."""

    id: Id
    outcome: BaseModel | McpError


@dataclass(slots=True)
class Refused:
    """What came is not acted upon; `reply` is to be sent back, where an answer is due, with the error `code`."""

    why: str
    reply: bytes | None = None
    code: int = 0


@dataclass(slots=True)
class Batch:
    """What came together; the answers are to be sent together."""

    events: list[Event]


Event = Asked | Told | Answered | Refused | Batch


class Peer:
    """One side. `own` and `theirs` are the capabilities the two sides have declared so far; `signature` is the JSON of
    the metadata that goes with every result which has none of its own; `opening` the request that opens it; `in_flight`
    the ids of the peer's requests, None where they come from many, who know nothing of each other."""

    __slots__ = ("revision", "side", "own", "theirs", "signature", "in_flight", "phase", "opening",
                 "_waiting", "_next_id", "_sendable", "_receivable")  # fmt: skip

    def __init__(self, revision: Revision, side: Side, own: Capabilities) -> None:
        self.revision = revision
        self.side: Side = side
        self.own = own
        self.theirs: Capabilities = {}
        self.signature = b""
        self.in_flight: dict[Id, None] | None = {}  # An empty set is three times as large, and most peers are idle.
        self._waiting: dict[Id, tuple[Request[Any], Any]] = {}
        self._next_id = 0
        self.enter(first_phase(revision.lifecycle))

    def alike(self) -> Peer:
        """A peer of another conversation that has come as far as this one: nothing is in flight in it."""
        other = Peer.__new__(Peer)
        other.revision, other.side, other.phase = self.revision, self.side, self.phase
        other.own, other.theirs, other.signature = self.own, self.theirs, self.signature
        other._sendable, other._receivable, other.opening = self._sendable, self._receivable, self.opening
        other.in_flight, other._waiting, other._next_id = {}, {}, 0
        return other

    def enter(self, phase: Phase) -> None:
        """Be in a phase: from now on its messages may be sent and received, as far as they were declared."""
        self.phase = phase
        missing = frozenset(each for each in self.revision.capabilities if not self._is_declared(each))
        lifecycle = self.revision.lifecycle
        self.opening = lifecycle.open if isinstance(lifecycle, Handshake) else None
        sends = _SENDS[self.side]
        self._sendable = open_to(self.revision, sends, phase, missing)
        self._receivable = open_to(self.revision, OPPOSITE[sends], phase, missing)

    def agree(self, revision: Revision, theirs: Capabilities) -> None:
        """The two sides have agreed on a revision, and this is what the other side has declared."""
        self.revision = revision
        self.theirs = theirs
        self.enter(self.phase)

    def _is_declared(self, capability: str) -> bool:
        side, path = split(capability)
        return declared(self.own if side == self.side else self.theirs, path)

    def _shut(self, row: Sent, params: Any, theirs: Capabilities) -> Gate | None:
        """The first gate of a row that these params do not pass, where the other side has declared this."""
        for gate in row.gates:
            side, _ = split(gate.capability)
            if gate.stops(params) and not passes(self.own if side == self.side else theirs, gate):
                return gate
        return None

    # ---- what this side says ----------------------------------------------------------------------------------------

    def next_id(self) -> Id:
        self._next_id += 1
        return self._next_id

    def ask(self, id: Id, row: Request[Any], params: Any) -> bytes:
        """The bytes of a request. Raises NotAllowed or InvalidMessage."""
        row = self._own(row)
        data = self._written(row, jsonrpc.request, id, row.method, self._checked(row, params))
        self._waiting[id] = (row, params)
        return data

    def tell(self, row: Notification, params: Any) -> bytes:
        """The bytes of a notification. Raises NotAllowed or InvalidMessage."""
        row = self._own(row)
        data = self._written(row, jsonrpc.notification, row.method, self._checked(row, params))
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row.method == lifecycle.opened.method:
            self.enter(Phase.OPEN)
        return data

    def answer(self, asked: Asked, result: Any) -> bytes:
        """The bytes of a result. Raises InvalidMessage where it is not what the method may give."""
        row, signature = asked.row, self.signature
        if type(result) is Said:
            result = result.value
            if is_object(result) and result.get("_meta") is not None:
                signature = b""
        elif not isinstance(result, row.answers):
            names = " or ".join(kind.__name__ for kind in row.answers)
            raise InvalidMessage(
                f"{row.method!r} in {self.revision.id} is answered by {names}, not by {type(result).__name__}"
            )
        if signature and getattr(result, "meta", None) is not None:
            signature = b""
        data = jsonrpc.result(asked.id, result, signature)
        self.let_go(asked)
        return data

    def refuse(self, asked: Asked, code: int, message: str, data: Any = None) -> bytes:
        """The bytes of an error that answers a request."""
        self.let_go(asked)
        try:
            return jsonrpc.error(asked.id, code, message, data)
        except ValueError:  # JSON cannot say it, and the peer waits for an answer all the same.
            return jsonrpc.error(asked.id, jsonrpc.INTERNAL_ERROR, "internal error")

    def let_go(self, asked: Asked) -> None:
        """A request is answered, or wants no answer any more."""
        if asked.open and (in_flight := self.in_flight) is not None:
            in_flight.pop(asked.id, None)
            if not in_flight:
                in_flight.clear()  # Gives back what it had grown to.
        asked.open = False

    def mine(self, row: Notification) -> Notification:
        """The row of this method that this side sends; some notifications go both ways."""
        own = self.revision.table(_SENDS[self.side]).get(row.method)
        return own if isinstance(own, Notification) else row

    def forget(self, id: Id) -> bool:
        """Nobody waits for this answer any more; it is dropped when it comes. False if it has come already."""
        return self._waiting.pop(id, None) is not None

    def _own(self, row: SentT) -> SentT:
        """The row of a message as this revision has it, maybe with more than it was written for; if it may be said now."""
        own = self._sendable.get(row.method)
        if own is not row and not _is_same(own, row):
            self._explain(row)
        return cast(SentT, own)

    def _checked(self, row: Sent, params: Any) -> Any:
        """The params to send, where they fit and what they need was declared."""
        if not params and not row.params_required:
            return None
        try:
            checked = reader(row.params)(params)
        except ValidationError as fault:
            raise InvalidMessage(f"{row.method!r} in {self.revision.id}: params: {complaint(fault)}") from None
        if row.gates and (shut := self._shut(row, checked, self.theirs)) is not None:
            raise NotAllowed(f"{row.method!r} in {self.revision.id} {shut.complaint()}")
        return checked

    def _written(self, row: Sent, write: Callable[..., bytes], *parts: Any) -> bytes:
        """The bytes of a message. Raises InvalidMessage for what JSON cannot say, such as half a surrogate pair."""
        try:
            return write(*parts)
        except ValueError as fault:
            raise InvalidMessage(f"{row.method!r} in {self.revision.id}: params: {fault}") from None

    def _malformed(self, id: Id | None, code: int, why: str) -> Refused:
        """An error about bytes that are no message; without an id where none could be read, or with null for one."""
        return Refused(why, jsonrpc.error(id, code, why, null_id=self.revision.null_ids), code)

    def _explain(self, row: Sent) -> None:
        """Raise NotAllowed with the rule that forbids this message now."""
        what = f"{row.method!r} in {self.revision.id}"
        if not _is_same(self.revision.table(_SENDS[self.side]).get(row.method), row):
            raise NotAllowed(f"{what} is not sent by the {self.side}")
        if not allowed(self.revision.lifecycle, self.phase, row):
            raise NotAllowed(f"{what} cannot be sent {self.phase.value}")
        raise NotAllowed(f"{what} needs the capability {row.capability!r}, which was not declared")

    # ---- what the peer says -----------------------------------------------------------------------------------------

    def oversized(self) -> Event:
        """What a message that is longer than the limit means."""
        return self._malformed(None, jsonrpc.INVALID_REQUEST, "the message is longer than the limit")

    def receive(self, data: bytes) -> Event:
        """What these bytes mean: one message, or a batch of them where the revision has batches."""
        return self.take(jsonrpc.decode(data))

    def take(self, message: jsonrpc.Message | list[jsonrpc.Message]) -> Event:
        """What this message means, or what came together."""
        if isinstance(message, RequestMessage):  # First, because most are.
            return self._received_request(message, False)
        if not isinstance(message, list):
            return self._received(message)
        if not self.revision.batches:
            return self._malformed(None, jsonrpc.INVALID_REQUEST, f"{self.revision.id} has no batches")
        return Batch([self._received(each, in_batch=True) for each in message])

    def _received(self, message: jsonrpc.Message, in_batch: bool = False) -> Event:
        if isinstance(message, RequestMessage):
            return self._received_request(message, in_batch)
        if isinstance(message, NotificationMessage):
            return self._received_notification(message)
        if isinstance(message, Malformed) and not message.is_answer:
            return self._malformed(message.id, message.code, message.message)
        return self._received_answer(message)

    def _received_request(self, message: RequestMessage, in_batch: bool) -> Event:
        row = self._receivable.get(message.method)
        if not isinstance(row, Request):
            return self._unreceivable(message)
        if (in_flight := self.in_flight) is not None and message.id in in_flight:
            return self._refused(message, jsonrpc.INVALID_REQUEST, f"id {message.id!r} is in use by another request")
        if (opens := row is self.opening) and in_batch:
            return self._refused(message, jsonrpc.INVALID_REQUEST, f"{row.method!r} cannot be in a batch")
        try:
            given = message.params
            params = reader(row.params)({} if given is None and not row.params_required else given)
        except ValidationError as fault:
            return self._refused(message, jsonrpc.INVALID_PARAMS, f"{row.method!r}: params: {complaint(fault)}")
        if row.gates and (shut := self._shut(row, params, self._declared_in(message))) and not shut.sent_only:
            return self._undeclared(message, f"{row.method!r} {shut.complaint()} ({self.revision.id})", shut)
        if opens:
            self.enter(Phase.OPENING)
        if in_flight is not None:
            in_flight[message.id] = None
        return Asked(message.id, row, params)

    def _unreceivable(self, message: RequestMessage) -> Refused:
        """Why a request is not served now."""
        row = self.revision.table(OPPOSITE[_SENDS[self.side]]).get(message.method)
        if isinstance(row, Request) and (not row.capability or self._is_declared(row.capability)):
            why = f"{row.method!r} cannot be asked {self.phase.value}"
            return self._refused(message, jsonrpc.INVALID_REQUEST, why)
        return self._refused(message, jsonrpc.METHOD_NOT_FOUND, f"no method {message.method!r} is served here")

    def _refused(self, message: RequestMessage, code: int, why: str) -> Refused:
        text = f"{why} ({self.revision.id})"
        return Refused(text, jsonrpc.error(message.id, code, text), code)

    def _declared_in(self, message: RequestMessage) -> Capabilities:
        """What the other side can do: what this request itself says, where nothing is remembered between requests."""
        meta = message.params.get("_meta") if is_object(message.params) else None
        said = meta.get(f"{META}clientCapabilities") if is_object(meta) else None
        return said if is_object(said) and not isinstance(self.revision.lifecycle, Handshake) else self.theirs

    def _undeclared(self, message: RequestMessage, why: str, gate: Gate) -> Refused:
        """The refusal of a request that needs what was not declared: with the code for it, where the client has to."""
        code = int(self.revision.constants.get(UNDECLARED, jsonrpc.INVALID_PARAMS))
        if self.side == split(gate.capability)[0] or code == jsonrpc.INVALID_PARAMS:
            return Refused(why, jsonrpc.error(message.id, jsonrpc.INVALID_PARAMS, why), jsonrpc.INVALID_PARAMS)
        needed = required([gate.capability])
        return Refused(why, jsonrpc.error(message.id, code, why, {"requiredCapabilities": needed}), code)

    def _received_notification(self, message: NotificationMessage) -> Event:
        row = self._receivable.get(message.method)
        if not isinstance(row, Notification):
            return Refused(f"the notification {message.method!r} is not taken {self.phase.value}")
        try:
            given = message.params
            params = reader(row.params)({} if given is None and not row.params_required else given)
        except ValidationError as fault:
            return Refused(f"{row.method!r}: params: {complaint(fault)}")
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row is lifecycle.opened:
            self.enter(Phase.OPEN)
        return Told(row, params)

    def _received_answer(self, message: ResultMessage | ErrorMessage | Malformed) -> Event:
        id = message.id
        if id is None or id not in self._waiting:
            return Refused(f"an answer to nothing that was asked: id {id!r}")
        row, params = self._waiting.pop(id)
        if isinstance(message, ErrorMessage):
            return Answered(id, ErrorResponse(message.code, message.message, message.data))
        what = f"{row.method!r} in {self.revision.id}: the answer is not what it may be"
        if isinstance(message, Malformed):
            return Answered(id, InvalidResponse(f"{what}: {message.message}"))
        try:
            result = row.read_result(message.result, params)
        except ValidationError as fault:
            return Answered(id, InvalidResponse(f"{what}: {complaint(fault)}"))
        if row is self.opening:
            self.enter(Phase.OPENING)
        return Answered(id, result)


def _is_same(own: Sent | None, row: Sent) -> bool:
    """Whether two rows are of the same message, be it that of an extension that adds to the answers."""
    return own is not None and own.direction == row.direction and own.params is row.params
