"""Results: those of a request before its final one; how they are read, with their defaults and `resultType`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from .models import defaults_of, is_object, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .lenient import LeftOut

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


def read_result(
    shape: type[BaseModel], value: object, left_out: list[LeftOut] | None = None, is_page: bool = False
) -> Any:
    """Validate a final result; absent properties get their defaults, because older servers do not send them.

    Null stands for a result without any property, where none is required. With `left_out`, the parts that cannot be
    read are left out, and added to it; that is for a result whose validation has failed. `is_page` is True for a page
    of a list.

    Raises ValidationError, also for another `resultType`
    (https://modelcontextprotocol.io/specification/draft/basic#resulttype).
    """
    defaults = defaults_of(shape)
    if not is_object(value):
        if value is not None:
            return validator(shape)(value)
        value = dict[str, Any]()
    filled = value if defaults.keys() <= value.keys() else {**defaults, **value}
    try:
        result = validator(shape)(filled)
    except ValidationError as error:
        if left_out is not None:
            from .lenient import Reading, read_leniently  # Most results are valid.

            result = read_leniently(shape, filled, left_out, Reading.PAGE if is_page else Reading.RESULT)
        else:
            result = _read_again(shape, filled, defaults, error)
    kind = defaults.get(_RESULT_TYPE)
    if kind is not None and (kind_value := value.get(_RESULT_TYPE)) is not None and kind_value != kind:
        wrong = InitErrorDetails(
            type=PydanticCustomError("kind", _WRONG_RESULT_TYPE, {"expected": kind}),
            loc=(_RESULT_TYPE,),
            input=kind_value,
        )
        raise ValidationError.from_exception_data(shape.__name__, [wrong])
    return result


def _read_again(
    shape: type[BaseModel],
    value: dict[str, Any],
    defaults: Mapping[str, Any],
    error: ValidationError,
) -> Any:
    """Return a result whose validation has failed, without what may be wrong in it."""
    if error.error_count() > _MAX_LISTED_ERRORS:  # Listing them costs more than the validation.
        raise error
    listed = error.errors(include_url=False, include_input=False)
    # A number below the minimum is ignored if the property has a default:
    # https://modelcontextprotocol.io/specification/draft/server/utilities/caching
    ignored = {item["loc"][0] for item in listed if len(item["loc"]) == 1 and item["type"] == _TOO_LOW}
    ignored |= {name for name in defaults if value[name] is None}
    if ignored & defaults.keys():
        value = {name: item for name, item in value.items() if name not in ignored & defaults.keys()}
        return read_result(shape, value)
    if all(item["type"] != _UNKNOWN_TAG for item in listed):
        raise error
    from .lenient import read_with_unknown_content  # Most results are valid.

    try:
        return read_with_unknown_content(shape, value)
    except ValidationError:
        raise error from None
