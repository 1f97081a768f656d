"""The seam of lenient reading: what reads a message of which a part is wrong, where a product does that."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, cast

from .. import products
from .models import validator


class Reading(Enum):
    """What a message is, which decides what may be left out of it."""

    PAGE = "a page of a list"  # Its own lists may lose all items.
    RESULT = "a result or a notification"
    REQUEST = "a request"  # Its own properties say what to do, and stay; what answers it needs content that it knows.


class LeftOut(NamedTuple):
    """A part of a message that was left out: `place` names it, `reason` says why it cannot be read."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class LenientReader(Protocol):
    """Reads what strict validation has refused. Each function raises ValidationError for what it cannot read either."""

    def read_with_unknown_content(self, shape: Any, value: Mapping[str, Any]) -> Any:
        """Return an object of which only content of unknown types is wrong."""
        ...

    def read_leniently(self, shape: Any, value: Any, left_out: list[LeftOut], reading: Reading = Reading.RESULT) -> Any:
        """Return a value without its parts that cannot be read, and add these to `left_out`."""
        ...

    def read_property_leniently(self, shape: Any, property: str, value: Any, left_out: list[LeftOut]) -> Any:
        """Return the value of one property of a type without its parts that cannot be read."""
        ...


class StrictReader:
    """Refuses a message of which any part is wrong."""

    def read_with_unknown_content(self, shape: Any, value: Mapping[str, Any]) -> Any:
        """Validate the value once more, which raises the same error."""
        return validator(shape)(value)

    def read_leniently(self, shape: Any, value: Any, left_out: list[LeftOut], reading: Reading = Reading.RESULT) -> Any:
        """Validate the value once more, which raises the same error."""
        return validator(shape)(value)

    def read_property_leniently(self, shape: Any, property: str, value: Any, left_out: list[LeftOut]) -> Any:
        """Return the value: the object around it is validated next."""
        return value


_STRICT: Final = StrictReader()


def lenient_reader() -> LenientReader:
    """Return what reads messages of which a part is wrong. Few messages need it."""
    return cast("LenientReader | None", products.find("lenient")) or _STRICT
