"""Convert messages between the protocol version of handlers and the one of a connection."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import ValidationError, from_json

from mcp_runtime.endpoint.base import Handler
from mcp_runtime.endpoint.checks import warn_about_secrets
from mcp_runtime.endpoint.context import Context
from mcp_runtime.errors import (
    ConversionError,
    InvalidMessageError,
    InvalidResponseError,
    JSONRPCError,
    ProtocolViolationError,
    RemoteJSONRPCError,
    UnwritableValueError,
)
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived, Side
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize, to_plain
from mcp_runtime.protocol.lifecycle import Capabilities, parse_capability_path
from mcp_runtime.protocol.models import (
    PreSerialized,
    Read,
    format_validation_error,
    is_object,
    plain_of,
    read_as_model,
    type_name,
    validator,
)
from mcp_runtime.protocol.records import CopiedParams, records
from mcp_runtime.protocol.revision import (
    META,
    NAMED_VERSION,
    OPPOSITE,
    Direction,
    Handshake,
    InputRequest,
    Notification,
    Request,
    Revision,
    Sent,
    Stateless,
    own_row,
)
from mcp_runtime.session.interfaces import Channel, ChannelProxy
from mcp_runtime.session.requests import RequestOptions

from .conversion import apply_changes, chain_of

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger("mcp_runtime.versions.messages")

Row = Sent | InputRequest[Any]
_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.


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
        self._same_params: dict[str, CopiedParams | None] = {}  # By method.

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
        if method not in self._same_params:
            same = records().copied_params(self.to_handler.touched_params(self.receives, method))
            self._same_params[method] = same
        if same is not None:
            same.note(params, value, result, capabilities)
        return result

    def own_message(
        self, message: RequestReceived | NotificationReceived, remote_capabilities: Capabilities
    ) -> RequestReceived | NotificationReceived:
        """Return a message that the protocol does not have, with what requests of the handlers' version have."""
        if isinstance(message, NotificationReceived):
            return message
        row, fields = own_row(self.handler_revision, message.row.method, Request), dict(plain_of(message.params or {}))
        if isinstance(self.handler_revision.lifecycle, Stateless):
            added = {
                NAMED_VERSION: self.handler_revision.id,
                f"{META}clientCapabilities": self.handler_capabilities(remote_capabilities),
            }
            fields["_meta"] = {**added, **(fields.get("_meta") or {})}
        return RequestReceived(message.id, row, validator(row.params)(fields))

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
        if row.is_own:
            return params
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
        for path in _removed_capabilities(self.handler_revision, self.wire_revision, self.receives):
            _remove_capability(converted, path)
        return converted

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
        if row.is_own:
            return row, dict(params or {})
        wire_row = self.wire_revision.table(row.direction).get(self.to_wire.method(row.direction, row.method))
        if not isinstance(wire_row, Notification):
            _log.debug("%r is dropped: %s has no such notification", row.method, self.wire_revision.id)
            return None
        return wire_row, self.to_wire.params(row.direction, row.method, dict(params or {}))


