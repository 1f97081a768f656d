"""An ASGI application goes in; requests are made to it in process, and their answers come out as they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from support.endpoints import Rev

from mcp_runtime.http.sse import ServerSentEvent, SSEDecoder

BOTH = "application/json, text/event-stream"


@dataclass
class Answer:
    """What an application sends for one request; `leave` is the client going away."""

    app: Any
    scope: dict[str, Any]
    body: bytes
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content: bytes = b""
    events: list[ServerSentEvent] = field(default_factory=list[ServerSentEvent])

    def __post_init__(self) -> None:
        self._disconnected = asyncio.Event()
        self._changed = asyncio.Condition()
        self._decoder = SSEDecoder()
        self._body_sent = False
        self.task = asyncio.create_task(self.app(self.scope, self._receive, self._send))
        self.task.add_done_callback(lambda _: asyncio.ensure_future(self._notify()))

    async def _receive(self) -> dict[str, Any]:
        if not self._body_sent:
            self._body_sent = True
            return {"type": "http.request", "body": self.body}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._disconnected.is_set():
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            self.content += message.get("body", b"")
            self.events += self._decoder.feed(message.get("body", b""))
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Any) -> None:
        """Wait until something holds of this answer."""
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: condition(self) or self.task.done())
        assert condition(self), f"the answer ended with {self.content!r}"

    async def messages(self, number: int) -> list[Any]:
        """The first so many messages of a stream."""
        await self.until(lambda answer: len(answer.json_messages) >= number)
        return self.json_messages[:number]

    @property
    def json_messages(self) -> list[Any]:
        return [json.loads(event.data) for event in self.events if event.data]

    async def whole(self) -> Answer:
        async with asyncio.timeout(20):
            await self.task
        return self

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    async def leave(self) -> None:
        self._disconnected.set()
        async with asyncio.timeout(20):
            await self.task


@dataclass
class Web:
    """A client of one endpoint."""

    app: Any
    rev: Rev
    session: str | None = None
    capabilities: dict[str, Any] = field(default_factory=dict)  # Those that the client declares.

    def request(
        self, method: str = "POST", body: Any = b"", headers: dict[str, str | None] | None = None, **more: Any
    ) -> Answer:
        """One request, with headers a good client sends but for those given; None leaves one out."""
        return Answer(self.app, *self.prepared(method, body, headers, **more))

    def prepared(
        self, method: str = "POST", body: Any = b"", headers: dict[str, str | None] | None = None, **more: Any
    ) -> tuple[dict[str, Any], bytes]:
        """The scope and the body of such a request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields: dict[str, str | None] = {"host": "localhost", "accept": BOTH, "content-type": "application/json"}
        if self.session is not None:
            fields |= {"mcp-session-id": self.session, "mcp-protocol-version": self.rev.id}
        if self.rev.stateless and isinstance(body, dict):
            params = body.get("params") or {}
            named = params.get("name", params.get("uri"))
            fields |= {"mcp-protocol-version": self.rev.id, "mcp-method": body.get("method"), "mcp-name": named}
        raw = [
            (key.encode(), value.encode("latin-1"))
            for key, value in (fields | (headers or {})).items()
            if value is not None
        ]
        scope = {"type": "http", "method": method, "path": "/mcp", "headers": raw, "query_string": b"", **more}
        return scope, data

    async def answered(self, *arguments: Any, **named: Any) -> Answer:
        return await self.request(*arguments, **named).whole()

    async def open(self) -> Answer:
        """Open a session, where the revision has sessions."""
        info = {"name": "raw", "version": "1"}
        hello = {"protocolVersion": self.rev.id, "capabilities": self.capabilities, "clientInfo": info}
        opened = await self.answered(body=self.rev.request(0, "initialize", hello))
        self.session = opened.headers.get("mcp-session-id")
        await self.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"})
        return opened


@asynccontextmanager
async def web(
    rev: Rev, server: Any, *, client_capabilities: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Web]:
    """A client of a server, with its session open; the application is closed afterwards."""
    client = Web(server.asgi(revisions=[rev.id], **settings), rev, capabilities=client_capabilities or {})
    try:
        if not rev.stateless:
            await client.open()
        yield client
    finally:
        await client.app.close()
