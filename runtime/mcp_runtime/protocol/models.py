"""Read JSON as models and other types: validators, their errors, and types that are loaded when they are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import takewhile
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast, get_args, get_origin

from pydantic_core import ValidationError

from .._lazy import LazyModule

if TYPE_CHECKING:
    import pydantic
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from typing_extensions import TypeIs
else:  # Imported when they are used.
    pydantic = LazyModule("pydantic")

_MAX_INTEGRAL = 1e21
ESSENTIAL = "essential"  # In the metadata of the fields that `Essential` declares.
OPTIONAL_ANY = "optional any"  # In the metadata of the fields that `OptAny` declares.


def integral(value: float) -> float | int:
    """Return an integral number as an integer.

    Larger ones than JavaScript writes with digits stay as they are: 1e308 would become an integer of 309 digits.
    """
    return int(value) if value.is_integer() and -_MAX_INTEGRAL < value < _MAX_INTEGRAL else value


def check_integer(value: object) -> object:
    """Convert 5.0 to 5: JSON has one number type, and implementations in other languages write integers like this."""
    return integral(value) if type(value) is float else value


_COLLECTIONS = ("list", "tuple", "set", "frozenset", "dict")
_UNTRUSTED = "untrusted_input"
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
        metadata: dict[str, Any] = named.setdefault("metadata", {})
        if named["type"] != "model" and _UNTRUSTED not in metadata:  # Set before its items, which may refer to it.
            metadata[_UNTRUSTED] = True
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
    elif schema.get("type") == "str" and resolve is not None:
        copy["strict"] = True  # Bytes are not text: pydantic would decode them; a property in base64 encodes them.
    elif schema.get("type") == "float" and resolve is None:
        copy.setdefault("allow_inf_nan", False)
    return copy


def fields_of(cls: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Return the fields of a model by attribute, without the descriptions that its `model_fields` has."""
    return cls.__pydantic_fields__


@cache
def defaults_of(cls: type[BaseModel]) -> Mapping[str, Any]:
    """Return the defaults of a type's properties by JSON name, for the properties that a received object lacks."""
    if (defaults := vars(cls).get("defaults")) is not None:  # A record of pydantic_core.
        return cast("Mapping[str, Any]", defaults)
    return {
        field.alias or name: field.json_schema_extra["fill"]
        for name, field in cls.__pydantic_fields__.items()
        if is_object(field.json_schema_extra)
    }


class TypeReference:
    """The name of a generated type whose module may not be loaded yet."""

    __slots__ = ("_module", "name", "package")

    def __init__(self, package: str, module: str, name: str) -> None:
        self.package = package
        self._module = module
        self.name = name

    def load(self) -> Any:
        """Return the type."""
        return getattr(getattr(import_module(self.package), self._module), self.name)


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


def is_model(value: object) -> TypeIs[BaseModel]:
    """Return True for an instance of a model; pydantic need not be loaded for this."""
    return hasattr(type(value), "model_dump")


def is_model_type(kind: object) -> TypeIs[type[BaseModel]]:
    """Return True for the class of models."""
    return isinstance(kind, type) and hasattr(kind, "model_dump")


_PLAIN = (str, int, float, bool, Any, None, NoneType)


def plain_of(model: Any, with_further: bool = True) -> dict[str, Any]:
    """Return a received object as JSON, without a copy of what its type leaves open: that may be a large message.

    These are the properties that the type does not define, those of its metadata, and arguments. The values are those
    of the model, so they must not be changed in place. Without `with_further`, only the properties of the type.
    """
    further, members = model.__pydantic_extra__, model.__dict__
    meta: object = members.get("meta")
    of_meta = cast(Any, meta).__pydantic_extra__ if hasattr(type(meta), "model_dump") else None
    opened, exclude = _open_members(model.__class__)
    if further or of_meta:
        model = _bare(model, {**members, "meta": _bare(meta, vars(meta))} if of_meta else members)
    serializer = model.__pydantic_serializer__
    plain: dict[str, Any] = serializer.to_python(model, exclude=exclude) if exclude else serializer.to_python(model)
    for attribute in opened:
        if (value := members[attribute]) is not None:
            plain[opened[attribute]] = value
    if of_meta:
        plain["_meta"].update(of_meta)
    if further and with_further:
        plain.update(further)
    return plain


def _bare(model: Any, members: Mapping[str, Any]) -> Any:
    """Return a copy of a model, or a record, without the properties that its type does not define."""
    bare: Any = object.__new__(model.__class__)
    fields: dict[str, object] = {
        "dict": members,
        "pydantic_extra": {},
        "pydantic_fields_set": set[str](),
        "pydantic_private": None,
    }
    for name, value in fields.items():
        object.__setattr__(bare, f"__{name}__", value)
    return bare


@cache
def _open_members(cls: type[Any]) -> tuple[Mapping[str, str], set[str]]:
    """Return the JSON names of the members that are not copied, by attribute, and these attributes."""
    opened: Mapping[str, str] | None = vars(cls).get("opened")
    if opened is None:  # It is not a record of pydantic_core.
        fields = fields_of(cls).items()
        opened = {
            name: field.alias or name
            for name, field in fields
            if _is_open(field.annotation) and OPTIONAL_ANY not in field.metadata  # Its null is no absence.
        }
    return opened, {*opened}


