"""The values of JSDoc tags that become keywords of JSON Schema."""

from __future__ import annotations

import json
from typing import Any, Final

_SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems")
_TAG_TYPES: Final[dict[str, type]] = {"uniqueItems": bool, "examples": list, **dict.fromkeys(_SIZES, int)}


def tag_value(tag: str, written: str) -> Any:
    """Return the value of a tag. Raises ValueError for one that the keyword cannot have."""
    try:
        value = json.loads(written)
    except ValueError:
        raise ValueError(f"@{tag} has the value {written!r}, which is not JSON; correct the tag in schema.ts") from None
    expected = _TAG_TYPES.get(tag, (int, float))
    if tag != "default" and (not isinstance(value, expected) or isinstance(value, bool) != (expected is bool)):
        raise ValueError(f"@{tag} has the value {written!r}, which it cannot have; correct the tag in schema.ts")
    return value
