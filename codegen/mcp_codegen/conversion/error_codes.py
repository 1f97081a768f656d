"""Derive which error codes convert between neighbouring revisions."""

from __future__ import annotations

from ..model.ir import Revision
from .rules import Conversions


def converted_error_codes(source: Revision, target: Revision, method: str, rows: Conversions) -> dict[int, int]:
    """What the errors of a method become: the code of its own that one of the two revisions has, and the one that the
    other sends instead."""
    if not rows.has_type("code", method) or set(source.reserved_codes) == set(target.reserved_codes):
        return {}
    own = int(rows.peek("code", method).text["use"])
    found: dict[int, int] = {}
    for each in source.reserved_codes:
        if each.first == each.last == own:
            found[each.replacement] = own
    for each in target.reserved_codes:
        if each.first == each.last == own:
            found[own] = each.replacement
    if found:
        rows.find("code", method)
    return found
