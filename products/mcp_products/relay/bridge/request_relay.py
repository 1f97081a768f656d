"""The relay of clients without sessions: each request has its revision, and may get a link of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mcp_runtime.endpoint.checks import ChangeFilter, supported_filter
from mcp_runtime.errors import JSONRPCError, MCPError
from mcp_runtime.http.clients import address_of, client_key
from mcp_runtime.protocol.connection import NotificationReceived
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Id
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import META, Notification, Revision, Stateless
from mcp_runtime.server.subscriptions import StreamCounts, check_filter
from mcp_runtime.session.interfaces import Channel, StreamLimits

from ..upstream.connection import SUBSCRIPTION, UpstreamConnection
from ..upstream.opening import ClientDetails
from ..upstream.pool import Borrower
from ..upstream.raw import FROM_CLIENT, FROM_SERVER, raw_notification
from ..upstream.suspended import SuspendedCall, SuspendedCalls
from ..upstream.translation import LIFECYCLE_META, input_required_fields, is_input_request, without_reserved_meta
from .state import BridgeState, ClientCall, RelayBase, discover_result

_VERSION = f"{META}protocolVersion"
_INFO = f"{META}clientInfo"
_CAPABILITIES = f"{META}clientCapabilities"
_LEVEL = f"{META}logLevel"


class _BridgedCall(SuspendedCall):
    """A call of a bridge: requests of the upstream are in its result, as JSON, and the answers in a later request."""

    def __init__(self, owner: object, call: ClientCall) -> None:
        super().__init__(owner)
        self.call = call

    def go_on(self, channel: Channel, id: Id, token: Any, responses: object) -> None:
        """Belong to another request of the client, which has responses; those to nothing are ignored."""
        self.call.channel = channel
        self.call.id = id
        self.call.token = token
        for key, response in responses.items() if is_object(responses) else ():
            if (needed := self.waiting.get(key)) is not None:
                needed.answer.set_result(response)

    def input_required(self) -> dict[str, Any]:
        """Return the requests that the client has to answer, as fields of a result."""
        requests = {
            key: {"method": needed.method, **({"params": needed.params} if needed.params else {})}
            for key, needed in self.waiting.items()
        }
        return {"inputRequests": requests, "requestState": self.state}


class Listener:
    """A request to listen of one client, at an upstream with sessions: passes the changes that its filter includes."""

    def __init__(self, link: UpstreamConnection, call: ClientCall, requested: Any) -> None:
        """Create a listener with the part of the requested filter that the upstream supports. Raises JSONRPCError."""
        self._link = link
        self._channel = call.channel
        self._meta = {SUBSCRIPTION: call.id}
        self.owner = link.owner
        if not is_object(requested):
            raise JSONRPCError(INVALID_PARAMS, "notifications has to be an object")
        check_filter(requested)
        translation = link.translation
        self._rows = {
            row.method: row for row in translation.down.table(FROM_SERVER).values() if isinstance(row, Notification)
        }
        self.filter = supported_filter(requested, link.capabilities, list(self._rows.values()))
        self._changes = ChangeFilter(self.filter)

    async def run(self, listeners: set[Listener]) -> dict[str, Any]:
        """Pass changes until the request is cancelled or the upstream ends, and return the result."""
        lifecycle, subscriptions = self._link.translation.down.lifecycle, self._link.subscriptions
        assert isinstance(lifecycle, Stateless), "only clients without sessions listen"
        subscribed: list[str] = []
        try:
            for uri in dict.fromkeys(self._changes.uris([])):
                with suppress(JSONRPCError):
                    await subscriptions.resources.add(uri)
                    subscribed.append(uri)
            acknowledged = raw_notification(lifecycle.acknowledged.method, FROM_SERVER)
            await self._channel.send_notification(acknowledged, {"notifications": self.filter, "_meta": self._meta})
            listeners.add(self)
            await asyncio.shield(self._link.upstream.session.closed)
        finally:
            listeners.discard(self)
            if self._link.is_open:
                ending = asyncio.gather(*map(subscriptions.resources.remove, subscribed))
                await asyncio.shield(ending)
        return {"resultType": "complete", "_meta": self._meta}

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Pass a change, if the filter includes it."""
        row = self._rows.get(method)
        if row is not None and self._changes.includes(row, params):
            meta = params.get("_meta")
            params = {**params, "_meta": {**(meta if is_object(meta) else {}), **self._meta}}
            with suppress(MCPError):
                await self._link.pass_notification(self._channel, method, params)


