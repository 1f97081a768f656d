"""Results: those of a request before its final one; how they are read, with their defaults and `resultType`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from ..errors import RemoteError
from .lenient import LeftOut, Reading, lenient_reader
from .models import defaults_of, is_object, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

_RESULT_TYPE: Final = "resultType"
_MAX_LISTED_ERRORS: Final = 100
_TOO_LOW: Final = "greater_than_equal"
_UNKNOWN_TAG: Final = "union_tag_invalid"
_WRONG_RESULT_TYPE: Final = "Input should be '{expected}', or another result type of this method"
MAX_PAGES: Final = 1000
MAX_ITEMS: Final = 100_000
_MAX_SHOWN: Final = 100  # Characters of a cursor in an error.


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
            reading = Reading.PAGE if is_page else Reading.RESULT
            result = lenient_reader().read_leniently(shape, filled, left_out, reading)
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
    shape: type[BaseModel], value: dict[str, Any], defaults: Mapping[str, Any], error: ValidationError
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
    try:
        return lenient_reader().read_with_unknown_content(shape, value)
    except ValidationError:
        raise error from None


# The pages of a list that are read one after another: each cursor once, and not without end.


class FollowedPages:
    """The pages of one list that have been read."""

    def __init__(self, method: str, max_pages: int = MAX_PAGES, max_items: int = MAX_ITEMS, remedy: str = "") -> None:
        """Begin a list.

        Args:
            method: The method of the requests, for errors.
            max_pages: The pages that are read.
            max_items: The items that are read.
            remedy: What the errors of the limits end with.
        """
        self._method = method
        self._max_pages = max_pages
        self._max_items = max_items
        self._remedy = remedy
        self._seen: set[bytes] = set()  # Digests, as a server chooses the length of cursors.
        self._pages = 0
        self._items = 0
        self._last: tuple[str, Sequence[Any]] | None = None  # The cursor and the items of a page that is not the last.

    def is_again(self, items: Sequence[Any], next_cursor: str | None) -> bool:
        """Return True if a page is the one before again, with its cursor: the list is complete.

        Some servers ignore cursors, and write an empty one for none, as Go does.
        """
        last = self._last
        self._last = None if next_cursor is None else (next_cursor, items)
        return last is not None and last == self._last

    def add(self, items: int, next_cursor: str | None) -> str | None:
        """Count a page, and return the cursor of the next one; None after the last.

        Args:
            items: The number of items of the page.
            next_cursor: The cursor that the page names.

        Raises RemoteError for a cursor that was seen before, and for more pages or items than the limits.
        """
        self._pages += 1
        self._items += items
        if self._items > self._max_items:
            raise RemoteError(f"{self._method!r}: the list has more than {self._max_items:,} items{self._remedy}")
        if next_cursor is None:
            return None
        digest = sha256(next_cursor.encode("utf-8", "surrogatepass")).digest()
        if digest in self._seen:
            shown = f"{next_cursor[:_MAX_SHOWN]!r}{'…' if len(next_cursor) > _MAX_SHOWN else ''}"
            raise RemoteError(f"{self._method!r}: the server repeats the cursor {shown}, so that the list never ends")
        if self._pages >= self._max_pages:
            raise RemoteError(f"{self._method!r}: the list has more than {self._max_pages:,} pages{self._remedy}")
        self._seen.add(digest)
        return next_cursor
