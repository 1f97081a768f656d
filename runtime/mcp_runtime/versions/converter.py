"""Handlers of one revision and a conversation of another go in; each message is converted on its way through."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from ..client.input_required import resolve_input_required
from ..endpoint.base import Handler
from ..endpoint.checks import warn_about_secrets
from ..endpoint.context import Context
from ..errors import (
    ConversionError,
    InvalidMessageError,
    InvalidResponseError,
    JSONRPCError,
    ProtocolViolationError,
    RemoteJSONRPCError,
)
from ..protocol.capabilities import Capabilities, parse_capability_path
from ..protocol.connection import Connection, Side
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize, to_plain
from ..protocol.models import (
    PreSerialized,
    format_validation_error,
    is_object,
    validator,
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
    Stateless,
)
from ..session.interfaces import Channel, ChannelProxy
from ..session.options import RequestOptions
from .conversion import chain_of

_log: Final = logging.getLogger(__name__)

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.

Row = Sent | InputRequest[Any]
MakeContext = Callable[["ConvertingChannel", RequestReceived | NotificationReceived, Any], Any]


class MessageConverter:
    """The way between handlers of the revision `inner` and conversations of the revision `outer`."""

    def __init__(self, handler_revision: Revision, wire_revision: Revision, receives: Direction) -> None:
        self.handler_revision = handler_revision
        self.wire_revision = wire_revision
        self.receives: Direction = receives
        self.to_handler = chain_of(handler_revision.package, wire_revision.id, handler_revision.id)
        self.to_wire = chain_of(handler_revision.package, handler_revision.id, wire_revision.id)
        self.rows: Mapping[tuple[str, str], Row] = {(row.direction, row.method): row for row in handler_revision.rows}
        self._connection = Connection(handler_revision, cast(Side, receives.rpartition("_")[2]), local_capabilities={})
        self._converted_capabilities: tuple[Capabilities, Capabilities] = (
            {},
            {},
        )  # By the last side that was asked about.

    def handlers(self, handlers: Mapping[str, Handler], context: MakeContext) -> dict[str, Handler]:
        """The handlers of the outer revision, each of which runs that of the same method inside; `context` makes what
        they are given, from the context of the outer revision."""
        asked = (
            row for row in self.wire_revision.rows if isinstance(row, InputRequest) and row.direction == self.receives
        )
        rows: list[Row] = [*self.wire_revision.table(self.receives).values(), *asked]
        return {
            row.method: self._converting_handler(row, handlers[row.method], context)
            for row in rows
            if row.method in handlers
        }

    def _converting_handler(self, row: Row, handler: Handler, context: MakeContext) -> Handler:
        handler_row = self.rows[self.receives, row.method]
        if isinstance(handler_row, Notification):

            async def handle_notification(ctx: Context, params: Any) -> None:
                channel, message = ctx._channel, ctx._message  # pyright: ignore[reportPrivateUsage]
                notification = NotificationReceived(handler_row, self._params(channel, handler_row, params))
                converting = ConvertingChannel(self, channel, message)
                await handler(context(converting, notification, ctx), notification.params)

            return handle_notification

        input_required = self._input_required_types(handler_row)
        result_types: tuple[type[BaseModel], ...] = getattr(
            handler_row, "result_types", (getattr(handler_row, "result", BaseModel),)
        )

        async def handle_request(ctx: Context, params: Any) -> Any:
            wire_channel = ctx._channel  # pyright: ignore[reportPrivateUsage]
            message = cast(RequestReceived, ctx._message)  # pyright: ignore[reportPrivateUsage]
            channel = ConvertingChannel(self, wire_channel, message)

            async def run(handler_params: Any) -> Any:
                request = RequestReceived(message.id, cast(Any, handler_row), handler_params)
                try:
                    return await handler(context(channel, request, ctx), handler_params)
                except JSONRPCError as error:
                    error.code = self.to_wire.error(self.receives, row.method, error.code)
                    raise

            first = self._params(wire_channel, handler_row, params)
            result = await run(first)
            if isinstance(result, input_required):
                result = await self._resolve_input_required(handler_row, first, result, channel, run)
            return self._result(row, handler_row, result_types, result)

        return handle_request

    # ---- inward -----------------------------------------------------------------------------------------------------

    def _params(self, channel: Channel, handler_row: Row, params: Any) -> Any:
        """The params for the handler. Raises JSONRPCError where they cannot be said in its revision."""
        if handler_row.params is None:
            return None
        value: Any = {} if params is None else to_plain(params)
        given = {"client_capabilities": self.handler_capabilities(channel.connection.remote_capabilities)}
        try:
            made = self.to_handler.params(self.receives, handler_row.method, value, provided=given)
            if isinstance(self.handler_revision.lifecycle, Handshake):
                made = _with_meta_keys(made, value)
            return validator(handler_row.params)(made)
        except ConversionError as fault:
            raise JSONRPCError(INVALID_PARAMS, str(fault)) from None
        except ValidationError as fault:
            raise JSONRPCError(
                INVALID_PARAMS,
                f"{handler_row.method!r}: params: {format_validation_error(fault)} ({self.handler_revision.id})",
            ) from None

    def handler_capabilities(self, remote_capabilities: Capabilities) -> Capabilities:
        """What the other side has declared, in the words of the handlers' revision."""
        if not remote_capabilities:
            return remote_capabilities
        known, said = self._converted_capabilities
        if known is not remote_capabilities:
            said = self.to_handler.convert_type(_capabilities_type(OPPOSITE[self.receives]), remote_capabilities)
            self._converted_capabilities = remote_capabilities, said
        return said

    def connection(self, wire_connection: Connection) -> Connection:
        """The conversation as handlers may ask about it."""
        peer = self._connection.copy_for_new_connection()
        peer.remote_capabilities = self.handler_capabilities(wire_connection.remote_capabilities)
        return peer

    # ---- outward ----------------------------------------------------------------------------------------------------

    def wire_capabilities(self, local_capabilities: Capabilities) -> Capabilities:
        """What the handlers declare, in the words of the outer revision, without what cannot be served there."""
        said: Capabilities = from_json(
            serialize(self.to_wire.convert_type(_capabilities_type(self.receives), local_capabilities))
        )
        side = self.receives.rpartition("_")[2]
        rows = [row for row in self.wire_revision.table(self.receives).values() if isinstance(row, Request)]
        for capability in {row.capability for row in rows if row.capability}:
            owner, path = parse_capability_path(capability)
            if owner == side and all(self._is_removed(row) for row in rows if row.capability == capability):
                _remove_capability(said, path)
        return said

    def _is_removed(self, row: Sent) -> bool:
        gone = self.to_handler.removed_method(row.direction, row.method)
        return gone is not None and gone.response != "runtime"

    def _result(self, row: Row, handler_row: Row, known: tuple[type[BaseModel], ...], result: Any) -> Any:
        """The answer of a handler, for the client. Raises InvalidMessageError for one that is not of the `known` types, and
        JSONRPCError where it cannot be said in the outer revision."""
        if not isinstance(result, known):
            names = " or ".join(kind.__name__ for kind in known)
            raise InvalidMessageError(
                f"{handler_row.method!r} in {self.handler_revision.id} is answered by {names}, not by {type(result).__name__}"
            )
        interim = "" if isinstance(result, known[0]) else type(result).__name__
        try:
            if isinstance(row, InputRequest):  # It becomes a part of the params of the next request.
                return self.to_wire.result(self.receives, row.method, to_plain(result))
            if not interim and self.to_wire.has_same_results(self.receives, row.method):
                return PreSerialized(result)
            made = self.to_wire.result(self.receives, row.method, to_plain(result), interim=interim)
        except ConversionError as fault:
            raise JSONRPCError(INTERNAL_ERROR, str(fault)) from None
        if isinstance(self.wire_revision.lifecycle, Handshake):
            return PreSerialized(made)
        return cast(Request[Any], row).read_result(made)  # The runtime signs it, and has to know it as a model.

    def convert_outgoing(
        self, row: Notification, params: Mapping[str, Any] | None
    ) -> tuple[Notification, dict[str, Any]] | None:
        """A notification of the handlers as one of the outer revision; None where that has no such thing."""
        outside = self.wire_revision.table(row.direction).get(row.method)
        if not isinstance(outside, Notification):
            _log.debug("%r is not told: %s has no such notification", row.method, self.wire_revision.id)
            return None
        return outside, self.to_wire.params(row.direction, row.method, dict(params or {}))

    def convert_incoming(self, row: Notification, params: dict[str, Any]) -> dict[str, Any] | None:
        """The params of a notification of the outer revision as the handlers' revision has them, None where it has no
        such thing. Raises ConversionError."""
        if (row.direction, row.method) not in self.rows:
            return None
        made: dict[str, Any] = self.to_handler.params(row.direction, row.method, params)
        return made

    # ---- questions inside results ------------------------------------------------------------------------------------

    def _input_required_types(self, handler_row: Row) -> tuple[type[BaseModel], ...]:
        """The results of a method that ask something first, where the outer revision asks it by requests."""
        asks = (
            handler_row.input_required
            if isinstance(handler_row, Request) and isinstance(self.wire_revision.lifecycle, Handshake)
            else None
        )
        return () if asks is None else (asks.result,)

    async def _resolve_input_required(
        self,
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
            row = self.rows[OPPOSITE[self.receives], fields["method"]]
            try:
                return await channel.send_wire_request(row, fields.get("params") or {}, _NO_TIMEOUT)
            except RemoteJSONRPCError as error:
                raise JSONRPCError(error.code, error.message, error.data) from error

        async def retry(arguments: dict[str, Any]) -> Any:
            state = {} if arguments["requestState"] is None else {"requestState": arguments["requestState"]}
            inputs: dict[str, Any] = {**arguments, "inputResponses": arguments["inputResponses"] or {}}
            del inputs["requestState"]
            return await run(validator(handler_row.params)({**inputs, **state}))

        types = self._input_required_types(handler_row)
        return await resolve_input_required(
            handler_row.method,
            params.model_dump(),
            result,
            is_answerable=lambda result: isinstance(result, types),
            answer=answer,
            retry=retry,
            max_rounds=None,
        )


class ConvertingChannel(ChannelProxy):
    """A conversation as handlers of the inner revision see it: what they ask and tell is converted."""

    def __init__(
        self,
        converter: MessageConverter,
        channel: Channel,
        message: RequestReceived | NotificationReceived | None = None,
    ) -> None:
        self._channel = channel  # Not by way of the base class: this is done for every message.
        self._converter = converter
        self._message = message

    @property
    def connection(self) -> Connection:
        return self._converter.connection(self._channel.connection)

    async def send_request(
        self,
        row: Request[Any] | InputRequest[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """As the session's own. Raises ConversionError where it cannot be asked in the outer revision."""
        value = self._validated_params(row, params)
        answer = await self.send_wire_request(row, value, options)
        try:
            return (
                row.read_result(answer, value) if isinstance(row, Request) else validator(cast(Any, row).result)(answer)
            )
        except ValidationError as fault:
            inner = self._converter.handler_revision.id
            raise InvalidResponseError(
                f"{row.method!r} in {inner}: the answer is not what it may be: {format_validation_error(fault)}"
            ) from fault

    async def send_wire_request(
        self,
        row: Row,
        value: dict[str, Any],
        options: RequestOptions,
    ) -> Any:
        """The answer, as JSON of the inner revision, to params that are."""
        outside = self._wire_row(row)
        crossing = self._converter
        given = {"client_capabilities": self._channel.connection.local_capabilities}
        made = crossing.to_wire.params(row.direction, row.method, value, provided=given)
        try:
            answer = await self._send_converted(outside, made, options)
        except RemoteJSONRPCError as refused:
            code = crossing.to_handler.error(row.direction, row.method, refused.code)
            raise RemoteJSONRPCError(code, refused.message, refused.data, refused.status) from refused
        interim = "" if type(answer) is outside.result else type(answer).__name__
        return crossing.to_handler.result(row.direction, row.method, answer.model_dump(), interim=interim)

    async def _send_converted(self, wire_row: Any, params: Any, options: RequestOptions) -> Any:
        return await self._channel.send_request(wire_row, params, options)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """As the session's own; what the outer revision has no notification for is not told."""
        if isinstance(self._message, RequestReceived) and not self._message.open:
            return
        said = self._converter.convert_outgoing(row, None if params is None else self._validated_params(row, params))
        if said is not None:
            await self._channel.send_notification(said[0], said[1] or None)

    def _wire_row(self, row: Row) -> Any:
        crossing = self._converter
        outside = crossing.wire_revision.table(row.direction).get(row.method)
        if outside is None and isinstance(crossing.wire_revision.lifecycle, Stateless):
            asked = (each for each in crossing.wire_revision.rows if isinstance(each, InputRequest))
            outside = cast(Any, next((each for each in asked if each.method == row.method), None))
        if not isinstance(outside, (Request, InputRequest)):
            gone = crossing.to_wire.removed_method(row.direction, row.method)
            why = "it is asked inside results" if gone is None else gone.reason
            raise ProtocolViolationError(
                f"{row.method!r} in {crossing.handler_revision.id} cannot be asked in {crossing.wire_revision.id}: {why}"
            )
        return cast(Any, outside)

    def _validated_params(self, row: Row, params: Any) -> dict[str, Any]:
        """The params as plain JSON. Raises InvalidMessageError where they are not what the inner revision has."""
        value: dict[str, Any] = from_json(serialize(params))
        try:
            if row.params is not None:
                validator(row.params)(value)
        except ValidationError as fault:
            inner = self._converter.handler_revision.id
            raise InvalidMessageError(f"{row.method!r} in {inner}: params: {format_validation_error(fault)}") from None
        return value


def _capabilities_type(sent: Direction) -> str:
    """The type in which the side that receives these messages declares what it can."""
    return f"{sent.rpartition('_')[2].capitalize()}Capabilities"


def _remove_capability(capabilities: Capabilities, path: tuple[str, ...]) -> None:
    at: Any = capabilities
    for step in path[:-1]:
        at = at.get(step, {}) if is_object(at) else {}
    if is_object(at):
        at.pop(path[-1], None)


def _with_meta_keys(params: Any, original: Any) -> Any:
    """The params with the protocol's own keys of the metadata they came with: handlers may ask for them by name."""
    meta = original.get("_meta") if is_object(original) else None
    own = {key: each for key, each in meta.items() if key.startswith(META)} if is_object(meta) else {}
    return {**params, "_meta": {**params.get("_meta", {}), **own}} if own and is_object(params) else params
