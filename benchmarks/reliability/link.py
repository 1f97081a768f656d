"""A TCP proxy whose link can be cut: by a reset, in silence, or after a number of bytes."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress


class Link:
    """The way from clients to one port of this machine."""

    def __init__(self, port: int) -> None:
        """Create a link to a port; `open` gives it a port of its own."""
        self.target = port
        self.port = 0
        self.cut_after: int | None = None  # Bytes of an answer after which its connection is reset.
        self._connections: set[asyncio.StreamWriter] = set()
        self._passes = asyncio.Event()
        self._passes.set()
        self._refuses = False
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen at a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self, seconds: float, silent: bool) -> None:
        """Cut the link: no byte passes; with `silent`, connections stay open, else they are reset and refused."""
        if silent:
            self._passes.clear()
        else:
            self._refuses = True
            self.reset()
        await asyncio.sleep(seconds)
        self._refuses = False
        if silent:
            self.reset()  # What has waited does not arrive: a network that comes back has forgotten it.
        self._passes.set()

    def reset(self) -> None:
        """Reset all connections."""
        for writer in list(self._connections):
            writer.transport.abort()

    async def close(self) -> None:
        """Listen no more."""
        assert self._server is not None
        self._server.close()
        self.reset()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            return writer.transport.abort()
        self._connections.add(writer)
        try:
            await self._passes.wait()
            source, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            self._connections.discard(writer)
            return writer.transport.abort()
        self._connections.add(back)
        try:
            await asyncio.gather(self._pass(reader, back, None), self._pass(source, writer, self.cut_after))
        finally:
            for end in (writer, back):
                self._connections.discard(end)
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
        with suppress(OSError):
            while part := await reader.read(1 << 16):
                await self._passes.wait()
                if limit is not None:
                    part, limit = part[:limit], limit - len(part)
                writer.write(part)
                await writer.drain()
                if limit is not None and limit <= 0:
                    break
        with suppress(OSError):
            if limit is not None and limit <= 0:
                await asyncio.sleep(0)
            writer.close()


def seeded(seed: str) -> random.Random:
    """Return random numbers that depend on a text only."""
    return random.Random(seed)
