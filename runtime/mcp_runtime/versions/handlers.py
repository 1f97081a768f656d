"""Wrap handlers of one protocol version so that they serve connections of another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ..endpoint.base import Handler
from ..endpoint.checks import warn_about_secrets
from ..endpoint.context import Context
from ..errors import JSONRPCError, RemoteJSONRPCError
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.models import PreSerialized, validator
from ..protocol.revision import OPPOSITE, Handshake, InputRequest, Notification, Request
from ..session.options import RequestOptions
from .channel import ConvertingChannel
from .converter import MessageConverter, Row

if TYPE_CHECKING:
    from pydantic import BaseModel

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.

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
    converter: MessageConverter, row: Row, handler_row: Row, handler: Handler, make_context: MakeContext
) -> Handler:
    if isinstance(handler_row, Notification):
        return _convert_notification_handler(converter, row, handler_row, handler, make_context)
    method = handler_row.method

    async def handle_request(ctx: Context, params: Any) -> Any:
        wire_channel = ctx._channel  # pyright: ignore[reportPrivateUsage]
        message = cast(RequestReceived, ctx._message)  # pyright: ignore[reportPrivateUsage]
        channel = ConvertingChannel(converter, wire_channel, message)

        first = converter.handler_params(row, handler_row, params, wire_channel.connection.remote_capabilities)
        request = RequestReceived(message.id, cast(Any, handler_row), first)
        try:
            result = await handler(make_context(channel, request, ctx), first)
        except JSONRPCError as error:
            error.code = converter.to_wire.error(converter.receives, method, error.code)
            raise
        if type(result) is not PreSerialized and isinstance(result, _input_required_types(converter, handler_row)):

            async def run(handler_params: Any) -> Any:
                request = RequestReceived(message.id, cast(Any, handler_row), handler_params)
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
        channel, message = ctx._channel, ctx._message  # pyright: ignore[reportPrivateUsage]
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

    from ..client.input_required import resolve_input_required  # Few servers need it.

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
