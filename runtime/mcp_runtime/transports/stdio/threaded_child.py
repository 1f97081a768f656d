"""A transport to a child process for any system: threads read and write its pipes."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Final

from ...protocol.framing import SizeLimit
from .child import OnLine, SubprocessTransport
from .io_threads import ReaderThread
from .processes.tree import ProcessTree
from .threaded import ThreadedTransport

_LAST_LINES_SECONDS: Final = 0.1  # Longer if a process that the child has started writes on.
_END_SECONDS: Final = 1.0  # For threads to end, after all processes of the tree have ended.
_STEP: Final = 0.001


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
