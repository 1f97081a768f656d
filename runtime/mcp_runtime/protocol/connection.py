"""One side of one conversation, without I/O: bytes in, events out, and the bytes to send for what this side says.

The same rules judge what is sent and what is received: the method exists in this direction, the phase allows it, its
capability was declared, and its params fit the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, cast

from pydantic import ValidationError

from ..errors import (
    InvalidMessageError,
    InvalidResponseError,
    ProtocolViolationError,
    RemoteJSONRPCError,
)
from . import jsonrpc
from .capabilities import (
    MISSING_CAPABILITY_ERROR,
    Capabilities,
    capabilities_object,
    is_declared,
    parse_capability_path,
    satisfies,
)
from .events import (
    Batch,
    Event,
    MessageRejected,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
)
from .jsonrpc import (
    ErrorMessage,
    Id,
    MalformedMessage,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
)
from .lifecycle import Phase, allowed_methods, first_phase, is_allowed
from .models import PreSerialized, format_validation_error, is_object, validator
from .revision import (
    META,
    OPPOSITE,
    CapabilityRequirement,
    Direction,
    Handshake,
    Notification,
    Request,
    Revision,
    Sent,
)

Side = Literal["client", "server"]
SentT = TypeVar("SentT", bound=Sent)
_SENDS: Final[Mapping[Side, Direction]] = {"client": "client_to_server", "server": "server_to_client"}


class Connection:
    """One side. `own` and `theirs` are the capabilities the two sides have declared so far; `signature` is the JSON of
    the metadata that goes with every result which has none of its own; `opening` the request that opens it; `in_flight`
    the ids of the peer's requests, None where they come from many, who know nothing of each other."""

    __slots__ = ("revision", "side", "local_capabilities", "remote_capabilities", "result_meta", "in_flight", "phase", "initialize_row",
                 "_pending", "_next_id", "_sendable", "_receivable")  # fmt: skip

    def __init__(self, revision: Revision, side: Side, local_capabilities: Capabilities) -> None:
        self.revision = revision
        self.side: Side = side
        self.local_capabilities = local_capabilities
        self.remote_capabilities: Capabilities = {}
        self.result_meta = b""
        self.in_flight: dict[Id, None] | None = {}  # An empty set is three times as large, and most peers are idle.
        self._pending: dict[Id, tuple[Request[Any], Any]] = {}
        self._next_id = 0
        self.enter_phase(first_phase(revision.lifecycle))

    def copy_for_new_connection(self) -> Connection:
        """A peer of another conversation that has come as far as this one: nothing is in flight in it."""
        other = Connection.__new__(Connection)
        other.revision, other.side, other.phase = self.revision, self.side, self.phase
        other.local_capabilities, other.remote_capabilities, other.result_meta = (
            self.local_capabilities,
            self.remote_capabilities,
            self.result_meta,
        )
        other._sendable, other._receivable, other.initialize_row = self._sendable, self._receivable, self.initialize_row
        other.in_flight, other._pending, other._next_id = {}, {}, 0
        return other

    def enter_phase(self, phase: Phase) -> None:
        """Be in a phase: from now on its messages may be sent and received, as far as they were declared."""
        self.phase = phase
        missing = frozenset(each for each in self.revision.capabilities if not self._is_declared(each))
        lifecycle = self.revision.lifecycle
        self.initialize_row = lifecycle.initialize_request if isinstance(lifecycle, Handshake) else None
        sends = _SENDS[self.side]
        self._sendable = allowed_methods(self.revision, sends, phase, missing)
        self._receivable = allowed_methods(self.revision, OPPOSITE[sends], phase, missing)

    def negotiated(self, revision: Revision, remote_capabilities: Capabilities) -> None:
        """The two sides have agreed on a revision, and this is what the other side has declared."""
        self.revision = revision
        self.remote_capabilities = remote_capabilities
        self.enter_phase(self.phase)

    def _is_declared(self, capability: str) -> bool:
        side, path = parse_capability_path(capability)
        return is_declared(self.local_capabilities if side == self.side else self.remote_capabilities, path)

    def _unmet_requirement(
        self, row: Sent, params: Any, remote_capabilities: Capabilities
    ) -> CapabilityRequirement | None:
        """The first gate of a row that these params do not pass, where the other side has declared this."""
        for gate in row.requirements:
            side, _ = parse_capability_path(gate.capability)
            if gate.applies_to(params) and not satisfies(
                self.local_capabilities if side == self.side else remote_capabilities, gate
            ):
                return gate
        return None

    # ---- what this side says ----------------------------------------------------------------------------------------

    def next_id(self) -> Id:
        self._next_id += 1
        return self._next_id

    def send_request(self, id: Id, row: Request[Any], params: Any) -> bytes:
        """The bytes of a request. Raises ProtocolViolationError or InvalidMessageError."""
        row = self._sendable_row(row)
        data = self._serialized(row, jsonrpc.request, id, row.method, self._validated_params(row, params))
        self._pending[id] = (row, params)
        return data

    def send_notification(self, row: Notification, params: Any) -> bytes:
        """The bytes of a notification. Raises ProtocolViolationError or InvalidMessageError."""
        row = self._sendable_row(row)
        data = self._serialized(row, jsonrpc.notification, row.method, self._validated_params(row, params))
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row.method == lifecycle.initialized.method:
            self.enter_phase(Phase.OPEN)
        return data

    def send_result(self, request: RequestReceived, result: Any) -> bytes:
        """The bytes of a result. Raises InvalidMessageError where it is not what the method may give."""
        row, signature = request.row, self.result_meta
        if type(result) is PreSerialized:
            result = result.value
            if is_object(result) and result.get("_meta") is not None:
                signature = b""
        elif not isinstance(result, row.result_types):
            names = " or ".join(kind.__name__ for kind in row.result_types)
            raise InvalidMessageError(
                f"{row.method!r} in {self.revision.id} is answered by {names}, not by {type(result).__name__}"
            )
        if signature and getattr(result, "meta", None) is not None:
            signature = b""
        data = jsonrpc.result(request.id, result, signature)
        self.finish(request)
        return data

    def send_error(self, request: RequestReceived, code: int, message: str, data: Any = None) -> bytes:
        """The bytes of an error that answers a request."""
        self.finish(request)
        try:
            return jsonrpc.error(request.id, code, message, data)
        except ValueError:  # JSON cannot say it, and the peer waits for an answer all the same.
            return jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "internal error")

    def finish(self, request: RequestReceived) -> None:
        """A request is answered, or wants no answer any more."""
        if request.open and (in_flight := self.in_flight) is not None:
            in_flight.pop(request.id, None)
            if not in_flight:
                in_flight.clear()  # Gives back what it had grown to.
        request.open = False

    def local_row(self, row: Notification) -> Notification:
        """The row of this method that this side sends; some notifications go both ways."""
        own = self.revision.table(_SENDS[self.side]).get(row.method)
        return own if isinstance(own, Notification) else row

    def discard(self, id: Id) -> bool:
        """Nobody waits for this answer any more; it is dropped when it comes. False if it has come already."""
        return self._pending.pop(id, None) is not None

    def _sendable_row(self, row: SentT) -> SentT:
        """The row of a message as this revision has it, maybe with more than it was written for; if it may be said now."""
        own = self._sendable.get(row.method)
        if own is not row and not _is_same_message(own, row):
            self._raise_violation(row)
        return cast(SentT, own)

    def _validated_params(self, row: Sent, params: Any) -> Any:
        """The params to send, where they fit and what they need was declared."""
        if not params and not row.params_required:
            return None
        try:
            checked = validator(row.params)(params)
        except ValidationError as fault:
            raise InvalidMessageError(
                f"{row.method!r} in {self.revision.id}: params: {format_validation_error(fault)}"
            ) from None
        if row.requirements and (shut := self._unmet_requirement(row, checked, self.remote_capabilities)) is not None:
            raise ProtocolViolationError(f"{row.method!r} in {self.revision.id} {shut.describe()}")
        return checked

    def _serialized(self, row: Sent, write: Callable[..., bytes], *parts: Any) -> bytes:
        """The bytes of a message. Raises InvalidMessageError for what JSON cannot say, such as half a surrogate pair."""
        try:
            return write(*parts)
        except ValueError as fault:
            raise InvalidMessageError(f"{row.method!r} in {self.revision.id}: params: {fault}") from None

    def _reject_malformed(self, id: Id | None, code: int, reason: str) -> MessageRejected:
        """An error about bytes that are no message; without an id where none could be read, or with null for one."""
        return MessageRejected(reason, jsonrpc.error(id, code, reason, null_id=self.revision.null_ids), code)

    def _raise_violation(self, row: Sent) -> None:
        """Raise ProtocolViolationError with the rule that forbids this message now."""
        what = f"{row.method!r} in {self.revision.id}"
        if not _is_same_message(self.revision.table(_SENDS[self.side]).get(row.method), row):
            raise ProtocolViolationError(f"{what} is not sent by the {self.side}")
        if not is_allowed(self.revision.lifecycle, self.phase, row):
            raise ProtocolViolationError(f"{what} cannot be sent {self.phase.value}")
        raise ProtocolViolationError(f"{what} needs the capability {row.capability!r}, which was not declared")

    # ---- what the peer says -----------------------------------------------------------------------------------------

    def oversized(self) -> Event:
        """What a message that is longer than the limit means."""
        return self._reject_malformed(None, jsonrpc.INVALID_REQUEST, "the message is longer than the limit")

    def receive(self, data: bytes) -> Event:
        """What these bytes mean: one message, or a batch of them where the revision has batches."""
        return self.receive_message(jsonrpc.decode(data))

    def receive_message(self, message: jsonrpc.Message | list[jsonrpc.Message]) -> Event:
        """What this message means, or what came together."""
        if isinstance(message, RequestMessage):  # First, because most are.
            return self._received_request(message, False)
        if not isinstance(message, list):
            return self._received(message)
        if not self.revision.batches:
            return self._reject_malformed(None, jsonrpc.INVALID_REQUEST, f"{self.revision.id} has no batches")
        return Batch([self._received(each, in_batch=True) for each in message])

    def _received(self, message: jsonrpc.Message, in_batch: bool = False) -> Event:
        if isinstance(message, RequestMessage):
            return self._received_request(message, in_batch)
        if isinstance(message, NotificationMessage):
            return self._received_notification(message)
        if isinstance(message, MalformedMessage) and not message.is_response:
            return self._reject_malformed(message.id, message.code, message.message)
        return self._received_response(message)

    def _received_request(self, message: RequestMessage, in_batch: bool) -> Event:
        row = self._receivable.get(message.method)
        if not isinstance(row, Request):
            return self._reject_unservable(message)
        if (in_flight := self.in_flight) is not None and message.id in in_flight:
            return self._reject(message, jsonrpc.INVALID_REQUEST, f"id {message.id!r} is in use by another request")
        if (opens := row is self.initialize_row) and in_batch:
            return self._reject(message, jsonrpc.INVALID_REQUEST, f"{row.method!r} cannot be in a batch")
        try:
            given = message.params
            params = validator(row.params)({} if given is None and not row.params_required else given)
        except ValidationError as fault:
            return self._reject(
                message, jsonrpc.INVALID_PARAMS, f"{row.method!r}: params: {format_validation_error(fault)}"
            )
        if (
            row.requirements
            and (shut := self._unmet_requirement(row, params, self._declared_capabilities(message)))
            and not shut.sender_only
        ):
            return self._reject_missing_capability(
                message, f"{row.method!r} {shut.describe()} ({self.revision.id})", shut
            )
        if opens:
            self.enter_phase(Phase.OPENING)
        if in_flight is not None:
            in_flight[message.id] = None
        return RequestReceived(message.id, row, params)

    def _reject_unservable(self, message: RequestMessage) -> MessageRejected:
        """Why a request is not served now."""
        row = self.revision.table(OPPOSITE[_SENDS[self.side]]).get(message.method)
        if isinstance(row, Request) and (not row.capability or self._is_declared(row.capability)):
            why = f"{row.method!r} cannot be asked {self.phase.value}"
            return self._reject(message, jsonrpc.INVALID_REQUEST, why)
        return self._reject(message, jsonrpc.METHOD_NOT_FOUND, f"no method {message.method!r} is served here")

    def _reject(self, message: RequestMessage, code: int, reason: str) -> MessageRejected:
        text = f"{reason} ({self.revision.id})"
        return MessageRejected(text, jsonrpc.error(message.id, code, text), code)

    def _declared_capabilities(self, message: RequestMessage) -> Capabilities:
        """What the other side can do: what this request itself says, where nothing is remembered between requests."""
        meta = message.params.get("_meta") if is_object(message.params) else None
        said = meta.get(f"{META}clientCapabilities") if is_object(meta) else None
        return (
            said if is_object(said) and not isinstance(self.revision.lifecycle, Handshake) else self.remote_capabilities
        )

    def _reject_missing_capability(
        self, message: RequestMessage, reason: str, requirement: CapabilityRequirement
    ) -> MessageRejected:
        """The refusal of a request that needs what was not declared: with the code for it, where the client has to."""
        code = int(self.revision.constants.get(MISSING_CAPABILITY_ERROR, jsonrpc.INVALID_PARAMS))
        if self.side == parse_capability_path(requirement.capability)[0] or code == jsonrpc.INVALID_PARAMS:
            return MessageRejected(
                reason, jsonrpc.error(message.id, jsonrpc.INVALID_PARAMS, reason), jsonrpc.INVALID_PARAMS
            )
        needed = capabilities_object([requirement.capability])
        return MessageRejected(reason, jsonrpc.error(message.id, code, reason, {"requiredCapabilities": needed}), code)

    def _received_notification(self, message: NotificationMessage) -> Event:
        row = self._receivable.get(message.method)
        if not isinstance(row, Notification):
            return MessageRejected(f"the notification {message.method!r} is not taken {self.phase.value}")
        try:
            given = message.params
            params = validator(row.params)({} if given is None and not row.params_required else given)
        except ValidationError as fault:
            return MessageRejected(f"{row.method!r}: params: {format_validation_error(fault)}")
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row is lifecycle.initialized:
            self.enter_phase(Phase.OPEN)
        return NotificationReceived(row, params)

    def _received_response(self, message: ResultMessage | ErrorMessage | MalformedMessage) -> Event:
        id = message.id
        if id is None or id not in self._pending:
            return MessageRejected(f"an answer to nothing that was asked: id {id!r}")
        row, params = self._pending.pop(id)
        if isinstance(message, ErrorMessage):
            return ResponseReceived(id, RemoteJSONRPCError(message.code, message.message, message.data))
        what = f"{row.method!r} in {self.revision.id}: the answer is not what it may be"
        if isinstance(message, MalformedMessage):
            return ResponseReceived(id, InvalidResponseError(f"{what}: {message.message}"))
        try:
            result = row.read_result(message.result, params)
        except ValidationError as fault:
            return ResponseReceived(id, InvalidResponseError(f"{what}: {format_validation_error(fault)}"))
        if row is self.initialize_row:
            self.enter_phase(Phase.OPENING)
        return ResponseReceived(id, result)


def _is_same_message(local: Sent | None, row: Sent) -> bool:
    """Whether two rows are of the same message, be it that of an extension that adds to the answers."""
    return local is not None and local.direction == row.direction and local.params is row.params
