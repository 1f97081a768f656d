"""The tags of JSDoc blocks, and the values of those that become keywords of JSON Schema."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from .syntax import JSON_TAGS, TEXT_TAGS

_TAG: Final = re.compile(r"[\s*/]*@([\w-]+)(.*)")  # At the beginning of a line.
# Tags of the JSON Schema tool with its prefix, which mean the same as without it.
_TOOL_TAGS: Final = frozenset(f"TJS-{name}" for name in (*TEXT_TAGS, *JSON_TAGS))
_SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems")
_TAG_TYPES: Final[dict[str, type]] = {"uniqueItems": bool, "examples": list, **dict.fromkeys(_SIZES, int)}


def read_tags(comment: str) -> dict[str, str]:
    """Return the tags of a JSDoc block, with the rest of their lines."""
    lines = comment.removesuffix("*/").rstrip("*").split("\n")
    tags = {match[1]: match[2].strip() for line in lines if (match := _TAG.match(line)) is not None}
    return tags | {name.removeprefix("TJS-"): tags[name] for name in tags if name in _TOOL_TAGS}


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
