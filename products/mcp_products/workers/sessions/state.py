"""The state of sessions as JSON, and announcements that reach the clients of all workers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mcp_products.common.keys import KeyRing
from mcp_runtime.endpoint.checks import names_a_list, param_names
from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.lifecycle import Phase, is_declared, parse_capability_path, shared_object
from mcp_runtime.protocol.revision import Notification
from mcp_runtime.server.core import ServerCore
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.server.subscriptions import Relay, ResourceSubscriptions, SubscriptionBus
from mcp_runtime.session.interfaces import Dispatcher
from mcp_runtime.stores import Store

_log: Final = logging.getLogger("mcp_runtime.workers.sessions.state")
_DAY: Final = 86_400.0  # Seconds after its last change for which a value is stored.


class _ChangeMessage:
    """A change in one version. Its message is the same for all clients, and is serialized for the first one only."""

    def __init__(self, row: Notification, params: Mapping[str, Any]) -> None:
        self.row = row
        self.params = params
        self._message: bytes | None = None

    def of(self, connection: Connection) -> bytes:
        """Return the message for a client. Raises MCPError if it may not be sent to it now."""
        if self._message is None or self.row.requirements:
            self._message = connection.send_notification(self.row, self.params)
        connection.sendable_row(self.row)
        return self._message


class ServerSharing:
    """What the workers of one server share: the states of sessions, announcements, and keys."""

    def __init__(self, origin: ServerCore) -> None:
        """Share the state of this server, the one that the user wrote."""
        self._origin = origin
        self._relay: Relay | None = None
        self._rows = {row.method: row for row in origin.revision.rows if isinstance(row, Notification)}
        self._change: tuple[str, Any] = ("", None)  # The change whose messages are in the next attribute.
        self._messages: dict[int, _ChangeMessage | None] = {}  # By the server of a version.

    def export(self, dispatcher: Dispatcher, connection: Connection) -> dict[str, Any]:
        """Return the state of a session, as JSON."""
        core = _core(dispatcher)
        subscriptions, visibility = core.subscribed, core.visibility
        return {
            "revision": connection.revision.id,
            "phase": connection.phase.name,
            "client": core.client_info,
            "capabilities": connection.remote_capabilities,
            "level": core.log_level,
            "uris": [] if subscriptions is None else sorted(subscriptions.uris),
            "rules": [] if visibility is None else visibility.export(),
        }

    def mark(self, dispatcher: Dispatcher, connection: Connection) -> object:
        """Return an object that is equal to an earlier one if the state is still the same; None if it may differ."""
        core = _core(dispatcher)
        if core.subscribed is not None or core.visibility is not None:
            return None
        return connection.revision, connection.phase, core.client_info, connection.remote_capabilities, core.log_level

    def restore(self, dispatcher: Dispatcher, connection: Connection, state: Mapping[str, Any]) -> bool:
        """Set the state of a session. Return False if this server does not serve its protocol version."""
        core = _core(dispatcher)
        matching = [item for item in core.candidates if item.stateful and item.revision_id == state["revision"]]
        if not matching:
            return False
        core.parts = (server := matching[0].get()).parts
        core.client_info = shared_object(state["client"])
        connection.local_capabilities = server.capabilities
        connection.phase = Phase[state["phase"]]
        connection.negotiated(server.revision, state["capabilities"])
        self.update(dispatcher, connection, state)
        return True

    def update(self, dispatcher: Dispatcher, connection: Connection, state: Mapping[str, Any]) -> None:
        """Set the part of the state that requests change."""
        core = _core(dispatcher)
        if connection.phase is not (phase := Phase[state["phase"]]):
            connection.enter_phase(phase)
        core.log_level = state["level"]
        core.subscribed = None
        if state["uris"]:
            core.subscribed = subscriptions = ResourceSubscriptions()
            for uri in state["uris"]:
                subscriptions.add(uri)
        core.visibility = None
        if state["rules"] and (make := core.origin.parts.new_session_state) is not None:
            core.visibility = visibility = make()
            visibility.restore(state["rules"])

    def leave_bus(self, dispatcher: Dispatcher) -> None:
        """Let the session get no announcements of the server itself: it gets those of all workers."""
        core = _core(dispatcher)
        core.server.parts.bus.unsubscribe(core)

    def change(self, dispatcher: Dispatcher, connection: Connection, method: str, params: Any) -> bytes | None:
        """Return the message of a change for the client of a session; None if the client does not want it."""
        core = _core(dispatcher)
        if self._change[0] != method or self._change[1] is not params:
            self._change = (method, params)
            self._messages = {}
        key = id(core.server)
        if key not in self._messages:
            row = self._rows.get(method)
            change = None if row is None else core.server.parts.own_change(row, params)
            self._messages[key] = None if change is None else _ChangeMessage(*change)
        message = self._messages[key]
        if message is None or not core.wants(message.row, message.params):
            return None
        try:
            return message.of(connection)
        except MCPError as error:
            _log.debug("%r was not sent to a client: %s", method, error)
            return None

    def missed(self, dispatcher: Dispatcher, connection: Connection) -> Sequence[bytes]:
        """Return the messages of all changes that the client of a session may have missed: a client itself reports as
        much after it has connected again."""
        changes = self._all_changes(_core(dispatcher).subscribed_uris(()))
        messages = [self.change(dispatcher, connection, method, params) for method, params in changes]
        return [message for message in messages if message is not None]

    def _all_changes(self, uris: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
        """Return the method and the params of the change of each list, and of each of these resources."""
        declared, changes = dict(self._origin.capabilities), list[tuple[str, dict[str, str]]]()
        for method, row in self._rows.items():
            if names_a_list(row) and is_declared(declared, parse_capability_path(row.capability)[1]):
                changes.append((method, {}))
            elif "uri" in param_names(row):
                changes += [(method, {"uri": uri}) for uri in uris]
        return changes

    def relay(self, send: Callable[[str, Any], Awaitable[None]]) -> bool:
        """Pass all announcements to a function. Return False, and do nothing, if they are passed to one already.

        Raises LocalError for a server whose announcements another bus passes to other processes.
        """
        bus = self._origin.parts.bus
        if type(bus) is not SubscriptionBus:
            raise LocalError("store= passes announcements to all workers: leave out subscriptions=, or store=")
        if bus.relay is not None:
            return False

        async def relay(row: Notification, params: Mapping[str, Any]) -> None:
            if self._rows.get(row.method) is row:
                await send(row.method, params)
            else:
                await bus.deliver(row, params)

        bus.relay = self._relay = relay
        return True

    def leave(self, store: Store) -> None:
        """Let the server use a store no more."""
        bus = self._origin.parts.bus
        if self._relay is not None and bus.relay is self._relay:
            bus.relay = None
        if self._origin.parts.store is store:
            self._origin.parts.store = None

    async def deliver(self, method: str, params: Any) -> None:
        """Send a change to the subscribers of this process that are not sessions."""
        if (row := self._rows.get(method)) is not None:
            await self._origin.parts.bus.deliver(row, params)

    async def deliver_missed(self) -> None:
        """Tell the subscribers of this process that are not sessions which changes they may have missed."""
        uris = self._origin.parts.bus.subscribed_uris(list(self._rows.values()))
        for method, params in self._all_changes(uris):
            await self.deliver(method, params)

    def use(self, store: Store, keys: Sequence[bytes]) -> None:
        """Let the server store its state in a store, and encrypt with these keys unless it has its own."""
        origin = self._origin
        origin.parts.store = store
        if origin.keys is None or origin.parts.shares_keys:
            try:
                origin.keys = KeyRing(*keys)
                origin.parts.shares_keys = True
            except LocalError as error:
                _log.warning("workers cannot read the requestState of others: %s", error)


def _core(dispatcher: Dispatcher) -> ServerDispatcher:
    wrapped: Any = dispatcher
    while not isinstance(wrapped, ServerDispatcher):
        wrapped = wrapped.wrapped  # That of a dispatcher that logs or measures.
    return wrapped


# The values of sessions in the store that the workers of a server share.


class StoredStates:
    """The values that the functions of an app store for sessions; see `StateStore`."""

    def __init__(self, store: Store, namespace: str) -> None:
        """Use a store; `namespace` is the name of the server."""
        self._store = store
        self._namespace = namespace

    async def get(self, session: str, key: str) -> bytes | None:
        """Return the JSON of a value; None if there is none."""
        return await self._store.get(self._key(session, key))

    async def set(self, session: str, key: str, value: bytes) -> None:
        """Store the JSON of a value."""
        await self._store.put(self._key(session, key), value, _DAY)

    async def delete(self, session: str, key: str) -> None:
        """Delete a value; do nothing if there is none."""
        await self._store.delete(self._key(session, key))

    def _key(self, session: str, key: str) -> str:
        return f"{self._namespace}:state:{session}:{key}"
