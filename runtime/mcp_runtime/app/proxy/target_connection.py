"""One connection of a proxy to its target: forwards requests, and passes messages of the target to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ...aio.send_turns import SendTurns
from ...bindings.client import BaseClient
from ...client.context import ClientContext
from ...errors import JSONRPCError, MCPError, RemoteJSONRPCError
from ...protocol.capabilities import is_declared, parse_capability_path
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from ...protocol.revision import META, InputRequest, Notification, Request, Revision, Stateless
from ...server.context import ServerContext, share_key
from ...server.dispatcher import NO_CACHE
from ...session.options import RequestOptions
from ...versions.client_adapter import AdaptedSession, ClientAdapter
from .forwarded_calls import ForwardedCall
from .front import (
    SessionFront,
    client_capabilities,
    log_level,
    send_input_request,
    send_log,
    session_capabilities,
)
from .resource_watches import ResourceWatches
from .target_level import TargetLevel
from .targets import ClientFactory

_log: Final = logging.getLogger(__name__)

_LOG_LEVEL: Final = f"{META}logLevel"
_CAPABILITIES: Final = f"{META}clientCapabilities"
_OPEN_SECONDS: Final = 120.0  # A command may have to be installed first.
_CHANGE_PAUSE: Final = 0.5  # Seconds between two notifications of a changed list, however often a target sends one.
_OWN_META: Final = (META, "progressToken")
_LISTS: Final = {
    "on_tool_list_changed": "tools",
    "on_prompt_list_changed": "prompts",
    "on_resource_list_changed": "resources",
}


class Upstream:
    """A connection to the target of a proxy, for one session or for one request of a client."""

    def __init__(self, proxy: str, factory: ClientFactory, front: SessionFront | None) -> None:
        """Create a connection that is not open.

        Args:
            proxy: The name of the proxy, for messages.
            factory: Makes the client.
            front: The session that gets messages of the target that belong to no request; None for a connection of one
                request.
        """
        self._proxy = proxy
        self._factory = factory
        self._front = front
        self._client: BaseClient | None = None
        self._calls: dict[ForwardedCall, None] = {}
        self._watching: list[asyncio.Task[None]] = []
        self._watches = ResourceWatches(proxy, self._resource_changed)
        self._level = TargetLevel(proxy, self._send_level)
        self._turns = SendTurns()

    # ---- opening and closing ----------------------------------------------------------------------------------------

    async def open(self, ctx: ServerContext) -> None:
        """Connect to the target, with the capabilities of the client of a request.

        Raises JSONRPCError if the target cannot be reached.
        """
        if (connected := self._factory.connected) is not None:
            self._client = connected
            return
        capabilities = session_capabilities(ctx)
        try:
            client = self._factory.client(
                {"name": self._proxy, "capabilities": capabilities, "cache": False, "timeout": None}
            )
            rows = [row for row in client.revision.rows if row.direction == "server_to_client"]
            handlers = client._handlers  # pyright: ignore[reportPrivateUsage]
            for row in rows:
                if isinstance(row, InputRequest) and is_declared(
                    capabilities, parse_capability_path(row.capability)[1]
                ):
                    handlers[row.method] = partial(self._handle_request, row)
                elif isinstance(row, Notification) and row.name == "on_logging_message":
                    handlers[row.method] = partial(self._handle_log, row)
            async with asyncio.timeout(_OPEN_SECONDS):
                await client.__aenter__()
        except TimeoutError as error:
            message = f"the target of the proxy {self._proxy!r} has not answered within {_OPEN_SECONDS:g} s"
            raise JSONRPCError(INTERNAL_ERROR, message) from error
        except (MCPError, OSError) as error:
            message = f"the target of the proxy {self._proxy!r} cannot be reached: {error or type(error).__name__}"
            raise JSONRPCError(INTERNAL_ERROR, message) from error
        self._client = client
        if self._factory.on_connected is not None:
            self._factory.on_connected(client.server)
        if self._adapter is None:
            for row in rows:  # The results of this target have its requests, and the client answers them itself.
                if isinstance(row, InputRequest):
                    handlers.pop(row.method, None)
        else:
            self._handle_wire_notifications(self._adapter)
        if self._front is not None:
            self._watching.append(asyncio.create_task(self._watch_lists(client, self._front)))

    async def close(self) -> None:
        """End the connection, and all that waits for it."""
        client = self._client
        self._client = None
        tasks = self._watching
        self._watching = []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._watches.close()
        await self._level.close()
        if client is not None and client is not self._factory.connected:
            with suppress(MCPError, OSError):
                await client.close()

    @property
    def is_open(self) -> bool:
        """True while the connection can be used."""
        session = self._session
        return session is not None and not session.ended

    @property
    def _session(self) -> Any:
        """The session with the target, below the adapter of another version; None without one."""
        session: Any = None if self._client is None else self._client._session  # pyright: ignore[reportPrivateUsage]
        return session._session if isinstance(session, AdaptedSession) else session  # pyright: ignore

    @property
    def is_stateless(self) -> bool:
        """True if the target uses a stateless protocol version: its results have its requests to the client."""
        return isinstance(self._wire_revision.lifecycle, Stateless)

    @property
    def _adapter(self) -> ClientAdapter | None:
        session: Any = None if self._client is None else self._client._session  # pyright: ignore[reportPrivateUsage]
        return session._adapter if isinstance(session, AdaptedSession) else None  # pyright: ignore[reportPrivateUsage]

    @property
    def _wire_revision(self) -> Revision:
        return (self._adapter or self._require_client()).revision

    def _require_client(self) -> BaseClient:
        if self._client is None:
            raise JSONRPCError(INTERNAL_ERROR, f"the connection of the proxy {self._proxy!r} to its target has ended")
        return self._client

    # ---- to the target ----------------------------------------------------------------------------------------------

    async def forward(self, row: Request[Any], params: Any, call: ForwardedCall) -> Any:
        """Return the target's result of a request.

        Raises JSONRPCError: that of the target with its code and data, or another one if there is no result.
        """
        client, ctx = self._require_client(), call.ctx
        assert ctx is not None, "a request is forwarded when its context exists"
        if row.capability and not self.declares(row.capability):
            return _empty_result(row, self._proxy)
        fields: dict[str, Any] = params.model_dump()
        meta: dict[str, Any] = fields.get("_meta") or {}
        level = log_level(ctx)
        own = {_CAPABILITIES: client_capabilities(ctx), _LOG_LEVEL: level if self.declares("server.logging") else None}
        fields["_meta"] = {name: value for name, value in meta.items() if not name.startswith(_OWN_META)}
        if self.is_stateless:
            fields["_meta"] |= {name: value for name, value in own.items() if value is not None}
        options = RequestOptions(timeout=None, on_progress=call.on_progress if "progressToken" in meta else None)
        self._calls[call] = None
        try:
            await self._level.use(level)
            transport: Any = getattr(self._session, "transport", None)
            if not getattr(transport, "has_room", True):  # Large requests of another client wait for the target.
                await self._turns.take(share_key(ctx), transport.drain)
            return await client._send_request(row, fields, options)  # pyright: ignore[reportPrivateUsage]
        except RemoteJSONRPCError as error:
            raise JSONRPCError(error.code, error.message, error.data) from error
        except JSONRPCError:
            raise
        except MCPError as error:
            raise JSONRPCError(INTERNAL_ERROR, f"the target of the proxy {self._proxy!r}: {error}") from error
        finally:
            del self._calls[call]

    def declares(self, capability: str) -> bool:
        """Return True if the target declares a capability, such as "server.tools"."""
        capabilities = self._require_client().server.model_dump().get("capabilities", {})
        return is_declared(capabilities, parse_capability_path(capability)[1])

    async def set_level(self, level: str) -> None:
        """Set the minimum level of the target's log messages, where its protocol version has a request for that.

        Raises JSONRPCError if the target refuses that.
        """
        await self._level.set(level)

    async def _send_level(self, level: str) -> None:
        row = getattr(self._wire_revision.lifecycle, "set_level", None)
        if row is not None and self.declares("server.logging"):
            await self._send_in_wire_revision(row, {"level": level})

    async def roots_changed(self) -> None:
        """Notify the target that the roots of the client have changed, where its protocol version has that."""
        rows = self._wire_revision.table("client_to_server").values()
        row = next((row for row in rows if row.name == "on_roots_list_changed"), None)
        if row is not None:
            try:
                await self._send_in_wire_revision(row, {})
            except MCPError as error:
                _log.debug("%r was not sent to the target of %r: %s", row.method, self._proxy, error)

    async def _send_in_wire_revision(self, row: Any, params: dict[str, Any]) -> None:
        client: Any = self._adapter or self._require_client()
        try:
            if isinstance(row, Notification):
                await client._send_notification(row, params, None)
            else:
                await client._send_request(row, params, None)
        except RemoteJSONRPCError as error:
            raise JSONRPCError(error.code, error.message, error.data) from error

    # ---- subscriptions ----------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str, outside: str) -> None:
        """Notify the client of changes of a resource.

        Args:
            uri: The URI that the target has.
            outside: The URI that the client has.

        Raises JSONRPCError if the target refuses that.
        """
        await self._watches.add(self._require_client(), uri, outside)

    async def unsubscribe(self, outside: str) -> None:
        """End one subscription to a resource."""
        await self._watches.remove(outside)

    def unwatch(self) -> None:
        """End all subscriptions to resources."""
        self._watches.clear()

    async def _resource_changed(self, outside: str) -> None:
        if self._front is not None:
            await self._front.resource_updated(outside)

    async def _watch_lists(self, client: Any, front: SessionFront) -> None:
        """Pass changes of the target's lists to the client, while the connection is open."""
        names = {row.method: _LISTS[row.name] for row in client.revision.rows if row.name in _LISTS}
        loop, quiet_until = asyncio.get_running_loop(), dict[str, float]()
        try:
            async with client.listen() as changes:
                async for change in changes:
                    kind, now = names[change.method], loop.time()
                    if now < quiet_until.get(kind, now):  # Changes that come meanwhile are read as one.
                        await asyncio.sleep(quiet_until[kind] - now)
                    await front.list_changed(kind)
                    quiet_until[kind] = loop.time() + _CHANGE_PAUSE
        except MCPError as error:
            _log.debug("the subscription of %r to the lists of its target ended: %s", self._proxy, error)

    # ---- from the target --------------------------------------------------------------------------------------------

    async def _handle_request(self, row: InputRequest[Any], ctx: ClientContext, params: Any) -> Any:
        """Return the client's result of a request of the target."""
        if self._calls:
            return await next(reversed(self._calls)).request_input(row, params)
        context = None if self._front is None else self._front.context()
        if context is None:
            message = f"{row.method!r} has no client to go to: no request is running ({self._proxy!r})"
            raise JSONRPCError(INVALID_REQUEST, message)
        return await send_input_request(context, row, params)

    async def _handle_log(self, row: Notification, ctx: ClientContext, params: Any) -> None:
        contexts = [call.ctx for call in reversed(self._calls) if call.ctx is not None]
        context = contexts[0] if contexts else None if self._front is None else self._front.context()
        if context is not None:
            await send_log(context, row, params)

    def _handle_wire_notifications(self, adapter: ClientAdapter) -> None:
        """Pass notifications that the newest protocol version does not have."""
        for row in adapter.revision.table("server_to_client").values():
            if row.name == "on_elicitation_complete":
                handlers = adapter._handlers  # pyright: ignore[reportPrivateUsage]
                handlers[row.method] = self._handle_elicitation_complete

    async def _handle_elicitation_complete(self, ctx: ClientContext, params: Any) -> None:
        if self._front is not None:
            fields: Mapping[str, Any] = params.model_dump()
            await self._front.elicitation_complete(fields)


def _empty_result(row: Request[Any], proxy: str) -> Any:
    """Return a result without items for a target that does not have this kind. Raises JSONRPCError for other
    requests."""
    name = row.name.partition("list_")[2]
    if name:
        wire_name = "resourceTemplates" if name == "resource_templates" else name
        return row.read_result({**NO_CACHE, wire_name: []})
    if row.name == "complete":
        return row.read_result({"resultType": NO_CACHE["resultType"], "completion": {"values": []}})
    kind = row.capability.rpartition(".")[2]
    raise JSONRPCError(INVALID_REQUEST, f"the target of the proxy {proxy!r} has no {kind}")
