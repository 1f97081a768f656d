"""Capabilities: the JSON objects in which client and server declare what they support.

See https://modelcontextprotocol.io/specification/draft/basic/versioning and the `capabilities` of each feature's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic_core import ValidationError

from .models import is_object, validator
from .revision import CapabilityRequirement, Revision

Capabilities = dict[str, Any]
# The rest of a capability path after this text is an extension identifier, optionally with a setting after `#`.
_EXTENSIONS: Final = ".extensions."
# The schema constant with the error code of a request that needs an undeclared client capability.
MISSING_CAPABILITY_ERROR: Final = "MISSING_REQUIRED_CLIENT_CAPABILITY"


def parse_capability_path(capability: str) -> tuple[str, tuple[str, ...]]:
    """Split a capability path into the side that declares it and the keys inside its capabilities object.

    `server.tools.listChanged` gives `("server", ("tools", "listChanged"))`. An extension identifier is one key even if
    it has dots; a setting of an extension (`server.extensions.acme/paint#glossy`) is one more key.
    """
    if _EXTENSIONS not in capability:
        side, *path = capability.split(".")
        return side, tuple(path)
    side, within, named = capability.split(".", 2)
    return side, (within, *named.split("#"))


def capabilities_object(capabilities: Iterable[str]) -> Capabilities:
    """Return the capabilities object that declares these capability paths."""
    result: Capabilities = {}
    for capability in capabilities:
        node = result
        for step in parse_capability_path(capability)[1]:
            node = node.setdefault(step, {})
    return result


def required_extensions(revision: Revision, side: str) -> Capabilities:
    """Return the capabilities object with every extension that some message of the revision requires of a side."""
    paths = (requirement.capability for row in revision.rows for requirement in row.requirements)
    return capabilities_object(path for path in paths if path.startswith(f"{side}{_EXTENSIONS}"))


def is_declared(capabilities: Capabilities, path: Iterable[str]) -> bool:
    """Return True if the capability is declared: its value is an object or `true`."""
    value = _value_at(capabilities, path)
    return value is not None and value is not False


def satisfies(capabilities: Capabilities, requirement: CapabilityRequirement) -> bool:
    """Return True if the capabilities satisfy the requirement, including by an empty object that implies it."""
    _, path = parse_capability_path(requirement.capability)
    return is_declared(capabilities, path) or (
        requirement.implied_by_empty and _value_at(capabilities, path[:-1]) == {}
    )


def _value_at(capabilities: Capabilities, path: Iterable[str]) -> Any:
    value: Any = capabilities
    for step in path:
        value = value.get(step) if is_object(value) else None
    return value


def declare(capabilities: Capabilities, path: tuple[str, ...], model: Any) -> None:
    """Add a capability at a path: as `true` if the model has a boolean there, as an empty object otherwise."""
    node = capabilities
    for step in path[:-1]:
        node = node.setdefault(step, {})
    if path[-1] in node:
        return
    node[path[-1]] = True
    try:
        validator(model)(capabilities)
    except ValidationError:
        node[path[-1]] = {}


def merge(target: Capabilities, source: Mapping[str, Any]) -> None:
    """Merge `source` into `target` in place; nested objects are merged, other values replaced."""
    for name, value in source.items():
        present = target.get(name)
        if is_object(present) and is_object(value):
            merge(present, value)
        else:
            target[name] = value
