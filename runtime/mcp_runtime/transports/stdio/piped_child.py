"""A transport to a child process, whose pipes the event loop watches: Linux and macOS."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from ...protocol.framing import SizeLimit
from .child import OnLine, SubprocessTransport
from .processes.tree import ProcessTree

if sys.platform != "win32":
    from .pipes import PipeTransport

assert sys.platform != "win32"

_CHUNK: Final = 1 << 16  # Bytes to read at once.


class PipedChild(SubprocessTransport, PipeTransport):
    """A transport to a child process, whose pipes the event loop watches."""

    def __init__(self, tree: ProcessTree, stderr: OnLine | None, limit: SizeLimit) -> None:
        super().__init__(tree, stderr, limit)
        self._stderr_open = True
        self._loop.add_reader(self._stderr, self._read_stderr)

    def _release(self) -> None:
        self._stop_writing()
        os.close(self._outgoing)
        self._loop.add_reader(self._incoming, self._discard_output)

    def _discard_output(self) -> None:
        if not os.read(self._incoming, _CHUNK):
            self._loop.remove_reader(self._incoming)

    def _stop_reading(self) -> None:
        self._stop_stderr()
        self._loop.remove_reader(self._incoming)
        os.close(self._incoming)

    async def _read_last_lines(self) -> None:
        for _ in range(3):  # Let the event loop read.
            await asyncio.sleep(0)

    def _read_stderr(self) -> None:
        data = os.read(self._stderr, _CHUNK)
        self._receive_stderr(data)
        if not data:
            self._stop_stderr()

    def _stop_stderr(self) -> None:
        if self._stderr_open:
            self._stderr_open = False
            self._loop.remove_reader(self._stderr)
            os.close(self._stderr)
