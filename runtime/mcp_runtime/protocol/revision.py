"""What a generated package says of its revision: rows, a lifecycle and constants. The runtime knows no revision itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    dataclass_transform,
)

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ..errors import LocalError
from .models import defaults_of, is_object, validator

Direction = Literal["client_to_server", "server_to_client"]
ResultT = TypeVar("ResultT", bound=BaseModel)
RecordT = TypeVar("RecordT")

# The namespace of the protocol's own keys in metadata.
META: Final = "io.modelcontextprotocol/"

_RESULT_TYPE: Final = "resultType"
_TOO_LOW: Final = "greater_than_equal"
_WRONG_RESULT_TYPE: Final = "Input should be '{usual}', or a kind that this method has"

OPPOSITE: Final[Mapping[Direction, Direction]] = {
    "client_to_server": "server_to_client",
    "server_to_client": "client_to_server",
}


@dataclass_transform(eq_default=False, frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen_record(cls: type[RecordT]) -> type[RecordT]:
    """A dataclass that nobody changes, to which those who check types hold everybody: code that does so at run time is
    made anew for each class, at each import."""
    return dataclass(eq=False, repr=False, kw_only=True)(cls)


class InterimResult(NamedTuple):
    """A type that may answer a request before its result does: if `property` of the answer is `value`, or, where
    there is no value, if the params had `property`."""

    result: type[BaseModel]
    property: str
    value: str | None = None


class CapabilityRequirement(NamedTuple):
    """A capability, side first, that params of type `params` need: all of them, those that have the attribute
    `property`, or those where it has one of `values`. With `unsaid`, an empty object one level above declares it as
    well; with `sent_only`, whoever receives such params has to bear them."""

    params: type[BaseModel]
    capability: str
    property: str = ""
    values: tuple[str, ...] = ()
    implied_by_empty: bool = False
    sender_only: bool = False

    def applies_to(self, params: object) -> bool:
        """Whether these params need the capability."""
        if not isinstance(params, self.params) or not self.property:
            return isinstance(params, self.params)
        value = vars(params)[self.property]  # An attribute may be deprecated, which is not for us to say.
        return value in self.values if self.values else value is not None

    def describe(self) -> str:
        """What is missing for params that do not pass."""
        named = self.property or self.params.__name__
        return f"with {named} needs the capability {self.capability!r}, which was not declared"


@frozen_record
class _Message:
    """The part that all rows share.

    `name` is the method of the generated class that receives the message. `params` is a model, a union of models, or
    None; it may be absent from the message unless `params_required`. `capability` has to be declared, side first, empty
    for none; `requirements` are further capabilities that some params need. The table of a row sets its `direction`.
    """

    method: str = field(kw_only=False)
    name: str = field(kw_only=False)
    params: Any = field(kw_only=False)
    direction: Direction = "client_to_server"
    params_required: bool = True
    capability: str = ""
    requirements: tuple[CapabilityRequirement, ...] = ()


@frozen_record
class Notification(_Message):
    """A message that is not answered; its sender must have declared the capability. `listed` is the list by which who
    listens chooses some of them, and the property of the params that is in it."""

    listed: tuple[str, str] | None = None


@frozen_record
class Request(_Message, Generic[ResultT]):
    """A message that is answered by `result`, or by one of `interim` before that (`answers` are all of these types);
    its receiver must have declared the capability. `keeps` tells that the result says how long it holds; `asks` is the
    one of `interim` that asks questions."""

    result: type[ResultT] = field(kw_only=False)
    interim: tuple[InterimResult, ...] = ()
    result_types: tuple[type[BaseModel], ...] = field(init=False)
    cacheable: bool = field(init=False)
    input_required: InterimResult | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cacheable", {"ttl_ms", "cache_scope"} <= self.result.model_fields.keys())
        object.__setattr__(self, "result_types", (self.result, *(interim.result for interim in self.interim)))
        asking = (each for each in self.interim if "input_requests" in each.result.model_fields)
        object.__setattr__(self, "input_required", next(asking, None))

    def read_result(self, value: object, params: object = None) -> BaseModel:
        """The answer to a request with these params, as the one type it has to be; what has a usual value may be absent
        from it. Raises ValidationError."""
        for interim in self.interim:
            told = value if interim.value is not None else params
            found = told.get(interim.property) if is_object(told) else None
            if found is not None and interim.value in (None, found):
                shape = interim.result
                break
        else:
            shape = self.result
        result: BaseModel = _read_result(shape, value) if shape is self.result else validator(shape)(value)
        return result


@frozen_record
class InputRequest(_Message, Generic[ResultT]):
    """What one side asks of the other inside a result, answered in the params of the next request."""

    result: type[ResultT] = field(kw_only=False)


Sent = Request[Any] | Notification


class MessageTable:
    """The messages that one side sends: a row for each, in `rows` in the order of the class."""

    rows: ClassVar[tuple[Sent | InputRequest[Any], ...]] = ()

    def __init_subclass__(cls, direction: Direction) -> None:
        """Collect the rows of the class, and give them the direction of the table."""
        cls.rows = tuple(row for row in vars(cls).values() if isinstance(row, (Request, Notification, InputRequest)))
        for row in cls.rows:
            object.__setattr__(row, "direction", direction)


def rows_of(*tables: type[MessageTable]) -> tuple[Sent | InputRequest[Any], ...]:
    """Return the rows of all tables."""
    return tuple(row for table in tables for row in table.rows)


@frozen_record
class HandshakeFields:
    """What the properties of the opening request and its result are called; `further` are the objects that the result
    has to have besides."""

    version: str = "protocolVersion"
    client_capabilities: str = "capabilities"
    client_info: str = "clientInfo"
    server_capabilities: str = "capabilities"
    server_info: str = "serverInfo"
    required_objects: tuple[str, ...] = ()


@frozen_record
class Handshake:
    """A conversation is a session: it opens with a request and a notification, and both sides remember what was said."""

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
    """Every request carries its revision and the client's capabilities; nothing is remembered between requests."""

    discover: Request[Any]
    listen: Request[Any]
    acknowledged: Notification
    cancelled: Notification
    progress: Notification
    log: Notification


