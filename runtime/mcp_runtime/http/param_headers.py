"""Headers that repeat arguments of a tool call (`x-mcp-header` in an input schema)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ..protocol.models import is_list, is_object
from .headers import (
    PARAM_PREFIX,
    Headers,
    decode_value,
)

ArgumentPaths = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ToolHeaders:
    """The result of a list without the tools whose annotations are not allowed; the paths of the others by name;
    and what was left out, with the reason."""

    tools: list[Any]
    paths: Mapping[str, ArgumentPaths]
    rejected: Mapping[str, str]


def read_tool_headers(listed: Any) -> ToolHeaders:
    """What a list of tools says of the headers that repeat their arguments."""
    kept: list[Any] = []
    paths: dict[str, ArgumentPaths] = {}
    left_out: dict[str, str] = {}
    for tool in listed if is_list(listed) else ():
        if not is_object(tool):
            kept.append(tool)
            continue
        name = str(tool.get("name"))
        try:
            paths[name] = parameter_headers(tool.get("inputSchema"))
            kept.append(tool)
        except ValueError as fault:
            left_out[name] = str(fault)
    return ToolHeaders(kept, paths, left_out)


def parameter_headers(schema: Any) -> Mapping[str, tuple[str, ...]]:
    """Which arguments a tool's input schema wants repeated in headers: the path of each, by the name of the header.
    Raises ValueError for a schema that says so in a way that is not allowed."""
    found: dict[str, tuple[str, ...]] = {}
    _collect(schema, (), True, found)
    return found


def _collect(schema: Any, path: tuple[str, ...], reachable: bool, paths: dict[str, tuple[str, ...]]) -> None:
    if is_list(schema):
        for each in schema:
            _collect(each, path, False, paths)
    if not is_object(schema):
        return
    if "x-mcp-header" in schema:
        name = schema["x-mcp-header"]
        if not isinstance(name, str) or not name or not set(name) <= _TOKEN:
            raise ValueError(f"x-mcp-header {name!r} is no name of a header")
        if not path or not reachable:
            raise ValueError(f"x-mcp-header {name!r} stands where its value cannot be found")
        if schema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name!r} is not of a string, an integer or a boolean")
        if name.lower() in paths:
            raise ValueError(f"x-mcp-header {name!r} stands twice")
        paths[name.lower()] = path
    for key, inner in schema.items():
        if key == "properties" and is_object(inner):
            for name, each in inner.items():
                _collect(each, (*path, name), reachable, paths)
        elif key not in _VALUES:
            for each in inner.values() if is_object(inner) and key in _MAPS else (inner,):
                _collect(each, path, False, paths)


_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_VALUES: Final = frozenset({"default", "examples", "const", "enum", "x-mcp-header"})
_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
_MAX_SAFE_INTEGER: Final = 2**53 - 1


def header_text(value: Any) -> str | None:
    """An argument as the text that a header repeats; None for what no header can say."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) <= _MAX_SAFE_INTEGER:
            return str(value)
        case float() if value.is_integer() and abs(value) <= _MAX_SAFE_INTEGER:
            return str(int(value))
        case str():
            return value
        case _:
            return None


def argument_at(arguments: Any, path: tuple[str, ...]) -> Any:
    """The argument at a path; None where there is none."""
    for step in path:
        arguments = arguments.get(step) if is_object(arguments) else None
    return arguments


def check_parameter_headers(headers: Headers, arguments: Any, paths: Mapping[str, tuple[str, ...]]) -> str | None:
    """What is wrong with the headers that repeat arguments of a call, if something is."""
    for name, path in paths.items():
        header, value = headers.get(PARAM_PREFIX + name), argument_at(arguments, path)
        said = None if header is None else decode_value(header)
        if header is None and value is None:
            continue
        if said is None or value is None or not _matches(said, value):
            return f"the header {PARAM_PREFIX}{name} is not the argument {'.'.join(path)}"
    return None


def _matches(text: str, value: Any) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return Decimal(text) == Decimal(str(value))
        except InvalidOperation:
            return False
    return text == header_text(value)