class RequestRelay(RelayBase):
    """Passes requests of clients without sessions to links of a pool."""

    def __init__(
        self, state: BridgeState, revision: Revision, served: Sequence[str], stream_limits: StreamLimits
    ) -> None:
        """Create the relay of all clients of an endpoint, or of one connection; `served` are the ids of all revisions
        without sessions that the bridge serves, and `stream_limits` what one client may subscribe to at once."""
        super().__init__(state, revision)
        self._served = served
        self._suspended = SuspendedCalls()
        self._listeners: set[Listener] = set()
        self._stream_counts = StreamCounts(stream_limits)
        self._listening: dict[asyncio.Task[Any], None] = {}
        self._failure: JSONRPCError | None = None  # Why the only client got no connection when it discovered.
        state.pool.end_waiting.append(self._suspended.end_oldest)

    @property
    def lifecycle(self) -> Stateless:
        """The lifecycle of the clients' revision."""
        assert isinstance(self.revision.lifecycle, Stateless), "these clients have no sessions"
        return self.revision.lifecycle

    def detach(self) -> None:
        """End the calls that wait for input, and the subscriptions: their requests get their results."""
        self._suspended.close()
        if (end := self._suspended.end_oldest) in self.state.pool.end_waiting:
            self.state.pool.end_waiting.remove(end)
        for task in list(self._listening):
            task.cancel("detached")

    # ---- from clients ------------------------------------------------------------------------------------------------

    async def request(self, channel: Channel, id: Id, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of a client."""
        meta = self._checked_meta(params)
        suspended = self._suspended.take(params.get("requestState"), _owner(channel))
        if isinstance(suspended, _BridgedCall):
            suspended.go_on(channel, id, meta.get("progressToken"), params.get("inputResponses"))
            return await self._result_of(suspended, method)
        pool, borrower = self.state.pool, self._borrower(channel, meta)
        if method == self.lifecycle.listen.method:
            return await self._listen(borrower, channel, id, params)

        def gets_messages(up_is_stateless: bool) -> bool:
            return _LEVEL in meta or (bool(meta[_CAPABILITIES]) and not up_is_stateless)

        try:
            link = await pool.acquire(borrower, self, gets_messages)
        except JSONRPCError as error:
            self._failure = error if self.state.settings.is_single else None
            raise
        self._failure = None
        release = partial(pool.release, link, held=gets_messages(link.translation.up_is_stateless))
        if input_required_fields(self.revision, method) and not link.translation.up_is_stateless:
            return await self._call(link, ClientCall(channel, id, method), params, release)
        try:
            if method == self.lifecycle.discover.method:
                return discover_result(link.translation, link.upstream, self._served)
            if link.translation.up_is_stateless:
                return await self._pass(link, ClientCall(channel, id, method, holds=_LEVEL in meta), params)
            return await self._run_call(link, ClientCall(channel, id, method), params)
        finally:
            release()

    def _checked_meta(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the `_meta` of a request. Raises JSONRPCError if it lacks what each request has."""
        meta = params.get("_meta")
        if not is_object(meta) or not isinstance(meta.get(_VERSION), str) or not is_object(meta.get(_CAPABILITIES)):
            if self._failure is not None:
                raise self._failure  # The client tries a handshake, because discovery has failed.
            raise JSONRPCError(INVALID_PARAMS, f"_meta needs {_VERSION} and {_CAPABILITIES} ({self.revision.id})")
        if meta[_VERSION] != self.revision.id:
            code = int(self.revision.constants["UNSUPPORTED_PROTOCOL_VERSION"])
            data = {"supported": [*self._served], "requested": meta[_VERSION]}
            raise JSONRPCError(code, f"unsupported protocol version {meta[_VERSION]!r}", data)
        return meta

    def _borrower(self, channel: Channel, meta: dict[str, Any]) -> Borrower:
        """Return who sends a request: clients of the same user with the same capabilities may use the same link."""
        capabilities, owner, info = meta[_CAPABILITIES], _owner(channel), meta.get(_INFO)
        details = ClientDetails(self.revision, capabilities, info if is_object(info) else {"name": "", "version": ""})
        distinct = () if self.state.settings.is_single else (owner, json.dumps(capabilities, sort_keys=True))
        client = client_key(None if channel.auth is None else channel.auth.owner, address_of(channel.scope))
        return Borrower(client, (self, *distinct), details, owner)

    async def _pass(self, link: UpstreamConnection, call: ClientCall, params: dict[str, Any]) -> Any:
        """Return the result of an upstream that has no sessions either."""
        translation = link.translation
        if not translation.is_same:
            translation.require(FROM_CLIENT, call.method)
            params = translation.params(FROM_CLIENT, call.method, params)
        return translation.result(FROM_CLIENT, call.method, await self.send(link, call, params))

    async def _call(
        self, link: UpstreamConnection, call: ClientCall, params: dict[str, Any], release: Callable[[], None]
    ) -> Any:
        """Return the result of an upstream with sessions, or the requests that it sends first."""
        suspended = call.suspended = _BridgedCall(_owner(call.channel), call)
        suspended.task = asyncio.create_task(self._run_call(link, call, params))
        suspended.task.add_done_callback(lambda _: release())
        return await self._result_of(suspended, call.method)

    async def _run_call(self, link: UpstreamConnection, call: ClientCall, params: dict[str, Any]) -> Any:
        translation, method = link.translation, call.method
        translation.require(FROM_CLIENT, method)
        meta = params["_meta"]
        await link.level.use(meta.get(_LEVEL))
        converted = translation.params(FROM_CLIENT, method, without_reserved_meta(params, LIFECYCLE_META))
        return translation.result(FROM_CLIENT, method, await self.send(link, call, converted))

    async def _result_of(self, suspended: _BridgedCall, method: str) -> Any:
        """Return the next result of a call: the final one, or one with requests of the upstream."""
        try:
            has_ended = await suspended.progressed()
        except asyncio.CancelledError:
            suspended.task.cancel()
            raise
        if has_ended:
            return suspended.task.result()
        self._suspended.add(suspended)
        return {**input_required_fields(self.revision, method), **suspended.input_required()}

    async def _listen(self, borrower: Borrower, channel: Channel, id: Id, params: dict[str, Any]) -> Any:
        """Pass changes to a client until it cancels its request, or until the bridge ends."""
        self._stream_counts.add(borrower.client)
        try:
            return await self._stream(borrower, channel, id, params)
        finally:
            self._stream_counts.remove(borrower.client)

    async def _stream(self, borrower: Borrower, channel: Channel, id: Id, params: dict[str, Any]) -> Any:
        pool = self.state.pool
        link = await pool.first(borrower, self)
        call, running = ClientCall(channel, id, self.lifecycle.listen.method), None
        try:
            if link.translation.up_is_stateless:
                listening = self._pass(link, call, params)
            else:
                listening = Listener(link, call, params.get("notifications")).run(self._listeners)
            running = asyncio.ensure_future(listening)
            self._listening[running] = None
            return await running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if running is None or (task is not None and task.cancelling()):
                if running is not None:
                    running.cancel()
                raise
            return {"resultType": "complete", "_meta": {SUBSCRIPTION: id}}
        finally:
            if running is not None:
                del self._listening[running]
            pool.release(link, listened=True)

    async def notification(self, message: NotificationReceived) -> None:
        """Pass a notification of a client; those of the lifecycle belong to requests."""
        method = message.row.method
        if method == self.lifecycle.cancelled.method or not is_object(message.params):
            return
        self.state.losses.add(method, "a notification without a session belongs to no connection")

    # ---- from the upstream -------------------------------------------------------------------------------------------

    async def notified(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a notification of the upstream: to those that listen, or with the last request of a link."""
        row = self.revision.table(FROM_SERVER).get(method)
        is_log = row is not None and row.method == self.lifecycle.log.method
        if row is not None and not is_log and not link.translation.up_is_stateless:
            listeners = [item for item in self._listeners if item.owner == link.owner]
            return await self.state.fan_out.send_all(
                (listener, partial(listener.notify, method, params)) for listener in listeners
            )
        call = link.last_call if not link.translation.up_is_stateless else link.last_holder
        if not isinstance(call, ClientCall) or not (link.is_held or self.state.settings.is_single):
            self.state.losses.add(method, "it belongs to no request that may get it")
            return
        with suppress(MCPError):
            await link.pass_notification(call.channel, method, params)

    async def requested(self, link: UpstreamConnection, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the upstream: it is in a result of the call that runs."""
        call, translation = link.last_call, link.translation
        suspended = None if call is None else call.suspended
        if call is None or suspended is None or not is_input_request(self.revision, method):
            self.state.losses.add(method, "only a call can return a request of the upstream")
            raise JSONRPCError(METHOD_NOT_FOUND, f"{method!r} cannot be sent outside of a call")
        if not input_required_fields(self.revision, call.method):
            raise JSONRPCError(INVALID_REQUEST, f"{call.method!r} cannot request input in {self.revision.id}")
        converted = translation.params(FROM_SERVER, method, params)
        response = await suspended.request_input(method, converted)
        return translation.result(FROM_SERVER, method, response)

    def ended(self, link: UpstreamConnection) -> None:
        """Let the next request open a new link."""


def _owner(channel: Channel) -> str:
    """Return the user of a request; empty without one."""
    return "" if channel.auth is None else channel.auth.owner_key
