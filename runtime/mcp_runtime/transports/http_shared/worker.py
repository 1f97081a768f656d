"""One worker of an endpoint: its id, its part of the store, and the messages that workers send each other."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from pydantic_core import from_json, to_json

from ...stores.primitives import NumberedEntry, Store, StoreUnavailableError

_log: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0)  # Between two attempts to append.
_ID_LENGTH: Final = 8  # Characters of the id of a worker.

Receive = Callable[[dict[str, Any]], None]


class LocalStream(Protocol):
    """The end of a stream at one worker, which the others send hints."""

    def on_hint(self, hint: str) -> None:
        """Look for "news", "release" the connection for that of another worker, or "close" it."""
        ...


class Worker:
    """One of the processes that serve an endpoint. Its id begins the ids of what only it can serve."""

    def __init__(self, store: Store, namespace: str) -> None:
        """Create a worker.

        Args:
            store: The store of all workers.
            namespace: The name of the server; servers of other names do not share their sessions.
        """
        self.store = store
        self.id = secrets.token_hex(_ID_LENGTH // 2)
        self._namespace = namespace
        self._receivers: dict[str, Receive] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_request = 0
        self.streams: WeakValueDictionary[str, LocalStream] = WeakValueDictionary()

    def key(self, kind: str, name: str = "") -> str:
        """Return the key of a record, a stream or a channel."""
        return f"{self._namespace}:{kind}:{name}"

    def request_id(self) -> str:
        """Return the id of a request to a client, which is unique among all workers and names this one."""
        self._last_request += 1
        return f"{self.id}-{self._last_request}"

    def other_worker(self, id: object) -> str | None:
        """Return the worker that an id names; None if it is this one, or if the id names none."""
        worker = id[:_ID_LENGTH] if isinstance(id, str) and len(id) > _ID_LENGTH else self.id
        return None if worker == self.id or not worker.isalnum() else worker

    # ---- messages ----------------------------------------------------------------------------------------------------

    def on(self, kind: str, receive: Receive) -> None:
        """Call a function with the fields of the messages of one kind."""
        self._receivers[kind] = receive

    async def subscribe(self) -> None:
        """Receive messages from now on."""
        await self.store.subscribe(self.key("worker", self.id), self._receive)
        await self.store.subscribe(self.key("workers"), self._receive)

    async def send(self, worker: str, kind: str, **fields: Any) -> None:
        """Send a message to another worker."""
        await self.store.publish(self.key("worker", worker), to_json({"kind": kind, **fields}))

    async def broadcast(self, kind: str, **fields: Any) -> None:
        """Send a message to all workers, this one as well."""
        await self.store.publish(self.key("workers"), to_json({"kind": kind, **fields}))

    def _receive(self, message: bytes) -> None:
        fields = from_json(message)
        receive = self._receivers.get(fields.pop("kind"))
        if receive is not None:
            receive(fields)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in a task of its own; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a worker could not use its store: %s", error, exc_info=error)

    async def close(self) -> None:
        """Wait for what is still to be written, and close the store."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.store.close()

    # ---- streams -----------------------------------------------------------------------------------------------------

    async def append(self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None) -> int:
        """Append entries to a stream; try for some seconds if the store cannot be reached.

        Without `after`, a failed attempt is not repeated: the entries might stand there twice.
        """
        for delay in (*_RETRY_SECONDS, None):
            try:
                return await self.store.append(self.key("stream", stream), entries, ttl, after)
            except StoreUnavailableError:
                if delay is None or after is None:
                    raise
                await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def read(self, stream: str, after: int, limit: int) -> list[NumberedEntry]:
        """Return entries of a stream that follow a number."""
        return await self.store.read(self.key("stream", stream), after, limit)
