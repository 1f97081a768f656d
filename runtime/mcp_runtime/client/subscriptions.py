"""Subscriptions of a client: an async iterator over the changes that a server notifies about.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/subscriptions
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

from pydantic import BaseModel

from ..aio import forks
from ..endpoint.checks import filter_key, is_within_resource, param_names, supported_filter
from ..errors import (
    ConnectionClosedError,
    ConversionError,
    HTTPStatusError,
    LocalError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
)
from ..http.client_rules import reconnect_delay
from ..protocol.jsonrpc import Id
from ..protocol.lifecycle import Capabilities
from ..protocol.models import is_list, is_object, validator
from ..protocol.revision import META, Handshake, Notification, Request, Revision, Stateless
from ..protocol.uris import uri_key
from ..session.interfaces import closed_error
from ..session.requests import Params, RequestOptions, with_timeout_of
from ..session.session import Session

_log: Final = logging.getLogger(__name__)
EventT = TypeVar("EventT", bound=BaseModel)
Choice: TypeAlias = tuple[Notification, type[EventT], bool | Sequence[str] | None]

MAX_FAILURES: Final = 6  # Failed reconnections in a row, after which a subscription ends with the error.
_MAX_QUEUED: Final = 10_000  # Changes that are not read yet.
_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # The request to listen lasts until the subscription is closed.
_TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses after which a retry may succeed.
_SUBSCRIPTION: Final = f"{META}subscriptionId"

# The subscription manager of a client: passes change notifications to the open subscriptions and to the cache.


class ResultCache(Protocol):
    """The results that a client has cached."""

    async def request(
        self,
        revision: str,
        row: Request[Any],
        params: Params,
        options: RequestOptions | None,
        send: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return the cached result of a request, or else send it and cache its result if the server allows it."""
        ...

    def handle_change(self, row: Notification, uri: str | None) -> None:
        """Invalidate the results that a change notification is about."""


class ClientRoots(Protocol):
    """What `roots=` of a client takes, such as `FileRoots`."""

    async def current_uris(self) -> list[str]:
        """Return the URIs of the roots."""
        ...

    def add_handler(self, handlers: dict[str, Any], revision: Revision) -> None:
        """Add the handler that lists these roots. Raises LocalError if the client has one already."""

    def capabilities(self, revision: Revision) -> Capabilities:
        """Return the capabilities that a client of this protocol version declares to notify about changes."""
        ...

    def list_changed_row(self, revision: Revision) -> Notification | None:
        """Return the notification of a protocol version that roots have changed; None if it has none."""
        ...

    async def watch(self, uris: list[str], closed: asyncio.Future[None], notify: Callable[[], Awaitable[None]]) -> None:
        """Notify the server of each change until the connection is closed; `uris` are the roots before."""


