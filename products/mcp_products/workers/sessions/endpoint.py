"""What the HTTP endpoint of a server shares with those of other workers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json, to_json

from mcp_products.telemetry import metrics_module
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import clock as clocks
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.aio.tasks import SharedLifespan
from mcp_runtime.errors import MCPError
from mcp_runtime.server.core import ServerCore
from mcp_runtime.session.interfaces import Candidate, Service, TaskQueue
from mcp_runtime.stores import Store, StoreUnavailableError
from mcp_runtime.transports.http_server.limits import HTTPLimits
from mcp_runtime.transports.http_server.sessions import SessionFactory
from mcp_runtime.transports.http_server.streams import KeepAliveTimer

from ..stores.urls import open_store
from .changes import ChangeLog
from .legacy_sse import SharedLegacySSEHandler
from .sessions import SharedSessions
from .state import ServerSharing
from .worker import Worker

if TYPE_CHECKING:
    from mcp_products.auth.resource_server.protection import ResourceServer
    from mcp_products.metrics import stores as measures
else:  # Imported when they are used.
    measures = LazyModule("mcp_products.metrics.stores")


# The keys that encrypt `requestState`: those of all workers, with a new one from time to time.

_ROTATION_SECONDS: Final = 86_400.0  # Seconds after which there is a new key.
_SPREAD_SECONDS: Final = (
    900.0  # Seconds in which all workers have read a new key, before the first one encrypts with it.
)
_STORED_KEYS: Final = 3  # The key that encrypts, the one before, and perhaps the next one.
_TTL: Final = 30 * 86_400.0
REFRESH_SECONDS: Final = 300.0  # Seconds between two looks at the keys.

Clock = Callable[[], float]
_log: Final = logging.getLogger("mcp_runtime.workers.sessions.endpoint")
_AGAIN_SECONDS: Final = 0.5  # Seconds between two attempts of a process that has started to reach its store.
_POLL_SECONDS: Final = 15.0  # Seconds between two looks for changes whose hints were lost.


class SharedKeys:
    """The keys in the store. The first key encrypts, all keys decrypt."""

    def __init__(self, worker: Worker, clock: Clock | None = None) -> None:
        """Use the keys of the store of a worker; `clock` returns seconds since the epoch."""
        self._worker = worker
        self._clock = clocks.wall if clock is None else clock
        self._known: bytes | None = None  # What the store had last.

    async def read(self) -> Sequence[bytes]:
        """Return the keys, the one that encrypts first; add a new one if the newest is a day old."""
        key, store = self._worker.key("keys"), self._worker.store
        while True:
            value = await store.get(key)
            known = self._known if value is None else value  # A store that has lost its keys gets those in use.
            stored: list[Any] = [] if known is None else from_json(known)
            now = self._clock()
            if value is not None and now - stored[0][0] < _ROTATION_SECONDS:
                break
            if not stored or now - stored[0][0] >= _ROTATION_SECONDS:
                stored = [[now, b64encode(secrets.token_bytes(32)).decode()], *stored][:_STORED_KEYS]
            if await store.put(key, to_json(stored), _TTL, expected=value):
                break
        self._known = to_json(stored)
        if len(stored) > 1 and now - stored[0][0] < _SPREAD_SECONDS:
            stored[0], stored[1] = stored[1], stored[0]
        return [b64decode(item[1]) for item in stored]


# What makes the HTTP endpoint of one worker a part of an endpoint of several.


class SharedEndpoint:
    """The worker of an endpoint, and the handlers that share its sessions with the other workers."""

    def __init__(self, store: Store, sharing: ServerSharing, name: str, queue: TaskQueue | None = None) -> None:
        """Create the worker of a server.

        Args:
            store: The store of all workers.
            sharing: What the server shares.
            name: The name of the server, which it has in all workers.
            queue: The tasks of the server that may run at any worker. Default None: there are none.
        """
        self.worker = Worker(store, name)
        self._sharing = sharing
        self._queue = queue
        self._lifespan: SharedLifespan
        self._changes = ChangeLog(self.worker, sharing)
        self._keys = SharedKeys(self.worker)
        self.worker.on_loss(self._use_keys)
        self._opening: SharedWork[None] = SharedWork("connecting to the store")
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self.is_open = False

    def bind(self, lifespan: SharedLifespan) -> None:
        """Use the lifespan of the server."""
        self._lifespan = lifespan

    def sessions(self, factory: SessionFactory, limits: HTTPLimits) -> SharedSessions:
        """Return where the sessions of all workers are; `limits` are those of the endpoint."""
        return SharedSessions(
            factory,
            worker=self.worker,
            sharing=self._sharing,
            changes=self._changes,
            idle=limits.session_idle_timeout,
            handshake=limits.handshake_timeout,
            retry=limits.retry_interval,
        )

    def legacy_sse(
        self, servers: Sequence[Candidate[Service]], max_connections: int, keep_alive: KeepAliveTimer
    ) -> SharedLegacySSEHandler:
        """Return the handler of HTTP+SSE."""
        return SharedLegacySSEHandler(servers, max_connections, keep_alive, self.worker)

    async def open(self) -> None:
        """Connect to the store, once. Raises StoreUnavailableError, and may then be called again."""
        if not self.is_open:
            await self._opening.run(self._open)

    async def start(self) -> None:
        """Connect to the store. If it cannot be reached yet, log why, and go on trying: meanwhile the process answers
        probes, and refuses requests. A second call does nothing: the lifespan of an ASGI server and a worker both start
        the endpoint."""
        if self.is_open or self._starting is not None:
            return
        self._changes.relay()
        try:
            await self.worker.store.store.get(self.worker.key("keys"))  # It fails at once; `open` tries for a while.
            await self.open()
        except StoreUnavailableError as error:
            _log.warning("the store cannot be reached yet, and requests get 503 until it can: %s", error)
            self.worker.note_outage()
            self._starting = asyncio.get_running_loop().create_task(self._start_later())

    async def _start_later(self) -> None:
        while not self.is_open:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self.open()
            except StoreUnavailableError as error:
                self.worker.note_outage()
                _log.debug("the store cannot be reached yet: %s", error)
            except MCPError as error:
                return _log.error("the store cannot be used: %s", error)
        _log.warning("the store can be reached now")

    async def is_ready(self) -> bool:
        """Return True if the store answers, and has what this worker knows."""
        try:
            await self.open()
            await self.worker.store.store.get(self.worker.key("keys"))
            await self.worker.has_lost()
        except StoreUnavailableError:
            return False
        return self.worker.is_restored

    async def _open(self) -> None:
        await self.worker.subscribe()
        await self._changes.open()
        await self._use_keys()
        if self._queue is not None:
            await self._queue.open(self._lifespan.state)
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
        self.is_open = True
        if metrics_module() is not None:
            measures.observe(self.worker)

    async def _use_keys(self) -> None:
        keys = await self._keys.read()
        self._sharing.use(self.worker.store, keys)

    async def _refresh(self) -> None:
        """Read keys and changes again from time to time."""
        seconds = 0.0
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            self.worker.spawn(self._changes.look())
            seconds += _POLL_SECONDS
            if seconds >= REFRESH_SECONDS:
                seconds = 0.0
                self.worker.spawn(self._use_keys())

    async def close(self) -> None:
        """Store what is still to be stored, and leave the store."""
        if self._starting is not None:
            self._starting.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._queue is not None:
            await self._queue.close()
        self._sharing.leave(self.worker.store)
        await self.worker.close()
        if metrics_module() is not None:
            measures.forget(self.worker)


def share_endpoint(
    store: str | Store, services: Sequence[Service], auth: ResourceServer | None = None
) -> SharedEndpoint | None:
    """Return what an endpoint shares over a store, a URL or a Store; None for "memory".

    Args:
        store: The store.
        services: The servers of the endpoint.
        auth: What authenticates its requests, if anything does.
    """
    opened, origin = open_store("asgi", store), services[-1].origin
    assert isinstance(origin, ServerCore), "a service has a server"
    if opened is None:
        return None
    if metrics_module() is not None:
        opened = measures.MeteredStore(opened)
    queue = None if origin.parts.tasks is None else origin.parts.tasks.open_queue(store)
    endpoint = SharedEndpoint(opened, ServerSharing(origin), origin.name, queue)
    if auth is not None and hasattr(auth, "share"):  # Users may have written their own.
        auth.share(endpoint.worker.store, endpoint.worker.key("dpop"))
    return endpoint
