"""Results: those of a request before its final one; how they are read, with their defaults and `resultType`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from .models import defaults_of, is_object, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

_RESULT_TYPE: Final = "resultType"
_MAX_LISTED_ERRORS: Final = 100
_TOO_LOW: Final = "greater_than_equal"
_UNKNOWN_TAG: Final = "union_tag_invalid"

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
        result = _with_unknown_content(shape, filled, error)
    if (kind := defaults.get(_RESULT_TYPE)) is not None and (kind_value := value.get(_RESULT_TYPE, kind)) != kind:
        wrong = InitErrorDetails(
            type=PydanticCustomError("kind", _WRONG_RESULT_TYPE, {"expected": kind}),
            loc=(_RESULT_TYPE,),
            input=kind_value,
        )
        raise ValidationError.from_exception_data(shape.__name__, [wrong])
    return result


def _with_unknown_content(shape: type[BaseModel], value: dict[str, Any], error: ValidationError) -> Any:
    from .unknown_content import read_with_unknown_content

    return read_with_unknown_content(shape, value, error)
