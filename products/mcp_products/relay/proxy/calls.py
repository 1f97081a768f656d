"""The requests of clients while the target handles them: the third downstream, which speaks in models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Final

from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from mcp_runtime.protocol.revision import InputRequest, Revision
from mcp_runtime.server.context import ServerContext, share_key
from mcp_runtime.server.input_requests import InputRequired
from mcp_runtime.server.service import ServerDispatcher

from ..upstream.connection import Call, UpstreamConnection
from ..upstream.raw import FROM_SERVER
from ..upstream.suspended import SuspendedCall, SuspendedCalls
from .client_side import ChangeTeller, notify_change, send_input_request, send_log, send_own, session_context

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.calls")

_LISTS: Final = {
    "on_tool_list_changed": "tools",
    "on_prompt_list_changed": "prompts",
    "on_resource_list_changed": "resources",
}


class ForwardedCall(Call):
    """A request of a client; `ctx` is its context, that of the present round if it has several."""

    __slots__ = ("ctx", "_fan_out")

    def __init__(self, ctx: ServerContext, method: str, holds: bool = False) -> None:
        super().__init__(0, method, holds)
        self.ctx = ctx
        self._fan_out = FanOut()

    @property
    def client(self) -> Hashable:
        """The user, or else the address."""
        return share_key(self.ctx)

    async def notify(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass progress of the target to the client."""
        progress = connection.translation.params(FROM_SERVER, method, params)
        value = progress.get("progress")
        if isinstance(value, (int, float)):  # The result waits for this, and the connection with it.
            sending = self.ctx.progress(value, progress.get("total"), progress.get("message"))
            await self._fan_out.send(self, sending)

    async def request_input(self, row: InputRequest[Any], params: dict[str, Any]) -> Any:
        """Return the result of the client for a request of the target, as JSON. Raises JSONRPCError."""
        if self.suspended is not None:
            return await self.suspended.request_input(row.method, params)
        if self.ctx.connection_state.is_stateless:
            message = f"{row.method!r} cannot be sent during {self.ctx.request_id!r}, which has no input requests"
            raise JSONRPCError(INVALID_REQUEST, message)
        return (await send_input_request(self.ctx, row, params)).model_dump()


# ---- calls in rounds -------------------------------------------------------------------------------------------------


class ProxiedCall(SuspendedCall):
    """A multi round-trip request of a client to a target whose requests interrupt no call."""

    def __init__(self, call: ForwardedCall, rows: Mapping[str, InputRequest[Any]]) -> None:
        super().__init__(None)  # `requestState` is encrypted, for its user only.
        self.call = call
        self._rows = rows
        call.suspended = self

    async def run_round(self, ctx: ServerContext) -> Any:
        """Return the result of the call; the requests of the target become input requests of the client's request.

        Raises InputRequired if the client must answer one first.
        """
        self.call.ctx = ctx
        while True:
            # All of them again, because the context counts the equal ones of a round.
            for needed in list(self.needed.values()):
                try:
                    result = await send_input_request(ctx, self._rows[needed.method], needed.params)
                except JSONRPCError as error:
                    if not needed.answer.done():
                        needed.answer.set_exception(error)
                else:
                    if not needed.answer.done():
                        needed.answer.set_result(result.model_dump())
            if await self.progressed():
                return self.task.result()


def suspended_call(table: SuspendedCalls, key: str, ctx: ServerContext) -> ProxiedCall | None:
    """Return the call of an earlier round of a request; None in its first round.

    Raises JSONRPCError if the call has ended meanwhile.
    """
    request = ctx.multi_round_trip
    state = None if request is None else request.values.get(key)
    if state is None:
        return None
    if not isinstance(call := table.take(state, None), ProxiedCall):
        message = "the call ended before its input responses arrived: send the request again without them"
        raise JSONRPCError(INVALID_PARAMS, message)
    return call


