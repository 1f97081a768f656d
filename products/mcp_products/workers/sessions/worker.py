"""One worker of an endpoint: its id, its part of the store, and the messages that workers send each other.

A message of `send` and `broadcast` is a hint, which may be lost. One of `deliver` and `deliver_to_all` is stored, and
is handled once by each worker that it is for, also if the store loses it. A worker looks every two seconds, and
whenever messages may have been lost, whether the store has lost its past (`mail`). Then it stores again what it
knows: its sign of life, its mail that was not read, and what the functions of `on_loss` store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakSet

from pydantic_core import from_json, to_json

from mcp_products.telemetry import metrics_module
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import clock
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Id
from mcp_runtime.protocol.models import is_object
from mcp_runtime.stores import NumberedEntry, Store, StoreClosedError, StoreUnavailableError

from ..stores.retries import RetryingStore, retry
from .mail import LifeSigns, Mailbox

if TYPE_CHECKING:
    from mcp_products.metrics import stores as measures
else:  # Imported when they are used.
    measures = LazyModule("mcp_products.metrics.stores")

_log: Final = logging.getLogger("mcp_runtime.workers.sessions.worker")

REQUEST_SECONDS: Final = 2.0  # Seconds for which a request waits for a store that cannot be reached.
_STREAM_SECONDS: Final = 15.0  # Seconds for which what a stream sends waits for it.
_TICK: Final = 2.0  # Seconds between two signs of life.
_ALIVE_SECONDS: Final = 10.0  # Seconds after its last sign of life at which a worker counts as ended.
_KEEP_SECONDS: Final = 300.0  # Seconds between two renewals of what has to be stored as long as this worker runs.
_ENDING_SECONDS: Final = 3 * _TICK  # Seconds after an outage in which streams that could not be stored are ended.
_ANSWER_SECONDS: Final = 1.0  # Seconds for the others to say that the store has just lost what they know.
_RESTORING_SECONDS: Final = 5.0  # Seconds after a loss in which all workers have stored again what they know.
_RESTORING_TICKS: Final = 3  # And ticks: neither passes while the machine sleeps, or the store cannot be reached.
_CHECK_SECONDS: Final = 10.0  # Seconds between two questions whether streams are still written.
_CLOSING: Final = 0.01  # Seconds between two looks for what is still to be stored.
RESTORE_PAUSE: Final = 0.05  # Seconds between two looks for what another worker may store again.
RECENT: Final = 0.1  # Seconds by which a time of `recent` may be earlier.
_DROPPED: Final = 64  # Streams that are deleted together.
_ID_LENGTH: Final = 8  # Characters of the id of a worker.

_LOST: Final = "the store of this server has lost the end of this call, which has run"
_ENDED: Final = "the worker that ran this call has ended; it may have run in part"
_UNREACHABLE: Final = "the store of this server could not be reached; the call may have run"

Receive = Callable[[dict[str, Any]], object]
Restore = Callable[[], Awaitable[None]]
_ResultT = TypeVar("_ResultT")


class WorkerStream(Protocol):
    """The end of a stream at one worker."""

    id: str

    def on_hint(self, hint: str, token: str = "") -> None:
        """Look for "news", "release" the connection with a token for another one, or "close" it."""

    def store_soon(self) -> None:
        """Store messages whose connection has not come."""

    async def end_failed(self, reason: str) -> None:
        """End the stream, whose requests fail for a reason. Raises StoreUnavailableError."""


def _retrieve(task: asyncio.Task[None]) -> None:
    """Let an exception be known, though who waited for the task may have been cancelled."""
    if not task.cancelled():
        task.exception()


class Worker:
    """One of the processes that serve an endpoint. Its id begins the ids of what only it can serve."""

    def __init__(self, store: Store, namespace: str, *, begins_late: bool = False) -> None:
        """Create a worker.

        Args:
            store: The store of all workers.
            namespace: The name of the server; servers of other names do not share their sessions.
            begins_late: It may see the store for the first time after a loss, which the others have to notice.
        """
        self._begins_late = begins_late
        self.store = RetryingStore(store, REQUEST_SECONDS)
        self.id = secrets.token_hex(_ID_LENGTH // 2)
        self._namespace = namespace
        self.stream_prefix = self.key("stream")  # What the keys of streams begin with, before their ids.
        self._receivers: dict[str, Receive] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_request = 0
        self.streams: dict[str, WorkerStream] = {}  # Those with a connection here.
        self.watched: WeakSet[WorkerStream] = WeakSet()  # Those that another worker may write.
        self.unstored: set[WorkerStream] = set()  # Those with messages that are not stored yet.
        self.unwritten: set[WorkerStream] = set()  # Those with messages that could not be stored.
        self._life = LifeSigns(self.store, self.id, self.key, _ALIVE_SECONDS)
        self._mail = Mailbox(self.store, self.id, self.key, self._handle)
        self._restorers: list[Restore] = []
        self._keepers: list[Restore] = []
        self._keep_at = 0.0
        self._check_at = 0.0
        self._restoring_until = float("-inf")
        self._restoring_ticks = 0  # Those that are still to come after a loss.
        self._begun_until = float("-inf")  # Until then, the store may have lost what this worker has never seen.
        self._losses = 0  # Those that were noticed.
        self._reported = 0  # Those that a warning was logged of.
        self._lost: Counter[str] = Counter()  # The messages of sessions that a loss has taken, by their methods.
        self._restoring: asyncio.Task[None] | None = None
        self._failed_at = float("-inf")  # When the store could not be reached last.
        self.is_restored = True  # False from a loss of the store until what this worker knows is stored again.
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
        if not self._recent <= now < self._recent + RECENT:
            self._recent = now
        return self._recent

    def on(self, kind: str, receive: Receive) -> None:
        """Call a function with the fields of the messages of one kind."""
        self._receivers[kind] = receive

    def on_loss(self, restore: Restore) -> None:
        """Call a function when the store has lost its past. It stores again what this worker knows, and may be called
        more than once."""
        self._restorers.append(restore)

    def keep(self, renew: Restore) -> None:
        """Call a function every few minutes, and when the store has lost its past: it stores what has to be stored as
        long as this worker runs."""
        self._keepers.append(renew)

    @property
    def is_subscribed(self) -> bool:
        """True if messages are received."""
        return self._ticking is not None

    async def subscribe(self) -> None:
        """Receive messages from now on."""
        await self.store.subscribe(self.key("worker", self.id), self._receive)
        await self.store.subscribe(self.key("workers"), self._receive)
        if self._ticking is None:
            await self._mail.open()
        await self.look()
        if self._ticking is None:
            if self._begins_late:
                self._life.give_time()
            await self.broadcast("begun", sender=self.id)  # The others look, and say whether something was just lost.
            self._begun_until = clock.monotonic() + _ANSWER_SECONDS
            self._keep_at = clock.monotonic() + _KEEP_SECONDS
            self._ticking = asyncio.get_running_loop().create_task(self._tick())

    def note_outage(self) -> None:
        """Know of an outage before this worker has begun: others end soon what they could not store in it."""
        self._failed_at = clock.monotonic()
        self._life.give_time()

    async def send(self, worker: str, kind: str, **fields: Any) -> None:
        """Send a message to another worker, which may be lost."""
        await self.store.publish(self.key("worker", worker), to_json({"kind": kind, **fields}))

    async def broadcast(self, kind: str, **fields: Any) -> None:
        """Send a message to all workers, this one as well."""
        await self.store.publish(self.key("workers"), to_json({"kind": kind, **fields}))

    async def deliver(self, worker: str, kind: str, **fields: Any) -> None:
        """Send a message to another worker, which gets it once."""
        await self._mail.send(worker, self.new_token(), kind, fields)
        await self.send(worker, "mail")

    async def deliver_to_all(self, kind: str, **fields: Any) -> None:
        """Send a message to all other workers, each of which gets it once."""
        await self._mail.send("", self.new_token(), kind, fields)
        await self.broadcast("mail")

    def new_token(self) -> str:
        """Return a text that no other command has."""
        self._last_token += 1
        return f"{self.id}{self._last_token}"

    def _receive(self, message: bytes) -> None:
        if not message:  # Messages may have been lost.
            for stream in list(self.streams.values()):
                stream.on_hint("news")
            self.spawn(self.look())
            self.spawn(self._mail.read())
            if (receive := self._receivers.get("gap")) is not None:
                receive({})
        else:
            self._handle(from_json(message))

    def _handle(self, fields: dict[str, Any]) -> None:
        kind = fields.pop("kind")
        if kind == "mail":
            self.spawn(self._mail.read())
        elif kind in ("lost", "begun") and fields["sender"] != self.id:
            if kind == "lost" and clock.monotonic() < self._begun_until:
                self._begun_until = clock.monotonic() + _RESTORING_SECONDS
            self.spawn(self.look())
        elif (receive := self._receivers.get(kind)) is not None:
            receive(fields)

    def leave(self, stream: WorkerStream, is_watched: bool) -> None:
        """Give a stream no hints any more, and do not watch who writes it: it has no connection here."""
        if is_watched:
            self.watched.discard(stream)
        if self.streams.get(stream.id) is stream:
            del self.streams[stream.id]

    @property
    def epoch(self) -> str:
        """The epoch of the store: another one after each loss, the same for all workers."""
        return self._life.epoch

    @property
    def undelivered(self) -> int:
        """Messages to other workers that they have not read yet."""
        return self._mail.undelivered

    @property
    def store_lag(self) -> float:
        """Seconds since the store has last answered."""
        return max(self._life.paused_seconds, 0.0)

    # ---- signs of life -----------------------------------------------------------------------------------------------

    async def is_alive(self, worker: str) -> bool:
        """Return True if a worker has lately shown that it runs, or if the store has lost that."""
        if worker == self.id or await self._life.shows_life(worker):
            return True
        await self.look()
        return clock.monotonic() < self._life.unsure_until or await self._life.shows_life(worker)

    async def look(self) -> bool:
        """Show that this worker runs. Return True if the store has lost its past since this was last called; then what
        this worker knows is stored again. Raises StoreUnavailableError."""
        await self._life.look(self._mail.read_number)
        return await self._noticed()

    async def has_lost(self) -> bool:
        """Return True if the store has lost its past just now: what is not there may soon be there again. Raises
        StoreUnavailableError."""
        await self.look()
        return self.is_restoring

    async def restored(self, read: Callable[[], Awaitable[_ResultT | None]]) -> _ResultT | None:
        """Return what a function finds in the store, or what another worker stores again soon after a loss, or after a
        pause in which it has expired. Raises StoreUnavailableError."""
        losses = self.losses
        while (found := await read()) is None and await self.may_restore(losses):
            losses = self.losses
            await asyncio.sleep(RESTORE_PAUSE)
        return found

    @property
    def losses(self) -> int:
        """How often this worker has noticed that the store has lost its past."""
        return self._losses

    async def may_restore(self, losses: int) -> bool:
        """Return True if what was not found may be there soon, or by now; `losses` were noticed before it was read.
        Raises StoreUnavailableError."""
        return await self.has_lost() or self._awaits_others() or self._losses > losses

    async def restored_quickly(self, read: Callable[[], Awaitable[_ResultT | None]]) -> _ResultT | None:
        """Return the same where nothing may be found as well: a loss that nobody has noticed costs one command."""
        while (found := await read()) is None and (await self._look_quickly() or self.is_restoring):  # noqa: ASYNC110
            await asyncio.sleep(RESTORE_PAUSE)
        return found

    def _awaits_others(self) -> bool:
        self._life.note_pause()  # In the time of a loss, it may be later than the others had to store what they know.
        return clock.monotonic() < max(self._begun_until, self._life.unsighted_at + _RESTORING_SECONDS)

    @property
    def is_restoring(self) -> bool:
        """True shortly after a loss: other workers may be storing again what they know."""
        return not self.is_restored or self._restoring_ticks > 0 or clock.monotonic() < self._restoring_until

    async def _look_quickly(self) -> bool:
        await self._life.look_quickly()
        return await self._noticed()

    async def _noticed(self) -> bool:
        is_lost = self._life.losses > self._losses
        if is_lost:
            self._losses = self._life.losses
            self._restoring_until = clock.monotonic() + _RESTORING_SECONDS
            self._restoring_ticks = 0 if self._ticking is None else _RESTORING_TICKS
            self.is_restored = False
        if not self.is_restored and asyncio.current_task() is not self._restoring:
            if self._restoring is None or self._restoring.done():
                self._restoring = asyncio.get_running_loop().create_task(self._restore())
                self._restoring.add_done_callback(_retrieve)
            await asyncio.shield(self._restoring)
        return is_lost

    def note_lost(self, methods: Iterable[str]) -> None:
        """Let the warning about the loss name messages of sessions that nobody has read, and nobody will."""
        self._lost.update(methods)

    def _report_loss(self) -> None:
        if self._begins_late or self._reported == self._losses:
            return  # The worker of the endpoint says so.
        self._reported = self._losses
        lost = ", ".join(f"{count} {method}" for method, count in self._lost.items())
        self._lost.clear()
        _log.warning(
            "the store of the workers has lost its past: it was emptied, or started again from an older state. Open "
            "sessions and streams go on, and their clients are notified of all changes that they may have missed; "
            "calls of which messages are lost fail, and what else was stored is gone. Messages of sessions that "
            "are lost because no client had read them: %s",
            lost or "none",
        )
        if metrics_module() is not None:
            measures.count_loss()

    async def _restore(self) -> None:
        """Store again what this worker knows. It is repeated when the store could not be reached."""
        losses = self._losses
        try:
            await self.broadcast("lost", sender=self.id)
            for restore in (*self._restorers, *self._keepers, self._mail.sent.append_again, self._mail.read):
                await restore()
        finally:
            self._report_loss()
        self.is_restored = losses == self._losses

    async def _tick(self) -> None:
        """Show that this worker runs, read what hints were lost of, and end the streams whose workers have ended."""
        while True:
            await asyncio.sleep(_TICK)
            try:
                self._store_rest()
                await self.look()
                await self._mail.read()
                await self._mail.settle(self._life, self._look_quickly)
                await self._keep()
                await self._end_failed()
                self._restoring_ticks = max(self._restoring_ticks - 1, 0)
            except StoreClosedError:
                return
            except StoreUnavailableError as error:
                self._failed_at = clock.monotonic()
                _log.warning("the store of the workers cannot be reached: %s", error)
            except Exception:  # Without signs of life, the others would take this worker for one that has ended.
                _log.exception("a worker could not do all of what it does every two seconds, and tries it again")

    async def _keep(self) -> None:
        if clock.monotonic() >= self._keep_at:
            for renew in self._keepers:
                await renew()
            self._keep_at = clock.monotonic() + _KEEP_SECONDS

    def _store_rest(self) -> None:
        for stream in list(self.unstored):
            stream.store_soon()

    async def _end_failed(self) -> None:
        """End the streams that nobody writes any more. What fails meanwhile is tried again: it is discarded after."""
        for stream in list(self.unwritten):
            await stream.end_failed(_UNREACHABLE)
            self.unwritten.discard(stream)
        alive: dict[str, bool] = {}
        await self._check_writers()
        for stream in list(self.watched):
            writer = stream.id[:_ID_LENGTH]
            if writer not in alive:
                alive[writer] = await self.is_alive(writer)
            if not alive[writer]:
                await stream.end_failed(_ENDED)
                self.watched.discard(stream)

    async def _check_writers(self) -> None:
        """Ask the workers that write the streams which are sent here whether they still do: a store that has lost their
        ends does not say so."""
        if clock.monotonic() < self._check_at:
            return
        self._check_at = clock.monotonic() + _CHECK_SECONDS
        writers: dict[str, list[str]] = {}
        for stream in self.watched:
            writers.setdefault(stream.id[:_ID_LENGTH], []).append(stream.id)
        for writer, streams in writers.items():
            await self.send(writer, "check", streams=streams, sender=self.id)

    def end_unwritten(self, ids: Sequence[str]) -> None:
        """End streams that their workers do not write any more, unless the store has their ends."""
        for stream in [stream for stream in self.watched if stream.id in ids]:
            self.spawn(self.retry(partial(stream.end_failed, _LOST)))

    def drop(self, stream: str) -> None:
        """Delete a stream, together with others or with the session."""
        self._dropped.append(stream)
        if len(self._dropped) >= _DROPPED:
            self.drop_now()

    def drop_now(self) -> None:
        """Delete the streams that wait for it."""
        if self._dropped:
            names = [self.stream_prefix + stream for stream in self._dropped]
            self._dropped = []
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
        if self._restoring is not None:
            await asyncio.wait([self._restoring])
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
            try:
                await self._life.leave()
            except StoreUnavailableError as error:
                _log.debug("a worker could not take its leave: %s", error)
        await self.store.close()

    # ---- streams -----------------------------------------------------------------------------------------------------

    def retry(self, work: Callable[[], Awaitable[_ResultT]]) -> Coroutine[Any, Any, _ResultT]:
        """Return the result of work for a stream, which waits for some seconds while the store cannot be reached."""
        return retry(work, _STREAM_SECONDS)

    async def becomes_stored(self, stream: str, is_stored: Callable[[], Awaitable[bool]]) -> bool:
        """Return True if a stream is in the store. Just after an outage, wait for the worker that ends it because its
        messages could not be stored; just after a loss, for the one that stores it again. Raises
        StoreUnavailableError."""
        losses = self.losses
        while not await is_stored():
            has_failed = clock.monotonic() <= self._failed_at + _ENDING_SECONDS
            may_be_ended = has_failed and await self.is_alive(stream[:_ID_LENGTH])
            if not may_be_ended and not await self.may_restore(losses):
                return False
            losses = self.losses
            await asyncio.sleep(RESTORE_PAUSE)
        return True

    def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None, token: str = ""
    ) -> Awaitable[int]:
        """Append entries to a stream; see `Store.append`. It is tried once: streams repeat all that they store."""
        return self.store.store.append(self.stream_prefix + stream, entries, ttl, after, token)

    async def read(self, stream: str, after: int, limit: int) -> list[NumberedEntry]:
        """Return entries of a stream that follow a number."""
        return await self.retry(lambda: self.store.read(self.stream_prefix + stream, after, limit))


def failures(requests: Sequence[Id], entries: Iterable[NumberedEntry], reason: str) -> list[bytes]:
    """Return the errors of the requests that no message of a stream answers."""
    messages = [from_json(entry) for _, entry in entries]
    answered = [message["id"] for message in messages if is_object(message) and "method" not in message]
    return [jsonrpc.error(id, INTERNAL_ERROR, reason, None) for id in requests if id not in answered]
