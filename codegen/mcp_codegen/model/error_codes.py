"""The error codes that a revision reserves, and the code that is sent instead of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import RuleError
from .ir import ReservedErrorCodes
from .overlay import Overlay


def derive_error_codes(
    constants: Mapping[str, str | int], style: str, revision: str, overlay: Overlay
) -> tuple[ReservedErrorCodes, ...]:
    """Return the error codes that the overlay reserves for this style of lifecycle. Raises RuleError if the code to
    send instead is not a constant of the schema."""
    rows = overlay.table("codes", revision)
    entries: list[dict[str, Any]] = rows.use(style) if style in rows else []
    for entry in entries:
        if entry["instead"] not in constants:
            raise RuleError(
                f"{revision}: {rows.rows[style]} names {entry['instead']!r}, which is not a constant of the "
                "schema; correct the row"
            )
    return tuple(
        ReservedErrorCodes(entry["first"], entry["last"], int(constants[entry["instead"]])) for entry in entries
    )
