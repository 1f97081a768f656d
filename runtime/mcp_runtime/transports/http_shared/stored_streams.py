"""SSE streams whose messages are in the store before they are sent, so that any worker can resume them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from ...http.asgi import PartedResponse
from ...stores.primitives import NumberedEntry, StoreUnavailableError
from .storing_stream import END, StoringStream
from .stream_claims import StreamClaim
from .stream_registrations import read_messages

_log: Final = logging.getLogger(__name__)

PAGE: Final = 64  # Entries that are read at once.


def session_digest(session_id: str, name: str) -> str:
    """Return what binds a name to a session, without the id of the session itself."""
    return sha256(f"{session_id} {name}".encode()).hexdigest()[:16]


class StoredStream(StoringStream):
    """A stream of one response. The worker that runs the handler writes it; any worker sends it.

    A connection that resumes the stream takes it over, see `stream_claims`, and its worker tells the one before to
    detach its own. The writer sends a hint to the worker with the connection when there is more to read."""

    __slots__ = ()

    async def is_stored(self) -> bool:
        """Return True if there is such a stream."""
        store = self._worker.store
        self.last = max(self.last, await store.last(self._worker.stream_prefix + self.id))
        return self.last > 0 or await store.get(self._worker.key("registered", self.id)) is not None

    async def take_over(self) -> None:
        """Let the connection that is attached next have the stream."""
        claim = StreamClaim(self._worker, self.id, self._ttl)
        before, _ = await claim.take()
        self._claim = claim
        await self.replaced(before.token)

    async def replaced(self, token: str) -> None:
        """Tell the worker of the connection before that it has lost the stream, and look how far the stream is."""
        previous = self._worker.other_worker(token or self.id)
        if previous is not None:
            await self._worker.send(previous, "stream", stream=self.id, hint="release", token=token)
        self.last = max(self.last, await self._worker.store.last(self._worker.stream_prefix + self.id))

    async def live_on(self) -> None:
        """Let the stream be stored, and found by the worker that writes it, while it is open."""
        if self._claim is not None and self.is_attached:
            await self._worker.store.touch(self._worker.key("holder", self.id), self._ttl)
        await super().live_on()

    async def restore(self) -> None:
        """Go on after the store has lost its past."""
        if self._claim is not None and self.is_attached:
            await self._claim.restore()
            self._look()
        await super().restore()

    def resume_after(self, number: int) -> None:
        """Know the number of the last message that the client has got, which the store may have lost."""
        if self._owner is None:
            self.last = max(self.last, number)

    def on_hint(self, hint: str, token: str = "") -> None:
        """Look for "news", "release" the connection with a token for another one, or "close" it."""
        if hint == "news":
            self._look()
        elif hint == "release" and token == ("" if self._claim is None else self._claim.token):  # "" is the POST.
            self.detach()
        elif hint == "close" and self._attached is not None:
            self.close_connection()

    def detach(self) -> None:
        """Detach the connection: another worker has one."""
        self._attached = None
        self._was_attached = True
        self._worker.leave(self, self._owner is None)
        self._recent = ()
        self._make_room()
        self._notify()
        if self._stored:
            self._worker.spawn(self._send_to_holder("news"))
        self.store_soon()

    def attach(self, connection: object) -> None:
        """Attach a connection; it gets the messages of a finished stream, too."""
        self.finished = self._dropped
        if self._stored or not self._ending:  # Otherwise all is sent with the first id that a client could resume with.
            self._worker.streams[self.id] = self
        if self._owner is None:
            self._worker.watched.add(self)
        super().attach(connection)

    def release(self, connection: object) -> None:
        """Detach a connection."""
        if self._attached is connection:
            self._recent = ()
            self._worker.leave(self, self._owner is None)
            super().release(connection)
            if self._unstored:
                self.store_soon()

    async def _begin(self, connection: object) -> None:
        if self.requests and not self.last:
            try:
                await self.register()
            except StoreUnavailableError as error:
                _log.warning("a stream was closed, because it cannot be stored: %s", error)
                self.release(connection)

    async def _send_from(self, connection: object, response: PartedResponse, cursor: int) -> int:
        """Send the messages after a number; see `SSEStream`."""
        writes = self._owner is not None
        try:
            while self._attached is connection and not self._dropped:
                if writes and cursor >= self._stored and not (self._worker.is_prompt and self._store_at_once()):
                    if not self._ending:  # Otherwise there will soon be the rest, which is then sent with the head.
                        await response.flush()
                    if self._unstored and self._storing is None:
                        await self._store_for(connection)
                if writes and cursor >= self._stored:
                    break
                entries = self._take_recent(cursor)
                if entries is None:
                    await response.flush()
                    entries = await read_messages(self._worker, self.id, cursor, PAGE)
                if not entries and writes and self._attached is connection:
                    await self._fail()  # What was stored is gone.
                if not entries or self._attached is not connection:
                    break
                ends = entries[-1][1] == END
                if messages := entries[:-1] if ends else entries:
                    cursor = await self._send_messages(connection, response, cursor, messages, ends)
                if ends and self._attached is connection:
                    self.finished = True
                    break
        except StoreUnavailableError as error:
            self._close_unread(connection, error)
        return cursor

    def _take_recent(self, cursor: int) -> Sequence[NumberedEntry] | None:
        """Return the next messages, if this worker has just stored them."""
        recent = self._recent
        self._recent = ()
        if recent and recent[0][0] <= cursor:
            recent = [entry for entry in recent if entry[0] > cursor]
        return recent if recent and recent[0][0] == cursor + 1 else None

    def _close_unread(self, connection: object, error: StoreUnavailableError) -> None:
        """End the connection; its client resumes the stream, here or at another worker."""
        _log.warning("a stream was closed, because its messages cannot be read: %s", error)
        self.release(connection)
