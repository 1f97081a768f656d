"""The base class and the field types of all generated models: how Python attributes map to JSON properties.

* A required property must be present, constants included; a constructor fills in constants.
* An optional property is `None` in Python if it is absent in JSON, and is not serialized if it is `None`.
* An optional property of type any is `MISSING` in Python if it is absent in JSON, because `None` is a value there.
* Properties that the schema does not define are preserved.
"""

# Without `from __future__ import annotations`: pydantic would evaluate the strings again for every generated class.

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema

if TYPE_CHECKING:
    from pydantic.experimental.missing_sentinel import MISSING as MISSING
else:
    try:
        from pydantic import MISSING
    except ImportError:  # It was experimental before pydantic 2.14.
        from pydantic.experimental.missing_sentinel import MISSING  # noqa: F401

T = TypeVar("T")
_MAX_INTEGRAL = 1e21


def _check_integer(value: object) -> object:
    """Convert 5.0 to 5: JSON has one number type, and implementations in other languages write integers like this."""
    return integral(value) if type(value) is float else value


def integral(value: float) -> float | int:
    """Return an integral number as an integer.

    Larger ones than JavaScript writes with digits stay as they are: 1e308 would become an integer of 309 digits.
    """
    return int(value) if value.is_integer() and -_MAX_INTEGRAL < value < _MAX_INTEGRAL else value


Opt = Annotated[T | None, Field(exclude_if=partial(is_, None))]
Int = Annotated[int, BeforeValidator(_check_integer)]
Number = int | float

if TYPE_CHECKING:

    def const(value: T) -> T:
        """Declare a constant of the schema: required in JSON, filled in by the constructor."""
        ...

    def default_to(value: T) -> T:
        """Declare the default of a property: required in JSON, filled in by the constructor."""
        ...

else:

    def const(value):  # noqa: D103
        return ...  # The Literal type has the value; a FieldInfo for each constant would slow down every import.

    def default_to(value):  # noqa: D103
        return Field(json_schema_extra={"fill": value})


if TYPE_CHECKING:
    from typing_extensions import deprecated as deprecated
else:

    def deprecated(message):
        """Mark a type as deprecated: its constructor warns, validation of received JSON does not."""

        def mark(cls):
            cls.__deprecated__ = message
            return cls

        return mark


_COLLECTIONS = ("list", "tuple", "set", "frozenset", "dict")
_NO_SCHEMAS = ("config", "default", "expected", "metadata", "serialization")


def untrusted_input_schema(schema: Any, resolve: Callable[[Any], Any] | None = None) -> Any:
    """Return a schema of pydantic for values of others: collections are validated up to the first wrong item.

    pydantic reports the errors of all items, which takes kilobytes for an item of a few bytes. The collections in the
    models of the schema are included, and numbers are finite, unless a type says otherwise.

    With `resolve`, which returns the schema of a reference, named types are included instead of models: the models have
    their own, and their numbers are checked when they are written.
    """
    if is_list(schema):
        return [untrusted_input_schema(item, resolve) for item in schema]
    if isinstance(schema, tuple):
        return tuple(untrusted_input_schema(item, resolve) for item in cast("list[Any]", schema))
    if not is_object(schema) or (schema.get("type") == "model" and resolve is not None):
        return schema
    if schema.get("type") == "definition-ref" and resolve is not None:
        try:
            named = resolve(schema)
        except LookupError:  # A model that is being built, which has a schema of its own.
            return schema
        if named["type"] in _COLLECTIONS and "fail_fast" not in named:  # Set before its items, which may refer to it.
            named["fail_fast"] = True
            named |= untrusted_input_schema(named, resolve)
        return schema
    copy = dict[str, Any]()
    for key, value in schema.items():
        if key == "fields" and is_object(value):
            value = {name: untrusted_input_schema(field, resolve) for name, field in value.items()}
        elif key not in _NO_SCHEMAS:
            value = untrusted_input_schema(value, resolve)
        copy[key] = value
    if schema.get("type") in _COLLECTIONS:
        copy["fail_fast"] = True
    elif schema.get("type") == "float" and resolve is None:
        copy.setdefault("allow_inf_nan", False)
    return copy


class WireModel(BaseModel):
    """A JSON object of the protocol."""

    model_config = ConfigDict(
        defer_build=True,
        extra="allow",
        protected_namespaces=(),
        ser_json_inf_nan="constants",  # `serialize` refuses them; null would lose a number in silence.
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    def __init__(self, /, **data: Any) -> None:
        default_fields = _DEFAULT_FIELDS[type(self)]
        if default_fields is None:
            values, defaulted = data, None
        else:
            values, defaulted, deprecated = default_fields
            if deprecated:
                warnings.warn(deprecated, DeprecationWarning, stacklevel=2)
            values = {**values, **data}
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self)
        except ValidationError:
            texts = {name: str(value) if _is_url(value) else value for name, value in values.items()}
            if texts == values:
                raise
            self.__pydantic_validator__.validate_python(texts, self_instance=self)
        # `model_fields_set` must not contain properties that the constructor has filled in.
        if defaulted and defaulted.keys().isdisjoint(data):
            self.__pydantic_fields_set__.difference_update(defaulted)
        elif defaulted:
            provided = {defaulted[name] for name in data if name in defaulted}
            self.__pydantic_fields_set__.difference_update(set(defaulted.values()) - provided)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = handler(source)
        model: dict[str, Any] = cast(Any, handler.resolve_ref_schema(schema))
        model["schema"] = untrusted_input_schema(model["schema"], cast(Any, handler.resolve_ref_schema))
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return the object as JSON for `json.dumps`: by the names of the schema, without absent properties."""
        return self.model_dump(mode="json")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Return the value of a property by its JSON name; only called for names that are no attributes."""
            attribute = _attributes(type(self)).get(name)
            return super().__getattr__(name) if attribute is None else getattr(self, attribute)

    # pydantic must not call __init__ during validation: only direct construction fills in constants.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def _is_url(value: object) -> bool:
    """Return True for a URL of pydantic, which is accepted where the schema has a string."""
    return type(value).__module__ == "pydantic.networks"


