"""What answers a POST goes in, message by message, and comes out as one JSON body or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pydantic import BaseModel

from ...errors import ConnectionClosedError
from ...http.asgi import Receive, Send
from ...http.server_rules import RequestHead
from ...protocol.connection import Connection
from ...protocol.jsonrpc import Message
from ...protocol.revision import Notification, Request
from ...session.identity import RequestAuth
from ...session.options import RequestOptions
from ...session.session import Session
from .event_store import InMemoryEventStore
from .streams import SSEStream

# A POST that has arrived: its message, its head, who sent it, and how its connection goes on.
IncomingPost = tuple[Message | list[Message], RequestHead, RequestAuth, Receive, Send]


_NO_RESPONSE: Final = (None, 0)


class PostResponder:
    """One POST that is to be answered: what its handlers say goes with the answer. Until something else than that is sent,
    no stream is opened."""

    stream: SSEStream | None = None
    response: bytes | None = None
    code = 0
    is_done = False
    _waiting: asyncio.Future[None] | None = None

    def reply(self, response: bytes | None, code: int) -> None:
        """The answer, which is the last that comes; None where the request was cancelled. Who has cancelled wants no answer,
        also not that of a handler which did not care."""
        if self.is_done:
            return
        self.is_done = True
        if self.stream is None:
            self.response, self.code = response, code
        else:
            if response is not None:
                self.stream.put(response)
            self.stream.finish()
        if self._waiting is not None:
            self._wake(self._waiting)

    def open_stream(self) -> SSEStream:
        """The stream of this exchange, opened if it is not yet."""
        if self.stream is None:
            self.stream = self._create_stream()
            if self._waiting is not None:
                self._wake(self._waiting)
        return self.stream

    async def wait_until_known(self, timeout: float | None) -> None:
        """Wait until it is known whether the answer is a body or a stream, at most so many seconds."""
        if self.is_done or self.stream is not None:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiting], timeout=timeout)

    def close_sse_stream(self) -> None:
        """End the connection of the exchange; its client comes back for the rest of the stream."""
        if not self.is_done:
            self.open_stream().close_connection()

    def _create_stream(self) -> SSEStream:
        raise NotImplementedError

    def _wake(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_result(None)

    async def _put(self, message: bytes) -> None:
        stream = self.open_stream()
        stream.put(message)
        await stream.drain()


class SessionResponder(PostResponder):
    """One that belongs to a session, and that session as its handlers see it."""

    def __init__(self, session: Session, auth: RequestAuth, open_stream: Callable[[], SSEStream]) -> None:
        self.auth = auth
        self._session = session
        self._open_stream = open_stream

    @property
    def connection(self) -> Connection:
        return self._session.connection

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """Send a request and wait for its answer, as a session does."""
        return await self._session.send_request(row, params, options, self._send)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification, as a session does."""
        if self.is_done:
            await self._session.send_notification(row, params)
        else:
            await self._put(self._session.connection.send_notification(row, params))

    def _send(self, message: bytes) -> None:
        # After its answer nothing can go with an exchange any more.
        send = self._session.transport.send if self.is_done else self.open_stream().put
        send(message)

    def _create_stream(self) -> SSEStream:
        return self._open_stream()


class StatelessResponder(PostResponder):
    """One that belongs to no session: its handler runs in the task that brought it."""

    _task: asyncio.Task[Any] | None = None  # Where a handler waits.
    _cancelled = 0

    def __init__(self, connection: Connection, auth: RequestAuth) -> None:
        self.connection = connection
        self.auth = auth

    async def serve(self, work: Awaitable[tuple[bytes, int] | None]) -> None:
        """Run a handler, or the rest of it. Raises CancelledError if it is not `cancel` that cancelled the task."""
        task = self._task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        try:
            self.reply(*(await work or _NO_RESPONSE))
        except asyncio.CancelledError:
            if task.cancelling() > self._cancelled:
                raise
            self.reply(*_NO_RESPONSE)
        finally:
            self._task = None
            for _ in range(self._cancelled):
                task.uncancel()

    def cancel(self) -> None:
        """Stop the handler, if it is still at work."""
        if self._task is not None:
            self._cancelled += 1
            self._task.cancel()

    def client_disconnected(self, leaving: object) -> None:
        """The client has left, which is how it cancels without a session (2026: basic/transports, Cancellation)."""
        self.cancel()
        self.reply(None, 0)  # At once, so that no handler says anything to somebody who is not there.

    async def send_request(
        self, row: Request[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Raises ProtocolViolationError, as the revision has it, or ConnectionClosedError: there is no way for an answer to come back."""
        id = self.connection.next_id()
        self.connection.send_request(id, row, params)
        self.connection.discard(id)
        raise ConnectionClosedError(f"{row.method!r}: there is no session")

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises MCPError."""
        if self.is_done:
            raise ConnectionClosedError(f"{row.method!r}: the request was answered")
        await self._put(self.connection.send_notification(row, params))

    def _create_stream(self) -> SSEStream:
        return SSEStream(InMemoryEventStore(), resumable=False)
