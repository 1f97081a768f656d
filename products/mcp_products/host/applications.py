"""HTTP requests to an ASGI application of this process, without a socket; its lifespan runs as long as the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import httpx2

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.transports.http_client.connection import HTTPOptions
from mcp_runtime.transports.http_client.transport import HTTPClientTransport

_log: Final = logging.getLogger("mcp_runtime.host.applications")

_Message: TypeAlias = MutableMapping[str, Any]
ASGIApplication: TypeAlias = Callable[
    [Any, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]
]
_HOST: Final = "localhost"
_ASGI: Final = {"version": "3.0", "spec_version": "2.4"}


class _Stream(httpx2.AsyncByteStream):
    """What an application sends after the head of its response. Whoever closes it has left."""

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
    """Sends requests to an application, each in a task of its own; responses may be streams."""

    def __init__(self, application: ASGIApplication) -> None:
        self._application = application

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response of the application as soon as it has begun."""
        body, body_sent, disconnected = await request.aread(), False, asyncio.Event()
        started: asyncio.Future[_Message] = asyncio.get_running_loop().create_future()
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def receive() -> _Message:
            nonlocal body_sent
            if not body_sent:
                body_sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: _Message) -> None:
            if message["type"] == "http.response.start":
                if not started.done():  # Whoever asked may have left.
                    started.set_result(message)
            elif message.get("body"):
                parts.put_nowait(message["body"])

        async def answer() -> None:
            try:
                await self._application(_scope(request), receive, send)
            except Exception:
                _log.exception("the application failed")
            finally:
                parts.put_nowait(None)
                if not started.done():
                    started.set_exception(httpx2.RemoteProtocolError("the application sent no response"))

        task = asyncio.create_task(answer())
        try:
            head = await started
        except asyncio.CancelledError:
            disconnected.set()
            raise
        return httpx2.Response(
            head["status"], headers=[*head.get("headers", ())], stream=_Stream(parts, disconnected, task)
        )


def _scope(request: httpx2.Request) -> dict[str, Any]:
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (_HOST, 80),
    }


class _Lifespan:
    """The lifespan of an application; one without it is not an error."""

    def __init__(self, application: ASGIApplication) -> None:
        self._application = application
        self._messages: asyncio.Queue[_Message] = asyncio.Queue()
        self._answered = asyncio.Event()
        self._failure: str | None = None

    async def start(self) -> None:
        """Start the application. Raises LocalError if it cannot start."""
        self._task = asyncio.create_task(self._run())
        await self._tell("lifespan.startup")
        if self._failure is not None:
            raise LocalError(f"the application has not started: {self._failure}")

    async def stop(self) -> None:
        """Stop the application."""
        await self._tell("lifespan.shutdown")
        await asyncio.wait([self._task])

    async def _tell(self, kind: str) -> None:
        self._answered.clear()
        if not self._task.done():
            self._messages.put_nowait({"type": kind})
            await self._answered.wait()

    async def _run(self) -> None:
        async def send(message: _Message) -> None:
            if message["type"].endswith(".failed"):
                self._failure = message.get("message") or "without a reason"
            self._answered.set()

        try:
            await self._application({"type": "lifespan", "asgi": _ASGI, "state": {}}, self._messages.get, send)
        except Exception as error:  # An application without a lifespan raises, says the specification of ASGI.
            _log.debug("the application has no lifespan: %s", error)
        finally:
            self._answered.set()


class HTTPApplicationTransport(HTTPClientTransport):
    """A connection to an application of this process, which is served at `/mcp`."""

    _lifespan: _Lifespan

    @classmethod
    async def open(
        cls, application: ASGIApplication, revision: Revision, options: HTTPOptions
    ) -> HTTPApplicationTransport:
        """Start the application, and return a connection to it. Raises LocalError if it cannot start."""
        client = httpx2.AsyncClient(transport=InProcess(application), base_url=f"http://{_HOST}")
        lifespan = _Lifespan(application)
        await lifespan.start()
        transport = cls(f"http://{_HOST}/mcp", revision, replace(options, client=client))
        transport._lifespan = lifespan
        return transport

    async def close(self) -> None:
        """Close the connection, and stop the application."""
        await super().close()
        await self._lifespan.stop()
