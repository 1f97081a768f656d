"""What the headers of a request repeat of its body, and the status of each error: the rules of the newest version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from mcp_generated import DEFAULT_REVISION, REVISIONS
from mcp_generated.compat.types_v2 import CLIENT_CAPABILITIES_META_KEY as CLIENT_CAPABILITIES_META_KEY
from mcp_generated.compat.types_v2 import CLIENT_INFO_META_KEY as CLIENT_INFO_META_KEY
from mcp_generated.compat.types_v2 import HEADER_MISMATCH as HEADER_MISMATCH
from mcp_generated.compat.types_v2 import INVALID_PARAMS as INVALID_PARAMS
from mcp_generated.compat.types_v2 import INVALID_REQUEST as INVALID_REQUEST
from mcp_generated.compat.types_v2 import METHOD_NOT_FOUND as METHOD_NOT_FOUND
from mcp_generated.compat.types_v2 import MISSING_REQUIRED_CLIENT_CAPABILITY as MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_generated.compat.types_v2 import PARSE_ERROR as PARSE_ERROR
from mcp_generated.compat.types_v2 import PROTOCOL_VERSION_META_KEY as PROTOCOL_VERSION_META_KEY
from mcp_generated.compat.types_v2 import UNSUPPORTED_PROTOCOL_VERSION as UNSUPPORTED_PROTOCOL_VERSION
from mcp_generated.compat.types_v2 import UnsupportedProtocolVersionErrorData as UnsupportedProtocolVersionErrorData
from mcp_products.compat.forms.absent import absent
from mcp_runtime.http.headers import METHOD as MCP_METHOD_HEADER
from mcp_runtime.http.headers import NAME as MCP_NAME_HEADER
from mcp_runtime.http.headers import PROTOCOL_VERSION as MCP_PROTOCOL_VERSION_HEADER
from mcp_runtime.http.headers import argument_at, check_parameter_headers, decode_value, header_text, parameter_headers
from mcp_runtime.http.headers import encode_value as encode_header_value

_HTTP: Final = import_module(f"mcp_generated.{REVISIONS[DEFAULT_REVISION]}.methods").REVISION.http
_PREFIX: Final = "Mcp-Param-"

NAME_BEARING_METHODS: Final = MappingProxyType(_HTTP.name_params)
ERROR_CODE_HTTP_STATUS: Final = MappingProxyType(_HTTP.statuses)

InboundModernRoute = absent("mcp.shared.inbound.InboundModernRoute")
classify_inbound_request = absent("mcp.shared.inbound.classify_inbound_request")
unsupported_protocol_version_rejection = absent("mcp.shared.inbound.unsupported_protocol_version_rejection")
_SUBSCHEMA_LIST = _SUBSCHEMA_MAP = _SUBSCHEMA_SINGLE = absent("mcp.shared.inbound._SUBSCHEMA")


@dataclass(frozen=True)
class InboundLadderRejection:
    """The error of a request that is refused."""

    code: int
    message: str
    data: Any = None


def decode_header_value(value: str | None) -> str | None:
    """Return the text that a header repeats; None if it is malformed or absent."""
    return None if value is None else decode_value(value)


def find_invalid_x_mcp_header(input_schema: Any) -> str | None:
    """Return why an input schema has an invalid annotation; None if it has none."""
    try:
        parameter_headers(input_schema)
    except ValueError as error:
        return str(error)
    return None


def x_mcp_header_map(input_schema: Any) -> dict[tuple[str, ...], str]:
    """Return the annotations of an input schema by the paths of their arguments."""
    found: dict[tuple[str, ...], str] = {}
    for path in parameter_headers(input_schema).values():
        schema = input_schema
        for step in path:
            schema = schema["properties"][step]
        found[path] = schema["x-mcp-header"]
    return found


def mcp_param_headers(header_map: Mapping[tuple[str, ...], str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat arguments of a call."""
    texts = {name: header_text(argument_at(arguments, path)) for path, name in header_map.items()}
    return {f"{_PREFIX}{name}": encode_header_value(text) for name, text in texts.items() if text is not None}


def validate_mcp_param_headers(
    input_schema: Any, arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> InboundLadderRejection | None:
    """Compare the headers of a call with its arguments. A schema with an invalid annotation has none."""
    if find_invalid_x_mcp_header(input_schema) is not None:
        return None
    given = {name.lower(): value for name, value in headers.items()}
    error = check_parameter_headers(given, arguments, parameter_headers(input_schema))
    return None if error is None else InboundLadderRejection(HEADER_MISMATCH, error)


def find_duplicated_routing_header(headers: Iterable[tuple[str, str]]) -> str | None:
    """Return the name of a header that decides about the route and is there twice; None if there is none."""
    names = [name.lower() for name, _ in headers]
    routing = (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER)
    return next((name for name in routing if names.count(name) > 1), None)
