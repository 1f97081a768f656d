"""The bare relay: copy the lines of a client to a server and back, without reading them. The words are the command."""

from __future__ import annotations

import asyncio
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy lines until the end."""
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def main(words: list[str]) -> None:
    """Start the server, and copy in both directions."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=1 << 24)
    assert server.stdin is not None and server.stdout is not None
    await asyncio.gather(copy(reader, server.stdin), copy(server.stdout, writer))


asyncio.run(main(sys.argv[1:]))
