"""A client and what it wants to hear of go in; the changes that its server tells of come out, one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

from pydantic import BaseModel

from ..endpoint.subscription_filter import (
    filter_key,
    is_within_resource,
    param_names,
    supported_filter,
)
from ..errors import (
    ConnectionClosedError,
    ConversionError,
    HTTPStatusError,
    LocalError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
)
from ..protocol.jsonrpc import Id
from ..protocol.models import is_list, is_object, validator
from ..protocol.revision import (
    META,
    Handshake,
    Notification,
    Request,
    Revision,
    Stateless,
)
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions
from ..session.session import Session
from .cache import ClientResponseCache

_log: Final = logging.getLogger(__name__)

EventT = TypeVar("EventT", bound=BaseModel)
EventT_co = TypeVar("EventT_co", bound=BaseModel, covariant=True)
Choice: TypeAlias = tuple[Notification, type[EventT], bool | Sequence[str] | None]

_MAX_FAILURES: Final = 6  # In a row, to listen again after a connection broke.
_MAX_QUEUED: Final = 10_000  # Resources whose changes nobody has taken yet.
_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A subscription lasts until it is closed.
_TRANSIENT_STATUSES: Final = (408, 425, 429, 500, 502, 503, 504)  # Statuses after which a second try may do.
_SUBSCRIPTION: Final = f"{META}subscriptionId"


class SubscriptionManager:
    """What a client needs to listen: how it asks, in the words of the revision that is spoken, and who listens.

    `cache` forgets what has changed; `inward` gives the params of a notification in the words of the client,
    None where it has no such thing."""

    def __init__(
        self,
        revision: Revision,
        require_session: Callable[[], Session],
        send_request: Callable[[Request[Any], Params, RequestOptions | None], Awaitable[Any]],
        build_params: Callable[[Request[Any], Params, RequestOptions], Any],
        cache: ClientResponseCache | None,
        to_handler: Callable[[Notification, dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> None:
        self.revision = revision
        self.require_session = require_session
        self.send_request = send_request
        self.build_params = build_params
        self.cache = cache
        self.to_handler = to_handler
        self.listeners: dict[NotificationListener, None] = {}
        self.subscribed_uris: Counter[str] = Counter()

    def dispatch(self, row: Notification, params: BaseModel | None) -> None:
        """Tell all who listen."""
        if self.cache is not None:
            self.cache.handle_change(row, getattr(params, "uri", None))
        if self.listeners:
            said = {} if params is None else params.model_dump()
            for each in list(self.listeners):
                each.notify(row, said)


class NotificationListener(Protocol):
    """Somebody who listens."""

    def notify(self, row: Notification, params: dict[str, Any]) -> None: ...


class HasSubscriptions(Protocol):
    """A client, as far as listening goes."""

    @property
    def subscriptions(self) -> SubscriptionManager: ...


class Subscription(Generic[EventT]):
    """Changes that a server tells of, from `async with` on; `async for` gives each as the notification it is.

    What changes again before it was taken is given once. `honoured` says what the server agreed to tell. A connection
    over HTTP that breaks is made again; then each thing listened to is given once, for what was missed meanwhile. The
    iteration ends when the server ends it in an orderly way; it raises ConnectionClosedError where the conversation ended.
    """

    def __init__(
        self, client: HasSubscriptions, choices: Sequence[Choice[EventT]], options: RequestOptions | None = None
    ) -> None:
        self._client = client
        self._options = options or DEFAULT_OPTIONS
        self._notification_types = {row.method: kind for row, kind, _ in choices}
        self._requested = _requested_changes(choices)
        self.acknowledged: Mapping[str, Any] = {}
        """What the server agreed to tell, by the keywords of `listen`: true, or URIs."""
        self._filter: Mapping[str, Any] = {}
        self._id: Id | None = None
        self._queue: dict[tuple[str, str | None], EventT] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: MCPError | None = None

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise LocalError("this was listened to already; call `listen` again")
        hearing = self._manager = self._client.subscriptions
        session = hearing.require_session()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lifecycle = session.connection.revision.lifecycle
        way = (
            self._listen(session, lifecycle)
            if isinstance(lifecycle, Stateless)
            else self._subscribe_in_session(session, lifecycle)
        )
        hearing.listeners[self] = None
        task = self._task = asyncio.create_task(way)
        task.add_done_callback(lambda _: self._wake.set())
        try:
            await asyncio.wait([self._ready, task], timeout=self._options.timeout, return_when="FIRST_COMPLETED")
            if not self._ready.done():
                if task.done():
                    task.result()
                raise ConnectionClosedError(f"{session.connection.revision.id}: listening was not acknowledged in time")
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
                raise LocalError("listen with `async with`")
            if self._task.done():
                fault = self._error if self._task.cancelled() else self._task.exception()
                if fault is not None:
                    raise fault
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._queue.pop(next(iter(self._queue)))

    async def close(self) -> None:
        """Listen no longer; what was not taken yet can still be."""
        if self._task is not None:
            self._manager.listeners.pop(self, None)
            self._task.cancel()
            await asyncio.wait([self._task])

    # ---- hearing ----------------------------------------------------------------------------------------------------

    def notify(self, row: Notification, params: dict[str, Any]) -> None:
        """Take note of a notification, if it is for this one."""
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
                    _log.warning("%r came before listening was acknowledged", row.method)
                return
        uri = params.get("uri")
        if _is_subscribed(self._filter, row, uri):
            self._enqueue(row, params, uri)

    def _enqueue(self, row: Notification, params: dict[str, Any], uri: str | None = None) -> None:
        kind, hearing = self._notification_types.get(row.method), self._manager
        try:
            inside = params if hearing.to_handler is None else hearing.to_handler(row, params)
        except ConversionError as fault:
            _log.debug("a change is not told: %s", fault)
            return
        if kind is None or inside is None:
            return
        if len(self._queue) >= _MAX_QUEUED and self._task is not None:
            self._error = RemoteError(f"{row.method!r}: more than {_MAX_QUEUED} changes that nobody takes")
            self._task.cancel()
            return
        said = {"jsonrpc": "2.0", "method": row.method, "params": inside}
        known = {field.alias or name for name, field in kind.model_fields.items()}
        self._queue[row.method, uri] = validator(kind)({name: each for name, each in said.items() if name in known})
        self._wake.set()

    def _accept_filter(self, filter: Mapping[str, Any]) -> None:
        """Note what the server agreed to tell."""
        self._filter = filter
        names = {self._filter_key(row): row.name.removeprefix("on_") for row, _ in self._rows()}
        self.acknowledged = {names[key]: value for key, value in filter.items() if key in names}
        if not self._ready.done():
            self._ready.set_result(None)

    def _rows(self) -> list[tuple[Notification, bool | list[str]]]:
        """What is wanted, in the words of the revision that is spoken."""
        table = self._manager.revision.table("server_to_client")
        found = ((table.get(method), wanted) for method, wanted in self._requested.items())
        return [(row, wanted) for row, wanted in found if isinstance(row, Notification)]

    def _filter_key(self, row: Notification) -> str:
        """The name of a kind of change in a filter: made from its capability, or, for changes of resources that are
        named, the one property of the filter that is not."""
        lifecycle = self._manager.revision.lifecycle
        if "uri" not in param_names(row) or not isinstance(lifecycle, Stateless):
            return filter_key(row.capability)
        shape: Any = lifecycle.listen.params.model_fields["notifications"].annotation
        table = self._manager.revision.table("server_to_client").values()
        flags = {filter_key(each.capability) for each in table if each.capability}
        names: list[str] = [field.alias or name for name, field in shape.model_fields.items()]
        return next(name for name in names if name not in flags)

    # ---- by a request that stays open ----------------------------------------------------------------------------------

    async def _listen(self, session: Session, lifecycle: Stateless) -> None:
        """Ask to listen, again where the connection breaks, until the server says that this is the end."""
        asked = {self._filter_key(row): wanted for row, wanted in self._rows()}
        failures = 0
        while True:
            self._id, self._filter = session.connection.next_id(), {}
            params = self._manager.build_params(lifecycle.listen, {"notifications": asked}, self._options)
            try:
                await session.send_request(lifecycle.listen, params, _NO_TIMEOUT, request_id=self._id)
                return
            except (ConnectionClosedError, HTTPStatusError, RemoteJSONRPCError) as fault:
                failures = 0 if self._filter else failures + 1
                if session.ended or not self._ready.done() or failures > _MAX_FAILURES or not _is_transient(fault):
                    raise
                _log.warning("listening again: %s", fault)
            from ..http.client_rules import (
                reconnect_delay,  # Not loaded where nothing breaks.
            )

            await asyncio.sleep(reconnect_delay(failures, None, random()))

    def _handle_acknowledgement(self, params: dict[str, Any]) -> None:
        again, rows = self._ready.done(), self._rows()
        agreed = params.get("notifications")
        granted = agreed if is_object(agreed) else {}
        asked = {self._filter_key(row): wanted for row, wanted in rows}
        self._accept_filter(
            {name: _intersection(asked[name], value) for name, value in granted.items() if asked.get(name) and value}
        )
        if again:  # Nobody knows what was missed meanwhile.
            for row, _ in rows:
                value = self._filter.get(self._filter_key(row))
                for uri in value if is_list(value) else [None] if value else []:
                    said = {} if uri is None else {"uri": uri}
                    if self._manager.cache is not None:
                        self._manager.cache.handle_change(row, uri)
                    self._enqueue(row, said, uri)

    # ---- by what a session tells anyway ---------------------------------------------------------------------------------

    async def _subscribe_in_session(self, session: Session, lifecycle: Handshake) -> None:
        """Subscribe to each resource, and hear what the session tells until it ends."""
        table = self._manager.revision.table("server_to_client").values()
        notifications = [row for row in table if isinstance(row, Notification)]
        wanted = {self._filter_key(row): wanted for row, wanted in self._rows()}
        chosen = self._filter = supported_filter(wanted, session.connection.remote_capabilities, notifications)
        kept: list[str] = []
        try:
            for name, value in list(chosen.items()):
                if is_list(value):
                    chosen[name] = [uri for uri in value if await self._subscribe(lifecycle, uri, kept)]
            self._accept_filter(chosen)
            await asyncio.shield(session.closed)
        finally:
            if not session.ended:
                await self._unsubscribe(lifecycle, kept)
        raise ConnectionClosedError(session.transport.close_reason)

    async def _subscribe(self, lifecycle: Handshake, uri: str, subscribed: list[str]) -> bool:
        """Whether the server tells of this resource from now on."""
        if lifecycle.subscribe is None:
            return False
        watched = self._manager.subscribed_uris
        watched[uri] += 1
        subscribed.append(uri)
        try:
            if watched[uri] == 1:
                await self._manager.send_request(lifecycle.subscribe, {"uri": uri}, self._options)
        except RemoteJSONRPCError as refused:
            _log.debug("%r is not watched: %s", uri, refused)
            subscribed.remove(uri)
            watched[uri] -= 1
            return False
        return True

    async def _unsubscribe(self, lifecycle: Handshake, subscribed: list[str]) -> None:
        watched = self._manager.subscribed_uris
        for uri in subscribed:
            watched[uri] -= 1
            if not watched[uri] and lifecycle.unsubscribe is not None:
                with suppress(MCPError):
                    await self._manager.send_request(lifecycle.unsubscribe, {"uri": uri}, self._options)


def _requested_changes(choices: Sequence[Choice[Any]]) -> dict[str, bool | list[str]]:
    """What was chosen, by method; every list, where nothing was. Raises LocalError for one URI instead of a list."""
    every = not any(wanted for _, _, wanted in choices)
    found: dict[str, bool | list[str]] = {}
    for row, _, wanted in choices:
        if isinstance(wanted, str):
            raise LocalError(f"{row.method!r}: a list of URIs is needed, not {wanted[:200]!r}")
        if wanted is True or (every and "uri" not in param_names(row)):
            found[row.method] = True
        elif wanted:
            found[row.method] = list(dict.fromkeys(wanted))
    return found


def _is_subscribed(filter: Mapping[str, Any], row: Notification, uri: str | None) -> bool:
    """Whether a change is one of those chosen; what lies below a resource counts as the resource."""
    if uri is None:
        return filter.get(filter_key(row.capability)) is True
    return any(is_list(value) and any(is_within_resource(uri, each) for each in value) for value in filter.values())


def _intersection(requested: bool | list[str], granted: Any) -> Any:
    return [uri for uri in requested if uri in granted] if is_list(requested) and is_list(granted) else granted


def _is_transient(error: MCPError) -> bool:
    """Whether what went wrong may be better in a moment."""
    return isinstance(error, ConnectionClosedError) or getattr(error, "status", None) in _TRANSIENT_STATUSES
