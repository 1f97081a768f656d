"""A server that was written for one protocol version, as one of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.revision import Notification, Revision
from ..server.context import ServerContext
from ..server.core import ServerCore
from .converter import ConvertingChannel, MessageConverter


class ServerAdapter(ServerCore):
    """A server object as one of another revision."""

    def __init__(self, inner: ServerCore) -> None:
        self._inner = inner
        self._converter = MessageConverter(inner.revision, self.revision, self._receives)
        super().__init__(name=inner.name, version=inner.version, instructions=inner.instructions)
        self.lifespan = inner.lifespan  # type: ignore[method-assign]
        inner.subscription_bus.subscribe(self)

    @property
    def origin(self) -> ServerCore:
        return self._inner

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """All that the handlers announce, if anybody is there to hear it in this revision."""
        return True

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell the clients of this revision."""
        said = self._converter.convert_outgoing(row, params)
        if said is not None:
            await self.subscription_bus.publish(*said)

    def _overridden_handlers(self) -> Any:
        def context(
            session: ConvertingChannel, message: RequestReceived | NotificationReceived, outer: ServerContext
        ) -> ServerContext:
            made = self._inner.context(outer.connection_state, session, message)  # pyright: ignore[reportPrivateUsage]
            made._mrtr = outer._mrtr  # pyright: ignore[reportPrivateUsage]
            return made

        return self._converter.handlers(self._inner._handlers, context)  # pyright: ignore[reportPrivateUsage]

    def _declared_capabilities(self, message: Any, name: str) -> Any:
        return self._converter.wire_capabilities(self._inner.capabilities)


@cache
def server_adapter_class(revision: Revision) -> Callable[[ServerCore], ServerCore]:
    """What makes a server object one of this revision."""
    return type("ServerAdapter", (ServerAdapter,), {"revision": revision, "context": ServerContext})
