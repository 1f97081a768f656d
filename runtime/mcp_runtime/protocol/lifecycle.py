"""The phases of a connection, and which methods each of them allows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Final

from .revision import (
    Direction,
    Handshake,
    Revision,
    Sent,
    Stateless,
)


class Phase(Enum):
    """How far a handshake has come; a conversation without one is open from the start."""

    NEW = "before the handshake"
    OPENING = "during the handshake"
    OPEN = "after the handshake"


_ROLES_IN: Final[Mapping[Phase, tuple[str, ...] | None]] = {
    Phase.NEW: ("initialize_request", "ping_request", "cancelled"),
    Phase.OPENING: ("initialized", "ping_request", "cancelled", "log", "progress"),
    Phase.OPEN: None,
}


def first_phase(lifecycle: Handshake | Stateless) -> Phase:
    return Phase.NEW if isinstance(lifecycle, Handshake) else Phase.OPEN


def is_allowed(lifecycle: Handshake | Stateless, phase: Phase, row: Sent) -> bool:
    """Whether this message may be sent or received now."""
    if isinstance(lifecycle, Stateless):
        return True
    roles = _ROLES_IN[phase]
    if roles is None:
        return row.method != lifecycle.initialize_request.method
    return row.method in {known.method for role in roles if (known := getattr(lifecycle, role)) is not None}


@cache
def allowed_methods(
    revision: Revision, direction: Direction, phase: Phase, missing: frozenset[str]
) -> Mapping[str, Sent]:
    """What may go this way in a phase, but for what needs a capability that is missing; shared by all conversations
    that have come as far."""
    rows = revision.table(direction).items()
    return {
        method: row
        for method, row in rows
        if row.capability not in missing and is_allowed(revision.lifecycle, phase, row)
    }
