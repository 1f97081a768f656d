"""The phases of a conversation and the capabilities of its sides, as tables and plain functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from .spec import Handshake, Sent
from .wire import is_object, reader

Capabilities = dict[str, Any]


class Phase(Enum):
    """How far a handshake has come."""

    NEW = "before the handshake"
    OPENING = "during the handshake"
    OPEN = "open"
    CLOSED = "closed"


# What may be sent or received in a phase, by the role of the message; anything in OPEN, nothing in CLOSED.
_ROLES_IN: Final[Mapping[Phase, tuple[str, ...]]] = {
    Phase.NEW: ("open", "probe", "cancel"),
    Phase.OPENING: ("opened", "probe", "cancel", "log", "progress"),
}


def allowed(lifecycle: Handshake, phase: Phase, row: Sent) -> bool:
    """Whether this message may be sent or received now."""
    if phase is Phase.OPEN:
        return row.method != lifecycle.open.method
    return row.method in {getattr(lifecycle, role).method for role in _ROLES_IN.get(phase, ())}


def declared(capabilities: Capabilities, path: Iterable[str]) -> bool:
    """Whether the capability is there: an object, or true."""
    at: Any = capabilities
    for step in path:
        at = at.get(step) if is_object(at) else None
    return at is not None and at is not False


def declare(capabilities: Capabilities, path: tuple[str, ...], model: type[BaseModel]) -> None:
    """Add a capability, as `true` where the model has a flag there and as an object where it has one."""
    at = capabilities
    for step in path[:-1]:
        at = at.setdefault(step, {})
    at[path[-1]] = True
    try:
        reader(model)(capabilities)
    except ValidationError:
        at[path[-1]] = {}


def split(capability: str) -> tuple[str, tuple[str, ...]]:
    """`server.tools.listChanged` → the side that declares it, and the path in its capabilities."""
    side, *path = capability.split(".")
    return side, tuple(path)
