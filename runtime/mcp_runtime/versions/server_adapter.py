"""Adapt a server that was written for one protocol version to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from ..protocol.capabilities import Capabilities
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.revision import Notification, Revision
from ..protocol.wire.core_records import read_as_record
from ..server.context import ServerContext
from ..server.core import ServerCore
from .channel import ConvertingChannel
from .converter import MessageConverter
from .handlers import convert_handlers


class ServerAdapter(ServerCore):
    """A server object in another protocol version than its own."""

    _read_params = staticmethod(read_as_record)
    _capabilities: Capabilities | None = None

    def __init__(self, server: ServerCore) -> None:
        """Adapt this server to the protocol version of the class."""
        self._server = server
        read_params = type(server)._read_params
        self._converter = MessageConverter(server.revision, self.revision, self._receives, read_params)
        self._requested_tasks = server._tasks_of_clients(self._converter)
        super().__init__(name=server.name, version=server.version, instructions=server.instructions)
        self.info = server.info
        self.lifespan = server.lifespan  # type: ignore[method-assign]
        server._subscription_bus.subscribe(self)  # pyright: ignore[reportPrivateUsage]

    def connected(self) -> None:
        """Note that a client gets to know the capabilities of the server."""
        self._server.connected()

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the server in this version. It may get others until its first connection."""
        if (capabilities := self._capabilities) is None:
            capabilities = self._declared_capabilities(None, "")
            self._capabilities = capabilities if self._server.has_connected else None
        return capabilities

    @capabilities.setter
    def capabilities(self, capabilities: Capabilities) -> None:
        self._capabilities = None

    @property
    def _origin(self) -> ServerCore:
        return self._server

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs that the subscribers of this adapter want."""
        own = [row for row in self.revision.rows if isinstance(row, Notification)]
        return self._subscription_bus.subscribed_uris(own)

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True: the subscribers of this adapter decide for themselves."""
        return True

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Convert a change notification, and send it to the clients of this protocol version."""
        converted = self._own_change(row, params)
        if converted is not None:
            await self._subscription_bus.publish(*converted)

    def _own_change(
        self, row: Notification, params: Mapping[str, Any]
    ) -> tuple[Notification, Mapping[str, Any]] | None:
        return self._converter.convert_outgoing(row, params)

    def _overridden_handlers(self) -> Any:
        def make_context(
            channel: ConvertingChannel, message: RequestReceived | NotificationReceived, wire_context: ServerContext
        ) -> ServerContext:
            state = wire_context._connection_state  # pyright: ignore[reportPrivateUsage]
            context = self._server.context(state, channel, message)
            context._mrtr = wire_context._mrtr  # pyright: ignore[reportPrivateUsage]
            context._task_request = wire_context._task_request  # pyright: ignore[reportPrivateUsage]
            return context

        handlers = self._server._handlers  # pyright: ignore[reportPrivateUsage]
        converted = convert_handlers(self._converter, handlers, make_context)
        return converted if self._requested_tasks is None else self._requested_tasks.handlers(converted)

    def _declared_capabilities(self, message: Any, name: str) -> Any:
        capabilities = self._converter.wire_capabilities(self._server.capabilities)
        requested = self._requested_tasks
        return capabilities if requested is None else {**capabilities, "tasks": requested.capability()}


@cache
def server_adapter_class(revision: Revision) -> Callable[[ServerCore], ServerCore]:
    """Return the class that adapts servers to this protocol version."""
    return type("ServerAdapter", (ServerAdapter,), {"revision": revision, "context": ServerContext})
