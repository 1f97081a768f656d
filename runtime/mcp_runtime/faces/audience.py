"""A notification about the server goes in, and reaches every client that wants it: in its session, or on the stream it
listens on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ..errors import MCPError
from ..exchange import log
from ..lifecycle import is_declared, parse_capability_path
from ..peer import RequestReceived
from ..seams import Channel
from ..spec import META, Notification, Stateless
from ..wire import is_list, is_object
from .questions import require_client_capabilities

if TYPE_CHECKING:
    from .server import BaseServer, ServerContext

_MAX_SUBSCRIBED_RESOURCES: Final = 10_000  # Resources that one client may be told of.


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
                    log.debug("%r was not told to a client: %s", row.method, fault)


class ResourceSubscriptions:
    """The resources that the client of one session is told of."""

    def __init__(self) -> None:
        self._uris: set[str] = set()

    def __contains__(self, uri: object) -> bool:
        return uri in self._uris

    def add(self, uri: str) -> None:
        if len(self._uris) < _MAX_SUBSCRIBED_RESOURCES:
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


def matches_filter(filter: Mapping[str, Any], row: Notification, params: Mapping[str, Any]) -> bool:
    """Whether a filter names a notification: by its capability (`server.tools.listChanged` → `toolsListChanged`), or,
    where it is about a resource or one of a list, by that."""
    if row.listed is not None:
        name, key = row.listed
        return is_list(listed := filter.get(name)) and params.get(key) in listed
    if "uri" in params:
        return any(is_list(value) and params["uri"] in value for value in filter.values())
    return filter.get(filter_key(row.capability)) is True


def supported_filter(
    requested: Mapping[str, Any], capabilities: Mapping[str, Any], rows: list[Notification]
) -> dict[str, Any]:
    """The part of a filter that a server with these capabilities can honour."""
    can = {
        parse_capability_path(row.capability)[1]
        for row in rows
        if is_declared(dict(capabilities), parse_capability_path(row.capability)[1])
    }
    names = {filter_key(f"server.{'.'.join(path)}") for path in can if len(path) > 1}
    watches = any(
        row.capability and "uri" in param_names(row) and parse_capability_path(row.capability)[1] in can for row in rows
    )
    lists = {row.listed[0]: parse_capability_path(row.capability)[1] in can for row in rows if row.listed is not None}
    return {
        name: value
        for name, value in requested.items()
        if (lists.get(name, watches) if is_list(value) else value is True and name in names)
    }


def is_within_resource(uri: str, resource: str) -> bool:
    """Whether a URI is that of a resource, or of a part of it: a server may tell of a part, where the whole is watched."""
    return uri == resource or uri.startswith(resource if resource.endswith("/") else f"{resource}/")


async def accept_filter(server: BaseServer, ctx: ServerContext, request: RequestReceived) -> dict[str, Any]:
    """What a client will hear of what it asks to hear. Raises JSONRPCError where it has not declared what that needs."""
    rows = [row for row in server.revision.table("server_to_client").values() if isinstance(row, Notification)]
    chosen = supported_filter(filter_of(request.params), server.capabilities, rows)
    for row in rows:
        if row.listed is not None and (name := row.listed[0]) in chosen:
            require_client_capabilities(
                server.revision, ctx.capabilities, [f"client{row.capability.removeprefix('server')}"]
            )
            if isinstance(server.origin, SubscriptionPolicy):
                chosen[name] = await server.origin.filter_subscriptions(
                    ctx, row, chosen[name][:_MAX_SUBSCRIBED_RESOURCES]
                )
    return chosen


def param_names(row: Notification) -> frozenset[str]:
    """The properties of the params of a notification."""
    return frozenset(getattr(row.params, "model_fields", {}))


def filter_key(capability: str) -> str:
    """How a filter names the changes that need this capability: `server.tools.listChanged` → `toolsListChanged`."""
    first, *rest = parse_capability_path(capability)[1] if capability else ("",)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def filter_of(params: Any) -> dict[str, Any]:
    """The filter in the params of a request to listen."""
    found = params.model_dump().get("notifications")
    return found if is_object(found) else {}
