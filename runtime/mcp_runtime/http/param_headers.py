"""Mcp-Param-* headers: they repeat arguments of a tool call, as `x-mcp-header` in its input schema defines.

https://modelcontextprotocol.io/specification/draft/basic/transports
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from ..protocol.models import is_list, is_object
from ..protocol.revision import Revision
from .headers import PARAM_PREFIX, Headers, decode_value

ArgumentPaths = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ToolHeaders:
    """The tools of a list result without those that have invalid `x-mcp-header` annotations; the argument paths of the
    tools by name; and the reasons of the rejected tools by name."""

    tools: list[Any]
    paths: Mapping[str, ArgumentPaths]
    rejected: Mapping[str, str]


# The properties of a tool that declare its headers; a revision may have other names for them.
TOOL_NAME: Final = "Tool.name"
INPUT_SCHEMA: Final = "Tool.inputSchema"
ARGUMENTS: Final = "CallToolRequestParams.arguments"
TOOLS: Final = "ListToolsResult.tools"


def read_tool_headers(value: Any, revision: Revision) -> ToolHeaders:
    """Read the `x-mcp-header` annotations of all tools in a list result of a revision."""
    tool_name, input_schema = revision.name_of(TOOL_NAME), revision.name_of(INPUT_SCHEMA)
    tools: list[Any] = []
    paths: dict[str, ArgumentPaths] = {}
    rejected: dict[str, str] = {}
    for tool in value if is_list(value) else ():
        if not is_object(tool):
            tools.append(tool)
            continue
        name = str(tool.get(tool_name))
        try:
            paths[name] = parameter_headers(tool.get(input_schema))
            tools.append(tool)
        except ValueError as error:
            rejected[name] = str(error)
    return ToolHeaders(tools, paths, rejected)


def parameter_headers(schema: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the argument paths of an input schema's `x-mcp-header` annotations, by header name without the prefix.

    Raises ValueError for an invalid annotation.
    """
    paths: dict[str, tuple[str, ...]] = {}
    _collect(schema, (), True, paths)
    return paths


def _collect(schema: Any, path: tuple[str, ...], reachable: bool, paths: dict[str, tuple[str, ...]]) -> None:
    if is_list(schema):
        for subschema in schema:
            _collect(subschema, path, False, paths)
    if not is_object(schema):
        return
    if "x-mcp-header" in schema:
        name = schema["x-mcp-header"]
        if not isinstance(name, str) or not name or not set(name) <= _TOKEN:
            raise ValueError(f"x-mcp-header {name!r} is not a valid header name")
        if not path or not reachable:
            raise ValueError(
                f"x-mcp-header {name!r} must be on a property of an object, not inside an array or a union"
            )
        if schema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name!r} needs a property of type string, integer or boolean")
        if name.lower() in paths:
            raise ValueError(f"x-mcp-header {name!r} occurs twice")
        paths[name.lower()] = path
    for key, inner in schema.items():
        if key == "properties" and is_object(inner):
            for name, subschema in inner.items():
                _collect(subschema, (*path, name), reachable, paths)
        elif key not in _VALUES:
            for subschema in inner.values() if is_object(inner) and key in _MAPS else (inner,):
                _collect(subschema, path, False, paths)


_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_VALUES: Final = frozenset({"default", "examples", "const", "enum", "x-mcp-header"})
_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
_MAX_SAFE_INTEGER: Final = 2**53 - 1


def header_text(value: Any) -> str | None:
    """Return an argument as header text; None for a value that cannot be represented (objects, arrays, fractions)."""
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
    """Return the argument at a path; None if it is absent."""
    for step in path:
        arguments = arguments.get(step) if is_object(arguments) else None
    return arguments


def check_parameter_headers(headers: Headers, arguments: Any, paths: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the error of a call whose Mcp-Param-* headers differ from its arguments, None if they match."""
    for name, path in paths.items():
        header, value = headers.get(PARAM_PREFIX + name), argument_at(arguments, path)
        text = None if header is None else decode_value(header)
        if header is None and value is None:
            continue
        if text is None or value is None or not _matches(text, value):
            return f"the header {PARAM_PREFIX}{name} does not match the argument {'.'.join(path)}"
    return None


def _matches(text: str, value: Any) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return Decimal(text) == Decimal(str(value))
        except InvalidOperation:
            return False
    return text == header_text(value)
