"""The resources of a target that clients have subscribed to: each is watched once, for all that want it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...aio.shared_work import SharedWork
from ...errors import ConnectionClosedError, JSONRPCError, MCPError, RemoteJSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from ...protocol.uris import uri_key

_log: Final = logging.getLogger(__name__)

Changed = Callable[[str], Coroutine[Any, Any, None]]


class _Watch:
    """A resource that is watched, or about to be, and how many want that."""

    def __init__(self) -> None:
        self.wanted = 0
        self.opening: SharedWork[None] = SharedWork("the subscription")
        self.task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self.task is not None and not self.task.done()

    def end(self) -> None:
        self.opening.cancel()
        if self.task is not None:
            self.task.cancel()


class ResourceWatches:
    """The subscriptions of one connection to a target.

    One begins in work that all share which want it at the same time: a client that leaves meanwhile ends it only if no
    other wants it.
    """

    def __init__(self, proxy: str, changed: Changed) -> None:
        """Create watches of nothing.

        Args:
            proxy: The name of the proxy, for messages.
            changed: Tells clients that a resource has changed; it gets the URI that they have.
        """
        self._proxy = proxy
        self._changed = changed
        self._watches: dict[str, _Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, client: Any, uri: str, outside: str) -> None:
        """Watch a resource once more.

        Args:
            client: The client that is connected to the target.
            uri: The URI that the target has.
            outside: The URI that clients have.

        Raises JSONRPCError if the target refuses that.
        """
        watch = self._watches.setdefault(uri_key(outside), _Watch())
        watch.wanted += 1
        try:
            if not watch.is_open:
                await watch.opening.run(lambda: self._open(watch, client, uri, outside))
        except ConnectionClosedError as error:
            self._leave(watch, outside)
            raise JSONRPCError(INTERNAL_ERROR, f"the subscription to {outside!r} was ended") from error
        except BaseException:
            self._leave(watch, outside)
            raise

    async def remove(self, outside: str) -> None:
        """Watch a resource once less, and wait until it has ended if nobody wants it."""
        watch = self._watches.get(uri_key(outside))
        if watch is not None and (task := self._leave(watch, outside)) is not None:
            await asyncio.wait([task])

    def clear(self) -> None:
        """Begin to end all."""
        watches = self._watches
        self._watches = {}
        for watch in watches.values():
            watch.end()

    async def close(self) -> None:
        """End all, and wait until they have ended."""
        openings = [watch.opening for watch in self._watches.values()]
        self.clear()
        await asyncio.gather(*(opening.close() for opening in openings))
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _leave(self, watch: _Watch, outside: str) -> asyncio.Task[None] | None:
        """Note that one less wants a watch; return the task of one that ends now."""
        key = uri_key(outside)
        if self._watches.get(key) is not watch:
            return None  # It has ended meanwhile.
        watch.wanted -= 1
        if watch.wanted:
            return None
        del self._watches[key]
        watch.end()
        return watch.task

    async def _open(self, watch: _Watch, client: Any, uri: str, outside: str) -> None:
        subscription = client.listen(resource_updated=[uri])
        try:
            await subscription.__aenter__()
        except RemoteJSONRPCError as error:
            raise JSONRPCError(error.code, error.message, error.data) from error
        except MCPError as error:
            raise JSONRPCError(INTERNAL_ERROR, f"the target of the proxy {self._proxy!r}: {error}") from error
        if not subscription.acknowledged.get("resource_updated"):
            await subscription.close()
            message = f"the target of the proxy {self._proxy!r} does not allow to subscribe to {uri!r}"
            raise JSONRPCError(INVALID_REQUEST, message)
        has_begun = asyncio.Event()
        task = watch.task = asyncio.create_task(self._pass_changes(subscription, uri, outside, has_begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await has_begun.wait()
        except BaseException:  # A task that is cancelled before it begins closes nothing.
            task.cancel()
            await subscription.close()
            raise

    async def _pass_changes(self, subscription: Any, uri: str, outside: str, has_begun: asyncio.Event) -> None:
        has_begun.set()
        try:
            async for change in subscription:
                await self._changed(_changed_outside(change.params.uri, uri, outside))
        except MCPError as error:
            _log.debug("the subscription of %r to %r ended: %s", self._proxy, uri, error)
        finally:
            await subscription.close()


def _changed_outside(changed: str, uri: str, outside: str) -> str:
    """Return the URI that a client has for what has changed: the resource, or a part of it, which has its own URI."""
    if changed.startswith(uri):
        return outside + changed.removeprefix(uri)
    changed_key, key = uri_key(changed), uri_key(uri)
    return outside + changed_key.removeprefix(key) if changed_key.startswith(key) else changed
