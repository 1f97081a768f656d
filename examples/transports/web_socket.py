"""A transport over WebSocket, with the library `websockets`: a message is a text frame, the subprotocol is `mcp`.

Run it: `python examples/transports/web_socket.py 8765` serves, `python examples/transports/web_socket.py client
ws://127.0.0.1:8765` calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from greeter import app
from websockets.asyncio.client import connect as connect_websocket
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Subprotocol

from mcp_generated import ConnectionClosedError, printable, serve
from mcp_generated.v2026_07_28 import Client

SUBPROTOCOL: Final = Subprotocol("mcp")
MAX_BYTES: Final = 16 << 20  # Of one message.
MAX_UNSENT: Final = 64 << 10  # Bytes after which `drain` waits.


class WebSocketTransport:
    """A transport over a WebSocket connection. A task sends, because `send` must not block."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._unsent: deque[bytes] = deque()
        self._size = 0
        self._added = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self._sending = asyncio.create_task(self._send_all())

    @property
    def close_reason(self) -> str:
        """Why the connection has ended, with the peer's code and reason."""
        code, reason = self._connection.close_code, self._connection.close_reason
        return "the connection was closed" + (f": {code} {reason or ''}".rstrip() if code else "")

    def send(self, message: bytes, more: bool = False) -> None:
        """Send a message; never blocks. `more` would allow to wait for the messages that follow at once."""
        if self._closing or self._sending.done():
            raise ConnectionClosedError(self.close_reason)
        self._unsent.append(message)
        self._size += len(message)
        self._added.set()
        if self._size > MAX_UNSENT:
            self._room.clear()

    async def drain(self) -> None:
        """Wait until few messages are unsent."""
        await self._room.wait()
        if self._sending.done():
            raise ConnectionClosedError(self.close_reason)

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed:
            return None

    async def close(self) -> None:
        """Send what is unsent, and close the connection."""
        self._closing = True
        self._added.set()
        await asyncio.wait([self._sending])
        await self._connection.close()

    async def _send_all(self) -> None:
        try:
            while self._unsent or not self._closing:
                self._added.clear()
                while self._unsent:
                    message = self._unsent.popleft()
                    await self._connection.send(message, text=True)
                    self._size -= len(message)
                    if self._size <= MAX_UNSENT:
                        self._room.set()
                if not self._closing:
                    await self._added.wait()
        except ConnectionClosed:
            pass  # `close_reason` has the reason.
        finally:
            self._room.set()


def websocket_connector(url: str) -> Callable[[], Awaitable[WebSocketTransport]]:
    """Return a function that connects to a server: the first argument of a client."""

    async def connect() -> WebSocketTransport:
        try:
            connection = await connect_websocket(url, subprotocols=[SUBPROTOCOL], max_size=MAX_BYTES)
        except (OSError, WebSocketException) as error:
            raise ConnectionClosedError(f"cannot connect to {url!r}: {error}") from None
        return WebSocketTransport(connection)

    return connect


@asynccontextmanager
async def listening_at(host: str, port: int, servers: Sequence[Any]) -> AsyncGenerator[int]:
    """Serve each connection, in every protocol version of the servers, until the block is left. Yield the port."""

    async def handle(connection: ServerConnection) -> None:
        if connection.subprotocol != SUBPROTOCOL:
            await connection.close(1002, "the subprotocol has to be mcp")
            return
        await serve(servers, WebSocketTransport(connection))

    # A web page may open a WebSocket to any host: only clients without an Origin header, which are not browsers, pass.
    async with serve_websocket(
        handle, host, port, subprotocols=[SUBPROTOCOL], origins=[None], max_size=MAX_BYTES
    ) as listener:
        yield next(iter(listener.sockets)).getsockname()[1]


async def run_server(port: int) -> None:
    """Serve until the process ends."""
    async with listening_at("127.0.0.1", port, [app]) as listening_port:
        print(f"listening at ws://127.0.0.1:{listening_port}", flush=True)
        await asyncio.Event().wait()


async def run_client(url: str) -> None:
    """Call the tool of the server."""
    async with Client(websocket_connector(url), revisions="all") as client:
        result = await client.call_tool("greet", {"name": "Ada"})
        print(printable(result.to_dict()["content"][0]["text"]))


def main() -> None:
    """Run the server or the client."""
    match sys.argv[1:]:
        case ["client", url]:
            asyncio.run(run_client(url))
        case [port] if port.isdecimal():
            with suppress(KeyboardInterrupt):
                asyncio.run(run_server(int(port)))
        case _:
            sys.exit("Write: web_socket.py PORT, or web_socket.py client URL")


if __name__ == "__main__":
    main()
