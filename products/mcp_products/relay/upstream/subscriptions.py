"""What one connection asks its upstream to notify about: changes, and log messages. All that share it share that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import random
from typing import Any, Final, Protocol

from mcp_products.common.shared_works import SharedWorks
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.client.subscriptions import MAX_FAILURES, is_transient
from mcp_runtime.endpoint.checks import filter_key
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError
from mcp_runtime.http.client_rules import reconnect_delay
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from mcp_runtime.protocol.lifecycle import is_declared, parse_capability_path
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.revision import Notification, Stateless
from mcp_runtime.protocol.uris import uri_key

from .opening import OpenUpstream
from .raw import FROM_SERVER
from .translation import Translation

_log: Final = logging.getLogger("mcp_runtime.relay.upstream.subscriptions")

_SECONDS: Final = 30.0  # Seconds that an upstream may take to subscribe, to unsubscribe, and to set its level.
_URIS: Final = "resourceSubscriptions"  # The property of the filter with the URIs of resources.

Notify = Callable[[str, dict[str, Any]], Awaitable[None]]
Begin = Callable[[str], Awaitable[None]]


class Asking(Protocol):
    """The connection, as far as subscriptions use it."""

    upstream: OpenUpstream
    translation: Translation

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request, and return its result. Raises JSONRPCError."""
        ...

    async def listen(self, method: str, params: dict[str, Any], notify: Notify) -> Any:
        """Send a request to listen, and wait for its end. Raises JSONRPCError."""
        ...


# ---- resources that several want -------------------------------------------------------------------------------------


