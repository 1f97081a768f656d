"""A server that answers with the bytes of a list, whatever it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
OK = HEAD + b"Content-Length: 2\r\n\r\n{}"


class RawHTTPServer:
    """A server that answers each request with the bytes of a list, the last of them again and again."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.heads = list[str]()
        self.connections = self.highest = 0
        self.open = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self.open += 1
        self.highest = max(self.highest, self.open)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = int(head.lower().partition("content-length:")[2].partition("\r\n")[0] or 0)
                body = await reader.readexactly(length)
                self.heads.append(head)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer == b"echo":
                    answer = OK.replace(b"2\r\n\r\n{}", b"%d\r\n\r\n%b" % (len(body), body))
                writer.write(answer.removesuffix(b"END"))
                await writer.drain()
                if answer.endswith(b"END"):
                    break
        self.open -= 1
        writer.close()


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncGenerator[RawHTTPServer]:
    """Yield a server with these answers."""
    server = RawHTTPServer(list(answers))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp?a=1"
    async with listening:
        yield server
