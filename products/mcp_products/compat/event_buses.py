"""Buses of the official SDK: changes that one process announces reach the clients of all processes.

A bus passes events, not messages: one over Redis or another broker publishes what a server announces, and calls the
listeners of its process with what it receives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import ref

from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Notification, Revision
from mcp_runtime.server.subscriptions import SubscriptionBus

from .forms.form import FORM

_log: Final = logging.getLogger("mcp_runtime.compat.event_buses")


@dataclass(frozen=True)
class ToolsListChanged:
    """The list of tools has changed."""


@dataclass(frozen=True)
class PromptsListChanged:
    """The list of prompts has changed."""


@dataclass(frozen=True)
class ResourcesListChanged:
    """The list of resources has changed."""


@dataclass(frozen=True)
class ResourceUpdated:
    """A resource has changed."""

    uri: str


ServerEvent = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated
Listener = Callable[[ServerEvent], None]
_LISTS: Final[Mapping[str, ServerEvent]] = {  # By the types of their notifications.
    "ToolListChangedNotification": ToolsListChanged(),
    "PromptListChangedNotification": PromptsListChanged(),
    "ResourceListChangedNotification": ResourcesListChanged(),
}
_UPDATED: Final = "ResourceUpdatedNotification"


def event_of(method: str, params: Mapping[str, Any]) -> ServerEvent | None:
    """Return the event of a notification; None if it is of no change."""
    if method == FORM.method(_UPDATED):
        return ResourceUpdated(params["uri"])
    return next((event for name, event in _LISTS.items() if FORM.method(name) == method), None)


class EventBus(Protocol):
    """What `MCPServer(subscriptions=…)` takes: write one over a broker to connect several processes."""

    async def publish(self, event: ServerEvent) -> None:
        """Pass an event to the listeners of all processes."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, which is called in the event loop of its server; return a function that removes it."""
        ...


class InMemorySubscriptionBus:
    """A bus for the servers of one process."""

    def __init__(self) -> None:
        """Create a bus without listeners."""
        self._listeners: dict[object, Listener] = {}

    async def publish(self, event: ServerEvent) -> None:
        """Call all listeners; an exception of one is logged and harms no other."""
        for listener in list(self._listeners.values()):
            try:
                listener(event)
            except Exception:
                _log.exception("a listener of a subscription bus failed")
        await asyncio.sleep(0)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return a function that removes it."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe


class BridgedSubscriptions(SubscriptionBus):
    """The subscribers of a server that get what its bus passes; what the server announces goes to the bus."""

    def __init__(self, bus: EventBus, revision: Revision) -> None:
        """Subscribe to a bus. Raises LocalError for an object without `publish` and `subscribe`."""
        super().__init__()
        if not all(callable(getattr(bus, name, None)) for name in ("publish", "subscribe")):
            raise LocalError(
                f"MCPServer: subscriptions={bus!r} is not a bus:"
                " pass InMemorySubscriptionBus(), or an object with its methods"
            )
        self._bus = bus
        self._rows = {row.method: row for row in revision.rows if isinstance(row, Notification)}
        self._sending = BackgroundTasks()
        me = ref(self)

        def listen(event: ServerEvent) -> None:
            bridge = me()
            if bridge is None:  # The server does not exist any more.
                unsubscribe()
            else:
                bridge._receive(event)

        unsubscribe = bus.subscribe(listen)

    async def publish(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Publish a change; other notifications go to the clients of this process."""
        event = event_of(row.method, params)
        await (super().publish(row, params) if event is None else self._bus.publish(event))

    def _receive(self, event: ServerEvent) -> None:
        params = {"uri": event.uri} if isinstance(event, ResourceUpdated) else {}
        name = _UPDATED if params else next(name for name, listed in _LISTS.items() if listed == event)
        self._sending.add(asyncio.ensure_future(super().publish(self._rows[FORM.method(name)], params)))
