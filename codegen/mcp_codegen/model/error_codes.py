"""Revisions and rows go in; which error codes one does not send, and what they become in a neighbour, come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RuleError
from .ir import ReservedErrorCodes
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
