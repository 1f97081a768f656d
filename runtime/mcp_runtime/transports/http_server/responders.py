"""The responses to POST requests: one JSON body, or an SSE stream if a handler sends messages before its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConnectionClosedError
from ...http.asgi import Receive, Scope, Send
from ...http.client_keys import address_of, client_key
from ...http.server_rules import RequestHead
from ...protocol.connection import Connection
from ...protocol.jsonrpc import Message
from ...protocol.revision import Notification, Request
from ...session.identity import RequestAuth
from ...session.options import RequestOptions
from ...session.replies import CancelledRequestError
from ...session.session import Session
from .event_store import InMemoryEventStore
from .sessions import HTTPSession
from .streams import SSEStream

if TYPE_CHECKING:
    from pydantic import BaseModel

# A received POST: message, head of the HTTP request, authentication, and `scope`, `receive` and `send` of ASGI.
IncomingPost = tuple[Message | list[Message], RequestHead, RequestAuth, Scope, Receive, Send]


_NO_RESPONSE: Final = (None, 0)


class PostResponder:
    """The response to one POST. It becomes an SSE stream if another message is sent before the response."""

    stream: SSEStream | None = None
    response: bytes | None = None
    code = 0
    is_done = False
    auth: RequestAuth
    scope: Mapping[str, Any] | None
    on_done: Callable[[], None] | None = None
    _waiting: asyncio.Future[None] | None = None

    def client_key(self) -> Hashable:
        """Return what identifies the client for its share of the worker threads."""
        return client_key(self.auth.owner, address_of(self.scope))

    def reply(self, response: bytes | None, code: int) -> None:
        """Set the JSON-RPC response, the last message; None for a cancelled request. Only the first call counts."""
        if self.is_done:
            return
        self.is_done = True
        if self.on_done is not None:
            self.on_done()
        if self.stream is None:
            self.response = response
            self.code = code
        else:
            if response is not None:
                self.stream.put(response)
            self.stream.finish()
        if self._waiting is not None:
            self._wake(self._waiting)

    def open_stream(self) -> SSEStream:
        """Return the SSE stream of this response; open it if needed."""
        if self.stream is None:
            self.stream = self._create_stream()
            if self._waiting is not None:
                self._wake(self._waiting)
        return self.stream

    async def wait_until_decided(self, timeout: float | None) -> None:
        """Wait until the response is a body or a stream, for at most `timeout` seconds."""
        if self.is_done or self.stream is not None:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, self._wake, self._waiting)
        try:
            await self._waiting  # `asyncio.wait` takes an iteration of the event loop more.
        finally:
            if timer is not None:
                timer.cancel()

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Do nothing: without a session the client cannot resume the stream, so the response would be lost."""

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
    """The response to a POST of a session, and the channel of its handlers."""

    def __init__(self, session: Session, auth: RequestAuth, open_stream: Callable[[], SSEStream], scope: Scope) -> None:
        self.auth = auth
        self.scope = scope
        self._session = session
        self._open_stream = open_stream

    @property
    def connection(self) -> Connection:
        return self._session.connection

    def client_key(self) -> Hashable:
        """Return the user, or else the session."""
        return ("session", id(self._session)) if self.auth.owner is None else ("user", self.auth.owner)

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel:
        """Send a request on the stream of this response, and return its result."""
        return await self._session.send_request(row, params, options, self._send)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification on the stream of this response, or as the session does after the response."""
        if self.is_done:
            await self._session.send_notification(row, params)
        else:
            await self._put(self._session.connection.send_notification(row, params))

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Close the connection of this response, or of the session's own stream; the client resumes with
        `Last-Event-ID`."""
        if standalone and isinstance(session := self._session.transport, HTTPSession):
            session.standalone_stream.close_connection()
        elif not standalone and not self.is_done and self._can_resume:
            self.open_stream().close_connection()

    @property
    def _can_resume(self) -> bool:
        """True if the client gets an id to resume with: that of a first event without data, or of a message."""
        return self.connection.revision.http.priming_event or (self.stream is not None and self.stream.last > 0)

    def _send(self, message: bytes) -> None:
        # The stream of this response ends with the response.
        send = self._session.transport.send if self.is_done else self.open_stream().put
        send(message)

    def _create_stream(self) -> SSEStream:
        stream = self._open_stream()
        stream.auth = self.auth if self.auth.user is not None else None
        return stream


class StatelessResponder(PostResponder):
    """The response to a stateless POST, whose handler runs in the task of the HTTP request."""

    _task: asyncio.Task[Any] | None = None  # The task while the handler runs.
    _cancelled = 0

    def __init__(self, connection: Connection, auth: RequestAuth, scope: Scope | None = None) -> None:
        self.connection = connection
        self.auth = auth
        self.scope = scope

    async def serve(self, work: Awaitable[tuple[bytes, int] | None]) -> None:
        """Run a handler, or the rest of one. Raises CancelledError if the task was not cancelled by `cancel` alone."""
        task = self._task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        try:
            self.reply(*(await work or _NO_RESPONSE))
        except asyncio.CancelledError as error:
            if isinstance(error, CancelledRequestError):
                self.reply(*error.response)
            if task.cancelling() > self._cancelled:
                raise
            self.reply(*_NO_RESPONSE)
        finally:
            self._task = None
            for _ in range(self._cancelled):
                task.uncancel()

    @property
    def is_cancelled(self) -> bool:
        """True if the client or the server has cancelled the handler, which may cancel its task itself as well."""
        return self._cancelled > 0

    def cancel(self, reason: str | None = None) -> None:
        """Cancel the handler, if it still runs, with this text in its CancelledError."""
        if self._task is not None:
            self._cancelled += 1
            self._task.cancel(reason)

    def client_disconnected(self, disconnect: object) -> None:
        """Cancel the request: a client cancels a stateless request by closing its connection.

        MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#cancellation
        """
        self.cancel("the client closed the connection")
        self.reply(None, 0)  # At once, so that the handler sends no further messages.

    async def send_request(
        self, row: Request[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Raise ConnectionClosedError, or ProtocolViolationError if the revision has no such request: without a session
        the client cannot send a response."""
        id = self.connection.next_id()
        self.connection.send_request(id, row, params)
        self.connection.discard(id)
        raise ConnectionClosedError(f"{row.method!r}: there is no session")

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification. Raises MCPError."""
        if self.is_done:
            raise ConnectionClosedError(f"{row.method!r}: the response was sent already")
        await self._put(self.connection.send_notification(row, params))

    def _create_stream(self) -> SSEStream:
        return SSEStream(InMemoryEventStore(), resumable=False)
