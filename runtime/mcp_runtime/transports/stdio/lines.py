"""A transport of newline-delimited messages, without the I/O: framing, delivery, and when to stop reading."""

from __future__ import annotations

import asyncio
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

from ... import products
from ...errors import ConnectionClosedError
from ...protocol.framing import DEFAULT_LIMIT, LineDecoder, SizeLimit
from ...session.interfaces import closed_error
from ...usage.rules import STDIO, variable_text
from ...usage.texts import coloured

if TYPE_CHECKING:
    from ...session.interfaces import Transport

HIGH_WATER: Final = 1 << 20  # Bytes of unsent messages above which `drain` waits.
MAX_UNSENT: Final = 256 << 20  # Bytes of unsent messages above which an end that reads on refuses to send more.
_MAX_READY: Final = 4096  # Messages read but not delivered above which reading pauses.
OnLine = Callable[[str], None]


class ReaderRegistry(Protocol):
    """Calls back when a descriptor is readable: an event loop, or its selector."""

    def add_reader(self, fd: int, callback: Callable[[], None], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


class MessageDecoder(Protocol):
    """Makes messages of the bytes that are read."""

    def feed(self, data: bytes, /) -> list[bytes]: ...


class LineTransport(ABC):
    """Messages from one descriptor and to another, one per line. Closing the transport closes both descriptors.

    A subclass reads and writes: it calls `_read` with what it has read, and `_end` when no more can be sent. The
    descriptors stay blocking, because other processes may share them.
    """

    kind = "stdio"
    close_reason = "the peer closed the connection"
    # False if messages are read and delivered however much is unsent. If both ends of a pipe stopped to read until the
    # other one reads, both would wait for ever.
    waits_for_room = True
    high_water = HIGH_WATER

    def __init__(self, incoming: int, outgoing: int, limit: SizeLimit = DEFAULT_LIMIT) -> None:
        self._loop = asyncio.get_running_loop()
        self._incoming = incoming
        self._outgoing = outgoing
        self._lines: MessageDecoder = LineDecoder(limit)
        self._ready: deque[bytes] = deque()
        self._deliver: Callable[[bytes | None], None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._ended = self._closed = self._broken = False
        self._remote_closed = False
        self._paused = False
        self._unsent = bytearray()
        self._scheduled = self._flushing = False
        # True while messages are delivered: messages sent meanwhile are written together after the last delivery.
        self._delivering = False
        self._room = asyncio.Event()
        self._room.set()
        self._has_room = True  # The same, faster to read.

    def use_decoder(self, decoder: MessageDecoder) -> None:
        """Read messages with another decoder than that of lines; call it before anything is read."""
        self._lines = decoder

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
        """Deliver no messages until `resume`. Reading stops with the next chunk: to stop at once, and begin again,
        would take two system calls for each message."""
        self._paused = True

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
        outermost = not self._delivering
        self._delivering = True
        try:
            while self._ready and not self._paused and (self._has_room or self._reads_on or self._ended):
                self._deliver(self._ready.popleft())
                if len(self._unsent) > HIGH_WATER:
                    self._flush()
        finally:
            self._delivering = not outermost
        if outermost and self._unsent and not self._flushing and not self._scheduled:
            self._flush()
        if self._ended and not self._ready:
            deliver = self._deliver
            self._deliver = _nothing
            self._deliver_end(deliver)

    def _deliver_end(self, deliver: Callable[[bytes | None], None]) -> None:
        deliver(None)

    def _may_read(self) -> bool:
        """Return False while delivery is paused, or while too much is undelivered or unsent."""
        return not self._ended and not self._paused and self._reads_on and len(self._ready) <= _MAX_READY

    @property
    def _reads_on(self) -> bool:
        return self._has_room or self._remote_closed or not self.waits_for_room

    @abstractmethod
    def _adjust_reading(self) -> None:
        """Begin or stop to call `_read`, as `_may_read` returns."""

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
            raise closed_error(self)
        if not self._has_room and not self.waits_for_room and self._unsent_bytes() > MAX_UNSENT:
            raise ConnectionClosedError(
                f"the server does not read: {MAX_UNSENT >> 20} MiB of messages wait for it; send fewer at a time"
            )
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

    @abstractmethod
    def _flush(self) -> None:
        """Write unsent messages, or have them written; never blocks."""

    @property
    def has_room(self) -> bool:
        """False while more than `high_water` bytes are unsent."""
        return self._has_room

    async def drain(self) -> None:
        """Wait until fewer than `high_water` bytes are unsent. Raises ConnectionClosedError."""
        await self._room.wait()
        if self._broken:
            raise closed_error(self)

    # ---- closing -----------------------------------------------------------------------------------------------------

    def _set_room(self, room: bool) -> None:
        """Stop reading while more than `high_water` bytes are unsent, unless this end reads on."""
        if room == self._has_room:
            return
        self._has_room = room
        self._room.set() if room else self._room.clear()
        self._adjust_reading()
        if room and self._ready:
            self._loop.call_soon(self._deliver_ready)

    async def close(self, timeout: float = 0.3) -> None:
        """Write unsent messages for at most `timeout` seconds, then close both descriptors."""
        if self._closed:
            return
        self._flush()
        deadline = self._loop.time() + timeout
        while self._unsent_bytes() and not self._broken and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._closed = self._broken = True
        self._end()
        self._has_room = True
        self._room.set()
        self._release()

    def _unsent_bytes(self) -> int:
        """Return the number of bytes that are not written yet."""
        return len(self._unsent)

    @abstractmethod
    def _release(self) -> None:
        """Close both descriptors."""


def _nothing(message: bytes | None) -> None:
    """Ignore a message that is delivered after the end."""


# How stdio is read and written: by the event loop or by threads. `MCP_STDIO=threads` in the environment selects the
# threads where both work, which tests them.


def uses_threads(*descriptors: int) -> bool:
    """Return True if threads read and write these descriptors.

    They do on Windows, where nothing watches a pipe; for a terminal, which macOS cannot watch; and with
    `MCP_STDIO=threads`. Raises LocalError for another value of that variable.
    """
    mode = variable_text(STDIO)
    if sys.platform == "win32" or mode == "threads":
        return True
    return sys.platform != "linux" and any(map(os.isatty, descriptors))


# The seams of the system: pipes that threads read and write, and standard error that no reader can stop.


class PipeIO(Protocol):
    """How pipes are read and written where the event loop cannot watch them, as on Windows."""

    def open_stdio(self, incoming: int, outgoing: int, limit: SizeLimit, at_end: Callable[[], None]) -> Transport:
        """Return a transport over two descriptors. `at_end` is called in a thread after the end of the input."""
        ...

    def open_child(
        self, command: tuple[str, ...], env: Mapping[str, str], cwd: str | None, stderr: OnLine | None, limit: SizeLimit
    ) -> LineTransport:
        """Start a command with these variables, and return the transport to it.

        Raises OSError if it cannot be started, and LocalError for an argument that no batch file can take.
        """
        ...

    def environment(self, inherited: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a child process of Windows: those with these names, its own, and those of `env`."""
        ...


def pipe_io() -> PipeIO:
    """Return what reads pipes in threads. Raises LocalError where the product is not there."""
    return cast("PipeIO", products.require("pipe_io", "stdio that threads read and write"))


class ErrorOutput(Protocol):
    """Standard error of this process."""

    def unblock_error_output(self) -> None:
        """Let `print` and the loggers of this process write without waiting for the reader of its standard error."""

    def finish_error_output(self) -> None:
        """Wait a moment until the reader of standard error has taken what was written."""

    def write_line(self, line: str) -> None:
        """Write a line of a child process to standard error."""

    def exit_without_threads(self) -> None:
        """Let the process exit soon after its main thread, although threads of handlers still run."""


class PlainErrorOutput:
    """Standard error as Python has it: who writes to it waits for its reader."""

    def unblock_error_output(self) -> None:
        """Do nothing."""

    def finish_error_output(self) -> None:
        """Do nothing: what was written has been taken."""

    def write_line(self, line: str) -> None:
        """Write a line of a child process. In a terminal, it can choose colours and nothing else."""
        print(coloured(line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)

    def exit_without_threads(self) -> None:
        """Do nothing: Python waits for the threads of handlers."""


_PLAIN: Final = PlainErrorOutput()


def error_output() -> ErrorOutput:
    """Return how standard error of this process is written."""
    return cast("ErrorOutput", products.find("error_output")) or _PLAIN
