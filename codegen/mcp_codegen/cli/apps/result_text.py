"""The text of a result: what a terminal shows of its content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from ...json_types import is_list, is_object

_MAX_BLOCK: Final = 300  # Characters of a block without text, such as an image.


def result_texts(result: dict[str, Any]) -> Iterable[str]:
    """Yield the text of each content block of a tool, prompt or resource."""
    for key in ("content", "contents", "messages"):
        blocks = result.get(key)
        for block in blocks if is_list(blocks) else []:
            yield _block(block)


def _block(block: object) -> str:
    fields = block if is_object(block) else {}
    role, content = fields.get("role"), fields.get("content")
    if isinstance(role, str):
        return f"{role}: {_block(content)}"
    text = fields.get("text")
    return text if isinstance(text, str) else json.dumps(fields, ensure_ascii=False)[:_MAX_BLOCK]
