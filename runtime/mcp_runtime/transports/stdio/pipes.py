"""Two file descriptors go in, a transport of lines comes out, driven by the event loop without threads or copies.

Neither descriptor is made non-blocking, because whoever shares it would be surprised: a read happens when the loop
says there is something to read, and a write of at most PIPE_BUF bytes when there is room for that much.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ...aio.selector import ReaderRegistry
from ...errors import ConnectionClosedError
from ...protocol.framing import MAX_MESSAGE_BYTES, LineDecoder

_CHUNK: Final = 1 << 17  # Bytes to read at once.
_LOW_WATER: Final = (
    4096  # Bytes that can be written without blocking once a descriptor is writable (PIPE_BUF on Linux).
)
_HIGH_WATER: Final = 1 << 20  # Bytes still to be sent above which senders wait.
_MAX_READY: Final = 4096  # Lines read but not taken above which reading pauses.


class PipeTransport:
    """Lines in from one descriptor, lines out to another; both are closed with it."""

    close_reason = "the other side ended the conversation"

    def __init__(
        self, incoming: int, outgoing: int, limit: int = MAX_MESSAGE_BYTES, readers: ReaderRegistry | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._readers = readers or self._loop
        self._incoming, self._outgoing = incoming, outgoing
        self._lines = LineDecoder(limit)
        self._ready: deque[bytes] = deque()
        self._deliver: Callable[[bytes | None], None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._ended = self._closed = self._broken = False
        self._remote_closed = False
        self._paused = False  # Whoever takes the messages wants no more for now.
        self._reading = self._threaded = False
        self._is_left = bytearray()  # What is still to be sent.
        self._scheduled = self._flushing = False
        self._delivering = (
            False  # Messages are being handed over; what is said meanwhile goes out with the last of them.
        )
        self._room = asyncio.Event()
        self._room.set()
        self._poll = select.poll()
        self._poll.register(outgoing, select.POLLOUT)
        self._adjust_reading()

    # ---- in -----------------------------------------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        while not self._ready:
            if self._ended:
                return None
            self._wake = self._loop.create_future()
            await self._wake
        line = self._ready.popleft()
        self._adjust_reading()
        return line

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None:
        """Hand over each message as it is read, and None at the end, instead of keeping it for `receive`."""
        self._deliver = deliver
        self._loop.call_soon(self._deliver_ready)

    def pause(self) -> None:
        """Hand over nothing until `resume`."""
        self._paused = True
        self._adjust_reading()

    def resume(self) -> None:
        self._paused = False
        self._deliver_ready()
        self._adjust_reading()

    def remote_closed(self) -> None:
        """The other side says nothing more: read to the end, also while it takes nothing of what is sent."""
        self._remote_closed = True
        self._adjust_reading()

    def _deliver_ready(self) -> None:
        if self._deliver is None:
            if (self._ready or self._ended) and self._wake is not None and not self._wake.done():
                self._wake.set_result(None)
            return
        outermost, self._delivering = not self._delivering, True
        try:
            while self._ready and not self._paused and (self._room.is_set() or self._remote_closed or self._ended):
                self._deliver(self._ready.popleft())
                if len(self._is_left) > _HIGH_WATER:
                    self._flush()
        finally:
            self._delivering = not outermost
        if outermost and self._is_left and not self._flushing and not self._scheduled:
            self._flush()
        if self._ended and not self._ready:
            deliver, self._deliver = self._deliver, _nothing
            self._deliver_end(deliver)

    def _deliver_end(self, deliver: Callable[[bytes | None], None]) -> None:
        deliver(None)

    def _adjust_reading(self) -> None:
        """Read while somebody takes what is read, and takes what is answered."""
        room = (self._room.is_set() or self._remote_closed) and len(self._ready) <= _MAX_READY
        wanted = not self._ended and not self._paused and room
        if wanted == self._reading or self._threaded:
            return
        self._reading = wanted
        if not wanted:
            self._readers.remove_reader(self._incoming)
            return
        try:
            self._readers.add_reader(self._incoming, self._on_readable)
        except (PermissionError, NotImplementedError):
            # A regular file is always readable, so the loop does not watch it; a thread reads it to its end.
            self._threaded = True
            threading.Thread(target=self._read_in_thread, name="mcp input", daemon=True).start()

    def _on_readable(self) -> None:
        try:
            self._read(os.read(self._incoming, _CHUNK))
        except OSError:
            self._read(b"")

    def _read_in_thread(self) -> None:
        while data := os.read(self._incoming, _CHUNK):
            self._loop.call_soon_threadsafe(self._read, data)
        self._loop.call_soon_threadsafe(self._read, b"")

    def _read(self, data: bytes) -> None:
        if data:
            self._ready.extend(self._lines.feed(data))
            self._deliver_ready()
            if self._ready:
                self._adjust_reading()
        else:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._adjust_reading()
        self._deliver_ready()

    # ---- out ----------------------------------------------------------------------------------------------------------

    def send(self, message: bytes, more: bool = False) -> None:
        if self._broken or self._closed:
            raise ConnectionClosedError(self.close_reason)
        self._is_left += message
        self._is_left += b"\n"  # JSON holds no line end, so neither does a message.
        if self._delivering and self._ready:
            return
        if self._delivering or not more or self._flushing:
            self._flush()
        elif not self._scheduled:
            # More is said in this turn of the loop, so that all of it can go out in one piece.
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write as much as goes without blocking, and the rest when there is room."""
        self._scheduled = False
        if self._closed:
            return
        left = self._is_left
        try:
            while left and self._poll.poll(0):
                del left[: os.write(self._outgoing, left if len(left) <= _LOW_WATER else left[:_LOW_WATER])]
        except OSError:
            self._broken = True
            left.clear()
        if left or self._flushing or self._broken:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Be called again when more can be written, if something is left; and read no further if it is much."""
        waits = bool(self._is_left)
        if waits and not self._flushing:
            self._loop.add_writer(self._outgoing, self._flush)
        elif not waits and self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._flushing = waits
        if (len(self._is_left) < _HIGH_WATER) != self._room.is_set():
            self._room.set() if len(self._is_left) < _HIGH_WATER else self._room.clear()
            self._adjust_reading()
            if self._room.is_set() and self._ready:
                self._loop.call_soon(self._deliver_ready)
        if self._broken:
            self._end()

    async def drain(self) -> None:
        await self._room.wait()
        if self._broken:
            raise ConnectionClosedError(self.close_reason)

    # ---- end ----------------------------------------------------------------------------------------------------------

    async def close(self, timeout: float = 0.3) -> None:
        """Send what is left, for at most `patience` seconds, then close both descriptors."""
        if self._closed:
            return
        self._flush()
        deadline = self._loop.time() + timeout
        while self._is_left and not self._broken and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._closed = self._broken = True
        self._end()
        if self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._room.set()
        self._release()

    def _release(self) -> None:
        """Close both descriptors."""
        for descriptor in {self._incoming, self._outgoing}:
            os.close(descriptor)


def _nothing(message: bytes | None) -> None:
    """Takes what comes after the end."""