DefaultFields = tuple[dict[str, Any], dict[str, str], str]


class _DefaultFieldsByType(dict[type[BaseModel], DefaultFields | None]):
    """The values that a model's constructor fills in, by class.

    Each value is a tuple: constants and defaults by attribute; the attributes with defaults, by each accepted name; and
    the text of the deprecation warning. It is None if the constructor has nothing to fill in and no warning to issue.
    """

    def __missing__(self, cls: type[BaseModel]) -> DefaultFields | None:
        values: dict[str, Any] = {}
        defaulted: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            if is_object(field.json_schema_extra):
                values[name] = field.json_schema_extra["fill"]
                defaulted |= {name: name, field.alias or name: name}
            elif field.is_required() and get_origin(field.annotation) is Literal:
                if len(get_args(field.annotation)) == 1:
                    values[name] = get_args(field.annotation)[0]
        deprecated = vars(cls).get("__deprecated__", "")
        self[cls] = fields = (values, defaulted, deprecated) if values or deprecated else None
        return fields


_DEFAULT_FIELDS = _DefaultFieldsByType()


@cache
def _attributes(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return the attribute of each property whose JSON name is another one."""
    return {field.alias: name for name, field in cls.model_fields.items() if field.alias not in (None, name)}


@cache
def defaults_of(cls: type[BaseModel]) -> Mapping[str, Any]:
    """Return the defaults of a type's properties by JSON name, for the properties that a received object lacks."""
    return {
        field.alias or name: field.json_schema_extra["fill"]
        for name, field in cls.model_fields.items()
        if is_object(field.json_schema_extra)
    }


class TypeReference:
    """The name of a generated type whose module may not be loaded yet."""

    __slots__ = ("_module", "_name", "_package")

    def __init__(self, package: str, module: str, name: str) -> None:
        self._package, self._module, self._name = package, module, name

    def load(self) -> Any:
        """Return the type."""
        return getattr(getattr(import_module(self._package), self._module), self._name)


class TypeReferences:
    """The types of a module of a package, as references: `t.Tool` loads nothing."""

    def __init__(self, package: str, module: str) -> None:
        self._place = package, module

    def __getattr__(self, name: str) -> TypeReference:
        return TypeReference(*self._place, name)


def load_references(value: TypeReference | type[Any] | tuple[Any, ...] | None) -> Any:
    """Return a type, or a tuple of records that begin with one, with the types instead of references."""
    if isinstance(value, TypeReference):
        return value.load()
    if type(value) is not tuple:
        return value
    return tuple(type(record)(load_references(record[0]), *record[1:]) for record in value)


class PreSerialized:
    """A value that is serialized without validation: JSON or a model that is already known to match its type."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


if TYPE_CHECKING:

    def is_object(value: object, /) -> TypeGuard[dict[str, Any]]:
        """Return True if a parsed JSON value is an object."""
        ...

    def is_list(value: object, /) -> TypeGuard[list[Any]]:
        """Return True if a parsed JSON value is an array."""
        ...

else:
    is_object = dict.__instancecheck__  # Called several times for each message; a slot method needs no Python frame.
    is_list = list.__instancecheck__


@cache
def validator(shape: Any) -> Callable[[object], Any]:
    """Return a function that validates parsed JSON as this type, strictly and by JSON names only.

    The function raises ValidationError. If the type is None, it returns None for every value.
    """
    if shape is None:
        return lambda value: None
    if issubclass(type(shape), type(BaseModel)):
        shape.model_rebuild()  # A TypeAdapter would build a second validator if the model has not built its own.
        validate = shape.__pydantic_validator__.validate_python
    else:
        from pydantic import TypeAdapter  # Loaded on first use, so that importing generated types stays fast.

        validate = TypeAdapter[Any](shape).validator.validate_python

    def read(value: object) -> Any:  # Faster to call than a `partial` with keyword arguments.
        return validate(value, strict=True, by_alias=True, by_name=False)

    return read


_MAX_LISTED_ERRORS = 1000


def format_validation_error(error: ValidationError) -> str:
    """Return one line for a validation error: the path and text of the first error, and the number of the others."""
    if (count := error.error_count()) > _MAX_LISTED_ERRORS:  # pydantic lists all errors or none.
        return f"{count} values are invalid"
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    path = ".".join(str(step) for step in errors[0]["loc"])
    rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{path + ': ' if path else ''}{errors[0]['msg']}{rest}"
