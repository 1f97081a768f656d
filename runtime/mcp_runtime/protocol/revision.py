"""The description of a protocol revision: its messages, lifecycle, HTTP profile and constants.

Generated packages build these records from the schema of a revision; the runtime itself contains no revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar, cast, dataclass_transform

from ..errors import LocalError
from .lenient import LeftOut, lenient_reader
from .models import TypeReference, fields_of, is_object, load_references, validator
from .result_types import InterimResult as InterimResult
from .result_types import read_result

if TYPE_CHECKING:
    from pydantic import BaseModel

Direction = Literal["client_to_server", "server_to_client"]
ResultT = TypeVar("ResultT", bound="BaseModel")
RecordT = TypeVar("RecordT")

# The prefix of the protocol's reserved keys in `_meta`.
META: Final = "io.modelcontextprotocol/"
LOG_LEVEL: Final = f"{META}logLevel"  # The member of `_meta` by which a stateless request wants log messages.
NAMED_VERSION: Final = (
    f"{META}protocolVersion"  # The member of `_meta` by which each stateless request names its version.
)
INPUT_RESPONSES: Final = "inputResponses"  # The property of params with the results of input requests.

OPPOSITE: Final[Mapping[Direction, Direction]] = {
    "client_to_server": "server_to_client",
    "server_to_client": "client_to_server",
}


@dataclass_transform(eq_default=False, frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen_record(cls: type[RecordT]) -> type[RecordT]:
    """Make a class a dataclass that type checkers treat as frozen.

    It is not frozen at run time: dataclasses would generate code for this in each class at each import.
    """
    return dataclass(eq=False, repr=False, kw_only=True)(cls)


class CapabilityRequirement(NamedTuple):
    """A capability that some params need.

    `capability` is a capability path, such as `client.sampling.tools`. The requirement applies to params of type
    `params`; if `property` is set, only if that attribute is present; if `values` is set, only if it has one of these
    values. With `implied_by_empty`, an empty object one level above declares the capability as well. With
    `sender_only`, the requirement is checked when such params are sent, not when they are received.
    """

    params: type[BaseModel]
    capability: str
    property: str = ""
    values: tuple[str, ...] = ()
    implied_by_empty: bool = False
    sender_only: bool = False

    def applies_to(self, params: object) -> bool:
        """Return True if these params need the capability."""
        if not isinstance(params, self.params) or not self.property:
            return isinstance(params, self.params)
        value = vars(params)[self.property]  # Not getattr: a deprecated attribute would warn.
        return value in self.values if self.values else value is not None

    def describe(self) -> str:
        """Return the text for an error about params that do not satisfy the requirement."""
        named = self.property or self.params.__name__
        return f"with {named} needs the capability {self.capability!r}, which was not declared"


# The attributes of a message that have types.
_TYPED: Final = frozenset({"params", "result", "interim", "requirements"})


@frozen_record
class _Message:
    """The common fields of all messages.

    `name` is the method of the generated class that handles the message. `params` is a model, a union of models, or
    None; params may be absent unless `params_required`. `capability` is the path of the capability that the message
    needs, empty if it needs none; `requirements` are further capabilities that some params need. The table of a row
    sets its `direction`. `is_own` is True for a message that the protocol does not have: it belongs to no table.

    Types may be references: they are loaded when the attribute is first used.
    """

    method: str = field(kw_only=False)
    name: str = field(kw_only=False)
    params: Any = field(kw_only=False)
    direction: Direction = "client_to_server"
    params_required: bool = True
    capability: str = ""
    is_own: bool = False
    requirements: tuple[CapabilityRequirement, ...] = field(default_factory=tuple[CapabilityRequirement, ...])

    def __post_init__(self) -> None:
        values = vars(self)
        values["_deferred"] = {name: values.pop(name) for name in _TYPED & values.keys() if values[name]}


@frozen_record
class Notification(_Message):
    """A notification; its sender must have declared the capability.

    `listed` is set if subscribers select notifications by a list in their subscription filter: the name of the list,
    and the property of the params that must be in it.
    """

    listed: tuple[str, str] | None = None


@frozen_record
class Request(_Message, Generic[ResultT]):
    """A request; its receiver must have declared the capability.

    `result` is the type of the final result, and `interim` the other result types. `paginated` is True if the result is
    a page of a list.
    """

    result: type[ResultT] = field(kw_only=False)
    paginated: bool = False
    interim: tuple[InterimResult, ...] = field(default_factory=tuple[InterimResult, ...])

    @cached_property
    def result_types(self) -> tuple[type[BaseModel], ...]:
        """The type of the final result, and the other result types."""
        return (self.result, *(interim.result for interim in self.interim))

    @cached_property
    def cacheable(self) -> bool:
        """True if the result has caching properties."""
        return {"ttl_ms", "cache_scope"} <= fields_of(self.result).keys()

    @cached_property
    def input_required(self) -> InterimResult | None:
        """The interim result with input requests; None if there is none."""
        return next((interim for interim in self.interim if "input_requests" in fields_of(interim.result)), None)

    def read_result(self, value: object, params: object = None, left_out: list[LeftOut] | None = None) -> BaseModel:
        """Validate the result of a request with these params as the matching result type.

        Properties with a default may be absent. With `left_out`, the parts that cannot be read are left out, and added
        to it. Raises ValidationError.
        """
        for interim in self.interim:
            holder = value if interim.value is not None else params
            property_value = holder.get(interim.property) if is_object(holder) else None
            if property_value is not None and interim.value in (None, property_value):
                shape = interim.result
                break
        else:
            shape = self.result
        if shape is self.result:
            return cast("BaseModel", read_result(shape, value, left_out, self.paginated))
        return _read(shape, value, left_out)


@frozen_record
class InputRequest(_Message, Generic[ResultT]):
    """A request inside an InputRequiredResult; its result is sent in the params of the retried request.

    See MCP specification, Multi Round-Trip Requests:
    https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
    """

    result: type[ResultT] = field(kw_only=False)

    def read_result(self, value: object, params: object = None, left_out: list[LeftOut] | None = None) -> BaseModel:
        """Validate the result; with `left_out`, the parts that cannot be read are left out, and added to it.

        Raises ValidationError.
        """
        return _read(self.result, value, left_out)


def _loaded(name: str) -> Any:
    """Return an attribute whose types are loaded when it is first used: then the message has its value itself."""

    def load(message: Any) -> Any:
        return load_references(cast("dict[str, Any]", vars(message)["_deferred"])[name])

    return cached_property(load)


for _record in (Notification, Request, InputRequest):
    for _name in _TYPED & _record.__dataclass_fields__.keys():
        setattr(_record, _name, _loaded(_name))
        vars(_record)[_name].__set_name__(_record, _name)


def _read(shape: Any, value: object, left_out: list[LeftOut] | None) -> BaseModel:
    read = validator(shape)(value) if left_out is None else lenient_reader().read_leniently(shape, value, left_out)
    return cast("BaseModel", read)


Sent = Request[Any] | Notification


# Messages that the protocol does not have, such as those of a vendor. They are the same in every revision.

_ANY_OBJECT: Final[Any] = TypeReference("mcp_runtime.protocol", "wire_models", "AnyObject")
RESULT_TYPE: Final = "resultType"  # The property of each result of a stateless revision.
COMPLETE: Final = "complete"  # Its value in a final result.


@lru_cache
def own_row(revision: Revision, method: str, kind: type[Sent]) -> Any:
    """Return the row of an own message of this kind. A request has the metadata of each request of the revision."""
    if kind is Notification:
        return Notification(method, method, _ANY_OBJECT, params_required=False, is_own=True)
    lifecycle = revision.lifecycle
    sample = lifecycle.discover if isinstance(lifecycle, Stateless) else lifecycle.ping_request
    required = sample.params_required
    return Request(method, method, sample.params, _ANY_OBJECT, params_required=required, is_own=True)


class MessageTable:
    """The messages that one side sends: a row for each, in `rows` in the order of the class."""

    rows: ClassVar[tuple[Sent | InputRequest[Any], ...]] = ()

    def __init_subclass__(cls, direction: Direction) -> None:
        """Collect the rows of the class, and give them the direction of the table."""
        row_types = (Request, Notification, InputRequest)
        cls.rows = tuple(cast("Sent", row) for row in vars(cls).values() if isinstance(row, row_types))
        for row in cls.rows:
            object.__setattr__(row, "direction", direction)


def rows_of(*tables: type[MessageTable]) -> tuple[Sent | InputRequest[Any], ...]:
    """Return the rows of all tables."""
    return tuple(row for table in tables for row in table.rows)


@frozen_record
class HandshakeFields:
    """The property names of the initialize request and its result; `required_objects` are further object properties
    that the result must have."""

    version: str = "protocolVersion"
    client_capabilities: str = "capabilities"
    client_info: str = "clientInfo"
    server_capabilities: str = "capabilities"
    server_info: str = "serverInfo"
    required_objects: tuple[str, ...] = ()


@frozen_record
class Handshake:
    """The lifecycle of stateful revisions: an `initialize` request and an `initialized` notification open a session."""

    initialize_request: Request[Any]
    initialized: Notification
    ping_request: Request[Any]
    cancelled: Notification
    progress: Notification
    log: Notification | None = None
    set_level: Request[Any] | None = None
    subscribe: Request[Any] | None = None
    unsubscribe: Request[Any] | None = None
    fields: HandshakeFields = HandshakeFields()


@frozen_record
class Stateless:
    """The lifecycle of stateless revisions: every request carries its protocol version and the client's
    capabilities."""

    discover: Request[Any]
    listen: Request[Any]
    acknowledged: Notification
    cancelled: Notification
    progress: Notification
    log: Notification


@frozen_record
class HTTPProfile:
    """The HTTP rules of a revision.

    `streamable` is True for the Streamable HTTP transport, False for the HTTP+SSE transport. With `version_header`,
    requests after the negotiation carry MCP-Protocol-Version. With `priming_event`, each SSE stream starts with an
    empty event. With `resource_metadata`, protected resource metadata names the authorization server (RFC 9728);
    otherwise the server's origin is the authorization server.

    `name_params` has, by method, the property of the params that the Mcp-Name header repeats. `statuses` has the HTTP
    status of an error code; other codes use 200. `tool_schemas` is the request whose result defines which arguments are
    repeated in Mcp-Param headers, `tool_call` the request with these arguments.
    """

    streamable: bool
    version_header: bool
    priming_event: bool
    resource_metadata: bool
    name_params: Mapping[str, str] = field(default_factory=dict[str, str])
    statuses: Mapping[int, int] = field(default_factory=dict[int, int])
    tool_schemas: Request[Any] | None = None
    tool_call: Request[Any] | None = None


class ReservedErrorCodes(NamedTuple):
    """A reserved range of error codes. Codes in it that are not schema constants are sent as `replacement`."""

    first: int
    last: int
    replacement: int


def _merge_rows(row: Sent | InputRequest[Any], other: Sent | InputRequest[Any]) -> Sent | InputRequest[Any]:
    """Merge the rows of a message that two extensions define: the result has the interim results of both."""
    result, other_result = (getattr(message, "result", None) for message in (row, other))
    if row.params is not other.params or result is not other_result or row.capability != other.capability:
        raise LocalError(f"two extensions define the message {row.method!r} differently; use them in separate servers")
    if not isinstance(row, Request) or not isinstance(other, Request):
        return row
    results = {(interim.property, interim.value): interim for interim in row.interim}
    for interim in other.interim:
        present = results.setdefault((interim.property, interim.value), interim)
        if present.result is not interim.result:
            raise LocalError(
                f"two extensions define different results of {row.method!r} with {interim.property} = {interim.value!r}"
            )
    return row if len(results) == len(row.interim) else replace(row, interim=tuple(results.values()))


@frozen_record
class Revision:
    """One revision of the protocol.

    `id` is the protocol version, `module` the generated module of the revision, and `rows` are all messages. `batches`
    is True if messages may be sent in JSON-RPC batches. `null_ids` is True if an error response to a message without a
    readable id has `"id": null`. `constants` are the constants of the schema, `reserved_codes` the error codes that are
    not sent. `other_names` has the properties with other names than in the release that hand-written code knows, by
    their place there.
    """

    id: str
    module: str
    rows: tuple[Sent | InputRequest[Any], ...]
    lifecycle: Handshake | Stateless
    http: HTTPProfile
    batches: bool
    null_ids: bool
    constants: Mapping[str, str | int]
    reserved_codes: tuple[ReservedErrorCodes, ...] = ()
    other_names: Mapping[str, str] = field(default_factory=dict[str, str])

    def name_of(self, place: str) -> str:
        """Return the name that a property has in this revision; `place` is its type and its usual name."""
        return self.other_names.get(place) or place.partition(".")[2]

    @property
    def package(self) -> str:
        """The generated package that contains all revisions."""
        return self.module.rsplit(".", 2)[0]

    @cached_property
    def _tables(self) -> dict[Direction, dict[str, Sent]]:
        tables: dict[Direction, dict[str, Sent]] = {direction: {} for direction in OPPOSITE}
        for row in self.rows:
            if not isinstance(row, InputRequest):
                tables[row.direction][row.method] = row
        return tables

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """The capability paths that the messages of this revision need."""
        return frozenset(row.capability for table in self._tables.values() for row in table.values() if row.capability)

    def error_code_to_send(self, code: int) -> int:
        """Return the error code to send in place of a code, which may be reserved in this revision.

        https://modelcontextprotocol.io/specification/draft/basic#error-codes
        """
        if code not in self.constants.values():
            for codes in self.reserved_codes:
                if codes.first <= code <= codes.last:
                    return codes.replacement
        return code

    def extended_with(self, extension: Revision) -> Revision:
        """Return this revision with the messages of the same revision with an extension added.

        Raises LocalError if the two define the same message differently.
        """
        rows = {(row.direction, row.method): row for row in self.rows}
        for row in extension.rows:
            present = rows.get((row.direction, row.method))
            rows[row.direction, row.method] = row if present is None else _merge_rows(present, row)
        names = {**self.http.name_params, **extension.http.name_params}
        return replace(self, rows=tuple(rows.values()), http=replace(self.http, name_params=names))

    def table(self, direction: Direction) -> Mapping[str, Sent]:
        """Return the requests and notifications of a direction, by method."""
        return self._tables[direction]
