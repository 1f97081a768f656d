"""The values of a JSON text, counted before it is parsed, since all of them become objects; and the length of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

from pydantic_core import SchemaSerializer, core_schema, from_json, to_json

from .models import is_list, is_object

MAX_PARTS: Final = 750_000  # The default limit of one message: its text is parsed in one step.

_OF_NAME: Final = 3  # What the name of a member counts: another name takes as long as a few numbers.
_NO_MARKS: Final = bytes(byte for byte in range(256) if byte not in b",[{:")
_BLOCK: Final = 512 * 1024  # Bytes that are counted at once.
LONG: Final = 32 * 1024  # Bytes of a text whose strings are worth looking for.
_PER_MARK: Final = 4096  # Bytes for each quotation mark, if strings are few.
_BACKSLASH: Final = b"\\"[0]
_NO_FLOATS: Final = frozenset({str, int, bool, type(None)})

# With these, text that may have a number beyond those of a float is found in a microsecond: one that has an exponent,
# or more digits than the largest float.
DIGITS_AS_ZERO: Final = bytes.maketrans(b"E123456789", b"e000000000")
MANY_DIGITS: Final = b"0" * 309
_STEP: Final = 17  # Bytes: of a long text, only some are looked at where many digits in a row are looked for.
_SOME_DIGITS: Final = b"0" * (len(MANY_DIGITS) // _STEP)
_PER_LETTER: Final = 4096  # Bytes for each letter, if letters are few.
NOT_FINITE: Final = "JSON has no number NaN or infinity"


def is_longer(value: Any, limit: int) -> bool:
    """Return True if JSON has more than `limit` bytes; written only if its first values do not show it."""
    pending: list[object] = [value]
    size = 0
    for item in pending:  # It grows meanwhile.
        if type(item) is str:
            size += len(item)
        elif type(item) is int:
            size += item.bit_length() * 3 // 10  # Its digits, or one less.
        elif is_object(item):
            size += 5 * len(item)  # Two quotation marks, a colon, a value, and a comma or a bracket.
            if size <= limit:
                pending += [*item, *item.values()]
        elif is_list(item):
            size += 2 * len(item)
            if size <= limit:
                pending += item
        if size > limit:
            return True
    return len(to_json(value)) > limit


def has_more_parts(data: bytes, limit: int) -> bool:
    """Return True if a JSON text has more than `limit` values. A member of an object counts as four of them.

    Opening brackets, items after a comma and names are counted; those in strings do not count. Only texts longer than
    the limit are read: a value has at least one character, and a member five.
    """
    return any(count > limit for count in counts_of_parts(data, limit))


def counts_of_parts(data: bytes, limit: int) -> Iterator[int]:
    """Yield how many values a JSON text has so far, block by block; nothing if they are clearly not more than `limit`,
    and no more once they are."""
    if len(data) <= limit or _count(outside_long_strings(data)) <= limit:
        return
    count, is_string, rest = 0, False, b""
    for start in range(0, len(data), _BLOCK):
        plain = (rest + data[start : start + _BLOCK]).replace(b"\\\\", b"")
        rest = b"\\" if plain.endswith(b"\\") else b""  # It escapes the first character of the next block.
        parts = plain.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')  # Each begins or ends a string.
        count += _count(b"".join(parts[is_string::2]))
        is_string ^= len(parts) % 2 == 0
        yield count
        if count > limit:
            return


def outside_long_strings(data: bytes) -> bytes:
    """Return what a long JSON text has outside its strings, if they are few; else all of it.

    To look for a quotation mark takes a small part of the time in which all bytes are read.
    """
    parts: list[bytes] = []
    start, is_string = 0, False
    for _ in range(len(data) // _PER_MARK):
        mark = data.find(b'"', start)
        if mark < 0:
            return b"".join(parts) if is_string else b"".join([*parts, data[start:]])
        if not is_string:
            parts.append(data[start:mark])
            is_string = True
        elif data[mark - 1] != _BACKSLASH or _is_even(data[start:mark]):
            is_string = False
        start = mark + 1
    return data


def _is_even(text: bytes) -> bool:
    """Return True if a text ends with an even number of backslashes: what follows is not escaped."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 0


def _count(text: bytes) -> int:
    marks = text.translate(None, _NO_MARKS)  # One pass, which takes a third of the time of four counts.
    return len(marks) + (_OF_NAME - 1) * marks.count(b":")


# NaN and infinity, which JSON does not have: refuse them, also where pydantic writes null instead.


def require_finite(text: bytes, value: Any) -> None:
    """Raise ValueError if JSON text has NaN or infinity, or null for a NaN of the value that was written.

    pydantic writes null for a NaN in a field of the type Any, unless the configuration of its model says otherwise.
    """
    _require_no_constants(text)
    if b"null" in text and value is not None:  # Plain values are written with NaN: this costs less than to visit them.
        plain = _serializer().to_python(value)
        _require_no_constants(to_json(plain, inf_nan_mode="constants", bytes_mode="base64", serialize_unknown=True))


def _require_no_constants(text: bytes) -> None:
    if b"NaN" in text or b"Infinity" in text:  # It may be part of a string.
        try:
            from_json(text, allow_inf_nan=False)
        except ValueError:
            raise ValueError(NOT_FINITE) from None


@cache
def _serializer() -> SchemaSerializer:
    return SchemaSerializer(core_schema.any_schema())


def is_json(data: bytes) -> bool:
    """Return True for JSON, also if it cannot be read: too deep, half a surrogate pair, too many digits."""
    try:
        json.loads(data.decode(), parse_int=float, parse_constant=int)
    except (RecursionError, ValueError) as error:
        return isinstance(error, RecursionError)
    return True


def may_have_infinity(data: bytes) -> bool:
    """Return True if a long JSON text may have a number beyond those of a float."""
    text = outside_long_strings(data)
    if _has_exponent(text, b"e") or _has_exponent(text, b"E"):
        return True
    if b"." not in text:
        return False  # All numbers are integers, which have no limit.
    some = text[::_STEP].translate(DIGITS_AS_ZERO)
    return _SOME_DIGITS in some and MANY_DIGITS in text.translate(DIGITS_AS_ZERO)


def _has_exponent(text: bytes, letter: bytes) -> bool:
    at = -1
    for _ in range(len(text) // _PER_LETTER + 1):
        at = text.find(letter, at + 1)
        if at < 0:
            return False
        if text[at - 1 : at].isdigit():
            return True
    return text.translate(DIGITS_AS_ZERO).rfind(b"0e") >= 0


def is_finite(value: object) -> bool:
    """Return False if a value of dicts and collections contains NaN or infinity, such as the float of 1e400."""
    pending: list[object] = [value]
    for item in pending:  # It grows meanwhile.
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            members = cast("dict[object, object]", item).values()
            pending.extend([member for member in members if type(member) not in _NO_FLOATS])
        elif isinstance(item, (list, tuple, set, frozenset)):
            items = cast("list[object]", item)
            pending.extend([element for element in items if type(element) not in _NO_FLOATS])
    return True
