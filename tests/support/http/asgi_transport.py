"""The transport of an HTTP client that asks an ASGI application in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2


class _Stream(httpx2.AsyncByteStream):
    """What an application sends after the head of its answer. Whoever closes it has left."""

    def __init__(
        self, parts: asyncio.Queue[bytes | None], disconnected: asyncio.Event, task: asyncio.Task[None]
    ) -> None:
        self._parts = parts
        self._disconnected = disconnected
        self._task = task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self._parts.get()) is not None:
            yield part

    async def aclose(self) -> None:
        self._disconnected.set()
        await asyncio.wait([self._task])


class InProcess(httpx2.AsyncBaseTransport):
    """Asks an application, each request in a task of its own."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body, body_sent, disconnected = await request.aread(), False, asyncio.Event()
        started: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def receive() -> dict[str, Any]:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": body}
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.set_result(message)
            elif message.get("body"):
                parts.put_nowait(message["body"])

        async def answer() -> None:
            try:
                await self._app(scope, receive, send)
            finally:
                parts.put_nowait(None)
                if not started.done():
                    started.set_exception(httpx2.RemoteProtocolError("the application sent no answer"))

        headers = [(name.lower(), value) for name, value in request.headers.raw]
        target = request.url.raw_path.partition(b"?")
        scope = {
            "type": "http",
            "method": request.method,
            "path": target[0].decode(),
            "query_string": target[2],
            "headers": headers,
        }
        task = asyncio.create_task(answer())
        try:
            head = await started
        except asyncio.CancelledError:
            disconnected.set()
            raise
        return httpx2.Response(head["status"], headers=head["headers"], stream=_Stream(parts, disconnected, task))
