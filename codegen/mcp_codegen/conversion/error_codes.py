"""The error codes that convert between neighbouring revisions."""

from __future__ import annotations

from ..model.ir import Revision
from .rules import Conversions


def converted_error_codes(source: Revision, target: Revision, method: str, rows: Conversions) -> dict[int, int]:
    """Return the error codes of a method by what they become: a code that only one of the two revisions sends is
    replaced by the one that the other sends instead, and back."""
    if not rows.has_type("code", method) or set(source.reserved_codes) == set(target.reserved_codes):
        return {}
    method_code = int(rows.peek("code", method).values["use"])
    codes: dict[int, int] = {}
    for reserved in source.reserved_codes:
        if reserved.first == reserved.last == method_code:
            codes[reserved.replacement] = method_code
    for reserved in target.reserved_codes:
        if reserved.first == reserved.last == method_code:
            codes[method_code] = reserved.replacement
    if codes:
        rows.find("code", method)
    return codes
