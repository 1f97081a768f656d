"""Send change notifications to the clients that have subscribed to them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

from ..aio.fan_out import FanOut
from ..aio.tasks import LongWait
from ..endpoint.checks import ChangeFilter
from ..errors import JSONRPCError
from ..http.clients import ClientCounts
from ..protocol.connection import RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..protocol.models import is_list
from ..protocol.revision import META, Notification, Stateless
from ..protocol.uris import uri_key
from ..session.interfaces import Channel, StreamLimits
from .context import ServerContext

_log: Final = logging.getLogger(__name__)

MAX_SUBSCRIBED_RESOURCES: Final = 10_000  # Resources that one session or stream may subscribe to.
_MAX_SUBSCRIBED_BYTES: Final = 1024 * 1024  # Characters of their URIs.
_RETRY_SECONDS: Final = 10  # After which a client that has too many streams may try again.
Relay = Callable[[Notification, Mapping[str, Any]], Awaitable[None]]


class Subscriber(Protocol):
    """A receiver of change notifications."""

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs of the resources whose changes the subscriber wants; `rows` are those of its version."""
        ...

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True if the subscriber has subscribed to this change."""
        ...

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send the notification to the subscriber. Raises MCPError."""


@runtime_checkable
class SubscriptionPolicy(Protocol):
    """A server that limits which resources a client may subscribe to. Without it, every subscription is allowed."""

    async def filter_subscriptions(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Return those of the requested ids that the client may subscribe to.

        Args:
            ctx: The context of the request to listen.
            row: The notification that the client subscribes to.
            ids: The ids that the client requests, such as the ids of tasks.
        """
        ...


class SubscriptionBus:
    """The subscribers of one server. With a `relay`, what is published goes to the servers of all workers."""

    def __init__(self) -> None:
        """Create a bus without subscribers."""
        self._subscribers: dict[Subscriber, None] = {}
        self._fan_out = FanOut()
        self.relay: Relay | None = None

    def subscribe(self, subscriber: Subscriber) -> None:
        """Add a subscriber."""
        self._subscribers[subscriber] = None

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Remove a subscriber; do nothing if it is not subscribed."""
        self._subscribers.pop(subscriber, None)

    def has_subscriber(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True if a subscriber wants this notification, or one of another worker may."""
        return self.relay is not None or any(subscriber.wants(row, params) for subscriber in [*self._subscribers])

    async def publish(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send a notification to all subscribers that want it, of all workers."""
        await (self.deliver if self.relay is None else self.relay)(row, params)

    async def deliver(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send a notification to the subscribers of this worker. One that fails, or does not read, harms no other."""
        wanting = [subscriber for subscriber in [*self._subscribers] if subscriber.wants(row, params)]
        if wanting:
            await self._fan_out.send_all((item, partial(item.notify, row, params)) for item in wanting)

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs of the resources whose changes a subscriber of this process wants, each once."""
        uris = (uri for subscriber in [*self._subscribers] for uri in subscriber.subscribed_uris(rows))
        return {uri_key(uri): uri for uri in uris}.values()


class ResourceSubscriptions:
    """The URIs of the resources that the client of one session has subscribed to."""

    def __init__(self) -> None:
        """Create an empty set of URIs."""
        self._uris: dict[str, str] = {}  # As the client writes them, by the form that all spellings have.
        self._size = 0

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and uri_key(uri) in self._uris

    @property
    def uris(self) -> Iterable[str]:
        """The URIs, in any order."""
        return self._uris.values()

    def check(self, uri: str) -> None:
        """Raise JSONRPCError if there is no room for a URI: there are 10,000 already, or 1 MiB of them."""
        if uri not in self:
            _check_limits(len(self._uris) + 1, self._size + len(uri))

    def add(self, uri: str) -> None:
        """Add a URI. Raises JSONRPCError if there is no room for it."""
        if uri in self:
            return
        self.check(uri)
        self._uris[uri_key(uri)] = uri
        self._size += len(uri)

    def discard(self, uri: str) -> None:
        """Remove a URI, if it is in the set."""
        subscribed = self._uris.pop(uri_key(uri), None)
        if subscribed is not None:
            self._size -= len(subscribed)


def check_filter(filter: Mapping[str, Any]) -> None:
    """Raise JSONRPCError if a filter lists more than one stream may subscribe to."""
    listed = [item for value in filter.values() if is_list(value) for item in value]
    _check_limits(len(listed), sum([len(item) for item in listed if isinstance(item, str)]))


def _check_limits(number: int, size: int) -> None:
    if number > MAX_SUBSCRIBED_RESOURCES or size > _MAX_SUBSCRIBED_BYTES:
        limits = f"{MAX_SUBSCRIBED_RESOURCES} URIs or ids, of {_MAX_SUBSCRIBED_BYTES} characters"
        raise JSONRPCError(INVALID_PARAMS, f"a client subscribes to at most {limits}")


class StreamCounts:
    """How many streams of subscriptions each client has open."""

    def __init__(self, limits: StreamLimits) -> None:
        """Create counts of 0."""
        self._limits = limits
        self._counts = ClientCounts(*limits)

    def add(self, client: Hashable) -> None:
        """Count one more of a client. Raises JSONRPCError if the client has too many."""
        if self._counts.is_full(client):
            raise JSONRPCError(
                INTERNAL_ERROR,
                f"this client has too many open streams of subscriptions: end one first; a user or a session may have "
                f"{self._limits.of_user}, an address {self._limits.of_address}",
                {"limit": "max_subscriptions", "retryAfter": _RETRY_SECONDS},
            )
        self._counts.add(client)

    def remove(self, client: Hashable) -> None:
        """Count one less of a client."""
        self._counts.remove(client)


class ListenStreams:
    """The open `listen` requests of one dispatcher; `bus` has those that are acknowledged."""

    def __init__(self, limits: StreamLimits) -> None:
        """Create an empty set of streams; `limits` are those of each client."""
        self.bus = SubscriptionBus()
        self._streams: dict[ListenStream, Hashable] = {}
        self._counts = StreamCounts(limits)

    def add(self, stream: ListenStream, client: Hashable) -> None:
        """Add a stream of a client. Raises JSONRPCError if the client has too many."""
        self._counts.add(client)
        self._streams[stream] = client

    def discard(self, stream: ListenStream) -> None:
        """Remove a stream that has ended."""
        self._counts.remove(self._streams.pop(stream))

    def end(self) -> None:
        """End all streams: their requests get their results."""
        for stream in self._streams:
            stream.end()


class ListenStream:
    """The open `listen` request of a client, which streams change notifications.

    MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/subscriptions

    Attributes:
        meta: The `_meta` of all notifications of the stream: the id of the subscription.
    """

    __slots__ = ("meta", "_channel", "_filter", "_changes", "_hides", "_ended")

    def __init__(
        self,
        channel: Channel,
        request: RequestReceived,
        filter: Mapping[str, Any],
        hides: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        """Create a stream.

        Args:
            channel: The channel of the request.
            request: The request.
            filter: The accepted part of the requested filter.
            hides: Returns True for the params of a change that a rule hides from the client.
        """
        self._channel = channel
        self._filter = filter
        self._changes = ChangeFilter(filter)
        self._hides = hides
        self._ended = LongWait()
        self.meta = {f"{META}subscriptionId": request.id}

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs of the resources that the filter lists."""
        return self._changes.uris(rows)

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True if the filter of the stream matches this change."""
        return self._changes.includes(row, params) and not self._hides(params)

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send the notification with the id of the subscription."""
        await self._channel.send_notification(row, {**params, "_meta": {**params.get("_meta", {}), **self.meta}})

    async def run(self, buses: Iterable[SubscriptionBus], lifecycle: Stateless, max_seconds: float | None) -> None:
        """Acknowledge the filter, then send notifications until `end` is called.

        Args:
            buses: What to subscribe to.
            lifecycle: The lifecycle of the protocol version, which has the acknowledgement.
            max_seconds: The maximum duration of the stream; None for no limit.
        """
        await self._channel.send_notification(
            lifecycle.acknowledged, {"notifications": self._filter, "_meta": self.meta}
        )
        for bus in buses:
            bus.subscribe(self)
        timer = None if max_seconds is None else self._ended.get_loop().call_later(max_seconds, self.end)
        try:
            await self._ended
        finally:
            for bus in buses:
                bus.unsubscribe(self)
            if timer is not None:
                timer.cancel()

    def end(self) -> None:
        """End the stream: the request gets its result."""
        if not self._ended.done():
            self._ended.set_result(None)
