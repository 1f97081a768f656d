"""What the generator knows of a revision, between reading and rendering: its types, its methods, its lifecycle.

Everything here is immutable and says what the protocol says; no Python syntax stands in it, only the names that
Python will use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class Ref:
    """A named type of the same revision."""

    name: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A JSON type; `any` is any JSON value, `number` an integer or a fraction, each kept as it was written. `known`
    are the values of a string that the specification gives a meaning; others are valid too."""

    kind: Literal["string", "integer", "number", "boolean", "null", "any"]
    minimum: int | float | None = None
    maximum: int | float | None = None
    known: tuple[str, ...] = ()
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """One of these values; a constant where there is one alone."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Array:
    items: Type
    max_items: int | None = None
    min_items: int | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """An object whose keys are free."""

    values: Type


@dataclass(frozen=True, slots=True)
class Union:
    """One of these types; `tag` is the wire name of the property that tells which, where one does."""

    arms: tuple[Type, ...]
    tag: str | None = None


Type = Ref | Plain | Values | Array | Map | Union


@dataclass(frozen=True, slots=True)
class Field:
    """One property: `wire` on the wire, `name` in Python; `fill` is its usual value, where the overlay says one."""

    wire: str
    name: str
    type: Type
    required: bool
    doc: str = ""
    deprecated: bool = False
    default: Scalar | None = None

    @property
    def constant(self) -> Scalar | None:
        """The value that constructors fill in: the only one a required property can have, or the usual one."""
        if self.default is not None:
            return self.default
        return (
            self.type.values[0]
            if self.required and isinstance(self.type, Values) and len(self.type.values) == 1
            else None
        )


@dataclass(frozen=True, slots=True)
class Object:
    """An object type. `fields` are all its properties, inherited ones first; `extends` as the specification says;
    `bases` are those of them whose every property is unchanged here, so that a Python class can inherit from them;
    `closed`: it has no properties but these."""

    name: str
    fields: tuple[Field, ...]
    extends: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    doc: str = ""
    deprecated: bool = False
    category: str = ""
    closed: bool = False

    def field(self, wire: str) -> Field | None:
        return next((field for field in self.fields if field.wire == wire), None)


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for another type."""

    name: str
    type: Type
    doc: str = ""
    deprecated: bool = False
    category: str = ""


@dataclass(frozen=True, slots=True)
class InterimResult:
    """A type that may answer a request before its result does.

    `property` tells that it does: one of the params by which the sender asked for it, or, where `value` says which
    value it then has, one of the answer itself.
    """

    type: str
    property: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class CapabilityRequirement:
    """A capability, side first, that params of this type need: all of them, those that have the attribute `property`,
    or those where it has one of `values`. With `implied_by_empty`, an empty object one level above declares it as well; with
    `sent_only`, whoever receives such params has to bear them."""

    type: str
    capability: str
    property: str = ""
    values: tuple[str, ...] = ()
    implied_by_empty: bool = False
    sender_only: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the method table: a method in one direction.

    `name` is its Python stem, `params` the params type, `result` what answers it at last; `capability` is what must
    have been declared, side first, empty for nothing, `gates` what some params need besides; `listed` the list by which
    a notification is chosen by who listens, and the property of its params that is in it.
    """

    kind: Literal["request", "notification", "input_request"]
    direction: Literal["client_to_server", "server_to_client"]
    method: str
    name: str
    type: str
    params: str | None
    params_required: bool
    result: str | None
    interim: tuple[InterimResult, ...]
    capability: str
    requirements: tuple[CapabilityRequirement, ...]
    doc: str
    deprecated: bool
    listed: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """How a conversation opens; `roles` name the methods that the runtime itself has to know, `terms` what the
    properties of the opening are called where it is not as in the core."""

    style: str
    roles: Mapping[str, str]
    fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class HTTPProfile:
    """How its messages travel over HTTP: over the one streamable endpoint; with a header that names the revision once
    it is agreed; with an empty event that begins a stream; with metadata of the protected resource,
    which says who authorizes. `names` is the property of the params that a header repeats, by method; `statuses` the
    status that goes with an error code, by its name; `schemas` and `arguments` the methods whose result says, and whose
    params hold, what further headers repeat; empty for none."""

    streamable: bool
    version_header: bool
    priming_event: bool
    resource_metadata: bool
    name_params: Mapping[str, str]
    statuses: Mapping[str, int]
    tool_schemas: str = ""
    tool_call: str = ""


@dataclass(frozen=True, slots=True)
class ReservedErrorCodes:
    """The error codes from `first` to `last` that are not sent unless they are constants, and what is sent instead."""

    first: int
    last: int
    replacement: int


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of the protocol, whole; `client` and `server` are what the classes of its two sides are called."""

    id: str
    constants: Mapping[str, str | int]
    types: Mapping[str, Object | Alias]
    methods: tuple[Method, ...]
    lifecycle: Lifecycle
    http: HTTPProfile
    reserved_codes: tuple[ReservedErrorCodes, ...]
    batches: bool
    null_ids: bool
    sha256: str
    client: str = "Client"
    server: str = "Server"

    @property
    def module(self) -> str:
        """The name of its package: the id with `v` in front and underscores inside."""
        return "v" + self.id.replace("-", "_").replace(".", "_")

    def own_fields(self, each: Object) -> list[Field]:
        """The fields that no Python base of the object has already."""
        bases = (self.types[name] for name in each.bases)
        inherited = {field.wire for base in bases if isinstance(base, Object) for field in base.fields}
        return [field for field in each.fields if field.wire not in inherited]

    def objects(self) -> Iterator[Object]:
        return (each for each in self.types.values() if isinstance(each, Object))