@frozen_record
class HTTPProfile:
    """How the messages of a revision travel over HTTP: over the one streamable endpoint, or over the older pair alone;
    with a header that names the revision once it is agreed; with an empty event that begins each stream; with metadata
    of the protected resource, which says who authorizes (RFC 9728): else the server's own origin does.

    `names` is the property of the params that a header repeats, by method; `statuses` the HTTP status that goes with
    an error code, 200 for the others. Further headers repeat arguments: `schemas` is the request whose result says
    which, `arguments` the one that has them.
    """

    streamable: bool
    version_header: bool
    priming_event: bool
    resource_metadata: bool
    name_params: Mapping[str, str] = field(default_factory=dict[str, str])
    statuses: Mapping[int, int] = field(default_factory=dict[int, int])
    tool_schemas: Request[Any] | None = None
    tool_call: Request[Any] | None = None


def _read_result(shape: type[BaseModel], value: object) -> Any:
    """The answer as the result that ends a request, with the usual values of what it leaves out, as older servers do.
    Raises ValidationError, also for a result of a kind that this one is not (2026: basic, ResultType)."""
    known = defaults_of(shape)
    if not known or not is_object(value):
        return validator(shape)(value)
    try:
        result = validator(shape)(value if known.keys() <= value.keys() else {**known, **value})
    except ValidationError as fault:
        low = {each["loc"][0] for each in fault.errors() if each["type"] == _TOO_LOW and len(each["loc"]) == 1}
        if not low & known.keys():
            raise
        # A number below the least is ignored where there is a usual value (2026: server/utilities/caching).
        return _read_result(shape, {name: each for name, each in value.items() if name not in low & known.keys()})
    if (kind := known.get(_RESULT_TYPE)) is not None and (said := value.get(_RESULT_TYPE, kind)) != kind:
        wrong = InitErrorDetails(
            type=PydanticCustomError("kind", _WRONG_RESULT_TYPE, {"usual": kind}), loc=(_RESULT_TYPE,), input=said
        )
        raise ValidationError.from_exception_data(shape.__name__, [wrong])
    return result


class ReservedErrorCodes(NamedTuple):
    """The error codes from `first` to `last`: unless they are constants, `instead` is sent for them."""

    first: int
    last: int
    replacement: int


def _merge_rows(row: Sent | InputRequest[Any], other: Sent | InputRequest[Any]) -> Sent | InputRequest[Any]:
    """The row of a message that two extensions have: what may answer it is all that either of them says."""
    result, further = (getattr(each, "result", None) for each in (row, other))
    if row.params is not other.params or result is not further or row.capability != other.capability:
        raise LocalError(f"two extensions have the message {row.method!r}, and mean different things by it")
    if not isinstance(row, Request) or not isinstance(other, Request):
        return row
    told = {(interim.property, interim.value): interim for interim in row.interim}
    for interim in other.interim:
        known = told.setdefault((interim.property, interim.value), interim)
        if known.result is not interim.result:
            raise LocalError(f"two extensions answer {row.method!r} with {interim.property} = {interim.value!r}")
    return row if len(told) == len(row.interim) else replace(row, interim=tuple(told.values()))


@frozen_record
class Revision:
    """One revision of the protocol, as `module` of its package has it: all its rows, how a conversation opens and how
    it travels over HTTP; which error codes are not sent; whether messages may come in batches, and errors about a message
    without a readable id have `null` for it; and the constants of its schema."""

    id: str
    module: str
    rows: tuple[Sent | InputRequest[Any], ...]
    lifecycle: Handshake | Stateless
    http: HTTPProfile
    batches: bool
    null_ids: bool
    constants: Mapping[str, str | int]
    reserved_codes: tuple[ReservedErrorCodes, ...] = ()

    @property
    def package(self) -> str:
        """The package that holds this revision's and those of others."""
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
        """Everything that some message of it needs to have been declared, side first."""
        return frozenset(row.capability for table in self._tables.values() for row in table.values() if row.capability)

    def error_code_to_send(self, code: int) -> int:
        """The error code that is sent for this one, which may be reserved or out of use (2026: basic, error codes)."""
        if code not in self.constants.values():
            for codes in self.reserved_codes:
                if codes.first <= code <= codes.last:
                    return codes.replacement
        return code

    def extended_with(self, extension: Revision) -> Revision:
        """This revision with what another one has beside it: one that is the same, but for an extension. Raises LocalError
        where the two say different things of one message."""
        rows = {(row.direction, row.method): row for row in self.rows}
        for row in extension.rows:
            known = rows.get((row.direction, row.method))
            rows[row.direction, row.method] = row if known is None else _merge_rows(known, row)
        names = {**self.http.name_params, **extension.http.name_params}
        return replace(self, rows=tuple(rows.values()), http=replace(self.http, name_params=names))

    def table(self, direction: Direction) -> Mapping[str, Sent]:
        """The requests and notifications that go this way, by method."""
        return self._tables[direction]