class _Wanted:
    """A resource that is subscribed to, or about to be, and how many want that."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.number = 0
        self.beginning: SharedWork[None] = SharedWork("the subscription")
        self.is_begun = False


class WantedResources:
    """Resources that several clients want: each is subscribed to once, in whatever spelling.

    One begins in work that all share which want it at the same time: a client that leaves meanwhile ends it only if no
    other wants it.
    """

    def __init__(self, begin: Begin, end: Begin) -> None:
        """Create a set of no resources; `begin` subscribes to a URI, or raises JSONRPCError, and `end` ends that."""
        self._begin = begin
        self._end = end
        self._wanted: dict[str, _Wanted] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}

    @property
    def uris(self) -> list[str]:
        """The resources that are wanted."""
        return [wanted.uri for wanted in self._wanted.values()]

    async def add(self, uri: str) -> None:
        """Want a resource once more. Raises JSONRPCError if the upstream refuses that."""
        wanted = self._wanted.setdefault(uri_key(uri), _Wanted(uri))
        wanted.number += 1
        try:
            if not wanted.is_begun:
                await wanted.beginning.run(lambda: self._begin_bounded(wanted))
        except ConnectionClosedError as error:
            self._leave(wanted)
            raise JSONRPCError(INTERNAL_ERROR, f"the subscription to {uri!r} was ended") from error
        except BaseException:
            self._leave(wanted)
            raise

    async def remove(self, uri: str) -> None:
        """Want a resource once less, and wait until its subscription has ended if nobody wants it."""
        wanted = self._wanted.get(uri_key(uri))
        if wanted is not None and (task := self._leave(wanted)) is not None:
            await asyncio.wait([task])

    def clear(self) -> None:
        """Begin to end all subscriptions."""
        for wanted in list(self._wanted.values()):
            wanted.number = 1
            self._leave(wanted)

    async def close(self) -> None:
        """Forget all resources, and end what waits for the upstream."""
        beginning = [wanted.beginning for wanted in self._wanted.values()]
        self._wanted.clear()
        ending = list(self._ending.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*(work.close() for work in beginning), *ending, return_exceptions=True)

    def _leave(self, wanted: _Wanted) -> asyncio.Task[None] | None:
        """Note that one less wants a resource; return the task that ends its subscription."""
        key = uri_key(wanted.uri)
        if self._wanted.get(key) is not wanted:
            return None  # It has ended meanwhile.
        wanted.number -= 1
        if wanted.number:
            return None
        del self._wanted[key]
        if not (wanted.is_begun or wanted.beginning.is_running):
            return None
        task = asyncio.get_running_loop().create_task(self._end_bounded(wanted))
        self._ending[key] = task
        task.add_done_callback(lambda _: self._forget(key, task))
        return task

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        if self._ending.get(key) is task:
            del self._ending[key]

    async def _begin_bounded(self, wanted: _Wanted) -> None:
        if (ending := self._ending.get(uri_key(wanted.uri))) is not None:
            await asyncio.wait([ending])  # Its end must not reach the upstream after the new beginning.
        try:
            async with asyncio.timeout(_SECONDS):
                await self._begin(wanted.uri)
        except TimeoutError:
            text = f"the subscription to {wanted.uri!r} was not answered within {_SECONDS:g} s"
            raise JSONRPCError(INTERNAL_ERROR, text) from None
        wanted.is_begun = True

    async def _end_bounded(self, wanted: _Wanted) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await wanted.beginning.close()
                await self._end(wanted.uri)
        except (TimeoutError, MCPError) as error:
            _log.debug("the subscription to %r was not ended: %s", wanted.uri, error)


# ---- at one upstream, in either lifecycle ----------------------------------------------------------------------------


class Subscriptions:
    """The subscriptions of one connection.

    An upstream with sessions notifies of its lists unasked, and is asked for each resource. A stateless one has one
    open request to listen, which is replaced when another resource is wanted; it is sent again if its connection
    breaks.
    """

    notify: Notify | None = None
    """Gets the changes of a stateless upstream; those of others come as notifications of the session."""

    def __init__(self, connection: Asking) -> None:
        """Create subscriptions to nothing, of a connection that need not be open yet."""
        self._connection = connection
        self.resources = WantedResources(self._begin, self._end)
        self._listening: _ListenRequest | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Begin to listen to the lists of a stateless upstream. Raises JSONRPCError if it refuses that."""
        await self._replace()

    async def close(self) -> None:
        """End all subscriptions."""
        await self.resources.close()
        listening = self._listening
        self._listening = None
        if listening is not None:
            await listening.end()

    async def _begin(self, uri: str) -> None:
        up, capabilities = self._connection.translation.up, self._connection.upstream.capabilities
        subscribe = getattr(up.lifecycle, "subscribe", None)
        if isinstance(up.lifecycle, Stateless):
            await self._replace()
            if self._listening is not None and self._listening.accepts(uri):
                return
        elif subscribe is not None and is_declared(capabilities, parse_capability_path(subscribe.capability)[1]):
            await self._connection.request(subscribe.method, {"uri": uri})
            return
        failed = self._connection.upstream.names.failed
        raise JSONRPCError(INVALID_REQUEST, f"{failed} does not allow to subscribe to {uri!r}")

    async def _end(self, uri: str) -> None:
        lifecycle = self._connection.translation.up.lifecycle
        if isinstance(lifecycle, Stateless):
            await self._replace()
        elif lifecycle.unsubscribe is not None:
            await self._connection.request(lifecycle.unsubscribe.method, {"uri": uri})

    async def _replace(self) -> None:
        """Listen with the present filter, and end the previous request once the new one is acknowledged."""
        up = self._connection.translation.up
        if not isinstance(up.lifecycle, Stateless) or self.notify is None:
            return
        async with self._turn:  # For a bounded time: see `_ListenRequest.begin`.
            previous, filter = self._listening, self._filter()
            if filter == (None if previous is None or not previous.is_open else previous.filter):
                return
            if filter:
                listening = _ListenRequest(self._connection, up.lifecycle, filter, self.notify)
                await listening.begin()
                self._listening = listening
            else:
                self._listening = None
            if previous is not None:
                await previous.end()

    def _filter(self) -> dict[str, Any] | None:
        capabilities = self._connection.upstream.capabilities
        rows = [row for row in self._connection.translation.up.table(FROM_SERVER).values()]
        flags: dict[str, Any] = {}
        for row in rows:
            path = parse_capability_path(row.capability)[1] if row.capability else ()
            is_list_changed = isinstance(row, Notification) and len(path) > 1 and path[-1] == "listChanged"
            if is_list_changed and is_declared(capabilities, path):
                flags[filter_key(row.capability)] = True
        uris = self.resources.uris
        return ({**flags, _URIS: uris} if uris else flags) or None


