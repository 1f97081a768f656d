"""Results of calls, and how the process behaved."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from .broken import remedy_of
from .findings import Finding, Settings, found
from .sizes import tokens_of
from .snapshot import Json, Snapshot, is_list, is_object, text_of
from .table import Level, protocol, table

_MAX_SHOWN: Final = 80
_PYTHON: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def check_results(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield what hosts refuse of the results of calls."""
    tools = {text_of(tool.get("name")): tool for tool in snapshot.tools}
    for name, result in snapshot.calls.items():
        place = f"tools.{name}"
        yield from _size(result, tools.get(name, {}), place)
        if result.get("isError") is True:
            yield from _error(result, place)
            continue
        yield from _structured(result, tools.get(name, {}).get("outputSchema"), place)
        yield from _kinds(result, place)


def _size(result: Json, tool: Json, place: str) -> Iterator[Finding]:
    tokens = tokens_of(json.dumps(result, ensure_ascii=False))
    facts = tuple(fact for fact in table().rules["result-size"].facts if tokens > fact.limit)
    meta = tool.get("_meta")
    if facts and not (is_object(meta) and "anthropic/maxResultSizeChars" in meta):
        yield found("result-size", place, f"a result of about {tokens:,} tokens", facts)


def _error(result: Json, place: str) -> Iterator[Finding]:
    text = " ".join(_texts(result))
    if len(text.split()) < 4 or "Traceback (most recent call last)" in text:
        yield found("error-without-remedy", place, f"the error says {text[:_MAX_SHOWN]!r}")


def _structured(result: Json, schema: object, place: str) -> Iterator[Finding]:
    if not is_object(schema):
        return
    value = result.get("structuredContent")
    if value is None:
        yield found("output-without-structured", place, "the result has no structuredContent")
    elif problem := _mismatch(value, schema):
        yield found("output-mismatch", place, problem)


def _mismatch(value: object, schema: Json) -> str:
    """Return what of a value its schema does not allow, at its top level: types, and properties that are missing."""
    if not is_object(value):
        return "structuredContent is not an object"
    names, properties = schema.get("required"), schema.get("properties")
    missing = [name for name in names if name not in value] if is_list(names) else []
    if missing:
        return f"{', '.join(map(str, missing))} is required, and not there"
    for name, part in properties.items() if is_object(properties) else ():
        kind = part.get("type") if is_object(part) else None
        if isinstance(kind, str) and name in value and not _is(value[name], kind):
            return f"{name} is {json.dumps(value[name])[:_MAX_SHOWN]}, and its type is {kind}"
    return ""


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON.get(kind, object))


def _texts(result: Json) -> list[str]:
    content = result.get("content")
    blocks = [block for block in content if is_object(block)] if is_list(content) else []
    return [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]


def _kinds(result: Json, place: str) -> Iterator[Finding]:
    content = result.get("content")
    kinds = {text_of(block.get("type")) for block in content if is_object(block)} if is_list(content) else set[str]()
    if kinds and "text" not in kinds:
        yield found("result-content-kind", place, f"the content is {', '.join(sorted(kinds))} alone")


def check_process(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong with the process and the connection."""
    if snapshot.broken:
        yield replace(found("start-failed", "server", snapshot.broken), write=remedy_of(snapshot))
    if snapshot.noise:
        first = re.sub(r"\s+", " ", snapshot.noise[0]).strip()[:_MAX_SHOWN]
        count = len(snapshot.noise)
        level: Level | None = None if settings.hosts else "warning"
        lines = "a line that is not a message" if count == 1 else f"{count} lines that are not messages, the first is"
        yield found("stdout-noise", "stdout", f"{lines}: {first!r}", level=level)
    if snapshot.start is not None:
        slow = tuple(fact for fact in table().rules["start-time"].facts if (snapshot.start or 0) > fact.limit)
        if slow:
            limits = ", ".join(f"{table().hosts[fact.host]} {fact.limit}" for fact in slow)
            yield found("start-time", "server", f"{snapshot.start:.0f} s to the first answer; limits: {limits}", slow)
    if snapshot.ended is False:
        yield found("shutdown", "server", "the process remains when its input is closed")
    if snapshot.revision and snapshot.revision < protocol().structured:
        yield found("protocol-version", "server", f"it speaks {snapshot.revision} at most")
    for name, error in snapshot.failed.items():
        yield found("list-failed", name, f"{name} failed: {error[: _MAX_SHOWN * 2]}")
    if snapshot.revision:
        missing = [key for key in ("name", "version") if not text_of(snapshot.info.get(key))]
        if missing:
            yield found("server-version", "server", f"serverInfo has no {' and no '.join(missing)}")
