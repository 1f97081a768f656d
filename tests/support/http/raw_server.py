"""A script goes in, a server on a raw socket comes out that answers each HTTP request with whatever bytes it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp_generated import v2025_11_25
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.transports.http_client.connection import HTTPOptions

DEADLINE = 30.0  # Seconds for one test; a ceiling.
NEWEST_WITH_SESSIONS = "2025-11-25"


@dataclass
class Got:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None

    @property
    def rpc(self) -> str:
        """The JSON-RPC method of a POST, else the HTTP one."""
        return self.body.get("method", "answer") if isinstance(self.body, dict) else self.method


Write = Callable[[bytes], Awaitable[None]]
Answer = Callable[[Got, Write], Awaitable[None]]


@dataclass
class Raw:
    """A server with sessions. `answers` says how a method is answered, where that is not the usual way; `seen` is all
    it was asked."""

    answers: dict[str, Answer] = field(default_factory=dict)
    session: str | None = "s-1"
    seen: list[Got] = field(default_factory=list)
    url: str = ""

    def requests_of(self, rpc: str) -> list[Got]:
        return [request for request in self.seen if request.rpc == rpc]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            got = await _read(reader)
            self.seen.append(got)
            answer = self.answers.get(got.rpc) or self.default_answer
            await answer(got, write)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has gone, as some tests want it to.
        finally:
            writer.close()

    async def default_answer(self, got: Got, write: Write) -> None:
        match got.rpc:
            case "initialize":
                answer = {
                    "protocolVersion": got.body["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
                headers = {"mcp-session-id": self.session} if self.session else {}
                await write(reply(result(got, answer), headers=headers))
            case "tools/call":
                await write(reply(result(got, text_result("usual"))))
            case "GET":
                await write(reply(b"", 405))
            case "DELETE":
                await write(reply(b"", 405))
            case _:
                await write(reply(b"", 202))


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def result(got: Got, value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": got.body["id"], "result": value}).encode()


def reply(
    body: bytes, status: int = 200, kind: str = "application/json", headers: dict[str, str] | None = None
) -> bytes:
    """A whole answer."""
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = (
        f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{more}\r\n"
    )
    return head.encode("latin-1") + body


# The beginning of a stream, which ends with its connection.
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def always(data: bytes) -> Answer:
    async def answer(got: Got, write: Write) -> None:
        await write(data)

    return answer


@asynccontextmanager
async def serving(raw: Raw) -> AsyncGenerator[Raw, None]:
    server = await asyncio.start_server(raw.connected, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()[:2]
    raw.url = f"http://{host}:{port}/mcp"
    try:
        yield raw
    finally:
        server.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in a loop of its own, and see that it leaves no task behind."""

    async def watched() -> None:
        await asyncio.wait_for(test, DEADLINE)
        leaked_tasks = [task for task in asyncio.all_tasks() if "http_client" in repr(task.get_coro())]
        assert not leaked_tasks

    asyncio.run(watched())


def text(result: Any) -> str:
    return str(result.content[0].text)


async def call(raw: Raw, options: RequestOptions | None = None, http: HTTPOptions | None = None) -> str:
    """Open, call a tool, close."""
    async with serving(raw), v2025_11_25.Client.http(raw.url, http=http) as client:
        return text(await client.call_tool(name="x", options=options))


async def discover(got: Got, write: Write) -> None:
    required_fields = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
    more = {"serverInfo": {"name": "raw", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}
    await write(reply(result(got, {**required_fields, **more})))


async def _read(reader: asyncio.StreamReader) -> Got:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = dict(line.lower().split(": ", 1)[:1] + line.split(": ", 1)[1:] for line in head[1:] if line)
    length = int(headers.get("content-length", "0"))
    body = await reader.readexactly(length) if length else b""
    return Got(method, path, headers, json.loads(body) if body else None)
