"""Send change notifications to the clients that have subscribed to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from ..endpoint.subscription_filter import matches_filter
from ..errors import MCPError
from ..protocol.events import RequestReceived
from ..protocol.revision import META, Notification, Stateless
from ..session.interfaces import Channel
from .context import ServerContext

_log: Final = logging.getLogger(__name__)

MAX_SUBSCRIBED_RESOURCES: Final = 10_000  # Resources that one client may be told of.


class Subscriber(Protocol):
    """Somebody who is told of changes."""

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool: ...

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None: ...


@runtime_checkable
class SubscriptionPolicy(Protocol):
    """A server that says itself who may hear of what; the others tell whoever knows its name."""

    async def filter_subscriptions(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Of what a client wants to hear of by name, that of which it may."""
        ...


class SubscriptionBus:
    """Everybody who is told of changes of one server."""

    def __init__(self) -> None:
        self._subscribers: dict[Subscriber, None] = {}

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers[subscriber] = None

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.pop(subscriber, None)

    def has_subscriber(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Whether somebody wants to hear it."""
        return any(hearer.wants(row, params) for hearer in self._subscribers)

    async def publish(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Tell all who want to hear it; one who cannot be told harms no other."""
        for hearer in list(self._subscribers):
            if hearer.wants(row, params):
                try:
                    await hearer.notify(row, params)
                except MCPError as fault:
                    _log.debug("%r was not told to a client: %s", row.method, fault)


class ResourceSubscriptions:
    """The resources that the client of one session is told of."""

    def __init__(self) -> None:
        self._uris: set[str] = set()

    def __contains__(self, uri: object) -> bool:
        return uri in self._uris

    def add(self, uri: str) -> None:
        if len(self._uris) < MAX_SUBSCRIBED_RESOURCES:
            self._uris.add(uri)

    def discard(self, uri: str) -> None:
        self._uris.discard(uri)


class ListenStream:
    """A client that listens to what it has chosen, until it or the server ends that (basic/patterns/subscriptions)."""

    __slots__ = ("meta", "_channel", "_filter", "_ended")

    def __init__(self, channel: Channel, request: RequestReceived, filter: Mapping[str, Any]) -> None:
        self._channel = channel
        self._filter = filter
        self._ended = asyncio.get_running_loop().create_future()
        self.meta = {f"{META}subscriptionId": request.id}

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        return matches_filter(self._filter, row, params)

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        await self._channel.send_notification(row, {**params, "_meta": {**params.get("_meta", {}), **self.meta}})

    async def run(self, bus: SubscriptionBus, lifecycle: Stateless, max_seconds: float | None) -> None:
        """Acknowledge what was chosen, then hear of it until `end`, or for so many seconds at the longest."""
        await self._channel.send_notification(
            lifecycle.acknowledged, {"notifications": self._filter, "_meta": self.meta}
        )
        bus.subscribe(self)
        end = None if max_seconds is None else self._ended.get_loop().call_later(max_seconds, self.end)
        try:
            await self._ended
        finally:
            bus.unsubscribe(self)
            if end is not None:
                end.cancel()

    def end(self) -> None:
        """End it in an orderly way."""
        if not self._ended.done():
            self._ended.set_result(None)
