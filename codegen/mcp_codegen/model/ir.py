"""The intermediate representation of a revision, between reading and rendering: types, methods, lifecycle.

Everything here is immutable and in the terms of the protocol. It has no Python syntax, only the names that Python uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Scalar = str | int | bool
Side = Literal["client", "server"]

# The types of Python for those of JSON, where a number is not kept as an integer.
PYTHON_TYPES: Final[Mapping[str, str]] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "any": "Any",
}


@dataclass(frozen=True, slots=True)
class Ref:
    """A named type of the same revision."""

    name: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A JSON type. `any` is any JSON value; `number` is an integer or a fraction, not converted. `open_values` are the
    values of a string that the specification defines; other values are valid too. `format` is an annotation, and two
    types that differ only there are equal."""

    kind: Literal["string", "integer", "number", "boolean", "null", "any"]
    minimum: int | float | None = None
    maximum: int | float | None = None
    open_values: tuple[str, ...] = ()
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Values:
    """One of these values; a constant if there is only one."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A JSON array."""

    items: Type
    max_items: int | None = None
    min_items: int | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """An object with arbitrary keys."""

    values: Type


@dataclass(frozen=True, slots=True)
class Union:
    """One of these types. `tag` is the wire name of the property that discriminates them, if there is one."""

    arms: tuple[Type, ...]
    tag: str | None = None


Type = Ref | Plain | Values | Array | Map | Union


@dataclass(frozen=True, slots=True)
class Field:
    """One property: `wire` is its JSON name, `name` its Python name, `default` its default value from the overlay.
    `since` is the version that first had it, where the schema names it. An `essential` one is optional, but an object
    without it would mean something else."""

    wire: str
    name: str
    type: Type
    required: bool
    doc: str = ""
    deprecated: bool = False
    default: Scalar | None = None
    since: str = field(default="", compare=False)
    essential: bool = field(default=False, compare=False)

    @property
    def constant(self) -> Scalar | None:
        """Return the value that constructors fill in: the default, or the only value of a required property."""
        if self.default is not None:
            return self.default
        return (
            self.type.values[0]
            if self.required and isinstance(self.type, Values) and len(self.type.values) == 1
            else None
        )


@dataclass(frozen=True, slots=True)
class Object:
    """An object type. `fields` are all its properties, inherited ones first. `extends` are its bases in the
    specification; `bases` are those with no property overridden here, so that a Python class can inherit from
    them. A `closed` type has no other properties, and the schema of an `open` one names them. `matches` is the text of
    a JSON Schema with what the fields do not say; empty for most."""

    name: str
    fields: tuple[Field, ...]
    extends: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    doc: str = ""
    deprecated: bool = False
    category: str = ""
    closed: bool = False
    since: str = ""
    open: bool = field(default=False, compare=False)
    matches: str = ""

    def field(self, wire: str) -> Field | None:
        return next((field for field in self.fields if field.wire == wire), None)


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for another type. `matches` is the text of a JSON Schema with what it does not say; empty for most."""

    name: str
    type: Type
    doc: str = ""
    deprecated: bool = False
    category: str = ""
    since: str = ""
    matches: str = ""


@dataclass(frozen=True, slots=True)
class InterimResult:
    """A type that may be the result of a request before its final result.

    `property` identifies it. With `value`, it is a property of the result that then has this value. Without, it is a
    property of the params by which the sender requested it.
    """

    type: str
    property: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class CapabilityRequirement:
    """A capability, side first, that params of this type need: all of them, those that have the attribute
    `property`, or those where it has one of `values`. With `implied_by_empty`, an empty object one level above
    declares it as well. With `sender_only`, receivers must accept such params without it."""

    type: str
    capability: str
    property: str = ""
    values: tuple[str, ...] = ()
    implied_by_empty: bool = False
    sender_only: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the method table: a method in one direction.

    `name` is its Python stem, `params` the type of its params, `result` the type of its final result. `capability` must
    be declared first, side first; empty for none. `requirements` are further capabilities that some params need.
    `listed` is the filter of a subscription that selects a notification, and the property of its params that the filter
    lists.
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
    since: str = ""
    positions: tuple[str, ...] = ()
    """The properties of the params in the order of their places; empty if they go by name only, as all of MCP do."""
    sends_list: bool = False
    """True if the params are sent in a list, in the order of `positions`."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The initialization of a connection. `roles` are the methods that the runtime itself must know. `fields` are the
    names of the initialization properties where they differ from those of the core protocol."""

    style: str
    roles: Mapping[str, str]
    fields: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict[str, str | tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class HTTPProfile:
    """The use of HTTP by a revision.

    `streamable`: over Streamable HTTP. `version_header`: a header has the negotiated version. `priming_event`: streams
    begin with an empty event. `resource_metadata`: protected resource metadata names the authorization server.
    `name_params` is the property of the params that a header repeats, by method; `statuses` the HTTP status of an error
    code, by its name. `tool_schemas` is the method whose result names further headers, `tool_call` the method whose
    params they repeat; empty for none.
    """

    streamable: bool
    version_header: bool
    priming_event: bool
    resource_metadata: bool
    name_params: Mapping[str, str]
    statuses: Mapping[str, int]
    tool_schemas: str = ""
    tool_call: str = ""


NO_HTTP: Final = HTTPProfile(False, False, False, False, {}, {})


@dataclass(frozen=True, slots=True)
class ReservedErrorCodes:
    """The error codes from `first` to `last`. They are only sent if they are constants; else `replacement` is."""

    first: int
    last: int
    replacement: int


def module_name(revision: str) -> str:
    """Return the name of the package of a revision."""
    return "v" + revision.replace("-", "_").replace(".", "_")


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of the protocol. `client` and `server` are the names of the classes of its two sides, and `protocol`
    is the name of another protocol than MCP. `other_names` has the properties that the runtime takes from the tables
    of a revision, and that have other names in it."""

    id: str
    constants: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    types: Mapping[str, Object | Alias] = field(default_factory=dict[str, "Object | Alias"])
    methods: tuple[Method, ...] = ()
    lifecycle: Lifecycle = Lifecycle("none", {})
    http: HTTPProfile = NO_HTTP
    reserved_codes: tuple[ReservedErrorCodes, ...] = ()
    batches: bool = False
    null_ids: bool = False
    sha256: str = ""
    client: str = "Client"
    server: str = "Server"
    protocol: str = "MCP"
    other_names: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def module(self) -> str:
        """Return the name of its package: the id with `v` in front and underscores inside."""
        return module_name(self.id)

    def own_fields(self, type: Object) -> list[Field]:
        """Return the fields that no Python base of the object has."""
        bases = (self.types[name] for name in type.bases)
        inherited = {field.wire for base in bases if isinstance(base, Object) for field in base.fields}
        return [field for field in type.fields if field.wire not in inherited]

    def objects(self) -> Iterator[Object]:
        """Yield the object types."""
        return (type for type in self.types.values() if isinstance(type, Object))
