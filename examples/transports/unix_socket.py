"""A transport over UNIX sockets, for servers and clients on one machine: a message a line, as over stdio.

Run it: `python examples/transports/unix_socket.py PATH` serves, `python examples/transports/unix_socket.py client PATH`
calls. Only the user who runs the server can connect.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from greeter import app

from mcp_generated import ConnectionClosedError, printable, serve
from mcp_generated.v2026_07_28 import Client

MAX_BYTES: Final = 16 << 20  # Of one message.


class LineTransport:
    """A transport over a pair of streams: each message is a line of UTF-8. JSON has no line feeds inside."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.close_reason = "the peer closed the socket"

    def send(self, message: bytes, more: bool = False) -> None:
        """Send a message; never blocks. `more` would allow to wait for the messages that follow at once."""
        if self._writer.is_closing():
            raise ConnectionClosedError(self.close_reason)
        self._writer.write(message + b"\n")

    async def drain(self) -> None:
        """Wait until few messages are unsent."""
        try:
            await self._writer.drain()
        except ConnectionError:
            raise ConnectionClosedError(self.close_reason) from None

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        try:
            return (await self._reader.readuntil(b"\n"))[:-1]
        except asyncio.LimitOverrunError:
            self.close_reason = f"the peer sent a message of more than {MAX_BYTES} bytes"
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        return None

    async def close(self) -> None:
        """Send what is unsent, and close the socket."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def unix_connector(path: str | os.PathLike[str]) -> Callable[[], Awaitable[LineTransport]]:
    """Return a function that connects to a server: the first argument of a client."""

    async def connect() -> LineTransport:
        try:
            return LineTransport(*await asyncio.open_unix_connection(path, limit=MAX_BYTES))
        except OSError as error:
            raise ConnectionClosedError(f"cannot connect to {os.fspath(path)!r}: {error.strerror}") from None

    return connect


@asynccontextmanager
async def listening_at(path: str | os.PathLike[str], servers: Sequence[Any]) -> AsyncGenerator[None]:
    """Serve each connection to a socket, in every protocol version of the servers, until the block is left."""
    connections: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await serve(servers, LineTransport(reader, writer))
        finally:
            connections.discard(task)

    listener = await asyncio.start_unix_server(handle, sock=_bind(path), limit=MAX_BYTES)
    try:
        yield
    finally:
        listener.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        with suppress(FileNotFoundError):
            os.unlink(path)


def _bind(path: str | os.PathLike[str]) -> socket.socket:
    """Return a socket that only this user can connect to. The socket of a server that has ended is replaced."""
    if Path(path).is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                os.unlink(path)
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(os.fspath(path))
        os.chmod(path, 0o600)  # Before anybody can connect: it does not listen yet.
    except OSError:
        bound.close()
        raise
    return bound


async def run_server(path: str) -> None:
    """Serve until the process ends."""
    async with listening_at(path, [app]):
        print(f"listening at {path}", flush=True)
        await asyncio.Event().wait()


async def run_client(path: str) -> None:
    """Call the tool of the server."""
    async with Client(unix_connector(path), revisions="all") as client:
        result = await client.call_tool("greet", {"name": "Ada"})
        print(printable(result.to_dict()["content"][0]["text"]))


def main() -> None:
    """Run the server or the client."""
    match sys.argv[1:]:
        case ["client", path]:
            asyncio.run(run_client(path))
        case [path]:
            with suppress(KeyboardInterrupt):
                asyncio.run(run_server(path))
        case _:
            sys.exit("Write: unix_socket.py PATH, or unix_socket.py client PATH")


if __name__ == "__main__":
    main()
