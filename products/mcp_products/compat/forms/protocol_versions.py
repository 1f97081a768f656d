"""The protocol versions that the official SDK names, for the types of this process."""

from __future__ import annotations

from typing import Final

from .form import FORM

HANDSHAKE_PROTOCOL_VERSIONS: Final = FORM.handshakes
MODERN_PROTOCOL_VERSIONS: Final = FORM.stateless
KNOWN_PROTOCOL_VERSIONS: Final = (*FORM.handshakes, *FORM.stateless)
SUPPORTED_PROTOCOL_VERSIONS: Final = KNOWN_PROTOCOL_VERSIONS
OLDEST_SUPPORTED_VERSION: Final = KNOWN_PROTOCOL_VERSIONS[0]
LATEST_HANDSHAKE_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]
LATEST_MODERN_VERSION: Final = KNOWN_PROTOCOL_VERSIONS[-1]


def is_version_at_least(version: str, minimum: str) -> bool:
    """Return True for a known version that is this one or a later one. Raises ValueError for an unknown minimum."""
    if minimum not in KNOWN_PROTOCOL_VERSIONS:
        raise ValueError(f"{minimum!r} is none of the protocol versions {', '.join(KNOWN_PROTOCOL_VERSIONS)}")
    return version in KNOWN_PROTOCOL_VERSIONS[KNOWN_PROTOCOL_VERSIONS.index(minimum) :]
