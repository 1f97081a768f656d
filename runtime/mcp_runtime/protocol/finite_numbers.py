"""NaN and infinity, which JSON does not have: refuse them, also where pydantic writes null instead."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, cast

from pydantic_core import SchemaSerializer, core_schema, from_json, to_json

from .parts import outside_long_strings

_NO_FLOATS: Final = frozenset({str, int, bool, type(None)})

# With these, text that may have a number beyond those of a float is found in a microsecond: one that has an exponent,
# or more digits than the largest float.
DIGITS_AS_ZERO: Final = bytes.maketrans(b"E123456789", b"e000000000")
MANY_DIGITS: Final = b"0" * 309
_STEP: Final = 17  # Bytes: of a long text, only some are looked at where many digits in a row are looked for.
_SOME_DIGITS: Final = b"0" * (len(MANY_DIGITS) // _STEP)
_PER_LETTER: Final = 4096  # Bytes for each letter, if letters are few.

NOT_FINITE: Final = "JSON has no number NaN or infinity"


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
