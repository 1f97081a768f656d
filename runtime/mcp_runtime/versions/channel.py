"""The channel of handlers whose protocol version differs from the connection's: it converts what they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import ValidationError, from_json

from ..errors import (
    InvalidMessageError,
    InvalidResponseError,
    ProtocolViolationError,
    RemoteJSONRPCError,
    UnwritableValueError,
)
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import serialize
from ..protocol.models import format_validation_error, validator
from ..protocol.revision import InputRequest, Notification, Request, Stateless
from ..session.interfaces import Channel, ChannelProxy
from ..session.options import RequestOptions
from .converter import MessageConverter, Row

if TYPE_CHECKING:
    from pydantic import BaseModel


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
