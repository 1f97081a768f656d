"""The mail of a worker: messages of others to it, and those to all workers. Each is stored, and is handled once."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from mcp_products.telemetry import metrics_module
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import clock
from mcp_runtime.stores import ANYTHING, STREAM_LIMIT

from ..stores.retries import RetryingStore

if TYPE_CHECKING:
    from mcp_products.metrics import stores as measures
else:  # Imported when they are used.
    measures = LazyModule("mcp_products.metrics.stores")

# What this worker has stored for others lately, and stores again if the store has lost it.

_BYTES: Final = 16 << 20  # Bytes that are kept; the oldest messages make room.
EPOCH_SECONDS: Final = 30 * 86_400.0  # Seconds for which an epoch is stored after the last worker has looked at it.
_GONE: Final = b""  # No sign has this value.
_SURE: Final = 0.9  # The part of its time to live for which a sign is there for certain.
_PART_SECONDS: Final = 1.0  # Seconds to wait for a part of the store: one that has failed holds up no others.
_MOVES: Final = 2  # Signs that are shown in a part, one after the other: the slot of the first has perhaps moved.
_log: Final = logging.getLogger("mcp_runtime.workers.sessions.mail")

MAIL_SECONDS: Final = 600.0  # Seconds for which messages to workers are stored after the last one.
_LATE_SECONDS: Final = 10.0  # Seconds after which a message that its worker has not read is appended again.
_ALL_SECONDS: Final = 60.0  # Seconds for which messages to all workers are kept here: nobody knows who has read them.
_TOKENS: Final = 8192  # Messages that are known again: more than both streams have, which are 2,048.
_TOKEN: Final = "mail"  # The name of the field.


@dataclass(slots=True)
class _Sent:
    """A message, the stream that it is in, and its number there."""

    stream: str
    message: bytes
    ttl: float
    sent_at: float
    number: int = 0


class Outbox:
    """Messages that others may not have read yet. A reader tells by the token of a message that it has it already."""

    def __init__(self, store: RetryingStore) -> None:
        """Keep the messages for the streams of a store."""
        self._store = store
        self._sent: dict[str, _Sent] = {}  # By their tokens, in their order.
        self._size = 0

    async def append(self, stream: str, message: bytes, ttl: float, token: str, after: int | None = None) -> int:
        """Append a message to a stream; return its number. Raises StoreUnavailableError."""
        self._sent[token] = sent = _Sent(stream, message, ttl, clock.monotonic())
        self._size += len(message)
        while self._size > _BYTES and len(self._sent) > 1:
            self._remove(next(iter(self._sent)))
        try:
            sent.number = await self._store.append(stream, [message], ttl, after, token)
        except BaseException:
            self._remove(token)  # The sender knows.
            raise
        return sent.number

    async def append_again(self, seconds: float = 0.0, streams: Collection[str] | None = None) -> None:
        """Append those messages again that the store does not have any more: of these streams or of all, and as old as
        that. Raises StoreUnavailableError.

        Whoever has not read one has read to a lower number: it gets no lower one, though the time may have gone back.
        """
        old = clock.monotonic() - seconds
        for token, sent in list(self._sent.items()):
            if sent.number and sent.sent_at <= old and (streams is None or sent.stream in streams):
                sent.number = await self._store.append(sent.stream, [sent.message], sent.ttl, sent.number - 1, token)

    def count(self, but: str) -> int:
        """Return how many messages nobody has settled, without those of one stream."""
        return sum(sent.stream != but for sent in list(self._sent.values()))

    def streams(self) -> set[str]:
        """Return the streams with messages that nobody has settled."""
        return {sent.stream for sent in self._sent.values()}

    async def settle(self, stream: str, number: int) -> None:
        """Forget the messages of a stream up to a number: they were read. One that the store has lost, which nobody may
        have noticed, is appended again: its reader has perhaps only read a later one. Raises StoreUnavailableError."""
        passed = {token: sent for token, sent in self._sent.items() if sent.stream == stream}
        passed = {token: sent for token, sent in passed.items() if 0 < sent.number <= number}
        if not passed:
            return
        entries = await self._store.read(stream, min(sent.number for sent in passed.values()) - 1)
        stored = {at for at, _ in entries}
        for token, sent in passed.items():
            if sent.number in stored or len(entries) == STREAM_LIMIT:  # The oldest make room.
                self._remove(token)
            else:
                sent.number = await self._store.append(stream, [sent.message], sent.ttl, number, token)

    def forget(self, seconds: float, stream: str | None = None) -> int:
        """Forget what is older, of one stream or of all; return how many messages that were."""
        old = clock.monotonic() - seconds
        items = [item for item in self._sent.items() if stream is None or item[1].stream == stream]
        tokens = [token for token, sent in items if sent.sent_at < old]
        for token in tokens:
            self._remove(token)
        return len(tokens)

    def _remove(self, token: str) -> None:
        sent = self._sent.pop(token, None)
        if sent is not None:
            self._size -= len(sent.message)


# Signs of life of workers, and the epoch of the store: by these a worker notices that the store has lost its past.
#
# All workers know the epoch, a random value in a record. Whoever finds that the record is gone, or that the store has
# an older sign of life than this worker has stored, begins a new epoch. So each worker notices a loss once: a store
# that was emptied or deleted, one that was started again from an older state, and a replica that has taken over too
# early. In a store of several parts, such as the primaries of a cluster, each of which can lose its past alone, a
# worker shows signs in all of them. A slot that moves to another part takes its sign along: until the next one is
# shown, this worker does not notice a loss there, but others do, whose signs are in other slots.


class _Sign(NamedTuple):
    """A sign of life that is stored for certain."""

    number: int
    shown_at: tuple[float, float]  # When it was sent, by both clocks.
    value: bytes | None  # None if there is none any more.


class LifeSigns:
    """What one worker shows of itself, and sees of the others."""

    def __init__(self, store: RetryingStore, id: str, key: Callable[[str, str], str], seconds: float) -> None:
        """Show nothing before `look`.

        Args:
            store: The store of all workers.
            id: The id of this worker.
            key: Returns the key of a record from its kind and its name.
            seconds: Seconds after its last sign at which a worker counts as ended.
        """
        self._store = store
        self._key = key
        self._seconds = seconds
        self._own = key("alive", id)
        self._looking = asyncio.Lock()
        self._number = 0  # Of the last sign.
        self._signs: dict[str, _Sign] = {}  # The last ones, by their keys.
        self._has_lost_sign = False  # True from when a sign was found to be lost until the epoch is another one.
        self._shown_at = (float("-inf"), float("-inf"))  # When the own one was, by both clocks.
        self._epoch: bytes | None = None
        self._former: set[bytes] = set()  # The epochs before.
        self.losses = 0  # How often the store has lost its past. A request that looks may be cancelled at any await.
        self.unsighted_at = float("-inf")  # When it may last have missed a loss: by a pause, or by a sign that moved.
        self.unsure_until = float("-inf")  # Until then, a worker without a sign may be alive.

    @property
    def epoch(self) -> str:
        """The epoch of the store, as this worker has last seen it; "" before `look`."""
        return "" if self._epoch is None else self._epoch.decode()

    async def look(self, read: int = 0) -> None:
        """Show that this worker runs, and has read its mail up to a number; count a loss. Raises
        StoreUnavailableError."""
        async with self._looking:
            self.note_pause()
            times, known = (clock.monotonic(), clock.wall()), {*self._signs}
            shown = {self._own: await self._store.repeat(lambda: self._replace(self._own, read))}
            shown |= await self._of_parts(read)
            for key in self._signs.keys() - {self._own, *self._keys_of_parts()}:
                del self._signs[key]  # That part is no more.
            if known and not shown.keys() <= known:
                self.unsighted_at = clock.monotonic()
            await self._look_at_epoch(self._has_lost_sign)
            self.note_pause()  # It may have come meanwhile.
            self._has_lost_sign = False
            self._signs |= shown
            self._shown_at = times

    async def look_quickly(self) -> None:
        """Count a loss that another worker has noticed, or that of the epoch. Raises StoreUnavailableError."""
        async with self._looking:
            await self._look_at_epoch(False)

    async def read_by(self, worker: str) -> int | None:
        """Return up to which number another worker has read its mail; None if it shows no sign of life."""
        sign = await self._store.get(self._key("alive", worker))
        return None if sign is None else int(from_json(sign)[1])

    async def shows_life(self, worker: str) -> bool:
        """Return True if a worker has lately shown that it runs. Raises StoreUnavailableError."""
        return await self._store.get(self._key("alive", worker)) is not None

    async def leave(self) -> None:
        """Let the others know at once that this worker has ended. Raises StoreUnavailableError."""
        await self._store.store.delete(self._own)

    @property
    def paused_seconds(self) -> float:
        """Seconds since the last sign, by whichever clock has gone on further: the machine may have slept."""
        return _seconds_since(self._shown_at)

    def note_pause(self) -> None:
        """Give the others time to show a sign of life after this worker has paused: they may have done so too."""
        if self._shown_at[0] > float("-inf") and self.paused_seconds > self._seconds:
            self.unsighted_at = clock.monotonic()
            self.give_time()

    def give_time(self) -> None:
        """Let each worker count as alive for a while."""
        self.unsure_until = clock.monotonic() + self._seconds

    async def _replace(self, key: str, read: int) -> _Sign:
        """Replace the last sign by the next one, and return it. One command compares and stores: no loss comes between
        the two. Each attempt has a number of its own: one that was stored without an answer is not a later one."""
        store = self._store.store
        while True:
            last = self._signs.get(key)
            self._number += 1
            value = to_json([self._number, read])
            sent_at = clock.monotonic(), clock.wall()  # The machine may have slept since the attempt before.
            if await store.put(key, value, self._seconds, ANYTHING if last is None else last.value):
                # At once: what fails after it must not hide that the store has lost it.
                self._signs[key] = sign = _Sign(self._number, sent_at, value)
                return sign
            assert last is not None, "whatever is stored was replaced"
            self._signs[key] = last._replace(value=_GONE)  # Should it be there again, the store has gone back.
            found = await store.get(key)
            self._has_lost_sign = self._is_lost(last, found) or self._has_lost_sign
            number = last.number if found is None else _number_of(found)
            self._signs[key] = last._replace(number=number, value=found)

    def _is_lost(self, last: _Sign, sign: bytes | None) -> bool:
        if sign is None:
            return _seconds_since(last.shown_at) <= _SURE * self._seconds  # Otherwise it may have expired.
        return _number_of(sign) <= last.number

    def _keys_of_parts(self) -> list[str]:
        return [f"{self._own}{{{part}}}" for part in self._store.parts]

    async def _of_parts(self, read: int) -> dict[str, _Sign]:
        """Show a sign in each part, and return those of the parts that have answered."""
        tasks: dict[str, asyncio.Task[_Sign]] = {}
        for _ in range(_MOVES):
            new = {key: self._replace(key, read) for key in self._keys_of_parts() if key not in tasks}
            if not new:
                break
            showing = {key: asyncio.create_task(work) for key, work in new.items()}
            tasks |= showing
            _, late = await asyncio.wait(showing.values(), timeout=_PART_SECONDS)
            for task in late:
                task.cancel()
        answered = {key: task for key, task in tasks.items() if task.done() and not task.cancelled()}
        return {key: task.result() for key, task in answered.items() if task.exception() is None}

    async def _look_at_epoch(self, is_lost: bool) -> None:
        key = self._key("epoch", "")
        while True:
            stored, known = await self._store.touch(key, EPOCH_SECONDS), self._epoch
            is_former = stored in self._former  # The store has gone back by more than one loss.
            if stored is not None and not is_former and (stored != known or not is_lost):
                break
            epoch = secrets.token_hex(8).encode()
            if await self._store.put(key, epoch, EPOCH_SECONDS, expected=stored):
                stored = epoch
                break
        self._epoch = stored
        if known is None or stored == known:
            return
        self._former.add(known)
        self.give_time()
        self._signs.clear()  # Whatever sign is there, the next one replaces it.
        self.losses += 1


def _number_of(sign: bytes) -> int:
    return int(from_json(sign)[0])


def _seconds_since(times: tuple[float, float]) -> float:
    return max(clock.monotonic() - times[0], clock.wall() - times[1])


class Mailbox:
    """What one worker gets, and what it has sent."""

    def __init__(
        self, store: RetryingStore, id: str, key: Callable[[str, str], str], receive: Callable[[dict[str, Any]], None]
    ) -> None:
        """Use a store.

        Args:
            store: The store of all workers.
            id: The id of this worker.
            key: Returns the key of a stream from its kind and its name.
            receive: Called with the fields of each message.
        """
        self._store = store
        self._key = key
        self._receive = receive
        self._own = key("mail", id)
        self._all = key("mail", "")
        self._last = {self._own: 0, self._all: 0}  # The numbers of the last messages that were read.
        self._reading = asyncio.Lock()
        self._tokens: dict[str, None] = {}  # Those of the messages that were read last.
        self.sent = Outbox(store)

    @property
    def undelivered(self) -> int:
        """Messages to single workers that they have not read yet."""
        return self.sent.count(self._all)

    @property
    def read_number(self) -> int:
        """The number up to which the messages to this worker alone were read."""
        return self._last[self._own]

    async def open(self) -> None:
        """Begin after the last message to all workers."""
        self._last[self._all] = self._last[self._all] or await self._store.last(self._all)

    async def send(self, worker: str, token: str, kind: str, fields: dict[str, Any]) -> None:
        """Store a message for a worker, or for all others if its id is empty. Raises StoreUnavailableError."""
        message = to_json({"kind": kind, _TOKEN: token, **fields})
        if not worker:
            self._know(token)
        await self.sent.append(self._key("mail", worker), message, MAIL_SECONDS, token)

    async def read(self) -> None:
        """Handle the messages that are new. Raises StoreUnavailableError."""
        async with self._reading:
            for stream in self._last:
                await self._read_stream(stream)

    async def _read_stream(self, stream: str) -> None:
        last = self._last[stream]
        entries = await self._store.read(stream, last)
        if not entries and last and await self._store.last(stream) < last:
            # It has expired or was lost, and the time of the store may have gone back since.
            self._last[stream] = 0
            entries = await self._store.read(stream, 0)
        for number, message in entries:
            self._last[stream] = number
            fields = from_json(message)
            if self._know(fields.pop(_TOKEN)):
                self._receive(fields)

    def _know(self, token: str) -> bool:
        """Remember a message. Return False if it is known."""
        if token in self._tokens:
            return False
        self._tokens[token] = None
        if len(self._tokens) > _TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return True

    async def settle(self, life: LifeSigns, look: Callable[[], Any]) -> None:
        """Forget what was read, and append again what was not, though its worker lives.

        `look` looks whether the store has lost its past: then no message counts as read because a later one was.
        Raises StoreUnavailableError.
        """
        read = {stream: await life.read_by(self._worker_of(stream)) for stream in self.sent.streams() - {self._all}}
        if read and await look():
            return
        late: list[str] = []
        for stream, number in read.items():
            if number is not None:
                await self.sent.settle(stream, number)
                late.append(stream)
            elif clock.monotonic() < life.unsure_until:
                continue  # After a pause, the signs of those that live have expired as well.
            elif lost := self.sent.forget(MAIL_SECONDS, stream):
                _log.warning("%d messages to a worker that has ended were not read", lost)
                if metrics_module() is not None:
                    measures.count_lost_messages(lost)
        await self.sent.append_again(_LATE_SECONDS, late)
        self.sent.forget(_ALL_SECONDS, self._all)

    def _worker_of(self, stream: str) -> str:
        return stream.removeprefix(self._all)
