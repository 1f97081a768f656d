"""Convert messages between the protocol version of handlers and the one of a connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import ValidationError, from_json

from ..errors import ConversionError, InvalidMessageError, JSONRPCError
from ..protocol.capabilities import Capabilities, parse_capability_path
from ..protocol.connection import Connection, Side
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize, to_plain
from ..protocol.models import (
    PreSerialized,
    Read,
    format_validation_error,
    is_object,
    plain_of,
    read_as_model,
    type_name,
)
from ..protocol.revision import (
    META,
    OPPOSITE,
    Direction,
    Handshake,
    InputRequest,
    Notification,
    Request,
    Revision,
    Sent,
)
from ..protocol.wire.core_records import CoreRecord
from ..protocol.wire.record_copies import has_types_of, with_values, without
from .conversion import apply_changes, chain_of

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger(__name__)

Row = Sent | InputRequest[Any]


class _SameParams:
    """Params of a method that the conversion changes only by what it adds, the same for the same capabilities.

    A record of the connection's version, whose properties have the same types in that of the handlers, becomes one of
    that version without another validation. Nothing changes records, so that several may have the same part.
    """

    __slots__ = ("_capabilities", "_names", "_source", "_template", "_touched")

    def __init__(self, touched: frozenset[str] | None) -> None:
        self._touched = touched
        self._source: type[CoreRecord] | None = None  # The class of the connection's records.

    def record(self, params: Any, capabilities: Capabilities) -> CoreRecord | None:
        """Return the params for a handler; None if they have to be converted."""
        source: CoreRecord = params
        if type(params) is not self._source or source.__pydantic_extra__:
            return None
        if self._capabilities is not capabilities and self._capabilities != capabilities:
            return None
        values = vars(source)
        for name in self._names:
            if values[name] is not None:
                return None
        return with_values(self._template, values)

    def note(self, params: Any, value: dict[str, Any], result: Any, capabilities: Capabilities) -> None:
        """Note params that were converted, if others can be copied like them."""
        if self._touched is None or not (isinstance(params, CoreRecord) and isinstance(result, CoreRecord)):
            return
        if params.__pydantic_extra__ or not self._touched.isdisjoint(value):
            return
        names = frozenset(name for name, wire in params.names.items() if wire in self._touched)
        if has_types_of(cast(Any, type(result)), cast(Any, type(params)), names):
            self._source = type(params)
            self._capabilities = capabilities
            self._names = names
            self._template = without(result, params.names.keys() - names)


class MessageConverter:
    """A converter between handlers of one protocol version and connections of another.

    Attributes:
        handler_revision: The protocol version of the handlers.
        wire_revision: The protocol version of the connection.
        receives: The direction of the messages that the handlers get.
        to_handler: Converts to the version of the handlers.
        to_wire: Converts to the version of the connection.
        rows: The rows of the handlers' version, by direction and method.
    """

    def __init__(
        self,
        handler_revision: Revision,
        wire_revision: Revision,
        receives: Direction,
        read_params: Callable[[Sent], Read] = read_as_model,
    ) -> None:
        """Create a converter.

        Args:
            handler_revision: The protocol version of the handlers.
            wire_revision: The protocol version of the connection.
            receives: The direction of the messages that the handlers get.
            read_params: What returns the function that reads the params for a handler.
        """
        self._read_params = read_params
        self.handler_revision = handler_revision
        self.wire_revision = wire_revision
        self.receives: Direction = receives
        self.to_handler = chain_of(handler_revision.package, wire_revision.id, handler_revision.id)
        self.to_wire = chain_of(handler_revision.package, handler_revision.id, wire_revision.id)
        self.rows: Mapping[tuple[str, str], Row] = {(row.direction, row.method): row for row in handler_revision.rows}
        self._side = receives.rpartition("_")[2]
        self._connection = Connection(handler_revision, cast(Side, self._side), local_capabilities={})
        # The capabilities that were converted last, and the result: most calls are about the same client.
        self._converted_capabilities: tuple[Capabilities, Capabilities] = ({}, {})
        self._same_params: dict[str, _SameParams] = {}  # By method.

    # ---- to the handlers ---------------------------------------------------------------------------------------------

    def handler_row(self, row: Row) -> Row | None:
        """Return the row in the handlers' version of a message of the connection; None if it has no such message."""
        return self.rows.get((row.direction, self.to_handler.method(row.direction, row.method)))

    def handler_params(self, row: Row, handler_row: Row, params: Any, remote_capabilities: Capabilities) -> Any:
        """Return the params for a handler.

        Args:
            row: The row of the message in the connection's version.
            handler_row: Its row in the handlers' version.
            params: The params of the message.
            remote_capabilities: The capabilities that the peer has declared.

        Raises JSONRPCError if the handlers' version cannot represent the params.
        """
        capabilities = self.handler_capabilities(remote_capabilities)
        method = row.method
        same = self._same_params.get(method)
        if same is not None and (record := same.record(params, capabilities)) is not None:
            return record
        value: Any = {} if params is None else plain_of(params)
        provided = {"client_capabilities": capabilities}
        try:
            converted = self.to_handler.params(self.receives, method, value, provided=provided)
            if isinstance(self.handler_revision.lifecycle, Handshake):
                converted = _with_meta_keys(converted, value)
            result = self._read_params(cast(Sent, handler_row))(converted)
        except ConversionError as error:
            raise JSONRPCError(INVALID_PARAMS, str(error)) from None
        except ValidationError as error:
            raise JSONRPCError(
                INVALID_PARAMS,
                f"{handler_row.method!r}: params: {format_validation_error(error)} ({self.handler_revision.id})",
            ) from None
        if same is None:
            same = self._same_params[method] = _SameParams(self.to_handler.touched_params(self.receives, method))
        same.note(params, value, result, capabilities)
        return result

    def handler_capabilities(self, remote_capabilities: Capabilities) -> Capabilities:
        """Return the capabilities of the peer in the handlers' version."""
        if not remote_capabilities:
            return remote_capabilities
        source, converted = self._converted_capabilities
        if source is not remote_capabilities:
            converted = self.to_handler.convert_type(_capabilities_type(OPPOSITE[self.receives]), remote_capabilities)
            self._converted_capabilities = remote_capabilities, converted
        return converted

    def connection(self, wire_connection: Connection) -> Connection:
        """Return the connection as handlers see it: in their version, with the converted capabilities of the peer."""
        connection = self._connection.copy_for_new_connection()
        connection.remote_capabilities = self.handler_capabilities(wire_connection.remote_capabilities)
        connection.report_left_out = wire_connection.report_left_out
        return connection

    def convert_incoming(self, row: Notification, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the params of a notification in the handlers' version; None if that does not have the notification.

        Raises ConversionError.
        """
        if self.handler_row(row) is None:
            return None
        converted: dict[str, Any] = self.to_handler.params(row.direction, row.method, params)
        return converted

    # ---- to the connection -------------------------------------------------------------------------------------------

    def wire_capabilities(self, local_capabilities: Capabilities) -> Capabilities:
        """Return the capabilities of the handlers in the connection's version, without those of removed methods."""
        converted: Capabilities = from_json(
            serialize(self.to_wire.convert_type(_capabilities_type(self.receives), local_capabilities))
        )
        rows = [row for row in self.wire_revision.table(self.receives).values() if isinstance(row, Request)]
        for capability in {row.capability for row in rows if row.capability}:
            owner, path = parse_capability_path(capability)
            if owner == self._side and all(self._is_removed(row) for row in rows if row.capability == capability):
                _remove_capability(converted, path)
        return converted

    def _is_removed(self, row: Sent) -> bool:
        removal = self.to_handler.removed_method(row.direction, row.method)
        return removal is not None and removal.response != "runtime"

    def wire_result(self, row: Row, handler_row: Row, result: Any) -> Any:
        """Return the result of a handler for the connection.

        Args:
            row: The row of the request in the connection's version.
            handler_row: The row of the request in the handlers' version.
            result: The result of the handler: a model, or JSON that is right for its version.

        Raises InvalidMessageError for a result of another type, and JSONRPCError if the connection's version cannot
        represent the result.
        """
        model: Any = result
        plain: Any = result.value if type(result) is PreSerialized else None
        interim = self._interim(handler_row, result) if plain is None else ""
        try:
            if isinstance(row, InputRequest):  # It becomes an input response in the params of the next request.
                return self.to_wire.result(self.receives, handler_row.method, to_plain(model))
            changes = self.to_wire.result_changes(self.receives, handler_row.method, interim)
            if not interim and not changes:
                return result if plain is not None else PreSerialized(result)
            fields = to_plain(model) if plain is None else plain
            converted = apply_changes(fields, changes, spares_items=not interim)
        except ConversionError as error:
            raise JSONRPCError(INTERNAL_ERROR, str(error)) from None
        if not interim or isinstance(self.wire_revision.lifecycle, Handshake):
            return PreSerialized(converted)
        return cast(Request[Any], row).read_result(converted)  # A model, because the dispatcher checks its type.

    def _interim(self, handler_row: Row, result: Any) -> str:
        """Return the name of the type of an interim result, an empty string for a final result."""
        result_types = _result_types(handler_row)
        if not isinstance(result, result_types):
            names = " or ".join(result_type.__name__ for result_type in result_types)
            raise InvalidMessageError(
                f"the result of {handler_row.method!r} in {self.handler_revision.id} is {names}, not"
                f" {type_name(result, result_types)}"
            )
        return "" if isinstance(result, result_types[0]) else type(result).__name__

    def convert_outgoing(
        self, row: Notification, params: Mapping[str, Any] | None
    ) -> tuple[Notification, dict[str, Any]] | None:
        """Return the row and the params of a notification in the connection's version; None if that does not have
        it."""
        wire_row = self.wire_revision.table(row.direction).get(self.to_wire.method(row.direction, row.method))
        if not isinstance(wire_row, Notification):
            _log.debug("%r is dropped: %s has no such notification", row.method, self.wire_revision.id)
            return None
        return wire_row, self.to_wire.params(row.direction, row.method, dict(params or {}))


def _result_types(row: Row) -> tuple[type[BaseModel], ...]:
    """Return the types of the results of a request; the first is that of the final result."""
    return row.result_types if isinstance(row, Request) else (cast(Any, row).result,)


def _capabilities_type(direction: Direction) -> str:
    """Return the type with the capabilities of the side that receives messages of this direction."""
    return f"{direction.rpartition('_')[2].capitalize()}Capabilities"


def _remove_capability(capabilities: Capabilities, path: tuple[str, ...]) -> None:
    parent: Any = capabilities
    for step in path[:-1]:
        parent = parent.get(step, {}) if is_object(parent) else {}
    if is_object(parent):
        parent.pop(path[-1], None)


def _with_meta_keys(params: Any, original: Any) -> Any:
    """Return the params with the protocol's own keys of the original `_meta`, because handlers may read them by
    name."""
    meta = original.get("_meta") if is_object(original) else None
    own = {key: value for key, value in meta.items() if key.startswith(META)} if is_object(meta) else {}
    return {**params, "_meta": {**params.get("_meta", {}), **own}} if own and is_object(params) else params
