"""Which JSON values a plain type has."""

from __future__ import annotations

import re
from typing import Any

from ..model.ir import Plain


def allows(plain: Plain, value: Any) -> bool:
    """Return True if a value is one of a plain type."""
    match plain.kind:
        case "any":
            return True
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            if not isinstance(value, str):
                return False
            sizes = minimum_fits(len(value), plain.min_length) and maximum_fits(len(value), plain.max_length)
            return sizes and (plain.pattern is None or re.search(plain.pattern, value) is not None)
        case _:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                return False
            whole = plain.kind == "number" or float(value).is_integer()
            return whole and minimum_fits(value, plain.minimum) and maximum_fits(value, plain.maximum)


def is_among(value: object, allowed: tuple[object, ...]) -> bool:
    """Return True if a value is one of these, and of the same type."""
    return any(type(value) is type(other) and value == other for other in allowed)


def maximum_fits(bound: float | None, other: float | None) -> bool:
    """Return True if what is at most `bound` is at most `other`; None is no bound."""
    return other is None or (bound is not None and bound <= other)


def minimum_fits(bound: float | None, other: float | None) -> bool:
    """Return True if what is at least `bound` is at least `other`; None is no bound."""
    return other is None or (bound is not None and bound >= other)
