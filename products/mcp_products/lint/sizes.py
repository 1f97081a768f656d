"""Descriptions, the number of tools, and the tokens that a model reads before the user says a word."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .findings import Finding, Settings, found
from .snapshot import Json, Snapshot, is_list, is_object, text_of
from .table import table
from .walk import nodes

CHARACTERS_A_TOKEN: Final = 4.4  # Of compact JSON of tools; measured with three tokenizers: 4.25 to 4.56.
_ENCODING: Final = "o200k_base"
_TABLE: Final = f"https://openaipublic.blob.core.windows.net/encodings/{_ENCODING}.tiktoken"
_TOOL_WARNS: Final = 1500
_SERVER_WARNS: Final = 10_000
_SHORT: Final = 300  # Characters of a description that say what a tool does.
_REPEATED: Final = 1000  # Characters; less is not worth a line.
_SEARCH: Final = 250  # Tokens of two tools that search and call.
_PYTHON: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"}


@cache
def _exact() -> Callable[[str], int] | None:
    """Return the tokenizer of OpenAI if it is installed with its table; nothing is downloaded."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    cached = Path(folder or Path(tempfile.gettempdir(), "data-gym-cache"), hashlib.sha1(_TABLE.encode()).hexdigest())
    if find_spec("tiktoken") is None or not cached.is_file():
        return None
    encoding: Any = import_module("tiktoken").get_encoding(_ENCODING)
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def is_exact() -> bool:
    """Return True if tokens are counted, and False if they are estimated."""
    return _exact() is not None


def tokens_of(text: str) -> int:
    """Return the tokens of a text, exact or estimated."""
    exact = _exact()
    return exact(text) if exact is not None else round(len(text) / CHARACTERS_A_TOKEN)


def seen_by_model(tool: Json) -> str:
    """Return what a model sees of a tool: its name, its description and its input schema as compact JSON."""
    seen = {key: tool[key] for key in ("name", "description", "inputSchema") if key in tool}
    return json.dumps(seen, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Savings:
    """Tokens of all tools, and what they would be after each measure."""

    now: int
    shorter_descriptions: int
    without_repetition: int
    signatures: int
    search: int


def savings_of(tools: list[Json]) -> Savings:
    """Return what the tools cost, and what each measure would leave."""
    texts = [seen_by_model(tool) for tool in tools]
    now = sum(map(tokens_of, texts))
    long = sum(max(0, len(text) - _SHORT) for tool in tools for text in _descriptions(tool))
    repeated = sum(size for size, _ in _repeated(tools).values())
    by_character = now / max(1, sum(map(len, texts)))
    return Savings(
        now,
        round(now - long * by_character),
        round(now - repeated * by_character),
        sum(tokens_of(signature(tool)) for tool in tools),
        min(now, _SEARCH),
    )


def _descriptions(tool: Json) -> Iterator[str]:
    yield text_of(tool.get("description"))
    schema = tool.get("inputSchema")
    if is_object(schema):
        yield from (text_of(node.schema.get("description")) for node in nodes(schema))


def _repeated(tools: list[Json]) -> dict[str, tuple[int, int]]:
    """Return the characters that are repeated and how often, by the name of the argument."""
    counts: Counter[tuple[str, str]] = Counter()
    for tool in tools:
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if is_object(schema) else None
        for name, value in properties.items() if is_object(properties) else ():
            counts[name, json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))] += 1
    found_twice: dict[str, tuple[int, int]] = {}
    for (name, text), count in counts.items():
        if count > 1:
            size, times = found_twice.get(name, (0, 0))
            found_twice[name] = size + len(text) * (count - 1), times + count
    return found_twice


def signature(tool: Json) -> str:
    """Return a tool as one line of Python and the first sentence of its description."""
    schema = tool.get("inputSchema")
    fields = schema if is_object(schema) else {}
    properties = fields.get("properties")
    required: Any = fields.get("required") or []
    arguments = [
        f"{name}: {_type(value)}{'' if name in required else ' = None'}"
        for name, value in (properties.items() if is_object(properties) else ())
    ]
    sentence = re.split(r"(?<=[.!?])\s|\n", text_of(tool.get("description")).strip(), maxsplit=1)[0]
    return f"def {text_of(tool.get('name'))}({', '.join(arguments)})  # {sentence}"


def _type(schema: object) -> str:
    if not is_object(schema):
        return "object"
    kind = schema.get("type")
    if is_list(values := schema.get("enum")) and len(values) < 12:
        return " | ".join(map(repr, values))
    return _PYTHON.get(kind, "dict") if isinstance(kind, str) else "object"


# ---- the rules -------------------------------------------------------------------------------------------------------


def check_descriptions(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield descriptions that are missing, or longer than a host reads."""
    facts = table().rules["description-length"].facts
    for place, item in snapshot.items():
        text = text_of(item.get("description"))
        if not text.strip():
            yield found("description-missing", place, "there is no description")
        long = tuple(fact for fact in facts if len(text) > fact.limit)
        if place.startswith("tools.") and long:
            lost = max((len(text) - fact.limit for fact in long if fact.effect == "truncated"), default=0)
            behind = f"; behind the cut begins {text[-lost:][:40]!r}" if lost else ""
            yield found("description-length", f"{place}.description", f"{len(text):,} characters{behind}", long)
    if len(snapshot.instructions) > facts[0].limit:
        long = tuple(fact for fact in facts if fact.effect == "truncated")
        yield found("description-length", "instructions", f"{len(snapshot.instructions):,} characters", long)


def check_count(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield more tools than hosts take."""
    count = len(snapshot.tools)
    if facts := tuple(fact for fact in table().rules["tool-count"].facts if count > fact.limit):
        limits = ", ".join(f"{table().hosts[fact.host]} {fact.limit}" for fact in facts)
        yield found("tool-count", "tools", f"{count} tools; limits: {limits}", facts)


def check_tokens(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield what costs many tokens, worst first, and a budget that is exceeded."""
    about = "" if is_exact() else "about "
    costs = sorted(((tokens_of(seen_by_model(tool)), tool) for tool in snapshot.tools), key=lambda row: -row[0])
    total = sum(cost for cost, _ in costs)
    largest = ", ".join(f"{text_of(tool.get('name'))} {cost:,}" for cost, tool in costs[:5])
    if settings.budget and total > settings.budget:
        yield found("budget", "tools", f"{about}{total:,} tokens, budget {settings.budget:,}; the largest: {largest}")
    if total > _SERVER_WARNS:
        yield found("tokens-server", "tools", f"{about}{total:,} tokens; the largest: {largest}")
    for cost, tool in costs:
        if cost > _TOOL_WARNS:
            yield found("tokens-tool", f"tools.{text_of(tool.get('name'))}", f"{about}{cost:,} tokens")
    repeated = _repeated(list(snapshot.tools))
    size = sum(characters for characters, _ in repeated.values())
    if size > max(_REPEATED, sum(len(seen_by_model(tool)) for tool in snapshot.tools) / 10):
        names = sorted(repeated, key=lambda name: -repeated[name][0])[:3]
        worst = ", ".join(f"{name} in {repeated[name][1]} tools" for name in names)
        yield found("duplicate-schemas", "tools", f"{about}{round(size / CHARACTERS_A_TOKEN):,} tokens: {worst}")
