"""Revisions and rows go in; which error codes one does not send, and what they become in a neighbour, come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .conversions import Conversions
from .errors import RuleError
from .ir import ReservedErrorCodes, Revision
from .overlay import Overlay


def derive_error_codes(
    constants: Mapping[str, str | int], style: str, revision: str, overlay: Overlay
) -> tuple[ReservedErrorCodes, ...]:
    """The error codes that the overlay keeps back in this style of lifecycle. Raises RuleError where what to send
    instead is no constant of the schema."""
    rows = overlay.table("codes", revision)
    said: list[dict[str, Any]] = rows.use(style) if style in rows else []
    for each in said:
        if each["instead"] not in constants:
            raise RuleError(f"{revision}: {rows.rows[style]} names {each['instead']!r}, which is no constant of it")
    return tuple(ReservedErrorCodes(each["first"], each["last"], int(constants[each["instead"]])) for each in said)


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
