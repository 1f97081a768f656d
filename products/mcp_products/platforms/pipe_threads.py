"""Threads that read and write a descriptor with blocking calls, and exchange bytes with the event loop in batches.

Each thread owns its descriptor and closes it when it ends: on Windows, closing a descriptor that another thread reads
blocks. All are daemon threads, so that a read that never returns does not prevent the process from exiting.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

from mcp_runtime.protocol.framing import DEFAULT_LIMIT, SizeLimit
from mcp_runtime.transports.stdio.child import OnLine, ProcessTree, SubprocessTransport
from mcp_runtime.transports.stdio.lines import LineTransport

from .commands import environment as environment

if sys.platform == "win32":
    from .windows import JobTree as Tree
else:
    from mcp_runtime.transports.stdio.piped_child import GroupTree as Tree

_CHUNK: Final = 1 << 17  # Bytes to read at once.
_BLOCK: Final = 1 << 16  # Bytes to write at once.
_MAX_UNRECEIVED: Final = 1 << 20  # Bytes read but not received by the event loop above which the thread waits.
_LAST_LINES_SECONDS: Final = 0.1  # Longer if a process that the child has started writes on.
_END_SECONDS: Final = 1.0  # For threads to end, after all processes of the tree have ended.
_STEP: Final = 0.001


class ReaderThread:
    """Reads a descriptor to its end, and calls `receive` in the event loop with each chunk, and with `b""` at the end.

    One wake-up of the event loop delivers all chunks that were read meanwhile. While more than 1 MiB is not received,
    the thread waits.
    """

    def __init__(
        self,
        descriptor: int,
        receive: Callable[[bytes], None],
        on_end: Callable[[], None] | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """Start the thread.

        Args:
            descriptor: What to read.
            receive: Called in the event loop with each chunk.
            on_end: Called in the event loop at the end of the input, also while `receive` is paused.
            at_end: Called in the thread after that.
        """
        self._descriptor = descriptor
        self._receive = receive
        self._on_end = on_end
        self._at_end = at_end
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        # The thread adds to the first number, and the event loop to the second, so that they need no lock.
        self._bytes_read = self._bytes_received = 0
        self._scheduled = self._paused = self._stopped = False
        self._context = copy_context()  # That of the event loop, which handlers begin in: this thread has another.
        self._room = threading.Event()
        self._room.set()
        self.thread = threading.Thread(target=self._run, name="mcp reader", daemon=True)
        self.thread.start()

    def pause(self, paused: bool) -> None:
        """Call `receive` no more, or again; the thread reads on until it has 1 MiB."""
        if self._paused and not paused and self._chunks:
            self._loop.call_soon(self._hand_over)
        self._paused = paused

    def stop(self) -> None:
        """End the thread as soon as it has read more; nothing is received any more."""
        self._stopped = True
        self.discard()

    def discard(self) -> None:
        """Read to the end, and drop what is read."""
        self._receive = _nothing
        self.pause(False)

    def _hand_over(self) -> None:
        """Receive the chunks that are here now; more chunks are received in the next iteration of the event loop."""
        self._scheduled = False
        for _ in range(len(self._chunks)):
            if self._paused:
                return
            chunk = self._chunks.popleft()
            self._bytes_received += len(chunk)
            if not self._room.is_set():
                self._room.set()
            self._receive(chunk)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with suppress(RuntimeError):  # The event loop is closed.
                while self._read() and not self._stopped:
                    pass
                if self._on_end is not None:
                    self._loop.call_soon_threadsafe(self._on_end, context=self._context.copy())
        finally:
            os.close(self._descriptor)
        if self._at_end is not None:
            self._at_end()

    def _read(self) -> bool:
        """Read and hand over one chunk. Return False at the end."""
        try:
            chunk = _read_blocking(self._descriptor)
        except OSError:
            chunk = b""
        self._chunks.append(chunk)
        self._bytes_read += len(chunk)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._hand_over, context=self._context.copy())
        while self._bytes_read - self._bytes_received > _MAX_UNRECEIVED:
            self._room.clear()
            # The event loop may have received chunks before the event was cleared.
            if self._bytes_read - self._bytes_received > _MAX_UNRECEIVED:
                self._room.wait()
        return bool(chunk)


class WriterThread:
    """Writes to a descriptor what the event loop passes to `write`; many messages wake the thread once.

    `on_room` is called in the event loop when few bytes are unsent again, `on_error` when the peer reads no more.
    """

    def __init__(
        self, descriptor: int, high_water: int, on_room: Callable[[], None], on_error: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._high_water = high_water
        self._on_room = on_room
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[bytes | bytearray | None] = SimpleQueue()
        # The event loop adds to the first number, and the thread to the second, so that they need no lock.
        self._bytes_queued = self._bytes_written = 0
        self._full = self._last = False
        self.thread = threading.Thread(target=self._run, name="mcp writer", daemon=True)
        self.thread.start()

    @property
    def unsent(self) -> int:
        """The number of bytes that are not written yet."""
        return self._bytes_queued - self._bytes_written

    def write(self, data: bytes | bytearray) -> bool:
        """Have the bytes written. Return False if too many are unsent: `on_room` is called when they are fewer."""
        self._bytes_queued += len(data)
        self._queue.put(data)
        if self.unsent >= self._high_water:
            self._full = True
            if self.unsent >= self._high_water:  # The thread may have written before it could see the flag.
                return False
            self._full = False
        return True

    def close(self) -> None:
        """Close the descriptor as soon as all is written."""
        self._queue.put(None)

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        broken = False
        with suppress(RuntimeError):  # The event loop is closed.
            while data := self._next():
                try:
                    if not broken:
                        self._write(data)
                except OSError:
                    broken = True
                    self._loop.call_soon_threadsafe(self._on_error)
        with suppress(OSError):
            os.close(self._descriptor)

    def _next(self) -> bytes | bytearray | None:
        """Wait for bytes, and return all that are queued; None after `close`."""
        if self._last or (first := self._queue.get()) is None:
            return None
        parts = [first]
        with suppress(Empty):
            while (part := self._queue.get_nowait()) is not None:
                parts.append(part)
            self._last = True
        return first if len(parts) == 1 else b"".join(parts)

    def _write(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            written = _write_blocking(self._descriptor, view[:_BLOCK])
            view = view[written:]
            self._bytes_written += written
            if self._full and self.unsent < self._high_water:
                self._full = False
                self._loop.call_soon_threadsafe(self._on_room)


def _read_blocking(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:  # Another process that shares the pipe has set it to non-blocking.
            if sys.platform == "win32":
                raise
            select.select([descriptor], [], [])


def _write_blocking(descriptor: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            if sys.platform == "win32":
                raise
            select.select([], [descriptor], [])


def _nothing(chunk: bytes) -> None:
    """Drop a chunk."""


# A transport of newline-delimited messages over two file descriptors, for any system: threads read and write.
#
# Windows has nothing that watches a pipe, and macOS nothing that watches a terminal.


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


# A transport to a child process for any system: threads read and write its pipes.


class ThreadedChild(SubprocessTransport, ThreadedTransport):
    """A transport to a child process, with one thread for each of its pipes."""

    def __init__(self, tree: ProcessTree, stderr: OnLine | None, limit: SizeLimit) -> None:
        super().__init__(tree, stderr, limit)
        self._stderr_reader = ReaderThread(self._stderr, self._receive_stderr)

    def _release(self) -> None:
        self._reader.discard()
        self._writer.close()

    async def _close_and_reap(self, timeout: float) -> None:
        """Close and reap, then wait until the threads have closed the descriptors."""
        await super()._close_and_reap(timeout)
        threads = (self._reader.thread, self._writer.thread, self._stderr_reader.thread)
        await self._until_ended(_END_SECONDS, *threads)
        self._stderr_reader.stop()

    def _stop_reading(self) -> None:
        """Let the threads read to the end, which is near: all processes that could write have ended."""

    async def _read_last_lines(self) -> None:
        await self._until_ended(_LAST_LINES_SECONDS, self._stderr_reader.thread)

    async def _until_ended(self, seconds: float, *threads: Thread) -> None:
        deadline = self._loop.time() + seconds
        while any(thread.is_alive() for thread in threads) and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_STEP)
        await asyncio.sleep(0)  # Let the event loop receive what they have read last.


def open_stdio(incoming: int, outgoing: int, limit: SizeLimit, at_end: Callable[[], None]) -> ThreadedTransport:
    """Return a transport over two descriptors. The thread that reads calls `at_end` after the end of the input."""
    return ThreadedTransport(incoming, outgoing, limit, at_end)


def open_child(
    command: tuple[str, ...], env: Mapping[str, str], cwd: str | None, stderr: OnLine | None, limit: SizeLimit
) -> ThreadedChild:
    """Start a command with these variables, and return the transport to it.

    Raises OSError if it cannot be started, and LocalError for an argument that no batch file of Windows can take.
    """
    return ThreadedChild(Tree(command, env, cwd), stderr, limit)
