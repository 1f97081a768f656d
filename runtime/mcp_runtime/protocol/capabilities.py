"""The phases of a conversation and the capabilities of its sides, as tables and plain functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from .models import is_object, validator
from .revision import (
    CapabilityRequirement,
    Revision,
)

Capabilities = dict[str, Any]
# What may be said in a phase, by the role of the message; None for anything but the opening request.
# What stands after this in the path of a capability is the identifier of an extension, and maybe one of its settings.
_EXTENSIONS: Final = ".extensions."
# The name of the error for a request that needs what its client has not declared.
MISSING_CAPABILITY_ERROR: Final = "MISSING_REQUIRED_CLIENT_CAPABILITY"


def parse_capability_path(capability: str) -> tuple[str, tuple[str, ...]]:
    """`server.tools.listChanged` → the side that declares it, and the path in its capabilities; the identifier of an
    extension is one step of it, dots and all, and a setting of it (`server.extensions.acme/paint#glossy`) another."""
    if _EXTENSIONS not in capability:
        side, *path = capability.split(".")
        return side, tuple(path)
    side, within, named = capability.split(".", 2)
    return side, (within, *named.split("#"))


def capabilities_object(capabilities: Iterable[str]) -> Capabilities:
    """Capabilities, side first, as the object that declares them."""
    found: Capabilities = {}
    for each in capabilities:
        at = found
        for step in parse_capability_path(each)[1]:
            at = at.setdefault(step, {})
    return found


def required_extensions(revision: Revision, side: str) -> Capabilities:
    """The extensions that a side has to declare for some message of a revision."""
    gates = (gate.capability for row in revision.rows for gate in row.requirements)
    return capabilities_object(each for each in gates if each.startswith(f"{side}{_EXTENSIONS}"))


def is_declared(capabilities: Capabilities, path: Iterable[str]) -> bool:
    """Whether the capability is there: an object, or true."""
    found = _value_at(capabilities, path)
    return found is not None and found is not False


def satisfies(capabilities: Capabilities, requirement: CapabilityRequirement) -> bool:
    """Whether what a gate needs is there, be it unsaid."""
    _, path = parse_capability_path(requirement.capability)
    return is_declared(capabilities, path) or (
        requirement.implied_by_empty and _value_at(capabilities, path[:-1]) == {}
    )


def _value_at(capabilities: Capabilities, path: Iterable[str]) -> Any:
    at: Any = capabilities
    for step in path:
        at = at.get(step) if is_object(at) else None
    return at


def declare(capabilities: Capabilities, path: tuple[str, ...], model: type[BaseModel]) -> None:
    """Add a capability, as `true` where the model has a flag there and as an object where it has one."""
    at = capabilities
    for step in path[:-1]:
        at = at.setdefault(step, {})
    if path[-1] in at:
        return
    at[path[-1]] = True
    try:
        validator(model)(capabilities)
    except ValidationError:
        at[path[-1]] = {}


def merge(target: Capabilities, source: Mapping[str, Any]) -> None:
    """Add what is declared by hand; objects are merged."""
    for name, value in source.items():
        present = target.get(name)
        if is_object(present) and is_object(value):
            merge(present, value)
        else:
            target[name] = value
