"""A transport of newline-delimited messages over two file descriptors, driven by the event loop.

The descriptors stay blocking, because other processes may share them: they are read when the event loop reports them
readable, and at most PIPE_BUF bytes are written when poll reports them writable.
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
_PIPE_BUF: Final = 4096  # Bytes that a writable pipe takes without blocking (PIPE_BUF on Linux).
_HIGH_WATER: Final = 1 << 20  # Bytes of unsent messages above which `drain` waits.
_MAX_READY: Final = 4096  # Messages read but not delivered above which reading pauses.


class PipeTransport:
    """Messages from one descriptor and to another, one per line. Closing the transport closes both descriptors."""

    kind = "stdio"
    close_reason = "the peer closed the connection"

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
        self._paused = False
        self._reading = self._threaded = False
        self._unsent = bytearray()
        self._scheduled = self._flushing = False
        # True while messages are delivered: messages sent meanwhile are written together after the last delivery.
        self._delivering = False
        self._room = asyncio.Event()
        self._room.set()
        self._poll = select.poll()
        self._poll.register(outgoing, select.POLLOUT)
        self._adjust_reading()

    # ---- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the input."""
        while not self._ready:
            if self._ended:
                return None
            self._wake = self._loop.create_future()
            await self._wake
        line = self._ready.popleft()
        self._adjust_reading()
        return line

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None:
        """Call `deliver` with each message as it is read, and with None at the end, instead of using `receive`."""
        self._deliver = deliver
        self._loop.call_soon(self._deliver_ready)

    def pause(self) -> None:
        """Deliver no messages until `resume`."""
        self._paused = True
        self._adjust_reading()

    def resume(self) -> None:
        """Deliver messages again."""
        self._paused = False
        self._deliver_ready()
        self._adjust_reading()

    def remote_closed(self) -> None:
        """Note that the peer has closed its end: the input is read to its end even if the peer reads no output."""
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
                if len(self._unsent) > _HIGH_WATER:
                    self._flush()
        finally:
            self._delivering = not outermost
        if outermost and self._unsent and not self._flushing and not self._scheduled:
            self._flush()
        if self._ended and not self._ready:
            deliver, self._deliver = self._deliver, _nothing
            self._deliver_end(deliver)

    def _deliver_end(self, deliver: Callable[[bytes | None], None]) -> None:
        deliver(None)

    def _adjust_reading(self) -> None:
        """Read from the descriptor unless delivery is paused, or too much is undelivered or unsent."""
        room = (self._room.is_set() or self._remote_closed) and len(self._ready) <= _MAX_READY
        reading = not self._ended and not self._paused and room
        if reading == self._reading or self._threaded:
            return
        self._reading = reading
        if not reading:
            self._readers.remove_reader(self._incoming)
            return
        try:
            self._readers.add_reader(self._incoming, self._on_readable)
        except (PermissionError, NotImplementedError):
            # The event loop cannot watch a regular file; a thread reads it to its end.
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

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send(self, message: bytes, more: bool = False) -> None:
        """Buffer a message and write it as soon as possible; never blocks. With `more`, further messages are expected
        in the same iteration of the event loop, and written together. Raises ConnectionClosedError."""
        if self._broken or self._closed:
            raise ConnectionClosedError(self.close_reason)
        self._unsent += message
        self._unsent += b"\n"  # Encoded JSON contains no line break.
        if self._delivering and self._ready:
            return
        if self._delivering or not more or self._flushing:
            self._flush()
        elif not self._scheduled:
            # More messages follow in this iteration of the event loop: write them together.
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Write as much as possible without blocking, and the rest when the descriptor is writable."""
        self._scheduled = False
        if self._closed:
            return
        unsent = self._unsent
        try:
            while unsent and self._poll.poll(0):
                del unsent[: os.write(self._outgoing, unsent if len(unsent) <= _PIPE_BUF else unsent[:_PIPE_BUF])]
        except OSError:
            self._broken = True
            unsent.clear()
        if unsent or self._flushing or self._broken:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Flush again when the descriptor is writable; stop reading while more than _HIGH_WATER bytes are unsent."""
        waits = bool(self._unsent)
        if waits and not self._flushing:
            self._loop.add_writer(self._outgoing, self._flush)
        elif not waits and self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._flushing = waits
        if (len(self._unsent) < _HIGH_WATER) != self._room.is_set():
            self._room.set() if len(self._unsent) < _HIGH_WATER else self._room.clear()
            self._adjust_reading()
            if self._room.is_set() and self._ready:
                self._loop.call_soon(self._deliver_ready)
        if self._broken:
            self._end()

    async def drain(self) -> None:
        """Wait until fewer than _HIGH_WATER bytes are unsent. Raises ConnectionClosedError."""
        await self._room.wait()
        if self._broken:
            raise ConnectionClosedError(self.close_reason)

    # ---- closing -----------------------------------------------------------------------------------------------------

    async def close(self, timeout: float = 0.3) -> None:
        """Write unsent messages for at most `timeout` seconds, then close both descriptors."""
        if self._closed:
            return
        self._flush()
        deadline = self._loop.time() + timeout
        while self._unsent and not self._broken and self._loop.time() < deadline:  # noqa: ASYNC110
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
    """Ignore a message that is delivered after the end."""
