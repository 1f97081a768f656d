"""Results: those of a request before its final one; how they are read, with their defaults and `resultType`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from .models import defaults_of, is_list, is_object, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

_RESULT_TYPE: Final = "resultType"
_MAX_LISTED_ERRORS: Final = 100
_TOO_LOW: Final = "greater_than_equal"
_UNKNOWN_TAG: Final = "union_tag_invalid"
_STAND_IN: Final = {"type": "text", "text": ""}  # Content that every protocol version defines.

_Path = tuple[int | str, ...]

_WRONG_RESULT_TYPE: Final = "Input should be '{expected}', or another result type of this method"


class InterimResult(NamedTuple):
    """A result type that a request may have instead of its final result.

    It applies if `property` of the result equals `value`. If `value` is None, it applies if the request's params have
    `property`.
    """

    result: type[BaseModel]
    property: str
    value: str | None = None


def read_result(shape: type[BaseModel], value: object) -> Any:
    """Validate a final result; absent properties get their defaults, because older servers do not send them.

    Raises ValidationError, also for another `resultType`
    (https://modelcontextprotocol.io/specification/draft/basic#resulttype).
    """
    defaults = defaults_of(shape)
    if not is_object(value):
        return validator(shape)(value)
    filled = value if defaults.keys() <= value.keys() else {**defaults, **value}
    try:
        result = validator(shape)(filled)
    except ValidationError as error:
        if error.error_count() > _MAX_LISTED_ERRORS:  # Listing them costs more than the validation.
            raise
        listed = error.errors()
        low = {item["loc"][0] for item in listed if item["type"] == _TOO_LOW and len(item["loc"]) == 1}
        if low & defaults.keys():
            # A number below the minimum is ignored if the property has a default:
            # https://modelcontextprotocol.io/specification/draft/server/utilities/caching
            return read_result(shape, {name: item for name, item in value.items() if name not in low & defaults.keys()})
        if all(item["type"] != _UNKNOWN_TAG for item in listed):
            raise
        result = _read_with_unknown_content(shape, filled, error)
    if (kind := defaults.get(_RESULT_TYPE)) is not None and (kind_value := value.get(_RESULT_TYPE, kind)) != kind:
        wrong = InitErrorDetails(
            type=PydanticCustomError("kind", _WRONG_RESULT_TYPE, {"expected": kind}),
            loc=(_RESULT_TYPE,),
            input=kind_value,
        )
        raise ValidationError.from_exception_data(shape.__name__, [wrong])
    return result


@cache
def unknown_content() -> type[BaseModel]:
    """Return the class of content of a type that the protocol version does not define. Few messages have any."""
    from pydantic import BaseModel, ConfigDict

    class UnknownContent(BaseModel):
        """Content of a type that the protocol version does not define. All its properties are attributes, and in
        `model_extra`."""

        model_config = ConfigDict(defer_build=True, extra="allow", protected_namespaces=())

        type: str

    UnknownContent.__qualname__ = UnknownContent.__name__
    return UnknownContent


def __getattr__(name: str) -> object:
    if name == "UnknownContent":  # For pickle.
        return unknown_content()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _read_with_unknown_content(shape: type[BaseModel], value: dict[str, Any], error: ValidationError) -> Any:
    """Return a result whose validation has failed, with unknown content in its place. Raises the error if something
    else is wrong with it."""
    listed = error.errors(include_url=False, include_input=False)
    paths = [item["loc"] for item in listed]
    items = {path: item for path in paths if is_object(item := _at(value, path)) and type(item.get("type")) is str}
    if len(items) < len(paths) or any(item["type"] != _UNKNOWN_TAG for item in listed):
        raise error
    changed: Any = value
    for path in items:
        changed = _replaced(changed, path)
    result = validator(shape)(changed)
    for path, item in items.items():
        _put(result, path, unknown_content().model_validate(item))
    return result


def _at(value: Any, path: _Path) -> object:
    """Return the JSON value at a path; None if the path does not lead to one."""
    for step in path:
        if is_object(value) and step in value:
            value = value[str(step)]
        elif is_list(value) and type(step) is int and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _replaced(value: Any, path: _Path) -> Any:
    """Return a copy of a JSON value with content that every version defines at a path."""
    if not path:
        return _STAND_IN
    copy = value.copy()
    copy[path[0]] = _replaced(copy[path[0]], path[1:])
    return copy


def _put(owner: Any, path: _Path, content: BaseModel) -> None:
    """Put content into the place of what stands in for it."""
    *steps, last = path
    for step in steps:
        owner = getattr(owner, _attribute(owner, step)) if isinstance(step, str) else owner[step]
    if isinstance(last, str):
        setattr(owner, _attribute(owner, last), content)
    else:
        owner[last] = content


def _attribute(model: BaseModel, property: str) -> str:
    fields = type(model).__pydantic_fields__
    return next((name for name, field in fields.items() if field.alias == property), property)
