"""What clients are told of changes at a target: each change once, however many connections report it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from mcp_runtime.errors import MCPError
from mcp_runtime.server.service import ServerDispatcher

from .client_side import notify_change

_log: Final = logging.getLogger("mcp_runtime.relay.proxy.changes")

CHANGE_PAUSE: Final = 0.5  # Seconds between two notifications of a changed list, however often a target sends one.
GATHERED_SECONDS: Final = 0.1  # Seconds in which the connections of a target report the same change.


class ChangeTeller:
    """Tells clients: that of a session, or all without sessions that listen.

    A session has a connection of its own. The others share connections, each of which reports a change: what these
    report within a short time is one change.
    """

    def __init__(self, name: str, gathered_seconds: float | None = None) -> None:
        """Create a teller without clients; `name` is that of the proxy, for messages."""
        self.on_list: Callable[[str], None] = lambda kind: None
        """Called at each report of a changed list."""
        self._name = name
        self._gathered_seconds = GATHERED_SECONDS if gathered_seconds is None else gathered_seconds
        self._clients: WeakSet[ServerDispatcher] = WeakSet()
        self._quiet_until: dict[str, float] = {}  # By the kind of a list.
        self._waiting: set[tuple[str, str]] = set()  # What is to be told, once its time has come.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, client: Any) -> None:
        """Tell the clients of a dispatcher too, as long as it exists."""
        self._clients.add(client)

    def remove(self, client: Any) -> None:
        """Tell the clients of a dispatcher no more."""
        self._clients.discard(client)

    def list_changed(self, kind: str) -> None:
        """Tell of a changed list, once for all changes within a time."""
        self.on_list(kind)
        self._begin(kind, "")

    async def resource_updated(self, uri: str) -> None:
        """Tell of a changed resource: of a session at once, so that a result that follows comes after it."""
        if self._gathered_seconds:
            self._begin("", uri)
        else:
            await self._tell("", uri)

    def _begin(self, kind: str, uri: str) -> None:
        if (kind, uri) not in self._waiting:
            self._waiting.add((kind, uri))
            task = asyncio.get_running_loop().create_task(self._wait(kind, uri))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, kind: str, uri: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(self._quiet_until.get(kind, 0.0) - loop.time(), self._gathered_seconds))
        finally:  # A change from here on is another one: the client may have read this one.
            self._waiting.discard((kind, uri))
        if kind:
            self._quiet_until[kind] = loop.time() + CHANGE_PAUSE
        await self._tell(kind, uri)

    async def _tell(self, kind: str, uri: str) -> None:
        for client in list(self._clients):
            try:
                if kind:
                    await client.notify_lists_changed([kind])
                else:
                    await notify_change(client, "on_resource_updated", {"uri": uri})
            except MCPError as error:
                _log.debug("a change was not sent to a client of %r: %s", self._name, error)

    async def close(self) -> None:
        """End what waits to be told."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
