"""HTTP headers of MCP requests: names, parsing, media types, and the encoding of repeated values."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from ..protocol.models import is_list, is_object
from ..protocol.revision import Revision

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

SESSION_ID: Final = "mcp-session-id"
PROTOCOL_VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
LAST_EVENT_ID: Final = "last-event-id"

Raw = Sequence[tuple[bytes, bytes]]  # Headers as ASGI has them.

# Headers that may occur only once: with duplicates, a proxy and the server could read different values.
_SINGLE: Final = frozenset(
    {
        "host",
        "origin",
        "content-type",
        "content-length",
        "content-encoding",
        SESSION_ID,
        PROTOCOL_VERSION,
        METHOD,
        NAME,
        LAST_EVENT_ID,
    }
)
_MAX_HEADERS: Final = 200
_MAX_HEADER_BYTES: Final = 64 * 1024
_UNREAD: Final = (408, 413, 431)  # Statuses of requests that are not read to the end.
_BEGIN: Final = "=?base64?"
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")

Headers = Mapping[str, str]
ArgumentPaths = Mapping[str, tuple[str, ...]]

# The properties of a tool that declare its headers; a revision may have other names for them.
TOOL_NAME: Final = "Tool.name"
INPUT_SCHEMA: Final = "Tool.inputSchema"
ARGUMENTS: Final = "CallToolRequestParams.arguments"
TOOLS: Final = "ListToolsResult.tools"
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_VALUES: Final = frozenset({"default", "examples", "const", "enum", "x-mcp-header"})
_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
_MAX_SAFE_INTEGER: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class HTTPError:
    """An HTTP status to reject a request with, and the code, message and data of the JSON-RPC error in the body.

    With `close`, the connection is closed as well. `retry_after` are the seconds after which the request may be sent
    again, for a server that has not begun with it; clients send it again by themselves. `limit` names the limit that
    the request is above, for metrics."""

    status: int
    reason: str
    code: int = -32600
    data: object = None
    close: bool = False
    retry_after: int | None = None
    limit: str | None = None

    @property
    def fields(self) -> Raw:
        """The headers of the response that belong to the error."""
        # The rest of the request body is not read, so the connection cannot be reused for another request.
        closing = ((b"connection", b"close"),) if self.close or self.status in _UNREAD else ()
        again = () if self.retry_after is None else ((b"retry-after", b"%d" % self.retry_after),)
        return (*again, *closing)


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> Headers | HTTPError:
    """Return the headers by lower-case name, or the error if there are too many or duplicates that are not allowed.

    Other headers of the same name are joined with a comma (RFC 9110, section 5.3).
    """
    if len(raw) > _MAX_HEADERS or len(b"".join([part for field in raw for part in field])) > _MAX_HEADER_BYTES:
        return HTTPError(431, f"the request has more than {_MAX_HEADERS} headers, or {_MAX_HEADER_BYTES} bytes of them")
    fields = [(key.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")) for key, value in raw]
    headers = dict(fields)
    if "transfer-encoding" in headers and "content-length" in headers:
        # A proxy may read the one, and the server the other: https://www.rfc-editor.org/rfc/rfc9112#section-6.1-15
        return HTTPError(400, "the request has Content-Length and Transfer-Encoding: send one of them", close=True)
    if len(headers) == len(fields):
        return headers
    headers.clear()
    for name, text in fields:
        if name in headers and (name in _SINGLE or name.startswith(PARAM_PREFIX)):
            return HTTPError(400, f"the header {name} occurs twice; send it once")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


@lru_cache(256)
def media_type(header: str) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return header.partition(";")[0].strip().lower()


@lru_cache(256)
def accepts(header: str | None, kind: str) -> bool:
    """Return True if an Accept header accepts a media type (RFC 9110, section 12.5.1). Without a header, all are."""
    if header is None:
        return True
    best, quality = -1, 0.0
    for part in header.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        rank = (name == "*/*", name == kind.partition("/")[0] + "/*", name == kind)
        if any(rank) and rank.index(True) > best:
            best, quality = rank.index(True), _quality(parameters)
    return quality > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def encode_value(text: str) -> str:
    """Encode a header value that repeats a text of the body: unchanged if it is safe, otherwise as `=?base64?…?=`."""
    if _SAFE.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(header: str) -> str | None:
    """Decode a header value that repeats a text of the body; None if it is malformed."""
    match = _ENCODED.fullmatch(header) if header.startswith(_BEGIN) else None
    if match is None:
        return header if _SAFE.fullmatch(header) or not header else None
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


# Mcp-Param-* headers: they repeat arguments of a tool call, as `x-mcp-header` in its input schema defines.
#
# https://modelcontextprotocol.io/specification/draft/basic/transports


@dataclass(frozen=True, slots=True)
class ToolHeaders:
    """The tools of a list result without those that have invalid `x-mcp-header` annotations; the argument paths of the
    tools by name; and the reasons of the rejected tools by name."""

    tools: list[Any]
    paths: Mapping[str, ArgumentPaths]
    rejected: Mapping[str, str]


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
