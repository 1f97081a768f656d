"""The results of each method in each version, and how a result of the newest version is written in another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from mcp_generated import REVISIONS
from mcp_generated.compat.types_v2 import InputRequiredResult
from mcp_products.compat.forms.absent import absent
from mcp_products.versions.conversion.chain import chain_of
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Notification, Request, Revision

_TABLES: Final[Mapping[str, Revision]] = {
    version: import_module(f"mcp_generated.{name}.methods").REVISION for version, name in REVISIONS.items()
}
_EXTENSIONS: Final = "tasks/"  # Methods of an extension, as the original sees it.


def _rows(direction: str, kind: type[Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    for version, table in _TABLES.items():
        for row in table.rows:
            if isinstance(row, kind) and direction == row.direction and not row.method.startswith(_EXTENSIONS):
                yield (row.method, version), row


_REQUESTS: Final[Mapping[tuple[str, str], Request[Any]]] = dict(_rows("client_to_server", Request))
_ANSWERS: Final[Mapping[tuple[str, str], Request[Any]]] = dict(_rows("server_to_client", Request))


def _types(row: Request[Any]) -> Any:
    return row.result | row.input_required.result if row.input_required else row.result


SERVER_RESULTS: Final = MappingProxyType({key: _types(row) for key, row in _REQUESTS.items()})
CLIENT_RESULTS: Final = MappingProxyType({key: _types(row) for key, row in _ANSWERS.items()})
SPEC_CLIENT_METHODS: Final = frozenset(method for method, _ in _REQUESTS)
SPEC_CLIENT_NOTIFICATION_METHODS: Final = frozenset(
    method for (method, _), _ in _rows("client_to_server", Notification)
)
CACHEABLE_METHODS: Final = frozenset(method for (method, _), row in _REQUESTS.items() if row.cacheable)
INPUT_REQUIRED_METHODS: Final = frozenset(method for (method, _), row in _REQUESTS.items() if row.input_required)


def is_input_required(result: object) -> bool:
    """Return whether a result, or its JSON, asks for input."""
    kind = result.get("resultType") if is_object(result) else None
    return isinstance(result, InputRequiredResult) or kind == "input_required"


def serialize_server_result(method: str, version: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without what a version does not define. Raises ValueError, KeyError for a method that the version
    does not have, and ValidationError."""
    row = _row(_REQUESTS, method, version)
    newest = [other for name, other in _REQUESTS if name == method][-1]
    chain = chain_of("mcp_generated", newest, version)
    converted = chain.result("client_to_server", method, dict(data))
    written: dict[str, Any] = row.read_result(converted).model_dump(mode="json", by_alias=True, exclude_none=True)
    return written


def validate_server_result(method: str, version: str, data: Mapping[str, Any]) -> None:
    """Check a result of a server. Raises as `serialize_server_result`."""
    _row(_REQUESTS, method, version).read_result(dict(data))


def validate_client_result(method: str, version: str, data: Mapping[str, Any]) -> None:
    """Check a result of a client. Raises as `serialize_server_result`."""
    _row(_ANSWERS, method, version).read_result(dict(data))


def _row(rows: Mapping[tuple[str, str], Request[Any]], method: str, version: str) -> Request[Any]:
    if version not in _TABLES:
        raise ValueError(f"{version!r} is not a protocol version: {', '.join(_TABLES)}")
    return rows[method, version]


for _name in """
CLIENT_NOTIFICATIONS CLIENT_REQUESTS SERVER_NOTIFICATIONS SERVER_REQUESTS MONOLITH_NOTIFICATIONS MONOLITH_REQUESTS
MONOLITH_RESULTS CacheableMethod parse_client_notification parse_client_request parse_client_result
parse_server_notification parse_server_request parse_server_result validate_client_notification validate_client_request
""".split():
    globals()[_name] = absent(f"mcp_types.methods.{_name}")