async def run_round(table: SuspendedCalls, key: str, call: ProxiedCall, ctx: ServerContext) -> Any:
    """Return the result of a round. Raises InputRequired if there is another one, for which the table has the call."""
    assert ctx.multi_round_trip is not None, "only multi round-trip requests have rounds"
    values, is_suspended, reason = ctx.multi_round_trip.values, False, None
    try:
        return await call.run_round(ctx)
    except asyncio.CancelledError as error:
        reason = str(error) or None
        raise
    except (InputRequired, BaseExceptionGroup):
        is_suspended = True
        values[key] = call.state
        table.add(call)
        raise
    finally:
        if not is_suspended:
            values.pop(key, None)
            await call.cancel(reason)


# ---- what the target sends besides results ---------------------------------------------------------------------------


class ProxyDownstream:
    """Passes what a target sends to the client of the request that runs; of a session, to the client of the session.

    What belongs to a session are changes of the lists, of `watched` resources, and the end of elicitations.
    """

    def __init__(
        self,
        name: str,
        revision: Revision,
        teller: ChangeTeller,
        dispatcher: ServerDispatcher | None,
        own_methods: Collection[str],
    ) -> None:
        """Create the downstream of a connection.

        Args:
            name: The name of the proxy, for messages.
            revision: The protocol version of the app.
            teller: Tells the clients of the connection what has changed.
            dispatcher: That of the session; None for a connection of requests without one.
            own_methods: The methods that pass though the protocol does not have them.
        """
        self.watched: Callable[[str], list[str]] = lambda uri: []
        """Returns the URIs that clients have for a resource of the target that has changed."""
        self.on_ended: Callable[[], None] = lambda: None
        """Called when the target has ended the connection."""
        self._own_methods = own_methods
        self._name = name
        self._teller = teller
        self._dispatcher = dispatcher
        self._log_row = revision.lifecycle.log
        self.input_rows = {row.method: row for row in revision.rows if isinstance(row, InputRequest)}

    async def notified(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a notification that belongs to no request."""
        row, dispatcher = connection.translation.up.table(FROM_SERVER).get(method), self._dispatcher
        name = "" if row is None else row.name
        if name == "on_logging_message":
            await self._log(connection, method, params)
        elif name == "on_resource_updated":
            await self.changed(params.get("uri", ""))
        elif name in _LISTS:
            self._teller.list_changed(_LISTS[name])
        elif dispatcher is not None and name == "on_elicitation_complete":
            await notify_change(dispatcher, name, params)
        elif method in self._own_methods and (ctx := self._context(connection)) is not None:
            await send_own(ctx, method, params)

    async def changed(self, uri: str) -> None:
        """Notify clients that have subscribed to a resource of the target that it has changed."""
        for outside in self.watched(uri):
            await self._teller.resource_updated(outside)

    async def _log(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        if self._log_row is not None and (ctx := self._context(connection)) is not None:
            await send_log(ctx, self._log_row, connection.translation.params(FROM_SERVER, method, params))

    def _context(self, connection: UpstreamConnection) -> ServerContext | None:
        """Return the context of the client that a message of the target is for, which names no request."""
        is_stateless = connection.translation.up_is_stateless
        call = connection.last_holder if is_stateless and self._dispatcher is None else connection.last_call
        return call.ctx if isinstance(call, ForwardedCall) else self._session_context()

    def _session_context(self) -> ServerContext | None:
        return None if self._dispatcher is None else session_context(self._dispatcher)

    async def requested(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> Any:
        """Return the client's result of a request of the target. Raises JSONRPCError."""
        translation = connection.translation
        row = self.input_rows.get(translation.method(FROM_SERVER, method))
        if row is None:
            translation.require(FROM_SERVER, method)
            raise JSONRPCError(INVALID_REQUEST, f"{method!r} is not passed to clients")
        converted, call = translation.params(FROM_SERVER, method, params), connection.last_call
        if isinstance(call, ForwardedCall):
            result = await call.request_input(row, converted)
        else:
            ctx = self._session_context()
            if ctx is None:
                message = f"{row.method!r} has no client to go to: no request is running ({self._name!r})"
                raise JSONRPCError(INVALID_REQUEST, message)
            result = (await send_input_request(ctx, row, converted)).model_dump()
        return translation.result(FROM_SERVER, method, result)

    def ended(self, connection: UpstreamConnection) -> None:
        """Open another connection if somebody watches a resource; otherwise the next request does."""
        if not connection.upstream.is_closing:
            self.on_ended()
