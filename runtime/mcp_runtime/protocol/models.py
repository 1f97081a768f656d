"""Base class and field kinds of all generated types: what is on the wire and what is not.

* A property the schema requires must be there, constants included; a constructor fills constants in by itself.
* A property the schema leaves optional is `None` in Python when it is absent, and is absent on the wire when `None`.
* A property that may be any JSON value and may be absent is `MISSING` in Python when it is absent, because `None` is
  a value there.
* Properties the schema does not name are kept.
"""

# No `from __future__ import annotations` here: pydantic would evaluate the strings again for every generated class.

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    from pydantic.experimental.missing_sentinel import MISSING as MISSING
else:
    try:
        from pydantic import MISSING
    except ImportError:  # Before pydantic 2.14 it was experimental.
        from pydantic.experimental.missing_sentinel import MISSING

T = TypeVar("T")


def _check_integer(value: object) -> object:
    """Let 5.0 be 5: JSON has no integers, and peers in other languages write them so."""
    return int(value) if type(value) is float and value.is_integer() else value


Opt = Annotated[T | None, Field(exclude_if=partial(is_, None))]
Int = Annotated[int, BeforeValidator(_check_integer)]
Number = int | float

if TYPE_CHECKING:

    def const(value: T) -> T:
        """A constant of the schema: required on the wire, filled in by the constructor."""
        ...

    def default_to(value: T) -> T:
        """The usual value of a property: required on the wire, filled in by the constructor."""
        ...

else:

    def const(value):
        return ...  # The type says the value; a FieldInfo for each would cost every import.

    def default_to(value):
        return Field(json_schema_extra={"fill": value})


if TYPE_CHECKING:
    from typing_extensions import deprecated as deprecated
else:

    def deprecated(message):
        """Mark a type: whoever makes an object of it is warned, but not who reads one from the wire."""

        def mark(cls):
            cls.__deprecated__ = message
            return cls

        return mark


class WireModel(BaseModel):
    """A JSON object of the protocol."""

    model_config = ConfigDict(
        defer_build=True,
        extra="allow",
        protected_namespaces=(),
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    def __init__(self, /, **data: Any) -> None:
        filled_in = _DEFAULT_FIELDS[type(self)]
        if filled_in is None:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
            return
        values, usuals, deprecated = filled_in
        if deprecated:
            warnings.warn(deprecated, DeprecationWarning, stacklevel=2)
        self.__pydantic_validator__.validate_python({**values, **data}, self_instance=self)
        # Who reads the object can tell what was said from what was filled in.
        if usuals and usuals.keys().isdisjoint(data):
            self.__pydantic_fields_set__.difference_update(usuals)
        elif usuals:
            said = {usuals[each] for each in data if each in usuals}
            self.__pydantic_fields_set__.difference_update(set(usuals.values()) - said)

    # Tells pydantic that validation need not call __init__: only direct construction fills constants in.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


DefaultFields = tuple[dict[str, Any], dict[str, str], str]


class _DefaultFieldsByType(dict[type[BaseModel], DefaultFields | None]):
    """What the constructor of a model fills in, by its class: constants and usual values, by attribute; the attributes that
    have usual values, by each name that may be given for them; and what it warns of. None where it does nothing of this.
    """

    def __missing__(self, cls: type[BaseModel]) -> DefaultFields | None:
        values: dict[str, Any] = {}
        usuals: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            if is_object(field.json_schema_extra):
                values[name] = field.json_schema_extra["fill"]
                usuals |= {name: name, field.alias or name: name}
            elif field.is_required() and get_origin(field.annotation) is Literal:
                if len(get_args(field.annotation)) == 1:
                    values[name] = get_args(field.annotation)[0]
        deprecated = vars(cls).get("__deprecated__", "")
        self[cls] = found = (values, usuals, deprecated) if values or deprecated else None
        return found


_DEFAULT_FIELDS = _DefaultFieldsByType()


@cache
def defaults_of(cls: type[BaseModel]) -> Mapping[str, Any]:
    """The usual values of a type's properties, by their names on the wire: a reader takes them for those it misses."""
    return {
        field.alias or name: field.json_schema_extra["fill"]
        for name, field in cls.model_fields.items()
        if is_object(field.json_schema_extra)
    }


class PreSerialized:
    """What is to be written as it is: JSON, or a model that means the same, known to be what it has to be."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


if TYPE_CHECKING:

    def is_object(value: object, /) -> TypeGuard[dict[str, Any]]:
        """Whether parsed JSON is an object."""
        ...

    def is_list(value: object, /) -> TypeGuard[list[Any]]:
        """Whether parsed JSON is a list."""
        ...

else:
    is_object = dict.__instancecheck__  # Asked several times for each message, and this needs no frame of its own.
    is_list = list.__instancecheck__


@cache
def validator(shape: Any) -> Callable[[object], Any]:
    """The function that reads parsed JSON as this type: strictly, by wire names alone. It raises ValidationError. Without
    a type it reads nothing, and gives None."""
    if shape is None:
        return lambda value: None
    from pydantic import TypeAdapter  # Not loaded before something is read: importing types stays cheap.

    validate = TypeAdapter[Any](shape).validator.validate_python

    def read(value: object) -> Any:  # Not a `partial`: one that holds names takes longer to call.
        return validate(value, strict=True, by_alias=True, by_name=False)

    return read


def format_validation_error(fault: ValidationError) -> str:
    """What does not fit, in one line: the path of the first fault, what is wrong there, and how many more there are."""
    errors = fault.errors(include_url=False, include_context=False, include_input=False)
    path = ".".join(str(step) for step in errors[0]["loc"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{path + ': ' if path else ''}{errors[0]['msg']}{more}"