@cache
def _removed_capabilities(handlers: Revision, wire: Revision, receives: Direction) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the capabilities all of whose requests the version of the handlers does not have."""
    chain, side = chain_of(handlers.package, wire.id, handlers.id), receives.rpartition("_")[2]
    rows = [row for row in wire.table(receives).values() if isinstance(row, Request) and row.capability]
    removals = [(row.capability, chain.removed_method(row.direction, row.method)) for row in rows]
    kept = {capability for capability, removal in removals if removal is None or removal.response == "runtime"}
    paths = [parse_capability_path(capability) for capability, _ in removals if capability not in kept]
    return tuple(path for owner, path in paths if owner == side)


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


# The channel of handlers whose protocol version differs from the connection's: it converts what they send.


class ConvertingChannel(ChannelProxy):
    """A channel that converts the requests and notifications of handlers to the connection's protocol version."""

    def __init__(
        self,
        converter: MessageConverter,
        channel: Channel,
        message: RequestReceived | NotificationReceived | None = None,
    ) -> None:
        """Create the channel of one message.

        Args:
            converter: The converter between the two protocol versions.
            channel: The channel of the connection.
            message: The message that a handler serves: nothing is sent for a request that has ended. None for the
                channel of a client.
        """
        # `super().__init__` is not called, because this runs for every message.
        self._channel = channel
        self._converter = converter
        self._message = message

    @property
    def connection(self) -> Connection:
        """The connection, in the handlers' version."""
        return self._converter.connection(self._channel.connection)

    async def send_request(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """Send a request and return its result, both converted. Raises MCPError.

        Raises ProtocolViolationError or ConversionError if the connection's version cannot represent the request.
        """
        value = self._validated_params(row, params)
        result = await self.send_wire_request(row, value, options)
        try:
            return cast("BaseModel", self._channel.connection.read_result(row, result, value))
        except ValidationError as error:
            revision_id = self._converter.handler_revision.id
            raise InvalidResponseError(
                f"{row.method!r} in {revision_id}: the result is invalid: {format_validation_error(error)}"
            ) from error

    async def send_wire_request(
        self,
        row: Row,
        params: dict[str, Any],
        options: RequestOptions,
    ) -> Any:
        """Convert and send a request with valid params, and return its converted result as JSON. Raises MCPError."""
        wire_row = self._wire_row(row)
        converter = self._converter
        provided = {"client_capabilities": self._channel.connection.local_capabilities}
        wire_params = converter.to_wire.params(row.direction, row.method, params, provided=provided)
        try:
            result = await self._send_converted(wire_row, wire_params, options)
        except RemoteJSONRPCError as error:
            code = converter.to_handler.error(row.direction, wire_row.method, error.code)
            raise RemoteJSONRPCError(code, error.message, error.data, error.status) from error
        interim = "" if type(result) is wire_row.result else type(result).__name__
        fields = result.model_dump(warnings=False)  # It may have content of an unknown type.
        return converter.to_handler.result(row.direction, wire_row.method, fields, interim=interim)

    async def _send_converted(self, wire_row: Any, params: Any, options: RequestOptions) -> Any:
        return await self._channel.send_request(wire_row, params, options)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Convert and send a notification; drop it if the connection's version does not have it."""
        if isinstance(self._message, RequestReceived) and not self._message.open:
            return
        fields = None if params is None else self._validated_params(row, params)
        converted = self._converter.convert_outgoing(row, fields)
        if converted is not None:
            wire_row, wire_params = converted
            await self._channel.send_notification(wire_row, wire_params or None)

    def _wire_row(self, row: Row) -> Any:
        """Return the row of a request in the connection's version. Raises ProtocolViolationError if it has none."""
        converter = self._converter
        revision = converter.wire_revision
        if row.is_own:
            return own_row(revision, row.method, Request)
        method = converter.to_wire.method(row.direction, row.method)
        wire_row: Any = revision.table(row.direction).get(method)
        if wire_row is None and isinstance(revision.lifecycle, Stateless):
            input_rows = (wire_row for wire_row in revision.rows if isinstance(wire_row, InputRequest))
            wire_row = next((input_row for input_row in input_rows if input_row.method == method), None)
        if not isinstance(wire_row, (Request, InputRequest)):
            removal = converter.to_wire.removed_method(row.direction, row.method)
            reason = "only results can request it" if removal is None else removal.reason
            raise ProtocolViolationError(
                f"{row.method!r} in {converter.handler_revision.id} cannot be sent in {revision.id}: {reason}"
            )
        return cast(Any, wire_row)

    def _validated_params(self, row: Row, params: Any) -> dict[str, Any]:
        """Return the params as JSON. Raises InvalidMessageError if they are invalid in the handlers' version."""
        try:
            value: dict[str, Any] = from_json(serialize(params))
            if row.params is not None:
                validator(row.params)(value)
        except ValueError as error:
            revision_id = self._converter.handler_revision.id
            if not isinstance(error, ValidationError):
                raise UnwritableValueError(f"{row.method!r} in {revision_id}: params: {error}") from None
            reason = format_validation_error(error)
            raise InvalidMessageError(f"{row.method!r} in {revision_id}: params: {reason}") from None
        return value


# Wrap handlers of one protocol version so that they serve connections of another.


MakeContext = Callable[[ConvertingChannel, RequestReceived | NotificationReceived, Any], Any]


def convert_handlers(
    converter: MessageConverter, handlers: Mapping[str, Handler], make_context: MakeContext
) -> dict[str, Handler]:
    """Return handlers for the connection's protocol version, by method.

    Args:
        converter: The converter between the two protocol versions.
        handlers: The handlers, by method.
        make_context: A function that returns the context of a handler, from its channel, its message, and the context
            in the connection's version.
    """
    revision, receives = converter.wire_revision, converter.receives
    input_rows = (row for row in revision.rows if isinstance(row, InputRequest) and row.direction == receives)
    rows: list[Row] = [*revision.table(receives).values(), *input_rows]
    pairs = [(row, handler_row) for row in rows if (handler_row := converter.handler_row(row)) is not None]
    return {
        row.method: _convert_handler(converter, row, handler_row, handlers[handler_row.method], make_context)
        for row, handler_row in pairs
        if handler_row.method in handlers
    }


def _convert_handler(
    converter: MessageConverter, row: Row, handler_row: Any, handler: Handler, make_context: MakeContext
) -> Handler:
    if isinstance(handler_row, Notification):
        return _convert_notification_handler(converter, row, handler_row, handler, make_context)
    method = handler_row.method

    async def handle_request(ctx: Context, params: Any) -> Any:
        wire_channel = ctx.channel
        message: Any = ctx.received
        channel = ConvertingChannel(converter, wire_channel, message)

        first = converter.handler_params(row, handler_row, params, wire_channel.connection.remote_capabilities)
        request = RequestReceived(message.id, handler_row, first)
        try:
            result = await handler(make_context(channel, request, ctx), first)
        except JSONRPCError as error:
            error.code = converter.to_wire.error(converter.receives, method, error.code)
            raise
        if type(result) is not PreSerialized and isinstance(result, _input_required_types(converter, handler_row)):

            async def run(handler_params: Any) -> Any:
                request = RequestReceived(message.id, handler_row, handler_params)
                try:
                    return await handler(make_context(channel, request, ctx), handler_params)
                except JSONRPCError as error:
                    error.code = converter.to_wire.error(converter.receives, method, error.code)
                    raise

            result = await _resolve_input_required(converter, handler_row, first, result, channel, run)
        return converter.wire_result(row, handler_row, result)

    return handle_request


def _convert_notification_handler(
    converter: MessageConverter, row: Row, handler_row: Notification, handler: Handler, make_context: MakeContext
) -> Handler:
    async def handle_notification(ctx: Context, params: Any) -> None:
        channel, message = ctx.channel, ctx.received
        handler_params = converter.handler_params(row, handler_row, params, channel.connection.remote_capabilities)
        notification = NotificationReceived(handler_row, handler_params)
        converting = ConvertingChannel(converter, channel, message)
        await handler(make_context(converting, notification, ctx), notification.params)

    return handle_notification


def _input_required_types(converter: MessageConverter, handler_row: Row) -> tuple[type[BaseModel], ...]:
    """Return the interim results with input requests, if the connection's version has requests for them instead."""
    interim = (
        handler_row.input_required
        if isinstance(handler_row, Request) and isinstance(converter.wire_revision.lifecycle, Handshake)
        else None
    )
    return () if interim is None else (interim.result,)


async def _resolve_input_required(
    converter: MessageConverter,
    handler_row: Row,
    params: Any,
    result: Any,
    channel: ConvertingChannel,
    run: Callable[[Any], Awaitable[Any]],
) -> Any:
    """Send the input requests of a result as requests, and run the handler again with the client's responses."""

    async def answer(input_request: Any) -> Any:
        warn_about_secrets(input_request.params)
        fields: dict[str, Any] = input_request.model_dump()
        row = converter.rows[OPPOSITE[converter.receives], fields["method"]]
        try:
            return await channel.send_wire_request(row, fields.get("params") or {}, _NO_TIMEOUT)
        except RemoteJSONRPCError as error:
            raise JSONRPCError(error.code, error.message, error.data) from error

    async def retry(arguments: dict[str, Any]) -> Any:
        state = {} if arguments["requestState"] is None else {"requestState": arguments["requestState"]}
        inputs: dict[str, Any] = {**arguments, "inputResponses": arguments["inputResponses"] or {}}
        del inputs["requestState"]
        return await run(validator(handler_row.params)({**inputs, **state}))

    from mcp_runtime.client.input_required import resolve_input_required  # Few servers need it.

    types = _input_required_types(converter, handler_row)
    return await resolve_input_required(
        handler_row.method,
        params.model_dump(),
        result,
        is_answerable=lambda result: isinstance(result, types),
        answer=answer,
        retry=retry,
        max_rounds=None,
    )
