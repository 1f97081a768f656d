"""One worker of an endpoint: its id, its part of the store, and the messages that workers send each other."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

from pydantic_core import from_json, to_json

from ...stores.primitives import NumberedEntry, PromptStore, Store, StoreClosedError, StoreUnavailableError
from ...stores.retrying_store import RetryingStore, retry

_log: Final = logging.getLogger(__name__)

_REQUEST_SECONDS: Final = 2.0  # Seconds for which a request waits for a store that cannot be reached.
_STREAM_SECONDS: Final = 15.0  # Seconds for which what a stream sends waits for it.
_TICK: Final = 2.0  # Seconds between two signs of life.
_ALIVE_SECONDS: Final = 10.0  # Seconds after its last sign of life at which a worker counts as ended.
_MAIL_SECONDS: Final = 60.0  # Seconds for which messages to a worker are stored.
_CLOSING: Final = 0.01  # Seconds between two looks for what is still to be stored.
_RECENT: Final = 0.1  # Seconds.
_DROPPED: Final = 64  # Streams that are deleted together.
_ID_LENGTH: Final = 8  # Characters of the id of a worker.

_ENDED: Final = "the worker that ran this call has ended; it may have run in part"
_UNREACHABLE: Final = "the store of this server could not be reached; the call may have run"

Receive = Callable[[dict[str, Any]], None]
_ResultT = TypeVar("_ResultT")


class WatchedStream(Protocol):
    """A stream that may have to be ended here: another worker writes it, or this one could not store its messages."""

    id: str

    async def end_failed(self, reason: str) -> None:
        """End the stream, whose requests fail for a reason. Raises StoreUnavailableError."""
        ...


class ConnectedStream(WatchedStream, Protocol):
    """The end of a stream at one worker, which the others send hints."""

    def on_hint(self, hint: str, token: str = "") -> None:
        """Look for "news", "release" the connection with a token for another one, or "close" it."""
        ...


class UnstoredStream(Protocol):
    """A stream with messages to store."""

    def store_soon(self) -> None:
        """Store messages whose connection has not come."""
        ...


class Worker:
    """One of the processes that serve an endpoint. Its id begins the ids of what only it can serve."""

    def __init__(self, store: Store, namespace: str) -> None:
        """Create a worker.

        Args:
            store: The store of all workers.
            namespace: The name of the server; servers of other names do not share their sessions.
        """
        self.store = RetryingStore(store, _REQUEST_SECONDS)
        self.is_prompt = isinstance(store, PromptStore)
        self.id = secrets.token_hex(_ID_LENGTH // 2)
        self._namespace = namespace
        self.stream_prefix = self.key("stream")  # What the keys of streams begin with, before their ids.
        self._receivers: dict[str, Receive] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_request = 0
        self.streams: dict[str, ConnectedStream] = {}  # Those with a connection here.
        self.watched: WeakSet[WatchedStream] = WeakSet()
        self.unstored: set[UnstoredStream] = set()  # Streams with messages that are not stored yet.
        self.unwritten: set[WatchedStream] = set()  # Streams with messages that could not be stored.
        self._mail = 0  # The number of the last message to this worker that was read.
        self._reading = asyncio.Lock()
        self._last_token = 0
        self._recent = float("-inf")  # See `recent`.
        self._dropped: list[str] = []  # The ids of streams that are deleted together.
        self._ticking: asyncio.Task[None] | None = None

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

    def recent(self, now: float) -> float:
        """Return a time up to 0.1 seconds before: one object for all that is used meanwhile, as a number takes 32
        bytes."""
        if not self._recent <= now < self._recent + _RECENT:
            self._recent = now
        return self._recent

    def on(self, kind: str, receive: Receive) -> None:
        """Call a function with the fields of the messages of one kind."""
        self._receivers[kind] = receive

    async def subscribe(self) -> None:
        """Receive messages from now on."""
        await self.store.subscribe(self.key("worker", self.id), self._receive)
        await self.store.subscribe(self.key("workers"), self._receive)
        await self._show_life()
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def send(self, worker: str, kind: str, **fields: Any) -> None:
        """Send a message to another worker, which may be lost."""
        await self.store.publish(self.key("worker", worker), to_json({"kind": kind, **fields}))

    async def broadcast(self, kind: str, **fields: Any) -> None:
        """Send a message to all workers, this one as well."""
        await self.store.publish(self.key("workers"), to_json({"kind": kind, **fields}))

    async def deliver(self, worker: str, kind: str, **fields: Any) -> None:
        """Send a message to another worker, which gets it once."""
        entry = to_json({"kind": kind, **fields})
        await self.store.append(self.key("mail", worker), [entry], _MAIL_SECONDS, token=self.new_token())
        await self.send(worker, "mail")

    def new_token(self) -> str:
        """Return a text that no other command has."""
        self._last_token += 1
        return f"{self.id}{self._last_token}"

    def _receive(self, message: bytes) -> None:
        if not message:  # Messages may have been lost.
            for stream in list(self.streams.values()):
                stream.on_hint("news")
            self.spawn(self._read_mail())
            if (receive := self._receivers.get("gap")) is not None:
                receive({})
            return
        fields = from_json(message)
        kind = fields.pop("kind")
        if kind == "mail":
            self.spawn(self._read_mail())
        elif (receive := self._receivers.get(kind)) is not None:
            receive(fields)

    async def _read_mail(self) -> None:
        async with self._reading:
            for number, entry in await self.store.read(self.key("mail", self.id), self._mail):
                self._mail = number
                self._receive(entry)

    def leave(self, stream: WatchedStream, is_watched: bool) -> None:
        """Give a stream no hints any more, and do not watch who writes it: it has no connection here."""
        if is_watched:
            self.watched.discard(stream)
        if self.streams.get(stream.id) is stream:
            del self.streams[stream.id]

    # ---- signs of life -----------------------------------------------------------------------------------------------

    async def is_alive(self, worker: str) -> bool:
        """Return True if a worker has lately shown that it runs."""
        return worker == self.id or await self.store.get(self.key("alive", worker)) is not None

    async def _show_life(self) -> None:
        await self.store.put(self.key("alive", self.id), b"1", _ALIVE_SECONDS)

    async def _tick(self) -> None:
        """Show that this worker runs, read what hints were lost of, and end the streams whose workers have ended."""
        while True:
            await asyncio.sleep(_TICK)
            try:
                self._store_rest()
                await self._show_life()
                await self._read_mail()
                await self._end_failed()
            except StoreClosedError:
                return
            except StoreUnavailableError as error:
                _log.warning("the store of the workers cannot be reached: %s", error)

    def _store_rest(self) -> None:
        for stream in list(self.unstored):
            stream.store_soon()

    async def _end_failed(self) -> None:
        """End the streams that nobody writes any more. What fails meanwhile is tried again: it is discarded after."""
        for stream in list(self.unwritten):
            await stream.end_failed(_UNREACHABLE)
            self.unwritten.discard(stream)
        for stream in list(self.watched):
            if not await self.is_alive(stream.id[:_ID_LENGTH]):
                await stream.end_failed(_ENDED)
                self.watched.discard(stream)

    def drop(self, stream: str) -> None:
        """Delete a stream, together with others or with the session."""
        self._dropped.append(stream)
        if len(self._dropped) >= _DROPPED:
            self.drop_now()

    def drop_now(self) -> None:
        """Delete the streams that wait for it."""
        if self._dropped:
            names, self._dropped = [self.stream_prefix + stream for stream in self._dropped], []
            self.spawn(self.retry(lambda: self.store.drop(*names)))

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
        while self._tasks or self.unstored:
            self._store_rest()
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            else:
                await asyncio.sleep(_CLOSING)
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
            try:
                await self.store.store.delete(self.key("alive", self.id))
            except StoreUnavailableError as error:
                _log.debug("a worker could not take its leave: %s", error)
        await self.store.close()

    # ---- streams -----------------------------------------------------------------------------------------------------

    def retry(self, work: Callable[[], Awaitable[_ResultT]]) -> Coroutine[Any, Any, _ResultT]:
        """Return the result of work for a stream, which waits for some seconds while the store cannot be reached."""
        return retry(work, _STREAM_SECONDS)

    def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None, token: str = ""
    ) -> Awaitable[int]:
        """Append entries to a stream; see `Store.append`. It is tried once: streams repeat all that they store."""
        return self.store.store.append(self.stream_prefix + stream, entries, ttl, after, token)

    async def read(self, stream: str, after: int, limit: int) -> list[NumberedEntry]:
        """Return entries of a stream that follow a number."""
        return await self.retry(lambda: self.store.read(self.stream_prefix + stream, after, limit))
