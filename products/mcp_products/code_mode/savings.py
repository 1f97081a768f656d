"""What the tools of a server cost before the first word, and what each measure would leave: tokens, estimated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mcp_runtime.protocol.models import is_object

from .signatures import functions_of, list_of

CHARACTERS_A_TOKEN: Final = 4.4  # Of compact JSON of tools; measured with three tokenizers: 4.25 to 4.56.
CODE_MODE: Final = 180  # Tokens of its two tools.
_SEEN: Final = ("name", "description", "inputSchema")  # Hosts show a model nothing else.
_SHORT: Final = 300  # Characters of a description that say what a tool does.
_MAX_DEPTH: Final = 20


def savings_of(tools: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the tokens `now`, and those with `shorter_descriptions` of 300 characters, with `signatures` instead of
    schemas, and with `code_mode`."""
    listed = list(tools)
    seen = [{key: tool[key] for key in _SEEN if key in tool} for tool in listed]
    now = sum(len(json.dumps(tool, ensure_ascii=False, separators=(",", ":"))) for tool in seen)
    long = sum(max(0, len(text) - _SHORT) for tool in seen for text in _descriptions(tool, 0))
    signatures = sum(len(function.text) for function in functions_of(listed).values())
    sizes = {"now": now, "shorter_descriptions": now - long, "signatures": signatures}
    tokens = {name: round(size / CHARACTERS_A_TOKEN) for name, size in sizes.items()}
    return {**tokens, "code_mode": min(CODE_MODE, tokens["now"])}


def _descriptions(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    for item in list_of(value):
        yield from _descriptions(item, depth + 1)
    if is_object(value):
        for key, item in value.items():
            if key == "description" and isinstance(item, str):
                yield item
            else:
                yield from _descriptions(item, depth + 1)
