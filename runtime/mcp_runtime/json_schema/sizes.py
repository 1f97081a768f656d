"""The size of a JSON value at each depth, as far as the cost of its validation depends on it."""

from __future__ import annotations

from math import frexp
from typing import Any, Final, NamedTuple

from ..errors import InvalidMessageError
from ..protocol.models import is_list, is_object
from .schema_tree import MAX_DEPTH

_MAX_PARTS: Final = 250_000  # The parts of a value.
_SMALL_BITS: Final = 64  # Numbers of this size are handled by the processor, and count as a part only.
_WORD_BITS: Final = 48  # The unit of the size of a larger number.
_DIGIT_BITS: Final = 4
_BIG: Final = 1 << 53
_NEAR_ONE: Final = (2.0**-20, 2.0**53)  # Numbers between these have short fractions.


class Work(NamedTuple):
    """The size of a value at one depth.

    Args:
        parts: The number of values.
        characters: The characters of strings and property names, and the hexadecimal digits of large integers.
        squares: The sum of the squares of the sizes of large numbers, in words of 48 bits: multiplication, division and
            decimal digits take quadratic time.
    """

    parts: int
    characters: int
    squares: int = 0


def measure(value: Any) -> list[Work]:
    """Return the size of a value at each depth. Raises InvalidMessageError if it is too deep or has too many parts."""
    levels: list[Work] = []
    count = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        characters = squares = 0
        for part in level:
            if isinstance(part, str):
                characters += len(part)
            elif is_object(part):
                inner += part.values()
                characters += sum(map(len, part))
            elif is_list(part):
                inner += part
            elif part is not None and not (-_BIG < part < _BIG and part.__class__ is not float):
                squares += square_of(part)
                characters += 0 if isinstance(part, float) else part.bit_length() // _DIGIT_BITS
        levels.append(Work(len(level), characters, squares))
        count += len(level)
        if len(levels) > MAX_DEPTH or count + len(inner) > _MAX_PARTS:
            rule = f"{_MAX_PARTS} parts and {MAX_DEPTH} levels are allowed"
            raise InvalidMessageError(f"a value is too large to be validated with a JSON Schema: {rule}")
        level = inner
    return levels


def square_of(number: int | float) -> int:
    """Return the square of a number's size as a fraction, in words of 48 bits; 0 if it is small."""
    if isinstance(number, float):
        if _NEAR_ONE[0] < abs(number) < _NEAR_ONE[1] or not number:
            return 0
        bits = abs(frexp(number)[1]) + _SMALL_BITS
    else:
        bits = number.bit_length()
    return 0 if bits <= _SMALL_BITS else (bits // _WORD_BITS) ** 2


def squares_in(value: Any) -> tuple[int, int]:
    """Return the number of values in a JSON value, including itself, and the squares of its numbers."""
    count, squares, pending = 0, 0, [value]
    while pending:
        item = pending.pop()
        count += 1
        if is_object(item):
            pending += item.values()
        elif is_list(item):
            pending += item
        elif isinstance(item, int | float):
            squares += square_of(item)
    return count, squares
