"""The responses to POST requests: one JSON body, or an SSE stream if a handler sends messages before its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...aio.tasks import end_process
from ...errors import ConnectionClosedError
from ...http.asgi import Receive, Scope, Send, disconnection, id_of, respond, send_error, write_whole
from ...http.clients import address_of, client_key
from ...http.headers import HTTPError
from ...http.server_rules import RequestHead, retry_headers, status_of
from ...protocol.connection import Connection, RequestReceived
from ...protocol.jsonrpc import INTERNAL_ERROR, Message
from ...protocol.revision import Notification, Request, Stateless
from ...session.interfaces import RequestAuth
from ...session.requests import RequestOptions
from ...session.session import ENDS_PROCESS, Handle, Session, error_response, is_cancelled, is_ended_by_others
from .events import InMemoryEventStore
from .sessions import HTTPSession
from .streams import KeepAliveTimer, SSEStream, send_stream

if TYPE_CHECKING:
    from pydantic import BaseModel

SHUTTING_DOWN: Final = HTTPError(503, "the server is shutting down", INTERNAL_ERROR)
TOO_MANY: Final = HTTPError(
    503, "too many requests of this client run: wait for results first", INTERNAL_ERROR, None, False, 1, "requests"
)
_KEEP_ALIVE: Final = KeepAliveTimer()
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class IncomingPost:
    """A received POST: its message, the head of its HTTP request, and `scope`, `receive` and `send` of ASGI."""

    message: Message | list[Message]
    head: RequestHead
    auth: RequestAuth
    scope: Scope
    receive: Receive
    send: Send


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

    def __init__(self, session: Session, http_session: HTTPSession, post: IncomingPost) -> None:
        self.auth = post.auth
        self.scope = post.scope
        self._session = session
        self._http_session = http_session
        self._message = post.message

    @property
    def connection(self) -> Connection:
        return self._session.connection

    def client_key(self) -> Hashable:
        """Return the user, or else the session."""
        return ("session", id(self._session)) if self.auth.owner is None else ("user", self.auth.owner)

    async def send_request(
        self, row: Request[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
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
        if standalone:
            self._http_session.standalone_stream.close_connection()
        elif not self.is_done and self._can_resume:
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
        stream = self._http_session.open_response_stream(self._message)
        stream.auth = self.auth if self.auth.user is not None else None
        return stream


class StatelessResponder(PostResponder):
    """The response to a stateless POST, whose handler runs in the task of the HTTP request.

    A stream has a task of its own, which ends with the request; the task of the request sends a body. With `parks`, the
    handler may go on without a task, see `send_parked`.
    """

    streams_late = True  # A response that takes long becomes a stream, in which comments can be sent.
    parks = False
    _task: asyncio.Future[Any] | None  # The task while the handler waits, or what it waits for without one.
    sending: asyncio.Task[Any] | None  # What sends the stream.
    _client: asyncio.Future[None] | None = None  # Done when the client has disconnected.
    _timer: asyncio.TimerHandle | None = None
    _cancelled = 0

    def __init__(
        self,
        connection: Connection,
        auth: RequestAuth,
        post: IncomingPost | None = None,
        keep_alive: KeepAliveTimer = _KEEP_ALIVE,
    ) -> None:
        """Create the response to a POST; without one, nothing is sent."""
        self.connection = connection
        self.auth = auth
        self.scope = None if post is None else post.scope
        self._post = post
        self._keep_alive = keep_alive
        # Each request reads these: Python finds an attribute of the instance faster than one of the class.
        self.is_done = False
        self.stream = self.sending = self.on_done = self._task = self._waiting = None

    async def serve(self, request: RequestReceived, handle: Handle) -> None:
        """Run the handler of a request in the current task, and send its response.

        Raises CancelledError if the task was not cancelled by `cancel` alone.
        """
        cancelled, code = None, 0
        try:
            result = await handle(self, request)
            is_open = request.open
            written = self.connection.send_result(request, result)
            response = written if is_open else None
        except BaseException as error:  # Nobody waits for a response, whatever a handler raises.
            response, code, cancelled = self._failure(request, error)
        finally:
            if self._cancelled and (task := asyncio.current_task()) is not None:
                for _ in range(self._cancelled):
                    task.uncancel()
            self._task = None
        self.reply(response, code)
        if self.sending is not None:
            await self.sending
        elif self.stream is None and self._post is not None and (self.response or not self.is_disconnected):
            if self.code or not self.response or not write_whole(self._post.send, 200, self.response):
                await self.send_body(self._post)
        if cancelled is not None:
            raise cancelled

    def _failure(
        self, request: RequestReceived, error: BaseException
    ) -> tuple[bytes | None, int, BaseException | None]:
        """Return the error response to a request, its code, and what the task ends with if others cancel it."""
        is_open, by_others = request.open, is_cancelled(error, self._cancelled)
        if is_ended_by_others(error, request, self._cancelled > 0):
            if by_others or not isinstance(error, asyncio.CancelledError):
                raise error
            return None, 0, None
        response, code = error_response(self.connection, request, error)
        if isinstance(error, ENDS_PROCESS):
            end_process(error)
        return response if is_open or by_others else None, code, error if by_others else None

    def send_body(self, post: IncomingPost) -> Awaitable[None]:
        """Send the response as one body."""
        response, code = self.response, self.code
        if response is None:
            return send_error(post.send, SHUTTING_DOWN, id_of(post.message))
        if not code:
            return respond(post.send, 200, response)
        if challenge := self.auth.challenge_headers:
            return respond(post.send, 403, response, challenge)
        if more := retry_headers(code, response):
            return respond(post.send, 429, response, more)  # A limit of this client; it may try again later.
        return respond(post.send, status_of(code, self.connection.revision), response)

    def close(self) -> None:
        """Look out for the client no more."""
        if self.sending is not None:
            self.sending.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._client is not None:
            self._client.remove_done_callback(self.client_disconnected)
            self._client.cancel()

    @property
    def is_disconnected(self) -> bool:
        """True if the client has closed the connection."""
        return self._client is not None and self._client.done()

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
        stream = SSEStream(InMemoryEventStore(), resumable=False)
        if self._post is not None and not self.parks:
            self.sending = asyncio.get_running_loop().create_task(self._send_stream(stream, self._post))
        return stream

    def look_out(self, task: asyncio.Future[Any]) -> None:
        """Cancel the handler, which runs in a task and waits for something, when the client disconnects."""
        if self.is_done:
            return
        self._task = task
        if self.parks:  # What sends its stream notices that.
            return
        self._disconnection()
        if self.streams_late and self.stream is None:
            self._timer = asyncio.get_running_loop().call_later(self._keep_alive.seconds, self._open_late)

    def _open_late(self) -> None:
        if not self.is_done:  # Else its body is being sent, to a client that reads slowly.
            self.open_stream()

    def _disconnection(self) -> asyncio.Future[None]:
        """Return a future that is done when the client disconnects, which cancels the handler."""
        if self._client is None:
            assert self._post is not None, "a POST has come"
            self._client = disconnection(self._post.receive)
            self._client.add_done_callback(self.client_disconnected)
        return self._client

    async def send_parked(self) -> None:
        """Send the stream, if there is one, of a handler that has no task; return if the server can go on with it."""
        if self.stream is not None and self._post is not None:
            post = self._post
            self._post = None  # Frees memory: a stream may be open for days.
            self.scope = {"client": post.scope.get("client")}
            self.sending = asyncio.current_task()
            if await self._send_stream(self.stream, post):
                self.sending = None

    def unpark(self) -> None:
        """Send the stream, if there is one, in a task of its own: the handler has one."""
        self.parks = False
        if self.stream is not None and self._post is not None:
            self.sending = asyncio.get_running_loop().create_task(self._send_stream(self.stream, self._post))

    async def _send_stream(self, stream: SSEStream, post: IncomingPost) -> bool:
        gone, is_held = disconnection(post.receive) if self.parks else self._disconnection(), False
        send, end = post.send, self.client_disconnected
        try:
            is_held = await send_stream(stream, gone, send, self._keep_alive, holds=self.parks, on_end=end)
        finally:
            if not (is_held or self.is_done):
                self.client_disconnected(None)
        return is_held


# Responses to POST requests that are always one JSON body: messages before the response do not open an SSE stream.


class JSONSessionResponder(SessionResponder):
    """The response to a POST of a session. Other messages go to the stream that the client has opened by GET."""

    async def wait_until_decided(self, timeout: float | None) -> None:
        """Wait for the response, however long it takes."""
        await super().wait_until_decided(None)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification on the standalone stream."""
        await self._session.send_notification(row, params)

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Close the connection of the session's own stream; the response has none."""
        if standalone:
            super().close_sse_stream(standalone)

    def _send(self, message: bytes) -> None:
        self._session.transport.send(message)


class JSONStatelessResponder(StatelessResponder):
    """The response to a stateless POST. Notifications are dropped, since there is no other stream for them; only the
    response to a subscription is an SSE stream, as in the specification."""

    streams_late = False
    _is_subscription = False

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification of a subscription, and drop any other."""
        lifecycle = self.connection.revision.lifecycle
        if isinstance(lifecycle, Stateless) and row is lifecycle.acknowledged:
            self._is_subscription = True
        if self._is_subscription:
            await super().send_notification(row, params)
            return
        _log.debug("json_response: %r is not sent", row.method)
