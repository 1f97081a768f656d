"""A transport of newline-delimited messages over two file descriptors, for any system: threads read and write.

Windows has nothing that watches a pipe, and macOS nothing that watches a terminal.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.framing import DEFAULT_LIMIT, SizeLimit
from .io_threads import ReaderThread, WriterThread
from .lines import LineTransport


class ThreadedTransport(LineTransport):
    """Messages from one descriptor and to another, with one thread for each."""

    def __init__(
        self, incoming: int, outgoing: int, limit: SizeLimit = DEFAULT_LIMIT, at_end: Callable[[], None] | None = None
    ) -> None:
        """Start the threads. The one that reads calls `at_end` after the end of the input."""
        super().__init__(incoming, outgoing, limit)
        self._writer = WriterThread(outgoing, self.high_water, self._on_room, self._on_error)
        self._reader = ReaderThread(incoming, self._read, self.remote_closed, at_end)

    def _adjust_reading(self) -> None:
        self._reader.pause(not self._ended and not self._may_read())

    def _flush(self) -> None:
        self._scheduled = False
        if self._closed or self._broken or not self._unsent:
            return
        unsent = self._unsent
        self._unsent = bytearray()
        if not self._writer.write(unsent):
            self._set_room(False)

    def _on_room(self) -> None:
        self._set_room(True)

    def _on_error(self) -> None:
        if self._closed:
            return
        self._broken = True
        self._unsent.clear()
        self._set_room(True)
        self._end()

    def _unsent_bytes(self) -> int:
        return len(self._unsent) + self._writer.unsent

    def _release(self) -> None:
        self._reader.stop()
        self._writer.close()
