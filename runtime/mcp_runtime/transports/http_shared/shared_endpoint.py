"""What makes the HTTP endpoint of one worker a part of an endpoint of several."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...aio.shared_work import SharedWork
from ...errors import MCPError
from ...http.asgi import Send
from ...session.interfaces import Candidate, Service, SessionSharing, TaskQueue
from ...stores.primitives import Store, StoreUnavailableError
from ..http_server.http_limits import HTTPLimits
from ..http_server.responders import SessionResponder
from ..http_server.sessions import SessionStore
from .change_log import ChangeLog
from .refusals import refuse
from .shared_keys import REFRESH_SECONDS, SharedKeys
from .shared_legacy_sse import SharedLegacySSEHandler
from .shared_stateful import SharedStatefulHandler
from .worker import Worker

_log: Final = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 0.5  # Seconds between two attempts of a process that has started to reach its store.
_POLL_SECONDS: Final = 15.0  # Seconds between two looks for changes whose hints were lost.


class SharedEndpoint:
    """The worker of an endpoint, and the handlers that share its sessions with the other workers."""

    def __init__(self, store: Store, sharing: SessionSharing, name: str, queue: TaskQueue | None = None) -> None:
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

    def stateful(
        self,
        servers: Sequence[Service],
        lifespans: Mapping[int, SharedLifespan],
        sessions: SessionStore,
        keep_alive: KeepAliveTimer,
        responder_class: type[SessionResponder],
        limits: HTTPLimits,
    ) -> SharedStatefulHandler:
        """Return the handler of sessions; `limits` are those of the endpoint."""
        return SharedStatefulHandler(
            servers,
            lifespans,
            sessions,
            keep_alive,
            responder_class,
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
        return SharedLegacySSEHandler(servers, "/sse", "/messages", max_connections, keep_alive, worker=self.worker)

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
        try:
            await self.worker.store.store.get(self.worker.key("keys"))  # It fails at once; `open` tries for a while.
            await self.open()
        except StoreUnavailableError as error:
            _log.warning("the store cannot be reached yet, and requests get 503 until it can: %s", error)
            self._starting = asyncio.get_running_loop().create_task(self._start_later())

    async def _start_later(self) -> None:
        while not self.is_open:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                await self.open()
            except StoreUnavailableError as error:
                _log.debug("the store cannot be reached yet: %s", error)
            except MCPError as error:
                return _log.error("the store cannot be used: %s", error)
        _log.warning("the store can be reached now")

    async def serve(self, send: Send) -> bool:
        """Connect to the store for a request. Return False if the request was answered: it cannot be reached."""
        try:
            await self.open()
        except StoreUnavailableError as error:
            await refuse(send, error)
            return False
        return True

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