class SubscriptionManager:
    """The open subscriptions of a client, and the functions that they use.

    Attributes:
        listeners: The open subscriptions.
        subscribed_uris: How many subscriptions a resource has, by its URI.
    """

    def __init__(
        self,
        revision: Revision,
        require_session: Callable[[], Session],
        send_request: Callable[[Request[Any], Params, RequestOptions | None], Awaitable[Any]],
        build_params: Callable[[Request[Any], Params, RequestOptions], Any],
        cache: ResultCache | None,
        to_handler: Callable[[Notification, dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> None:
        """Create a manager without subscriptions.

        Args:
            revision: The protocol version of the connection.
            require_session: A function that returns the session, or raises ConnectionClosedError.
            send_request: A function that sends a request and returns its result.
            build_params: A function that adds the metadata of a request to its params.
            cache: The cache whose results change notifications invalidate; None for no cache.
            to_handler: A function that converts the params of a notification to the protocol version of the client; it
                returns None if that version does not have the notification. By default params are not converted.
        """
        self.revision = revision
        self.require_session = require_session
        self.send_request = send_request
        self.build_params = build_params
        self.cache = cache
        self.to_handler = to_handler
        self.listeners: dict[Subscription[Any], None] = {}
        self.subscribed_uris: Counter[str] = Counter()

    def dispatch(self, row: Notification, params: BaseModel | None) -> None:
        """Pass a notification to the cache and to all open subscriptions."""
        if self.cache is not None:
            self.cache.handle_change(row, getattr(params, "uri", None))
        if self.listeners:
            fields = {} if params is None else params.model_dump()
            for listener in list(self.listeners):
                listener.notify(row, fields)


class HasSubscriptions(Protocol):
    """A client with a subscription manager."""

    @property
    def _subscriptions(self) -> SubscriptionManager: ...

    @property
    def _options(self) -> RequestOptions: ...


class Subscription(Generic[EventT]):
    """Change notifications of a server: subscribe with `async with`, and read each with `async for`.

    Repeated notifications of the same change are coalesced until the first one is read. A stateless subscription
    reconnects when its connection breaks; then each subscribed change is reported once, because notifications may have
    been missed. The iteration ends when the server ends the subscription, and raises ConnectionClosedError when the
    connection is closed.

    Attributes:
        acknowledged: The changes that the server has agreed to notify about, by keyword of `listen`: true, or URIs.
    """

    def __init__(
        self, client: HasSubscriptions, choices: Sequence[Choice[EventT]], options: RequestOptions | None = None
    ) -> None:
        """Create a subscription. Use the `listen` method of the client.

        Args:
            client: The client.
            choices: For each notification: its row, its type, and True or the URIs to subscribe to; None for no
                subscription. Without any, the subscription is to all lists.
            options: `timeout` is the seconds to wait for the acknowledgement, and `meta` is sent with the request.

        Raises LocalError for a URI where a list of URIs is required.
        """
        self._client = client
        self._options = with_timeout_of(options, client._options)  # pyright: ignore[reportPrivateUsage]
        self._notification_types = {row.method: notification_type for row, notification_type, _ in choices}
        self._requested = _requested_changes(choices)
        self.acknowledged: Mapping[str, Any] = {}
        self._filter: Mapping[str, Any] = {}
        self._id: Id | None = None
        self._queue: dict[tuple[str, str | None], EventT] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: MCPError | None = None

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise LocalError("the subscription was opened already: call `listen` again for another one")
        manager = self._manager = self._client._subscriptions  # pyright: ignore[reportPrivateUsage]
        session = manager.require_session()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lifecycle = session.connection.revision.lifecycle
        listen: Any = self._listen if isinstance(lifecycle, Stateless) else self._subscribe_in_session
        manager.listeners[self] = None
        task = self._task = asyncio.create_task(listen(session, lifecycle))
        task.add_done_callback(lambda _: self._wake.set())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # Perhaps nobody reads it.
        try:
            await asyncio.wait([self._ready, task], timeout=self._options.timeout, return_when="FIRST_COMPLETED")
            if not self._ready.done():
                if task.done():
                    task.result()
                raise ConnectionClosedError(
                    f"{session.connection.revision.id}: the server did not acknowledge the subscription in time"
                )
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventT:
        while not self._queue:
            if self._task is None:
                raise LocalError("the subscription is not open: use `async with`")
            if self._task.done():
                error = self._error if self._task.cancelled() else self._task.exception()
                raise StopAsyncIteration if error is None else error
            if self._manager.require_session().forks != forks.count:
                raise ConnectionClosedError(forks.OTHER_PROCESS)
            self._wake.clear()
            await self._wake.wait()
        return self._queue.pop(next(iter(self._queue)))

    async def close(self) -> None:
        """End the subscription. Notifications that are not read yet can still be read."""
        if self._task is not None:
            self._manager.listeners.pop(self, None)
            self._task.cancel()
            await asyncio.wait([self._task])

    # ---- notifications ----------------------------------------------------------------------------------------------

    def notify(self, row: Notification, params: dict[str, Any]) -> None:
        """Queue a notification, if it belongs to this subscription."""
        if self._id is not None:
            meta = params.get("_meta")
            id = meta.get(_SUBSCRIPTION) if is_object(meta) else None
            if type(id) is not type(self._id) or id != self._id:
                return
            if not self._filter:
                lifecycle = self._manager.revision.lifecycle
                if isinstance(lifecycle, Stateless) and row.method == lifecycle.acknowledged.method:
                    self._handle_acknowledgement(params)
                else:
                    _log.warning("%r came before the acknowledgement of the subscription, and is ignored", row.method)
                return
        uri = params.get("uri")
        if _is_subscribed(self._filter, row, uri):
            self._enqueue(row, params, uri)

    def _enqueue(self, row: Notification, params: dict[str, Any], uri: str | None = None) -> None:
        notification_type, manager = self._notification_types.get(row.method), self._manager
        try:
            converted = params if manager.to_handler is None else manager.to_handler(row, params)
        except ConversionError as error:
            _log.debug("a change notification is dropped: %s", error)
            return
        if notification_type is None or converted is None:
            return
        if len(self._queue) >= _MAX_QUEUED and self._task is not None:
            self._error = RemoteError(f"{row.method!r}: more than {_MAX_QUEUED} changes are not read yet")
            self._task.cancel()
            return
        message = {"jsonrpc": "2.0", "method": row.method, "params": converted}
        names = {field.alias or name for name, field in notification_type.__pydantic_fields__.items()}
        fields = {name: value for name, value in message.items() if name in names}
        self._queue[row.method, uri] = validator(notification_type)(fields)
        self._wake.set()

    def _accept_filter(self, filter: Mapping[str, Any]) -> None:
        """Store the acknowledged filter; the subscription is open from now on."""
        self._filter = filter
        names = {self._filter_key(row): row.name.removeprefix("on_") for row, _ in self._rows()}
        self.acknowledged = {names[key]: value for key, value in filter.items() if key in names}
        if not self._ready.done():
            self._ready.set_result(None)

    def _rows(self) -> list[tuple[Notification, bool | list[str]]]:
        """Return the requested changes, by the rows of the connection's protocol version."""
        table = self._manager.revision.table("server_to_client")
        rows = ((table.get(method), requested) for method, requested in self._requested.items())
        return [(row, requested) for row, requested in rows if isinstance(row, Notification)]

    def _requested_filter(self) -> dict[str, bool | list[str]]:
        return {self._filter_key(row): requested for row, requested in self._rows()}

    def _filter_key(self, row: Notification) -> str:
        """Return the property of the filter for a notification. It is derived from the capability; for notifications
        about a resource, it is the one property that belongs to no capability."""
        lifecycle = self._manager.revision.lifecycle
        if "uri" not in param_names(row) or not isinstance(lifecycle, Stateless):
            return filter_key(row.capability)
        filter_type: Any = lifecycle.listen.params.__pydantic_fields__["notifications"].annotation
        table = self._manager.revision.table("server_to_client").values()
        flags = {filter_key(message.capability) for message in table if message.capability}
        names: list[str] = [field.alias or name for name, field in filter_type.__pydantic_fields__.items()]
        return next(name for name in names if name not in flags)

    # ---- stateless lifecycle: a request that stays open --------------------------------------------------------------

    async def _listen(self, session: Session, lifecycle: Stateless) -> None:
        """Send the request to listen, and send it again if the connection breaks, until it gets its result."""
        requested = self._requested_filter()
        failures = 0
        while True:
            self._id = session.connection.next_id()
            self._filter = {}
            params = self._manager.build_params(lifecycle.listen, {"notifications": requested}, self._options)
            try:
                await session.send_request(lifecycle.listen, params, _NO_TIMEOUT, request_id=self._id)
                return
            except (ConnectionClosedError, HTTPStatusError, RemoteJSONRPCError) as error:
                failures = 0 if self._filter else failures + 1
                if session.ended or not self._ready.done() or failures > MAX_FAILURES or not is_transient(error):
                    raise
                _log.warning("the connection of a subscription broke, and is opened again: %s", error)
            await asyncio.sleep(reconnect_delay(failures, None, random()))

    def _handle_acknowledgement(self, params: dict[str, Any]) -> None:
        is_reconnect = self._ready.done()
        notifications, requested = params.get("notifications"), self._requested_filter()
        acknowledged = notifications if is_object(notifications) else {}
        self._accept_filter(
            {
                name: _intersection(requested[name], value)
                for name, value in acknowledged.items()
                if requested.get(name) and value
            }
        )
        if is_reconnect:  # Notifications may have been missed: report every subscribed change.
            for row, _ in self._rows():
                value = self._filter.get(self._filter_key(row))
                for uri in value if is_list(value) else [None] if value else []:
                    if self._manager.cache is not None:
                        self._manager.cache.handle_change(row, uri)
                    self._enqueue(row, {} if uri is None else {"uri": uri}, uri)

    # ---- handshake lifecycle: notifications of the session -----------------------------------------------------------

    async def _subscribe_in_session(self, session: Session, lifecycle: Handshake) -> None:
        """Subscribe to each resource, and receive the notifications of the session until it is closed."""
        table = self._manager.revision.table("server_to_client").values()
        notifications = [row for row in table if isinstance(row, Notification)]
        remote_capabilities = session.connection.remote_capabilities
        accepted = self._filter = supported_filter(self._requested_filter(), remote_capabilities, notifications)
        subscribed: list[str] = []
        try:
            for name, value in list(accepted.items()):
                if is_list(value):
                    accepted[name] = [uri for uri in value if await self._subscribe(lifecycle, uri, subscribed)]
            self._accept_filter(accepted)
            await asyncio.shield(session.closed)
        finally:
            if not session.ended:
                await self._unsubscribe(lifecycle, subscribed)
        raise closed_error(session.transport)

    async def _subscribe(self, lifecycle: Handshake, uri: str, subscribed: list[str]) -> bool:
        """Subscribe to a resource and return True; return False if the server rejects it."""
        if lifecycle.subscribe is None:
            return False
        counts = self._manager.subscribed_uris
        counts[key := uri_key(uri)] += 1
        subscribed.append(uri)
        try:
            if counts[key] == 1:
                await self._manager.send_request(lifecycle.subscribe, {"uri": uri}, self._options)
        except RemoteJSONRPCError as error:
            _log.debug("the server rejects the subscription to %r: %s", uri, error)
            subscribed.remove(uri)
            counts[key] -= 1
            return False
        return True

    async def _unsubscribe(self, lifecycle: Handshake, subscribed: list[str]) -> None:
        counts = self._manager.subscribed_uris
        for uri in subscribed:
            counts[key := uri_key(uri)] -= 1
            if not counts[key] and lifecycle.unsubscribe is not None:
                with suppress(MCPError):
                    await self._manager.send_request(lifecycle.unsubscribe, {"uri": uri}, self._options)


def _requested_changes(choices: Sequence[Choice[Any]]) -> dict[str, bool | list[str]]:
    """Return the requested changes by method: all lists if nothing is requested.

    Raises LocalError for a URI where a list of URIs is required.
    """
    is_default = not any(value for _, _, value in choices)
    requested: dict[str, bool | list[str]] = {}
    for row, _, value in choices:
        if isinstance(value, str):
            raise LocalError(f"{row.method!r}: pass a list of URIs, not {value[:200]!r}")
        if value is True or (is_default and "uri" not in param_names(row)):
            requested[row.method] = True
        elif value:
            requested[row.method] = list(dict.fromkeys(value))
    return requested


def _is_subscribed(filter: Mapping[str, Any], row: Notification, uri: str | None) -> bool:
    """Return True if a filter matches a change; sub-resources of a subscribed resource match as well."""
    if uri is None:
        return filter.get(filter_key(row.capability)) is True
    return any(is_list(value) and any(is_within_resource(uri, item) for item in value) for value in filter.values())


def _intersection(requested: bool | list[str], granted: Any) -> Any:
    if not is_list(requested) or not is_list(granted):
        return granted
    keys = {uri_key(uri) for uri in granted if isinstance(uri, str)}
    return [uri for uri in requested if uri_key(uri) in keys]


def is_transient(error: MCPError) -> bool:
    """Return True for errors after which a retry may succeed."""
    return isinstance(error, ConnectionClosedError) or getattr(error, "status", None) in _TRANSIENT_STATUSES
