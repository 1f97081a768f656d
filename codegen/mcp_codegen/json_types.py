"""Types of parsed JSON, and checks that narrow them for type checkers."""

from __future__ import annotations

from typing import Any, TypeGuard

Json = Any
JsonObject = dict[str, Any]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return True if the value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return True if the value is a JSON array."""
    return isinstance(value, list)
