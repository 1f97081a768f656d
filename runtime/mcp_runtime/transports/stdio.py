"""Standard input and output as a transport: this process as a server, or a child process as one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Mapping
from typing import Final

from ..errors import NotConnected
from ..framing import Lines, framed

_CHUNK: Final = 1 << 16
_GRACE: Final = 2.0  # Seconds a child gets to end by itself, and again after SIGTERM.
_INHERITED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TEMP", "TERM", "TMPDIR", "USER")


class StdioServerTransport:
    """This process's standard input and output; whatever else the process prints goes to standard error."""

    def __init__(self) -> None:
        # The descriptors are moved away, so that neither print() nor a child process can write into the protocol.
        self._in = os.dup(0)
        self._out = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        sys.stdout.flush()
        os.dup2(2, 1)
        self._lines = Lines()
        self._ready: deque[bytes] = deque()

    async def send(self, message: bytes) -> None:
        try:
            await asyncio.to_thread(_write_all, self._out, framed(message))
        except OSError as fault:
            raise NotConnected(f"standard output is closed: {fault.strerror}") from None

    async def receive(self) -> bytes | None:
        while not self._ready:
            data = await asyncio.to_thread(os.read, self._in, _CHUNK)
            if not data:
                return None
            self._ready.extend(self._lines.feed(data))
        return self._ready.popleft()

    async def close(self) -> None:
        """Nothing to do: the process ends after this, and its descriptors with it."""


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class ChildTransport:
    """A server that runs as a child process; its standard error is this process's."""

    def __init__(self, child: Process) -> None:
        self._child = child
        self._lines = Lines()
        self._ready: deque[bytes] = deque()

    @classmethod
    async def start(cls, command: tuple[str, ...], env: Mapping[str, str] | None, cwd: str | None) -> ChildTransport:
        """Start the command with a small environment (`env` adds to it). Raises NotConnected if it cannot start."""
        small = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**small, **(env or {})},
                cwd=cwd,
            )
        except OSError as fault:
            raise NotConnected(f"{command[0]!r} cannot be started: {fault.strerror}") from None
        return cls(child)

    async def send(self, message: bytes) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(framed(message))
            await self._child.stdin.drain()
        except (OSError, RuntimeError):
            raise NotConnected("the server's standard input is closed") from None

    async def receive(self) -> bytes | None:
        assert self._child.stdout is not None
        while not self._ready:
            data = await self._child.stdout.read(_CHUNK)
            if not data:
                return None
            self._ready.extend(self._lines.feed(data))
        return self._ready.popleft()

    async def close(self) -> None:
        """Close its input and wait; then ask it to end, and then end it."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        for step in (self._child.terminate, self._child.kill):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._child.wait()
                    return
            with contextlib.suppress(ProcessLookupError):
                step()
        await self._child.wait()
