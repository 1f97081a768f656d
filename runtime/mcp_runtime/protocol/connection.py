"""The sans-I/O connection: one side of an MCP connection, which reads bytes into events and serializes messages.

The same rules apply to sent and to received messages: the method must exist in this direction, the phase must allow it,
its capability must be declared, and its params must match the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

from pydantic_core import ValidationError

from ..errors import (
    InvalidMessageError,
    InvalidResponseError,
    MCPError,
    ProtocolViolationError,
    RemoteJSONRPCError,
    UnwritableValueError,
)
from ..usage.texts import escaped, unwritable
from . import jsonrpc
from .framing import OversizedMessage
from .jsonrpc import ErrorMessage, Id, MalformedMessage, NotificationMessage, RequestMessage, ResultMessage, named_id
from .lenient import LeftOut, Reading, lenient_reader
from .lifecycle import (
    MISSING_CAPABILITY_ERROR,
    Capabilities,
    Phase,
    allowed_methods,
    capabilities_object,
    first_phase,
    initialize_refusal,
    is_allowed,
    is_declared,
    parse_capability_path,
    satisfies,
    shared_object,
)
from .models import (
    PreSerialized,
    Read,
    format_validation_error,
    is_object,
    plain_of,
    read_as_model,
    type_name,
    validator,
)
from .revision import (
    INPUT_RESPONSES,
    META,
    NAMED_VERSION,
    OPPOSITE,
    CapabilityRequirement,
    Direction,
    Handshake,
    InputRequest,
    Notification,
    Request,
    Revision,
    Sent,
    own_row,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

Side = Literal["client", "server"]
SentT = TypeVar("SentT", bound=Sent)
_REQUEST: Final[type[Request[Any]]] = Request
ReportLeftOut: TypeAlias = "Callable[[Revision, Sent | InputRequest[Any], Sequence[LeftOut]], None]"
_NO_IDS: Final[dict[Id, None]] = {}  # One object, which is not changed: very many connections have no requests.
_NO_REQUESTS: Final[dict[Id, tuple[Request[Any], Any]]] = {}
_SENDS: Final[Mapping[Side, Direction]] = {"client": "client_to_server", "server": "server_to_client"}


# The events that a connection returns for the bytes it receives.


@dataclass(slots=True)
class RequestReceived:
    """The peer sent a request. It needs exactly one response unless it is cancelled.

    `open` is False once it is answered or cancelled.
    """

    id: Id
    row: Request[Any]
    params: Any
    open: bool = True


@dataclass(slots=True)
class NotificationReceived:
    """The peer sent a notification."""

    row: Notification
    params: Any


@dataclass(slots=True)
class ResponseReceived:
    """The peer responded to a request of this side: `outcome` is the result or the error."""

    id: Id
    outcome: BaseModel | MCPError


@dataclass(slots=True)
class MessageRejected:
    """A received message is rejected. Send `reply` if it is not None: the error response with the error `code`.
    `is_late` is True for a response to a request that has ended, such as a cancelled one."""

    reason: str
    reply: bytes | None = None
    code: int = 0
    is_late: bool = False


@dataclass(slots=True)
class Batch:
    """The peer sent a JSON-RPC batch; send the responses as one batch."""

    events: list[Event]


@dataclass(slots=True)
class Redirected:
    """The peer sent a message of another protocol version, which has a session of its own. `handle` lets that handle
    the message: it gets what sends the response, and returns True if there is or will be one."""

    handle: Callable[[Callable[[bytes | None, int], None]], object]


Event = RequestReceived | NotificationReceived | ResponseReceived | MessageRejected | Batch | Redirected


class Connection:
    """One side of a connection.

    `local_capabilities` and `remote_capabilities` are the capabilities that the two sides have declared so far.
    `result_meta` is the serialized `_meta` of every result that has no `_meta`. `initialize_row` is the request that
    opens the connection, None without a handshake. `in_flight` has the ids of the peer's unanswered requests; it is
    None if the requests come from independent clients, whose ids may collide. `last_id` is the last id of `next_id`.
    `read_params` returns what reads the params of a message, `receivable` has the rows of the messages that may be
    received now, `pending` the requests without a response. `elsewhere` returns the event of a message that is of
    another protocol version; it is None on a connection that has one version. `own_version` is what requests name that
    are certainly of this one: they do not pass it. `report_left_out` is called with the
    parts of a message that are left out because they cannot be read; if it is None, messages are validated strictly.
    `own` has what is received of messages that the protocol does not have: pairs of a method, and `Request` or
    `Notification`.
    """

    __slots__ = ("revision", "side", "local_capabilities", "remote_capabilities", "result_meta", "in_flight", "phase",
                 "initialize_row", "last_id", "pending", "read_params", "receivable", "elsewhere", "own_version",
                 "report_left_out", "new_id", "own", "_sendable")  # fmt: skip

    def __init__(self, revision: Revision, side: Side, local_capabilities: Capabilities) -> None:
        """Create one side of a new connection, in the first phase of the revision's lifecycle."""
        self.revision = revision
        self.local_capabilities = local_capabilities
        self.side: Side = side
        self.read_params: Callable[[Sent], Read] = read_as_model
        self.elsewhere: Callable[[jsonrpc.Message | list[jsonrpc.Message]], Event | None] | None = None
        self.own_version: object = None
        self.report_left_out: ReportLeftOut | None = None
        self.own: Container[tuple[str, type[Sent]]] = ()
        self.remote_capabilities: Capabilities = {}
        self.result_meta = b""
        self.last_id = 0
        self.new_id: Callable[[], Id] | None = None  # Makes ids that are unique among the workers of a session.
        self.pending = _NO_REQUESTS
        self.in_flight: dict[Id, None] | None = _NO_IDS
        self.enter_phase(first_phase(revision.lifecycle))

    def copy_for_new_connection(self) -> Connection:
        """Return a connection in the same phase, with the same capabilities and no requests in flight."""
        copy = self.__class__.__new__(self.__class__)
        copy.revision = self.revision
        copy.side = self.side
        copy.phase = self.phase
        copy.local_capabilities = self.local_capabilities
        copy.remote_capabilities = self.remote_capabilities
        copy.result_meta = self.result_meta
        copy.read_params = self.read_params
        copy.report_left_out = self.report_left_out
        copy.own = self.own
        copy._sendable = self._sendable
        copy.receivable = self.receivable
        copy.initialize_row = self.initialize_row
        copy.in_flight = _NO_IDS
        copy.pending = _NO_REQUESTS
        copy.last_id = 0
        copy.elsewhere = None
        copy.own_version = None
        copy.new_id = None
        return copy

    def enter_phase(self, phase: Phase) -> None:
        """Enter a phase, and compute which methods may be sent and received in it with the declared capabilities."""
        self.phase = phase
        missing = frozenset(name for name in self.revision.capabilities if not self._is_declared(name))
        lifecycle = self.revision.lifecycle
        self.initialize_row = lifecycle.initialize_request if isinstance(lifecycle, Handshake) else None
        sends = _SENDS[self.side]
        self._sendable = allowed_methods(self.revision, sends, phase, missing)
        self.receivable = allowed_methods(self.revision, OPPOSITE[sends], phase, missing)

    def negotiated(self, revision: Revision, remote_capabilities: Capabilities) -> None:
        """Set the negotiated revision and the capabilities that the other side has declared."""
        self.revision = revision
        self.remote_capabilities = shared_object(remote_capabilities)
        self.enter_phase(self.phase)

    def _is_declared(self, capability: str) -> bool:
        side, path = parse_capability_path(capability)
        if side == "client" and self.side == "server" and not isinstance(self.revision.lifecycle, Handshake):
            return True  # Requests carry these capabilities, and the context of a request checks them.
        return is_declared(self.local_capabilities if side == self.side else self.remote_capabilities, path)

    # ---- sending ----------------------------------------------------------------------------------------------------

    def next_id(self) -> Id:
        """Return a request id that this connection has not used."""
        if self.new_id is not None:
            return self.new_id()
        self.last_id += 1
        return self.last_id

    def send_request(self, id: Id, row: Request[Any], params: Any) -> bytes:
        """Serialize a request and register it as pending. Raises ProtocolViolationError or InvalidMessageError."""
        row = self.sendable_row(row)
        data = self._serialized(row, jsonrpc.request, id, row.method, self._validated_params(row, params))
        self.pending = self.pending or {}
        self.pending[id] = (row, params)
        return data

    def send_notification(self, row: Notification, params: Any) -> bytes:
        """Serialize a notification. Raises ProtocolViolationError or InvalidMessageError."""
        row = self.sendable_row(row)
        data = self._serialized(row, jsonrpc.notification, row.method, self._validated_params(row, params))
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row.method == lifecycle.initialized.method:
            self.enter_phase(Phase.OPEN)
        return data

    def send_result(self, request: RequestReceived, result: Any) -> bytes:
        """Serialize the result of a request. Raises InvalidMessageError if the method has no result of this type."""
        row, meta = request.row, self.result_meta
        if type(result) is PreSerialized:
            result = result.value
        elif not isinstance(result, row.result_types):
            names, name = " or ".join(kind.__name__ for kind in row.result_types), type_name(result, row.result_types)
            raise InvalidMessageError(f"{row.method!r} in {self.revision.id}: the result must be {names}, not {name}")
        if meta and (result.get("_meta") if is_object(result) else getattr(result, "meta", None)) is not None:
            meta = b""
        try:
            data = jsonrpc.result(request.id, result, meta)
        except ValueError as error:
            raise UnwritableValueError(
                f"{row.method!r} in {self.revision.id}: the result cannot be sent: {error}"
            ) from None
        self.finish(request)
        return data

    def send_error(self, request: RequestReceived, code: int, message: str, data: Any = None) -> bytes:
        """Serialize the error response to a request."""
        self.finish(request)
        try:
            return jsonrpc.error(request.id, code, message, data)
        except ValueError as error:  # The peer still needs a response.
            message = escaped(message)
            if data is not None and (reason := unwritable(data) or str(error)):
                message = f"{message} (the data of this error cannot be sent: {reason})"
            return jsonrpc.error(request.id, code, message)

    def finish(self, request: RequestReceived) -> None:
        """Mark a request as finished: answered, or cancelled."""
        if request.open and (in_flight := self.in_flight):
            in_flight.pop(request.id, None)
            if not in_flight:
                self.in_flight = _NO_IDS  # Frees the memory of the dict.
        request.open = False

    def local_row(self, row: Notification) -> Notification:
        """Return the row of this method in the direction of this side; some notifications have both directions."""
        local = self.revision.table(_SENDS[self.side]).get(row.method)
        return local if isinstance(local, Notification) else row

    def discard(self, id: Id) -> bool:
        """Forget a pending request; its response will be rejected. Returns False if the response arrived already."""
        return self.pending.pop(id, None) is not None

    def sendable_row(self, row: SentT) -> SentT:
        """Return the negotiated revision's row of a message. Raises ProtocolViolationError if it may not be sent
        now."""
        local = self._sendable.get(row.method)
        if local is not row and not _is_same_message(local, row):
            if self._may_send_own(row):
                return row
            self._raise_violation(row)
        return cast(SentT, local)

    def _may_send_own(self, row: Sent) -> bool:
        """Return True for a message that the protocol does not have; servers without sessions send no requests."""
        if not row.is_own or self.phase is not Phase.OPEN:
            return False
        is_handshake = isinstance(self.revision.lifecycle, Handshake)
        return self.side == "client" or is_handshake or isinstance(row, Notification)

    def _own_row(self, method: str, kind: type[SentT]) -> SentT | None:
        """Return the row of a received message that the protocol does not have; None if nothing handles it."""
        if self.phase is not Phase.OPEN or (method, kind) not in self.own:
            return None
        return cast("SentT", own_row(self.revision, method, cast("Any", kind)))

    def _validated_params(self, row: Sent, params: Any) -> Any:
        """Return the validated params. Raises InvalidMessageError, or ProtocolViolationError for a missing
        capability."""
        if not params and not row.params_required:
            return None
        try:
            checked = validator(row.params)(params)
        except ValidationError as error:
            raise InvalidMessageError(
                f"{row.method!r} in {self.revision.id}: params: {format_validation_error(error)}"
            ) from None
        if row.requirements and (unmet := _unmet_requirement(self, row, checked, self.remote_capabilities)) is not None:
            raise ProtocolViolationError(f"{row.method!r} in {self.revision.id} {unmet.describe()}")
        return checked

    def _serialized(self, row: Sent, write: Callable[..., bytes], *parts: Any) -> bytes:
        """Serialize a message. Raises UnwritableValueError for values that JSON cannot represent (an unpaired
        surrogate)."""
        try:
            return write(*parts)
        except ValueError as error:
            raise UnwritableValueError(f"{row.method!r} in {self.revision.id}: params: {error}") from None

    def _reject_malformed(self, id: Id | None, code: int, reason: str, may_respond: bool = False) -> MessageRejected:
        """Return the rejection of a malformed message; without a readable id its `id` is absent or null, by
        revision. A client responds to requests only: all else may be a response, or no message at all."""
        if self.side == "client" and (id is None or may_respond):
            return MessageRejected(reason)
        return MessageRejected(reason, jsonrpc.error(id, code, reason, null_id=self.revision.null_ids), code)

    def _raise_violation(self, row: Sent) -> None:
        """Raise ProtocolViolationError with the rule that forbids sending this message now."""
        message = f"{row.method!r} in {self.revision.id}"
        if not _is_same_message(self.revision.table(_SENDS[self.side]).get(row.method), row):
            raise ProtocolViolationError(f"{message} is not sent by the {self.side}")
        if not is_allowed(self.revision.lifecycle, self.phase, row):
            raise ProtocolViolationError(f"{message} cannot be sent {self.phase.value}")
        raise ProtocolViolationError(f"{message} needs the capability {row.capability!r}, which was not declared")

    # ---- receiving --------------------------------------------------------------------------------------------------

    def oversized(self, message: OversizedMessage) -> Event:
        """Return the event for a message that is longer than the limit."""
        return self.receive_message(jsonrpc.reject_oversized(message))

    def receive(self, data: bytes) -> Event:
        """Return the event of one encoded message, or of a batch if the revision has batches."""
        return self.receive_message(jsonrpc.decode(data))

    def receive_message(self, message: jsonrpc.Message | list[jsonrpc.Message], in_batch: bool = False) -> Event:
        """Return the event of a decoded message, or of a decoded batch."""
        elsewhere = None if in_batch else self.elsewhere
        if isinstance(message, RequestMessage):  # Requests are the most frequent messages, and `match` is slower.
            if elsewhere is not None:
                # Read here: a function that nearly all requests do not need would cost each of them two percent.
                meta: Any = None if message.params is None else message.params.get("_meta")
                named = meta[NAMED_VERSION] if type(meta) is dict and NAMED_VERSION in meta else None  # pyright: ignore
                if named != self.own_version and (event := elsewhere(message)) is not None:
                    return event
            return self._received_request(message, in_batch)
        if elsewhere is not None and (event := elsewhere(message)) is not None:
            return event
        match message:
            case ResultMessage() | ErrorMessage():
                return self._received_response(message)
            case NotificationMessage():
                return self._received_notification(message)
            case MalformedMessage():
                is_pending = named_id(message.id, self.pending) is not None
                if message.is_response or (message.is_response is None and is_pending):
                    return self._received_response(message)
                return self._reject_malformed(message.id, message.code, message.message, message.is_response is None)
            case _:
                if not self.revision.batches:
                    return self._reject_malformed(None, jsonrpc.INVALID_REQUEST, f"{self.revision.id} has no batches")
                return Batch([self.receive_message(item, in_batch=True) for item in message])

    def _received_request(self, message: RequestMessage, in_batch: bool) -> Event:
        row = self.receivable.get(message.method)
        if not isinstance(row, Request):
            row = self._own_row(message.method, _REQUEST)
            if row is None:
                opens = self._opens_early()
                return self._received_request(message, in_batch) if opens else self._reject_unservable(message)
        if (in_flight := self.in_flight) is not None and message.id in in_flight:
            return self._reject(message, jsonrpc.INVALID_REQUEST, f"id {message.id!r} is in use by another request")
        if (is_initialize := row is self.initialize_row) and (refusal := initialize_refusal(message.params, in_batch)):
            return self._reject(message, jsonrpc.INVALID_REQUEST, f"{row.method!r} {refusal}")
        value: Any = message.params
        if value is None and not row.params_required:
            value = {}
        try:
            params = self.read_params(row)(value)
        except ValidationError as error:
            try:
                params = self._read_params_again(row, value, error)
            except ValidationError as refusal:
                reason = f"{row.method!r}: params: {format_validation_error(refusal)}"
                return self._reject(message, jsonrpc.INVALID_PARAMS, reason)
        if (
            row.requirements
            and (unmet := _unmet_requirement(self, row, params, self._declared_capabilities(message)))
            and not unmet.sender_only
        ):
            return self._reject_missing_capability(
                message, f"{row.method!r} {unmet.describe()} ({self.revision.id})", unmet
            )
        if is_initialize:
            self.enter_phase(Phase.OPENING)
        if in_flight:
            in_flight[message.id] = None
        elif in_flight is not None:
            self.in_flight = {message.id: None}
        return RequestReceived(message.id, row, params)

    def _opens_early(self) -> bool:
        """Enter the last phase, if `initialize` is answered and a request comes before the end of the handshake.

        Some clients never send its last notification, and over HTTP it may come after the requests that follow it. The
        specification has clients wait for the answer only.
        """
        if self.side == "client" or self.phase is not Phase.OPENING or self.in_flight:
            return False
        self.enter_phase(Phase.OPEN)
        return True

    def _reject_unservable(self, message: RequestMessage) -> MessageRejected:
        """Reject a request that is not served now, with the reason."""
        row = self.revision.table(OPPOSITE[_SENDS[self.side]]).get(message.method)
        if isinstance(row, Request) and (not row.capability or self._is_declared(row.capability)):
            reason = f"{row.method!r} cannot be requested {self.phase.value}"
            return self._reject(message, jsonrpc.INVALID_REQUEST, reason)
        return self._reject(message, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {message.method!r} is not served")

    def _reject(self, message: RequestMessage, code: int, reason: str) -> MessageRejected:
        text = f"{reason} ({self.revision.id})"
        return MessageRejected(text, jsonrpc.error(message.id, code, text), code)

    def _declared_capabilities(self, message: RequestMessage) -> Capabilities:
        """Return the capabilities of the other side: those of the request itself if the lifecycle is stateless."""
        meta = message.params.get("_meta") if is_object(message.params) else None
        declared = meta.get(f"{META}clientCapabilities") if is_object(meta) else None
        if is_object(declared) and not isinstance(self.revision.lifecycle, Handshake):
            return declared
        return self.remote_capabilities

    def _reject_missing_capability(
        self, message: RequestMessage, reason: str, requirement: CapabilityRequirement
    ) -> MessageRejected:
        """Reject a request that needs an undeclared capability; with the dedicated error code for client
        capabilities."""
        code = int(self.revision.constants.get(MISSING_CAPABILITY_ERROR, jsonrpc.INVALID_PARAMS))
        if self.side == parse_capability_path(requirement.capability)[0] or code == jsonrpc.INVALID_PARAMS:
            return MessageRejected(
                reason, jsonrpc.error(message.id, jsonrpc.INVALID_PARAMS, reason), jsonrpc.INVALID_PARAMS
            )
        required = capabilities_object([requirement.capability])
        return MessageRejected(
            reason, jsonrpc.error(message.id, code, reason, {"requiredCapabilities": required}), code
        )

    def _received_notification(self, message: NotificationMessage) -> Event:
        row = self.receivable.get(message.method)
        if not isinstance(row, Notification):
            row = self._own_row(message.method, Notification)
        if row is None:
            return MessageRejected(f"the notification {message.method!r} is not accepted {self.phase.value}")
        value: Any = message.params
        if value is None and not row.params_required:
            value = {}
        try:
            params = self.read_params(row)(value)
        except ValidationError as error:
            try:
                params = self._read_params_again(row, value, error)
            except ValidationError as refusal:
                return MessageRejected(f"{row.method!r}: params: {format_validation_error(refusal)}")
        lifecycle = self.revision.lifecycle
        if isinstance(lifecycle, Handshake) and row is lifecycle.initialized:
            self.enter_phase(Phase.OPEN)
        return NotificationReceived(row, params)

    def _received_response(self, message: ResultMessage | ErrorMessage | MalformedMessage) -> Event:
        if (id := message.id) not in self.pending and (id := named_id(id, self.pending)) is None:
            reason = f"the response with id {message.id!r} does not match a pending request"
            return MessageRejected(reason, is_late=message.id is not None)
        row, params = self.pending.pop(id)
        if isinstance(message, ErrorMessage):
            return ResponseReceived(id, RemoteJSONRPCError(message.code, message.message, message.data))
        prefix = f"{row.method!r} in {self.revision.id}: invalid response"
        if isinstance(message, MalformedMessage):
            return ResponseReceived(id, InvalidResponseError(f"{prefix}: {message.message}"))
        try:
            result = row.read_result(message.result, params)
        except ValidationError as error:
            try:
                result = self._read_result_again(row, message.result, params, error)
            except ValidationError as refusal:
                return ResponseReceived(id, InvalidResponseError(f"{prefix}: {format_validation_error(refusal)}"))
        if row is self.initialize_row:
            self.enter_phase(Phase.OPENING)
        return ResponseReceived(id, result)

    # ---- reading without what cannot be read ------------------------------------------------------------------------

    def read_result(self, row: Request[Any] | InputRequest[Any], value: object, params: object = None) -> Any:
        """Return the result of a request with these params, without the parts that cannot be read, which are reported.

        Raises ValidationError if the result as a whole cannot be read, and for any error of a strict connection.
        """
        try:
            return row.read_result(value, params)
        except ValidationError as error:
            return self._read_result_again(row, value, params, error)

    def _read_result_again(
        self, row: Request[Any] | InputRequest[Any], value: object, params: object, error: ValidationError
    ) -> Any:
        if self.report_left_out is None:
            raise error
        left_out: list[LeftOut] = []
        result = row.read_result(value, params, left_out)
        self._report(row, left_out)
        return result

    def _read_params_again(self, row: Sent, value: object, error: ValidationError) -> Any:
        """Return params whose validation has failed, without the parts that cannot be read, which are reported.

        A server reads params strictly, but for the results of input requests that they carry. Of a request to a client,
        the properties of the params themselves are read strictly, because they say what to do.

        Raises ValidationError.
        """
        if self.report_left_out is None or not is_object(value):
            raise error
        left_out: list[LeftOut] = []
        if self.side == "client":
            reading = Reading.REQUEST if isinstance(row, Request) else Reading.RESULT
            params = lenient_reader().read_leniently(row.params, value, left_out, reading)
        elif value.get(INPUT_RESPONSES) is None:
            raise error
        else:
            answers = value[INPUT_RESPONSES]
            responses = lenient_reader().read_property_leniently(row.params, INPUT_RESPONSES, answers, left_out)
            params = self.read_params(row)({**value, INPUT_RESPONSES: responses})
        self._report(row, left_out)
        return params

    def _report(self, row: Sent | InputRequest[Any], left_out: Sequence[LeftOut]) -> None:
        if left_out and self.report_left_out is not None:
            self.report_left_out(self.revision, row, left_out)


def _is_same_message(local: Sent | None, row: Sent) -> bool:
    """Return True if two rows describe the same message; an extension may add result types to one of them."""
    return local is not None and local.direction == row.direction and local.params is row.params


def _unmet_requirement(
    connection: Connection, row: Sent, params: Any, remote_capabilities: Capabilities
) -> CapabilityRequirement | None:
    """Return the first capability requirement of a message that its params do not satisfy."""
    for requirement in row.requirements:
        side, _ = parse_capability_path(requirement.capability)
        capabilities = connection.local_capabilities if side == connection.side else remote_capabilities
        if requirement.applies_to(params) and not satisfies(capabilities, requirement):
            return requirement
    return None


# The `_meta` of a received message's params.


def request_meta(message: RequestReceived | NotificationReceived) -> dict[str, Any]:
    """Return the `_meta` of the params as it was received; an empty object if there is none."""
    params = message.params
    meta: object = getattr(params, "meta", None)
    if hasattr(type(meta), "model_dump"):  # Not `is_model`, because this runs for most messages.
        return plain_of(meta)
    # If the schema does not define `_meta` for the params of this method, it is an extra property of the model.
    extra: object = getattr(params, "model_extra", None)
    unnamed: object = extra.get("_meta") if is_object(extra) else None
    return meta if is_object(meta) else unnamed if is_object(unnamed) else {}
