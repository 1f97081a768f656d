"""A transport of newline-delimited messages over two file descriptors, driven by the event loop: Linux and macOS.

The descriptors are read when the event loop reports them readable, and at most PIPE_BUF bytes are written when poll
reports them writable.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import Final

from ...protocol.framing import DEFAULT_LIMIT, SizeLimit
from .lines import LineTransport, ReaderRegistry

assert sys.platform != "win32"  # Nothing watches pipes there: see threaded.py.

CHUNK: Final = 1 << 17  # Bytes to read at once.
_PIPE_BUF: Final = select.PIPE_BUF  # Bytes that a writable pipe takes without blocking: 4096 on Linux, 512 on macOS.


class PipeTransport(LineTransport):
    """Messages from one descriptor and to another, which the event loop watches."""

    def __init__(
        self, incoming: int, outgoing: int, limit: SizeLimit = DEFAULT_LIMIT, readers: ReaderRegistry | None = None
    ) -> None:
        super().__init__(incoming, outgoing, limit)
        self._readers = readers or self._loop
        self._reading = self._threaded = False
        self._poll = select.poll()
        self._poll.register(outgoing, select.POLLOUT)
        self._adjust_reading()

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def _adjust_reading(self) -> None:
        """Read from the descriptor unless delivery is paused, or too much is undelivered or unsent."""
        reading = self._may_read()
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
            self._read(os.read(self._incoming, CHUNK))
        except OSError:
            self._read(b"")

    def _read_in_thread(self) -> None:
        while data := os.read(self._incoming, CHUNK):
            self._loop.call_soon_threadsafe(self._read, data)
        self._loop.call_soon_threadsafe(self._read, b"")

    # ---- sending -----------------------------------------------------------------------------------------------------

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
        """Flush again when the descriptor is writable; stop reading while more than `high_water` bytes are unsent."""
        waits = bool(self._unsent)
        if waits and not self._flushing:
            self._loop.add_writer(self._outgoing, self._flush)
        elif not waits and self._flushing:
            self._loop.remove_writer(self._outgoing)
        self._flushing = waits
        self._set_room(len(self._unsent) < self.high_water)
        if self._broken:
            self._end()

    def _release(self) -> None:
        self._stop_writing()
        for descriptor in {self._incoming, self._outgoing}:
            os.close(descriptor)

    def _stop_writing(self) -> None:
        if self._flushing:
            self._flushing = False
            self._loop.remove_writer(self._outgoing)


def wait_for_close(incoming: int) -> None:
    """Wait until the peer closes the other end of a descriptor. Never return if the system cannot tell."""
    peer = select.poll()
    # macOS reports no event of those that are always reported unless one is registered, and has no POLLRDHUP.
    peer.register(incoming, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    if any(event & select.POLLNVAL for _, event in peer.poll()):
        threading.Event().wait()
