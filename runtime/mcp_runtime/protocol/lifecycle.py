"""The phases of a connection, and which methods each of them allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

from pydantic_core import ValidationError, to_json

from .json_text import is_longer
from .models import is_object, validator
from .revision import CapabilityRequirement, Direction, Handshake, Revision, Sent, Stateless

_MAX_SHARED: Final = 256  # Objects that sessions share, and the bytes of each.
_MAX_SHARED_BYTES: Final = 1024
_SHARED: Final[dict[bytes, dict[str, Any]]] = {}
_MAX_CLIENT_BYTES: Final = 16 * 1024  # Bytes of `initialize`, as a session stores most of it.

Capabilities = dict[str, Any]
# The rest of a capability path after this text is an extension identifier, optionally with a setting after `#`.
_EXTENSIONS: Final = ".extensions."
# The schema constant with the error code of a request that needs an undeclared client capability.
MISSING_CAPABILITY_ERROR: Final = "MISSING_REQUIRED_CLIENT_CAPABILITY"


class Phase(Enum):
    """The progress of the initialization handshake; a stateless connection is open from the start."""

    NEW = "before the handshake"
    OPENING = "during the handshake"
    OPEN = "after the handshake"


# The roles of the messages that are allowed in a phase; None allows every message except the initialize request.
_ROLES_IN: Final[Mapping[Phase, tuple[str, ...] | None]] = {
    Phase.NEW: ("initialize_request", "ping_request", "cancelled"),
    Phase.OPENING: ("initialized", "ping_request", "cancelled", "log", "progress"),
    Phase.OPEN: None,
}


def first_phase(lifecycle: Handshake | Stateless) -> Phase:
    """Return the phase in which a connection with this lifecycle starts."""
    return Phase.NEW if isinstance(lifecycle, Handshake) else Phase.OPEN


def is_allowed(lifecycle: Handshake | Stateless, phase: Phase, row: Sent) -> bool:
    """Return True if the message may be sent or received in this phase."""
    if isinstance(lifecycle, Stateless):
        return True
    roles = _ROLES_IN[phase]
    if roles is None:
        return row.method != lifecycle.initialize_request.method
    return row.method in {role_row.method for role in roles if (role_row := getattr(lifecycle, role)) is not None}


def is_control_request(revision: Revision, row: Sent) -> bool:
    """Return True for a request that only shows that the other side responds: its handler waits for nothing."""
    lifecycle = revision.lifecycle
    return row.method == (lifecycle.discover if isinstance(lifecycle, Stateless) else lifecycle.ping_request).method


@cache
def allowed_methods(
    revision: Revision, direction: Direction, phase: Phase, missing: frozenset[str]
) -> Mapping[str, Sent]:
    """Return the messages that are allowed in a direction and a phase, without those that need a missing capability.

    The mapping is cached and shared by all connections in the same state.
    """
    rows = revision.table(direction).items()
    return {
        method: row
        for method, row in rows
        if row.capability not in missing and is_allowed(revision.lifecycle, phase, row)
    }


def initialize_refusal(params: object, in_batch: bool) -> str | None:
    """Return why a request that opens a session is refused; None if it is not. Icons do not count for its size."""
    if in_batch:
        return "cannot be in a batch"
    fields = params if is_object(params) else {}
    plain = {name: without_icons(value) if is_object(value) else value for name, value in fields.items()}
    return f"has more than {_MAX_CLIENT_BYTES} bytes" if is_longer(plain, _MAX_CLIENT_BYTES) else None


def stored_client_info(client_info: dict[str, Any]) -> dict[str, Any]:
    """Return what a session stores of the `clientInfo` of its client: without the icons if they are large."""
    return shared_object(without_icons(client_info) if is_longer(client_info, _MAX_CLIENT_BYTES) else client_info)


def shared_object(value: dict[str, Any]) -> dict[str, Any]:
    """Return one object for all equal ones, as very many clients declare the same. It must not be changed."""
    text = to_json(value)
    if len(text) > _MAX_SHARED_BYTES:
        return value
    if len(_SHARED) >= _MAX_SHARED:
        _SHARED.clear()
    return _SHARED.setdefault(text, value)


def without_icons(info: dict[str, Any]) -> dict[str, Any]:
    """Return a name, version and title without the icons, which may be images as a whole."""
    return {name: value for name, value in info.items() if name != "icons"}


# Capabilities: the JSON objects in which client and server declare what they support.
#
# See https://modelcontextprotocol.io/specification/draft/basic/versioning and the `capabilities` of each feature's
# page.


@cache
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
