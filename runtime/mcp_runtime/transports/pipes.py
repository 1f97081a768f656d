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
from typing import Final

from ..errors import NotConnected
from ..framing import LIMIT, Lines, framed

_CHUNK: Final = 1 << 17  # Bytes to read at once.
_ROOM: Final = 4096  # Bytes that can be written without blocking once a descriptor is writable (PIPE_BUF on Linux).
_HIGH: Final = 1 << 20  # Bytes still to be sent above which senders wait.
_MOST_READY: Final = 4096  # Lines read but not taken above which reading pauses.


class PipeTransport:
    """Lines in from one descriptor, lines out to another; both are closed with it."""

    ending = "the other side ended the conversation"

    def __init__(self, incoming: int, outgoing: int, limit: int = LIMIT) -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = incoming, outgoing
        self._lines = Lines(limit)
        self._ready: deque[bytes] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._ended = False
        self._taken: list[bytes] = []
        self._left = bytearray()
        self._flushing = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._broken = False
        self._closed = False
        self._poll = select.poll()
        self._poll.register(outgoing, select.POLLOUT)
        self._reading = False
        self._threaded = False
        self._read_on()

    # ---- in -----------------------------------------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        while not self._ready:
            if self._ended or self._closed:
                return None
            if not self._reading:
                self._read_on()
            self._wake = self._loop.create_future()
            await self._wake
        return self._ready.popleft()

    def _read_on(self) -> None:
        self._reading = True
        if self._threaded:
            return
        try:
            self._loop.add_reader(self._incoming, self._readable)
        except (PermissionError, NotImplementedError):
            # A regular file is always readable, so the loop does not watch it; a thread reads it to its end.
            self._threaded = True
            threading.Thread(target=self._read_in_thread, name="mcp input", daemon=True).start()

    def _readable(self) -> None:
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
        else:
            self._end()
        if len(self._ready) > _MOST_READY and not self._threaded:
            self._reading = False
            self._loop.remove_reader(self._incoming)
        if (self._ready or self._ended) and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _end(self) -> None:
        self._ended = True
        if not self._threaded and self._reading:
            self._loop.remove_reader(self._incoming)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # ---- out ----------------------------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        if self._broken or self._closed:
            raise NotConnected(self.ending)
        self._taken.append(message)
        if len(self._taken) == 1 and not self._flushing:
            # All that is sent in this turn of the loop goes out in one piece.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._taken:
            self._left += framed(self._taken)
            self._taken.clear()
        self._write()

    def _write(self) -> None:
        written = 0
        view = memoryview(self._left)
        try:
            while written < len(view) and self._poll.poll(0):
                written += os.write(self._outgoing, view[written : written + _ROOM])
        except OSError:
            self._broken = True
        finally:
            view.release()
        del self._left[: len(self._left) if self._broken else written]
        if self._broken:
            self._end()
        waits = bool(self._left)
        if waits and not self._flushing:
            self._loop.add_writer(self._outgoing, self._flush)
        elif not waits and self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._flushing = waits
        if len(self._left) < _HIGH:
            self._empty.set()
        else:
            self._empty.clear()

    async def drained(self) -> None:
        if not self._empty.is_set():
            await self._empty.wait()
        if self._broken:
            raise NotConnected(self.ending)

    # ---- end ----------------------------------------------------------------------------------------------------------

    async def close(self, patience: float = 0.3) -> None:
        """Send what is left, for at most `patience` seconds, then close both descriptors."""
        if self._closed:
            return
        self._flush()
        deadline = self._loop.time() + patience
        while self._left and not self._broken and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        self._closed = True
        self._end()
        if self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._broken = True
        self._empty.set()
        for descriptor in {self._incoming, self._outgoing}:
            os.close(descriptor)
