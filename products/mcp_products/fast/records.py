"""Read the first messages of a session without pydantic's models, which take longer to build than all else at a start.

A CoreRecord is what pydantic_core validates with the schema that the model of the type has, so that both accept the
same values, and report the same errors. The generated module `core_schemas` of a protocol version has the types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, partial
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from pydantic_core import PydanticKnownError, SchemaSerializer, SchemaValidator

from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.models import (
    PreSerialized,
    Read,
    TypeReference,
    check_integer,
    is_object,
    plain_of,
    read_as_model,
    validator,
)
from mcp_runtime.protocol.revision import Request, Sent

from .switches import ENABLED as ENABLED

if TYPE_CHECKING:
    from pydantic import BaseModel

_Schema = dict[str, Any]

_SCALARS: Final[Mapping[str, _Schema]] = {
    "str": {"type": "str", "strict": True},
    "int": {
        "type": "function-before",
        "function": {"type": "no-info", "function": check_integer},
        "schema": {"type": "int"},
    },
    "number": {"type": "union", "choices": [{"type": "int"}, {"type": "float"}]},
    "bool": {"type": "bool"},
    "null": {"type": "none"},
    "any": {"type": "any"},
}


# The forms of types in the generated modules `core_schemas`.


def is_open_form(form: Any) -> bool:
    """Return True for the form of objects or lists without records: their values are JSON as they are."""
    if isinstance(form, str):
        return form == "any"
    return form is not None and form[0] in ("dict", "list") and (isinstance(form[1], str) or is_open_form(form[1]))


def _check_minimum(value: Any, ge: float) -> Any:
    """Return a number. Raises the error of pydantic for one below the minimum."""
    if value >= ge:
        return value
    raise PydanticKnownError("greater_than_equal", {"ge": ge})


class CoreRecord:
    """A JSON object of the protocol, with the attributes of the model of its type, which is not loaded."""

    __slots__ = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")

    if TYPE_CHECKING:
        __pydantic_validator__: ClassVar[SchemaValidator]
        __pydantic_serializer__: ClassVar[SchemaSerializer]
        __pydantic_extra__: dict[str, Any] | None
        __pydantic_fields_set__: set[str]
    else:

        @property
        def __pydantic_serializer__(self):
            """What serializes the record; it is built when it is first needed."""
            serializer = type(self).__pydantic_serializer__ = SchemaSerializer(self.schema)
            return serializer

    reference: ClassVar[TypeReference]
    schema: ClassVar[_Schema]
    names: ClassVar[Mapping[str, str]]
    """The properties of the type by attribute."""
    types: ClassVar[Mapping[str, type[CoreRecord]]]
    """The types of the properties that are objects, by property."""
    defaults: ClassVar[Mapping[str, Any]]
    """The defaults of properties that a received object lacks, by property."""
    opened: ClassVar[Mapping[str, str]]
    """The properties with any JSON, by attribute, as `plain_of` needs them."""
    of_models: ClassVar[frozenset[str]]
    """The properties that only the model has: objects with them are read as models."""

    @property
    def model_extra(self) -> dict[str, Any] | None:
        """The properties that the type does not define."""
        return self.__pydantic_extra__

    @classmethod
    def model_rebuild(cls) -> None:
        """Build the validator, unless it is there."""
        if "__pydantic_validator__" not in vars(cls):
            cls.__pydantic_validator__ = SchemaValidator(cast(Any, cls.schema))

    def model_dump(self, *, include: set[str] | None = None) -> dict[str, Any]:
        """Return the object as JSON; with `include`, only these attributes of it."""
        plain: dict[str, Any] = self.__pydantic_serializer__.to_python(self, include=include)
        return plain

    def model_copy(self, *, update: Mapping[str, Any]) -> CoreRecord:
        """Return a copy with other values of some attributes."""
        copy = type(self).__new__(type(self))
        vars(copy).update(vars(self) | dict(update))
        copy.__pydantic_extra__ = self.__pydantic_extra__
        copy.__pydantic_fields_set__ = self.__pydantic_fields_set__ | update.keys()
        return copy


def as_model(value: Any) -> Any:
    """Return a record as an instance of the model of its type; other values as they are."""
    if type(value) is PreSerialized and isinstance(value.value, CoreRecord):
        value = value.value
    if not isinstance(value, CoreRecord):
        return value
    read, further = validator(value.reference.load()), value.__pydantic_extra__
    if not further or not value.of_models.isdisjoint(further):
        return read(plain_of(value))
    model = read(plain_of(value, with_further=False))
    object.__setattr__(model, "__pydantic_extra__", further)  # Reading them again would take as long as before.
    return model


@cache
def read_as_record(row: Sent) -> Read:
    """Return the function that reads the params of a message as a record, where there is one for their type.

    The function raises the ValidationError that the model would raise.
    """
    record = _record_of(row, "params")
    if record is None:
        return read_as_model(row)
    read, of_models = validator(cast(Any, record)), record.of_models
    if not of_models:
        return read
    validate = record.__pydantic_validator__.validate_python

    def read_either(value: object) -> Any:
        if is_object(value) and not of_models.isdisjoint(value):
            return read_as_model(row)(value)
        return validate(value, strict=True, by_alias=True, by_name=False)  # As `read` does, with a call less.

    return read_either


def result_type(row: Request[Any]) -> type[CoreRecord] | type[BaseModel]:
    """Return the type of the final result of a request, as a record if there is one."""
    return _record_of(row, "result") or row.result


@cache
def result_constants(row: Request[Any]) -> Mapping[str, Any] | None:
    """Return the properties that all final results of a request have, for results that are written as plain JSON.

    None if the table of the package does not have them.
    """
    entry = _entry_of(row, "result")
    return None if entry is None else entry[0].constants(entry[1])


@cache
def may_require_input(row: Request[Any]) -> bool:
    """Return True if a request may have an interim result with input requests."""
    interim: Any = vars(row).get("_deferred", {}).get("interim", ())
    for reference, *_ in interim:
        table = _table(reference.package) if isinstance(reference, TypeReference) else None
        has_requests = None if table is None else table.has_attribute(reference.name, "input_requests")
        if has_requests is None:
            return row.input_required is not None
        if has_requests:
            return True
    return not interim and row.input_required is not None


def pre_serialized(result: Any) -> Any:
    """Return a record as a result that needs no further check, a model as it is."""
    return PreSerialized(result) if isinstance(result, CoreRecord) else result


def property_names(shape: type[CoreRecord] | type[BaseModel]) -> frozenset[str]:
    """Return the properties of a type."""
    if issubclass(shape, CoreRecord):
        return frozenset(shape.names.values())
    return frozenset(field.alias or name for name, field in shape.__pydantic_fields__.items())


def property_type(shape: type[CoreRecord] | type[BaseModel], property: str) -> Any:
    """Return the type of a property of an object; None if it has no such property."""
    shape.model_rebuild()  # Else an annotation may be a string until the first instance.
    if issubclass(shape, CoreRecord):
        return shape.types.get(property)
    fields = shape.__pydantic_fields__.items()
    return next((field.annotation for name, field in fields if property in (name, field.alias)), None)


def _record_of(row: Sent, attribute: str) -> type[CoreRecord] | None:
    entry = _entry_of(row, attribute)
    return None if entry is None else entry[0].record(entry[1])


def _entry_of(row: Sent, attribute: str) -> tuple[_Table, str] | None:
    """Return the table that has a type of a message, and the name of the type; None if there is no table."""
    reference = vars(row).get("_deferred", {}).get(attribute)
    if not isinstance(reference, TypeReference):
        return None
    table = _table(reference.package)
    return None if table is None else (table, reference.name)


@cache
def _table(package: str) -> _Table | None:
    """Return the records of a generated package; None if it has none."""
    name = f"{package}.core_schemas"
    try:
        return _Table(package, import_module(name).SCHEMAS)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


class _Table:
    """The records of a protocol version, which are made when they are first used."""

    def __init__(self, package: str, entries: Mapping[str, Any]) -> None:
        self._package = package
        self._entries = entries
        self._records: dict[str, type[CoreRecord]] = {}

    def record(self, name: str) -> type[CoreRecord] | None:
        """Return the record of a type; None if it has none."""
        kind, content = self._entries.get(name, ("", None))
        if kind == "alias" and content[0] == "type":
            return self.record(content[1])
        if kind not in ("object", "closed"):
            return None
        if name not in self._records:
            self._records[name] = self._new_record(name, kind, content)
        return self._records[name]

    def constants(self, name: str) -> Mapping[str, Any] | None:
        """Return the values that the constructor of a result fills in; None if the table does not have the result."""
        kind, content = self._entries.get(name, ("", None))
        return cast("Mapping[str, Any]", content) if kind == "defaults" else None

    def has_attribute(self, name: str, attribute: str) -> bool | None:
        """Return whether a type has an attribute; None if the table does not say."""
        kind, content = self._entries.get(name, ("", ()))
        return attribute in content if kind in ("object", "closed", "attributes") else None

    def _new_record(self, name: str, kind: str, fields: Mapping[str, Any]) -> type[CoreRecord]:
        names = {attribute: wire or attribute for attribute, (wire, *_) in fields.items()}
        members: dict[str, Any] = {
            "__slots__": (),
            "reference": TypeReference(self._package, "types", name),
            "names": names,
            "opened": {attribute: names[attribute] for attribute, field in fields.items() if is_open_form(field[2])},
            "defaults": {names[attribute]: field[3] for attribute, field in fields.items() if len(field) > 3},
            "of_models": frozenset(names[attribute] for attribute, field in fields.items() if field[2] is None),
            **{attribute: None for attribute, field in fields.items() if field[2] is None},
        }
        record = cast(type[CoreRecord], type(name, (CoreRecord,), members))
        definitions: dict[str, _Schema] = {}
        own = {
            attribute: self._field(field, definitions) for attribute, field in fields.items() if field[2] is not None
        }
        types = {names[attribute]: self._object_of(field[2]) for attribute, field in fields.items()}
        record.types = {wire: kind for wire, kind in types.items() if kind is not None}
        record.schema = {
            "type": "model",
            "cls": record,
            "schema": {"type": "model-fields", "model_name": name, "computed_fields": [], "fields": own},
            "config": {
                "allow_inf_nan": False,
                "title": name,
                "extra_fields_behavior": "forbid" if kind == "closed" else "allow",
                "ser_json_inf_nan": "constants",
                "serialize_by_alias": True,
                "validate_by_alias": True,
                "validate_by_name": True,
            },
            "custom_init": False,
            "root_model": False,
        }
        if definitions:
            schemas = [*definitions.values()]
            record.schema = {"type": "definitions", "schema": record.schema, "definitions": schemas}
        return record

    def _object_of(self, form: str | tuple[Any, ...] | None) -> type[CoreRecord] | None:
        """Return the record of a type that is an object; None for another one."""
        return self.record(form[1]) if isinstance(form, tuple) and form[0] == "type" else None

    def _field(self, field: tuple[Any, ...], definitions: dict[str, _Schema]) -> _Schema:
        wire, required, form, *_ = field
        schema = self._schema(form, definitions)
        if not required:
            nullable = schema if schema["type"] == "nullable" else {"type": "nullable", "schema": schema}
            schema = {"type": "default", "schema": nullable, "default": None}
        model_field: _Schema = {"type": "model-field", "schema": schema}
        if wire is not None:
            model_field |= {"validation_alias": wire, "serialization_alias": wire}
        if not required:
            model_field["serialization_exclude_if"] = partial(is_, None)
        return model_field

    def _schema(self, form: Any, definitions: dict[str, _Schema]) -> _Schema:
        if isinstance(form, str):
            return _SCALARS[form]
        kind, *arguments = form
        if kind == "type":
            return self._named(arguments[0], definitions)
        if kind == "values":
            return {"type": "literal", "expected": arguments}
        if kind == "at least":
            function = {"type": "no-info", "function": partial(_check_minimum, ge=arguments[1])}
            return {"type": "function-after", "function": function, "schema": self._schema(arguments[0], definitions)}
        schemas = [self._schema(argument, definitions) for argument in arguments]
        if kind == "list":
            return {"type": "list", "items_schema": schemas[0], "fail_fast": True}
        if kind == "dict":
            keys = _SCALARS["str"]
            return {"type": "dict", "keys_schema": keys, "values_schema": schemas[0], "fail_fast": True}
        choices = [
            choice
            for schema in schemas
            if schema["type"] != "none"
            for choice in (schema["choices"] if schema["type"] == "union" else [schema])
        ]
        union = choices[0] if len(choices) == 1 else {"type": "union", "choices": choices}
        return {"type": "nullable", "schema": union} if _SCALARS["null"] in schemas else union

    def _named(self, name: str, definitions: dict[str, _Schema]) -> _Schema:
        """Return the schema of a type by its name. Aliases may refer to each other in a circle: they are references."""
        record = self.record(name)
        if record is not None:
            schema = record.schema
            if schema["type"] != "definitions":
                return schema
            definitions.update({definition["ref"]: definition for definition in schema["definitions"]})
            inner: _Schema = schema["schema"]
            return inner
        if name not in definitions:
            definitions[name] = {}
            form = self._entries[name][1]
            definitions[name] = {**self._schema(form, definitions), "ref": name}
        return {"type": "definition-ref", "schema_ref": name}


# Copies of records in another class, without a validation: for params whose properties have the same types there.


def without(record: CoreRecord, names: Collection[str]) -> CoreRecord:
    """Return a copy without some attributes, for `with_values`."""
    copy = record.model_copy(update={})
    copy.__dict__ = {name: value for name, value in vars(record).items() if name not in names}
    return copy


def with_values(record: CoreRecord, values: Mapping[str, Any]) -> CoreRecord:
    """Return a copy with further attributes, where its own take precedence: both must have all of them."""
    copy = type(record).__new__(type(record))
    copy.__dict__ = {**values, **vars(record)}
    copy.__pydantic_extra__ = {}
    copy.__pydantic_fields_set__ = record.__pydantic_fields_set__
    return copy


@cache
def has_types_of(record: Any, other: Any, except_for: frozenset[str]) -> bool:
    """Return True if the attributes of another class of records, but for some, are attributes here, of the same types:
    strings, numbers, objects and arrays, because names of types have a meaning in their table only."""
    own, others = _fields_of(record), _fields_of(other)
    compared = [field for name, field in others.items() if name not in except_for]
    is_plain = not any("schema_ref" in str(field) for field in compared)
    return is_plain and all(own.get(name) == others[name] for name in others.keys() - except_for)


def _fields_of(record: type[CoreRecord]) -> dict[str, Any]:
    """Return the types of the attributes of a record, and their names as properties."""
    schema = record.schema["schema"] if record.schema["type"] == "definitions" else record.schema
    fields: dict[str, Any] = schema["schema"]["fields"]
    return {name: (field.get("validation_alias"), field["schema"]) for name, field in fields.items()}


class SameParams:
    """Params of a method that the conversion changes only by what it adds, the same for the same capabilities.

    A record of the connection's version, whose properties have the same types in that of the handlers, becomes one of
    that version without another validation. Nothing changes records, so that several may have the same part.
    """

    __slots__ = ("_capabilities", "_names", "_source", "_template", "_touched")

    def __init__(self, touched: frozenset[str] | None) -> None:
        self._touched = touched
        self._source: type[CoreRecord] | None = None  # The class of the connection's records.

    def record(self, params: Any, capabilities: Capabilities) -> CoreRecord | None:
        """Return the params for a handler; None if they have to be converted."""
        source: CoreRecord = params
        if type(params) is not self._source or source.__pydantic_extra__:
            return None
        if self._capabilities is not capabilities and self._capabilities != capabilities:
            return None
        values = vars(source)
        for name in self._names:
            if values[name] is not None:
                return None
        return with_values(self._template, values)

    def note(self, params: Any, value: dict[str, Any], result: Any, capabilities: Capabilities) -> None:
        """Note params that were converted, if others can be copied like them."""
        if self._touched is None or not (isinstance(params, CoreRecord) and isinstance(result, CoreRecord)):
            return
        if params.__pydantic_extra__ or not self._touched.isdisjoint(value):
            return
        names = frozenset(name for name, wire in params.names.items() if wire in self._touched)
        if has_types_of(cast(Any, type(result)), cast(Any, type(params)), names):
            self._source = type(params)
            self._capabilities = capabilities
            self._names = names
            self._template = without(result, params.names.keys() - names)


def copied_params(touched: frozenset[str] | None) -> SameParams:
    """Return what copies params whose properties but for the touched ones are not converted."""
    return SameParams(touched)