def _is_open(annotation: Any) -> bool:
    """Return True for a type of objects or lists without models: their values are JSON as they are."""
    choices = (annotation, *get_args(annotation))
    is_collection = any(choice is Any or get_origin(choice) in (dict, list) for choice in choices)
    return is_collection and _is_plain(annotation)


def _is_plain(annotation: Any) -> bool:
    arguments = get_args(annotation)
    return all(map(_is_plain, arguments)) if arguments else annotation in _PLAIN


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


def type_name(value: object, expected: tuple[type, ...]) -> str:
    """Return the name of a value's type, with its module if an expected type of another version has this name."""
    kind = type(value)
    return (
        f"{kind.__module__}.{kind.__name__}" if kind.__name__ in {cls.__name__ for cls in expected} else kind.__name__
    )


@cache
def validation(shape: Any) -> Callable[..., Any]:
    """Return pydantic's function that validates Python values as this type."""
    if is_model_type(shape):
        shape.model_rebuild()  # A TypeAdapter would build a second validator if the model has not built its own.
        return shape.__pydantic_validator__.validate_python
    return pydantic.TypeAdapter[Any](shape).validator.validate_python


@cache
def validator(shape: Any) -> Callable[[object], Any]:
    """Return a function that validates parsed JSON as this type, strictly and by JSON names only.

    The function raises ValidationError. If the type is None, it returns None for every value.
    """
    if shape is None:
        return lambda value: None
    validate = validation(shape)

    def read(value: object) -> Any:  # Faster to call than a `partial` with keyword arguments.
        return validate(value, strict=True, by_alias=True, by_name=False)

    return read


Read = Callable[[object], Any]


@cache
def read_as_model(row: Any) -> Read:
    """Return the function that reads the params of a message as the model of their type. It raises ValidationError."""
    return validator(row.params)


_MAX_LISTED_ERRORS = 1000
_MAX_BRANCHES = 100  # Errors, among which those of the branch that was meant are looked for.


def format_validation_error(error: ValidationError) -> str:
    """Return one line for a validation error: the path and text of the first error, and the number of the others.

    Of a union, the errors of the branch that was meant count.
    """
    if (count := error.error_count()) > _MAX_LISTED_ERRORS:  # pydantic lists all errors or none.
        return f"{count} values are invalid"
    errors: Any = error.errors(include_url=False)
    if 1 < count <= _MAX_BRANCHES:
        errors = meant_errors(errors)
    path = ".".join(str(step) for step in errors[0]["loc"])
    rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{path + ': ' if path else ''}{errors[0]['msg']}{rest}"


# The errors of a value that matches no branch of a union: those of the branch that was meant.

_Error = Mapping[str, Any]

# The name of a branch in the path of an error: a class, or a type of Python. Properties begin with a small letter.
_BRANCH: Final = re.compile(
    r"[A-Z]\w*|(str|int|float|bool|none|any|(tagged-)?union|list|dict|literal|constrained|function)\b.*", re.DOTALL
)
_MAX_VALUE: Final = 60


def meant_errors(errors: Sequence[Any]) -> list[_Error]:
    """Return the errors without those of other branches than the one that was meant.

    A branch for values of another type was not meant, nor one whose constants the value does not have; of others, the
    one with the fewest errors was. If the value has the constant of no branch, there is one error, with those of all.
    """
    rest: list[_Error] = list(errors)
    for depth in range(max((len(error["loc"]) for error in rest), default=0)):
        first = next((error for error in rest if _branch(error, depth)), None)
        if first is not None:
            start = first["loc"][:depth]
            inside, others = list[_Error](), list[_Error]()
            for error in rest:
                (inside if _branch(error, depth) and error["loc"][:depth] == start else others).append(error)
            rest = [*_meant(inside, depth), *others]
    return [{**error, "loc": tuple(step for step in error["loc"] if "[" not in str(step))} for error in rest]


def _branch(error: _Error, depth: int) -> tuple[str, ...]:
    """Return the names of a branch, and of those inside of it, that stand here in the path of an error."""
    return tuple(takewhile(lambda step: _BRANCH.fullmatch(str(step)), error["loc"][depth:]))


def _meant(errors: list[_Error], depth: int) -> list[_Error]:
    """Return the errors of the branch that was meant, of those of one union."""
    branches: dict[tuple[str, ...], list[_Error]] = {}
    for error in errors:
        branches.setdefault(_branch(error, depth), []).append(error)
    if len(branches) < 2:
        return errors
    constants = [
        {error["loc"][depth + len(branch) :] for error in inside if _is_constant(error)}
        for branch, inside in branches.items()
    ]
    for path in sorted(set[Any].intersection(*constants), key=len):
        wrong = [error for error in errors if _is_constant(error) and error["loc"][-len(path) :] == path]
        allowed = (value for error in wrong for value in error["ctx"]["expected"].replace(" or ", ", ").split(", "))
        text = f"{wrong[0]['input']!a:.{_MAX_VALUE}} is not one of {', '.join(dict.fromkeys(allowed))}"
        return [{"loc": (*errors[0]["loc"][:depth], *path), "msg": text, "type": "union"}]
    return min(branches.items(), key=lambda item: _distance(item[1], depth + len(item[0])))[1]


def _distance(errors: list[_Error], depth: int) -> tuple[bool, bool, int]:
    of_type = any(len(error["loc"]) == depth and error["type"].endswith("_type") for error in errors)
    return of_type, any(map(_is_constant, errors)), len(errors)


def _is_constant(error: _Error) -> bool:
    return error["type"] == "literal_error" and isinstance(error.get("input"), (str, int))