class _ListenRequest:
    """A request to listen to a stateless upstream, with one filter."""

    def __init__(self, connection: Asking, lifecycle: Stateless, filter: dict[str, Any], notify: Notify) -> None:
        self.filter = filter
        self._connection = connection
        self._lifecycle = lifecycle
        self._notify = notify
        self._acknowledged: dict[str, Any] | None = None
        self._has_begun = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    @property
    def is_open(self) -> bool:
        return self._task is not None and not self._task.done()

    def accepts(self, uri: str) -> bool:
        """Return True if the upstream has agreed to notify of a resource."""
        accepted = (self._acknowledged or {}).get(_URIS)
        keys = {uri_key(item) for item in accepted if isinstance(item, str)} if is_list(accepted) else set[str]()
        return self.is_open and uri_key(uri) in keys

    async def begin(self) -> None:
        """Send the request, and wait for its acknowledgement. Raises JSONRPCError."""
        task = self._task = asyncio.get_running_loop().create_task(self._run())
        waiting = asyncio.ensure_future(self._has_begun.wait())
        try:
            await asyncio.wait([task, waiting], timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            raise
        finally:
            waiting.cancel()
        if self._has_begun.is_set():
            return
        if not task.done():
            task.cancel()
            names = self._connection.upstream.names
            raise JSONRPCError(INTERNAL_ERROR, f"{names.failed} did not acknowledge the subscription in time")
        task.result()  # It raises why there is none; a result says that the upstream listens to nothing.

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                _log.debug("a subscription had ended: %s", error)

    async def _run(self) -> None:
        """Send the request, and send it again if its connection breaks, until the upstream ends it."""
        failures = 0
        params = {"notifications": self.filter, "_meta": self._connection.upstream.request_meta}
        while True:
            self._acknowledged = None
            try:
                await self._connection.listen(self._lifecycle.listen.method, params, self._received)
                return
            except JSONRPCError as error:
                failures = 0 if self._acknowledged is not None else failures + 1
                cause = error.__cause__
                may_last = self._has_begun.is_set() and isinstance(cause, MCPError) and is_transient(cause)
                if not may_last or failures > MAX_FAILURES or self._connection.upstream.session.ended:
                    raise
                _log.warning("the connection of a subscription broke, and is opened again: %s", error)
            await asyncio.sleep(reconnect_delay(failures, None, random()))

    async def _received(self, method: str, params: dict[str, Any]) -> None:
        if method != self._lifecycle.acknowledged.method:
            return await self._notify(method, params)
        accepted, has_begun = params.get("notifications"), self._has_begun.is_set()
        self._acknowledged = accepted if is_object(accepted) else {}
        self._has_begun.set()
        if has_begun:  # Notifications may have been missed: each change is reported once.
            for row in self._connection.translation.up.table(FROM_SERVER).values():
                if isinstance(row, Notification) and self._acknowledged.get(filter_key(row.capability)) is True:
                    await self._notify(row.method, {})
                elif row.name == "on_resource_updated":
                    for uri in self._acknowledged.get(_URIS) or ():
                        await self._notify(row.method, {"uri": uri})


# ---- log messages ----------------------------------------------------------------------------------------------------


class LogLevel:
    """The minimum level of log messages of one connection. It is known when the upstream has answered.

    The request of a client that is cancelled meanwhile costs the others nothing: the level is sent in work that all
    share which want the same one.
    """

    def __init__(self, connection: Asking) -> None:
        """Create a level that is not known, of a connection that need not be open yet."""
        self._connection = connection
        self._known: str | None = None
        self._failed: str | None = None  # The level that was sent last, if that has failed.
        self._setting: SharedWorks[str, None] = SharedWorks("setting the level of log messages")
        self._turn = asyncio.Lock()

    async def set(self, level: str) -> None:
        """Set the level, unless the upstream has it, or has no such request. Raises JSONRPCError if that fails."""
        if level != self._known or len(self._setting):
            try:
                await self._setting.run(level, lambda: self._set(level))
            except ConnectionClosedError as error:
                raise self._connection.upstream.names.failure(error) from error

    async def use(self, level: str | None) -> None:
        """Set the level for a request, which goes on if that fails; then it is not tried again for the next one."""
        if level is None or (level in (self._known, self._failed) and not len(self._setting)):
            return
        try:
            await self.set(level)
        except JSONRPCError as error:
            _log.warning("the level of log messages was not set to %r: %s", level, error)

    async def close(self) -> None:
        """End the requests that set it."""
        await self._setting.close()

    async def _set(self, level: str) -> None:
        async with self._turn:  # The upstream has them in the order in which they were asked for.
            if level == self._known:
                return
            self._known = None
            self._failed = level
            try:
                async with asyncio.timeout(_SECONDS):
                    await self._send(level)
            except TimeoutError:
                failed = self._connection.upstream.names.failed
                raise JSONRPCError(INTERNAL_ERROR, f"{failed}: no answer within {_SECONDS:g} s") from None
            self._known = level
            self._failed = None

    async def _send(self, level: str) -> None:
        row = getattr(self._connection.translation.up.lifecycle, "set_level", None)
        if row is not None and "logging" in self._connection.upstream.capabilities:
            await self._connection.request(row.method, {"level": level})
