"""Transports of this package as the two streams of the official SDK, and its streams as a transport of this package."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from pydantic import ValidationError
from pydantic_core import to_json

from mcp_runtime.errors import ConnectionClosedError, HTTPStatusError, MCPError, RemoteJSONRPCError
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import NAMED_VERSION
from mcp_runtime.session.interfaces import Transport

from ..forms.errors import failure
from ..forms.form import FORM, written
from .message import MessageStream, ReadStream, SessionMessage, WriteStream

_log: Final = logging.getLogger("mcp_runtime.compat.streams")
CLOSED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


# A transport of this package, for a session of the official SDK.


@asynccontextmanager
async def _two_streams(
    transport: Any, start: Callable[[TaskGroup, Any, Any], None], unread: float
) -> AsyncGenerator[MessageStream]:
    """Yield two streams, whose other ends `start` gets; the transport is closed with the context.

    `unread` is how many messages of the transport may wait for the session.
    """
    to_session, incoming = anyio.create_memory_object_stream[Any](unread)
    outgoing, from_session = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as group:
        start(group, to_session, from_session)
        try:
            yield incoming, outgoing
        finally:
            await outgoing.aclose()
            with anyio.CancelScope(shield=True):
                await transport.close()
            group.cancel_scope.cancel()
            to_session.close()
            await incoming.aclose()


@asynccontextmanager
async def streams_of(connect: Callable[[], Awaitable[Transport]]) -> AsyncGenerator[MessageStream]:
    """Yield the streams of a transport, which is closed with the context."""
    transport = await connect()

    async def receive(to_session: Any) -> None:
        async with to_session:
            try:
                while (data := await transport.receive()) is not None:
                    await to_session.send(_decoded(data))
            except (ConnectionClosedError, *CLOSED) as error:
                _log.debug("%s", error)

    async def send(from_session: Any) -> None:
        async with from_session:
            async for item in from_session:
                try:
                    transport.send(to_json(written(item.message)))
                    await transport.drain()
                except ConnectionClosedError as error:
                    return _log.debug("%s", error)

    def start(group: TaskGroup, to_session: Any, from_session: Any) -> None:
        group.start_soon(receive, to_session)
        group.start_soon(send, from_session)

    async with _two_streams(transport, start, 0) as streams:
        yield streams


def _decoded(data: bytes) -> Any:
    """Return a received message, or the error of one that is none."""
    message = jsonrpc.decode(data)
    try:
        return _received(message) if not isinstance(message, list) else ValueError("batches are not read")
    except ValidationError as error:
        return error


def _received(message: jsonrpc.Message) -> Any:
    match message:
        case jsonrpc.RequestMessage(id, method, params):
            raw: dict[str, Any] = {"id": id, "method": method, "params": params}
        case jsonrpc.NotificationMessage(method, params):
            raw = {"method": method, "params": params}
        case jsonrpc.ResultMessage(id, result):
            raw = {"id": id, "result": result}
        case jsonrpc.ErrorMessage(id, code, text, data):
            raw = _error(id, code, text, data)
        case jsonrpc.MalformedMessage(code, text):
            return ValueError(text)
    if raw.get("params", ...) is None:
        del raw["params"]
    return SessionMessage(FORM.message({"jsonrpc": "2.0", **raw}))


def _error(id: jsonrpc.Id | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"id": "" if id is None and FORM.is_v1 else id, **failure(code, message, data)}


# The HTTP transport of this package, which sends each message by itself.


class HTTPStreams:
    """Passes the messages of two streams to an HTTP transport, and what it receives back."""

    def __init__(self, transport: Any, read: Any, group: TaskGroup, keeps_revision: bool = False) -> None:
        """Create the connection.

        Args:
            transport: An `HTTPClientTransport`.
            read: The stream that gets what the server sends.
            group: The tasks of the connection: a failure of HTTP is raised in one of them.
            keeps_revision: Whether the first request is sent in the version that the transport has already.
        """
        self._transport = transport
        self._read = read
        self._group = group
        self._keeps_revision = keeps_revision
        self._opening: jsonrpc.Id | None = None
        self.connection = Connection([*FORM.revisions.values()][-1], "client", {})

    # ---- what a sink of the transport has ---------------------------------------------------------------------------

    def receive_message(self, message: jsonrpc.Message | list[jsonrpc.Message]) -> None:
        """Pass what the server has sent to the session."""
        for item in message if isinstance(message, list) else [message]:
            if isinstance(item, jsonrpc.ResultMessage) and item.id == self._opening:
                self._negotiated(item.result)
            try:
                self._deliver(_received(item))
            except ValidationError as error:
                self._deliver(error)

    def fail_request(self, id: jsonrpc.Id, error: MCPError) -> None:
        """Answer a request that gets no response with an error; a failure of HTTP itself ends the connection."""
        _log.debug("%s", error)
        failure = http_failure(error, self._transport)
        if failure is not None:
            self._group.start_soon(_fail, failure)
            return
        if isinstance(error, RemoteJSONRPCError):
            raw = _error(id, error.code, error.message, error.data)
        elif 404 in (getattr(error, "status", 0), getattr(error.__cause__, "status", 0)):
            has_session = FORM.is_v1 or self._transport.session_id is not None
            unknown = jsonrpc.METHOD_NOT_FOUND, "Not Found"
            raw = _error(id, *((jsonrpc.INVALID_REQUEST, "Session terminated") if has_session else unknown))
        else:
            code = jsonrpc.INTERNAL_ERROR if isinstance(error, HTTPStatusError) else FORM.types.CONNECTION_CLOSED
            raw = _error(id, code, str(error))
        self._deliver(SessionMessage(FORM.message({"jsonrpc": "2.0", **raw})))

    def _deliver(self, item: Any) -> None:
        try:
            self._read.send_nowait(item)
        except CLOSED:
            _log.debug("not read: the session has ended")

    def end(self, data: bytes | None) -> None:
        """End the stream that the session reads."""
        self._read.close()

    # ---- sending ----------------------------------------------------------------------------------------------------

    async def send_all(self, messages: Any) -> None:
        """Send the messages of the session until it ends."""
        async with messages:
            async for item in messages:
                try:
                    await self.send(item)
                except MCPError as error:  # A notification, which has no response.
                    _log.debug("%s", error)

    async def send(self, item: SessionMessage) -> None:
        """Send one message. Raises MCPError for a notification that the server refuses."""
        raw = written(item.message)
        encoded, method, params = to_json(raw), raw.get("method"), raw.get("params")
        if method is None:
            self._transport.send_message(jsonrpc.OutgoingMessage(None, encoded))
        elif "id" in raw:
            self._choose_revision(raw["id"], method, params or {})
            try:
                request = jsonrpc.RequestMessage(raw["id"], method, params)
                self._transport.send_message(jsonrpc.OutgoingMessage(request, encoded))
            except ConnectionClosedError as error:
                self.fail_request(raw["id"], error)
        else:
            self._transport.send_message(jsonrpc.OutgoingMessage(jsonrpc.NotificationMessage(method, params), encoded))
            await self._transport.drain()

    def _choose_revision(self, id: jsonrpc.Id, method: str, params: dict[str, Any]) -> None:
        """Send a request as the version requires that it names, or that it asks for."""
        meta: dict[str, Any] = params.get("_meta") or {}
        named: Any = meta.get(NAMED_VERSION, "")
        if method == FORM.method("InitializeRequest"):
            self._opening = id
            named = params.get("protocolVersion")
        if named in FORM.revisions and not self._keeps_revision:
            self._transport.set_revision(FORM.revisions[named], FORM.revisions.values)

    def _negotiated(self, result: Any) -> None:
        self._opening = None
        version: Any = result.get("protocolVersion") if is_object(result) else None
        if version in FORM.revisions and not self._keeps_revision:
            self._transport.set_revision(FORM.revisions[version], FORM.revisions.values)


@asynccontextmanager
async def http_streams(transport: Any, keeps_revision: bool = False) -> AsyncGenerator[MessageStream]:
    """Yield the streams of an HTTP transport, which is closed with the context."""

    def start(group: TaskGroup, to_session: Any, from_session: Any) -> None:
        passing = HTTPStreams(transport, to_session, group, keeps_revision)
        transport.set_sink(passing)
        transport.set_receiver(passing.end)
        group.start_soon(passing.send_all, from_session)

    async with _two_streams(transport, start, math.inf) as streams:
        yield streams


async def _fail(error: Exception) -> None:
    raise error


def http_failure(error: MCPError, transport: Any) -> Any:
    """Return the exception of the HTTP library for a failure that ends a connection of the official SDK, or
    None.

    A program of 1.x gets an error status as well, and the exceptions of httpx.
    """
    if FORM.is_v1 and isinstance(error, HTTPStatusError) and error.status != 404:
        return status_error(error, transport.url)
    if not isinstance(error, ConnectionClosedError):
        return None
    cause: Any = error
    while cause is not None and type(cause).__module__.partition(".")[0] not in ("httpx", "httpx2"):
        cause = cause.__cause__ or cause.__context__
    if not isinstance(cause, Exception):
        return None
    if isinstance(cause.__cause__, Exception) and type(cause.__cause__).__module__.startswith("httpx."):
        return cause.__cause__  # That of the client of the program.
    kind = getattr(http_library(), type(cause).__name__, None)
    return cause if kind is None or isinstance(cause, kind) else kind(str(cause))


def status_error(error: HTTPStatusError, url: str) -> Exception:
    """Return the exception of the HTTP library for a POST that was answered with an error status."""
    httpx = http_library()
    request = httpx.Request("POST", url)
    response = httpx.Response(error.status, request=request)
    made: Exception = httpx.HTTPStatusError(str(error), request=request, response=response)
    return made


def http_library() -> ModuleType:
    """Return the HTTP library of the form: 1.x has httpx, and 2.x httpx2."""
    return import_module("httpx" if FORM.is_v1 and find_spec("httpx") is not None else "httpx2")


# Streams of the official SDK, for a server of this package.


class StreamTransport:
    """A transport over two streams of `SessionMessage`."""

    close_reason = "the peer closed the connection"

    def __init__(self, read: ReadStream, write: WriteStream) -> None:
        """Create a transport; `run` has to send what it is given meanwhile."""
        self._read = read
        self._write = write
        self._unsent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._sending: asyncio.Task[None] | None = None
        self._closed = False
        self._pending: set[Any] = set()
        self._opening: jsonrpc.Id | None = None
        self._opened: Any = None

    def send(self, message: bytes, more: bool = False) -> None:
        """Queue a message. Raises ConnectionClosedError."""
        if self._closed:
            raise ConnectionClosedError(self.close_reason)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        self._unsent.put_nowait(message)

    async def _send_all(self) -> None:
        while (data := await self._unsent.get()) is not None:
            message = _decoded(data)
            id = getattr(message.message, "id", None)
            self._pending.discard(id)
            if self._opened is None and id is not None and id == self._opening:
                self._opened = getattr(message.message, "result", None)
            try:
                await self._write.send(message)
            except CLOSED:
                self._closed = True

    async def drain(self) -> None:
        """Return at once: a queue has no limit."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the stream."""
        while True:
            try:
                item = await self._read.receive()
            except (anyio.EndOfStream, *CLOSED):
                return None
            if isinstance(item, Exception):
                _log.debug("not read: %s", item)
            elif (data := self._received(written(item.message))) is not None:
                return data

    def _received(self, raw: dict[str, Any]) -> bytes | None:
        """Return a message of the client.

        As in the official SDK, a request that it cancels is answered, and so is another handshake: as the first one.
        """
        method = raw.get("method")
        if method == FORM.method("InitializeRequest"):
            if self._opened is not None:
                self._answer(raw["id"], {"result": self._opened})
                return None
            self._opening = raw["id"]
        if method is not None and "id" in raw:
            self._pending.add(raw["id"])
        elif method == FORM.method("CancelledNotification"):
            params: Any = raw.get("params")
            id: Any = params.get("requestId") if is_object(params) else None
            if isinstance(id, (str, int)) and id in self._pending:
                self._answer(id, {"error": {"code": 0, "message": "Request cancelled"}})
        return to_json(raw)

    def _answer(self, id: jsonrpc.Id, outcome: dict[str, Any]) -> None:
        """Answer a request after what the server does now."""
        message = to_json({"jsonrpc": "2.0", "id": id, **outcome})

        def send() -> None:
            if not self._closed:
                self.send(message)

        asyncio.get_running_loop().call_soon(send)

    async def close(self) -> None:
        """Send what is queued, and close the stream that is written to."""
        if self._closed and self._sending is None:
            return
        self._closed = True
        if self._sending is not None:
            self._unsent.put_nowait(None)
            await asyncio.wait([self._sending], timeout=1)
            self._sending.cancel()
            self._sending = None
        await self._write.aclose()
