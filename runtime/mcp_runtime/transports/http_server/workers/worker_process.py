"""A worker process as it sees itself: the socket and the store that it shares, and the line to its supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import dataclass
from typing import Final

ENVIRONMENT: Final = "MCP_HTTP_WORKER"


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """What a supervisor gives a worker: the listening socket, the line to the supervisor, and the URL of the store."""

    listener: socket.socket
    line: socket.socket
    store: str

    @classmethod
    def of_environment(cls) -> WorkerPlace | None:
        """Return the place of this process, once; None if it is no worker. Its child processes are none."""
        value = os.environ.pop(ENVIRONMENT, None)
        if value is None:
            return None
        listener, line, store = value.split(" ", 2)
        return cls(socket.socket(fileno=int(listener)), socket.socket(fileno=int(line)), store)

    async def begin(self) -> None:
        """Report that requests are served, and end this process when its supervisor has ended."""
        self.line.setblocking(False)
        self.line.send(b"1")
        asyncio.get_running_loop().add_reader(self.line.fileno(), self._on_end)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self.line.fileno())
        os.kill(os.getpid(), signal.SIGTERM)
