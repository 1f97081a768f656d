"""The HTTP transport of a client: sends each message as an HTTP request, over Streamable HTTP or HTTP+SSE."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

from ... import products
from ...aio.tasks import PauseGate
from ...errors import ConnectionClosedError, MCPError
from ...http.client_rules import NegotiatedRevision, Outgoing
from ...http.urls import redact_url
from ...protocol.jsonrpc import Id, Message, NotificationMessage, OutgoingMessage, RequestMessage, decode
from ...protocol.models import is_object
from ...protocol.revision import Handshake, Revision
from ...session.interfaces import MessageSink, large_messages
from .connection import HTTPConnection, HTTPOptions
from .streamable import LegacyServerError, StreamableHTTPClient

_log: Final = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = 0.25  # Seconds that calls wait for the server to answer the GET of the standalone stream.
_CLOSE_SECONDS: Final = 2.0  # Seconds to send unsent messages when closing, and again to end the session.
_MAX_CONCURRENT_RESPONSES: Final = 32  # Responses that are sent at the same time, each over its own connection.
_MAX_UNSENT: Final = 256  # Unsent responses above which reading pauses.


class LegacyClient(Protocol):
    """The seam of HTTP+SSE of 2024: a connection over one stream, and a URL to POST to."""

    revision: Revision

    @property
    def endpoint(self) -> str:
        """The URL to send messages to; empty before the server has named it."""
        ...

    async def run(self, ready: asyncio.Future[None]) -> None:
        """Open the stream and deliver its messages until it ends; `ready` is done when messages can be sent."""

    async def send(self, message: Outgoing, data: bytes) -> None:
        """Send a message; a response to it arrives on the stream. Raises MCPError if the server does not accept it."""


class HTTPClientTransport:
    """A connection to one server; the first request decides between Streamable HTTP and HTTP+SSE.

    The version does not: many servers of Streamable HTTP choose the one that is older than it.
    """

    connection_class = HTTPConnection
    streamable_class = StreamableHTTPClient

    def __init__(
        self,
        url: str,
        revision: Revision,
        options: HTTPOptions,
        stream_closed: Callable[[Id], None] | None = None,
    ) -> None:
        """Create a connection; `stream_closed` gets the id of a request whose stream the server has closed before the
        response, so that the client resumes it after a time."""
        self.url = url
        self.close_reason = f"the connection to {redact_url(url)} is closed"
        self._http = self.connection_class(url, options)
        self._http.negotiated = NegotiatedRevision(revision)
        self._gate = PauseGate()
        self._streamable = self.streamable_class(
            self._http, revision, self._receive_message, self._read_large, self._gate
        )
        self._streamable.stream_closed = stream_closed
        self._legacy: LegacyClient | None = None
        self._sink: MessageSink | None = None
        self._deliver: Callable[[bytes | None], None] | None = None
        self._requests: dict[Id, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._last_notification: asyncio.Task[MCPError | None] | None = None
        self._response_lock = asyncio.Semaphore(_MAX_CONCURRENT_RESPONSES)
        self._unsent = 0
        self._room = asyncio.Event()
        self._room.set()
        self._closing: asyncio.Task[None] | None = None
        self._end = asyncio.Event()
        self.ends_session = True  # Whether `close` tells the server that the session has ended.
        self.on_endpoint: Callable[[str], None] | None = None  # Gets the URL for messages of HTTP+SSE.

    @property
    def session_id(self) -> str | None:
        """The id of the session; None if the server has opened none."""
        return self._streamable.session

    # ---- receiving --------------------------------------------------------------------------------------------------

    def set_sink(self, sink: MessageSink) -> None:
        """Deliver received messages and failed requests to this sink."""
        self._sink = sink

    def set_revision(self, revision: Revision, alternatives: Callable[[], Iterable[Revision]] = tuple) -> None:
        """Send messages of this revision from now on; `alternatives` returns all that the client accepts."""
        self._http.negotiated = NegotiatedRevision(revision, alternatives)
        self._streamable.revision = revision
        if self._legacy is not None:
            self._legacy.revision = revision

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None:
        """Call `deliver` with None at the end of the connection."""
        self._deliver = deliver

    def pause(self) -> None:
        """Deliver no messages until `resume`."""
        self._gate.pause()

    def resume(self) -> None:
        """Deliver messages again."""
        self._gate.resume()

    async def receive(self) -> bytes | None:
        """Return None at the end of the connection; messages go to the sink."""
        await self._end.wait()
        return None

    def _receive_message(self, message: Message | list[Message]) -> None:
        if self._sink is not None and self._closing is None:
            self._sink.receive_message(message)

    async def _read_large(self, data: bytes, use_json: Callable[[Message | list[Message]], None]) -> Any:
        """Return a large message; `use_json` gets it before it is validated."""
        if (large := large_messages()) is not None:
            connection = None if self._sink is None else self._sink.connection
            return await large.read_large(self, data, use_json, connection)
        message = decode(data)
        use_json(message)
        return message

    def _ended(self) -> None:
        self._end.set()
        if self._deliver is not None:
            deliver = self._deliver
            self._deliver = None
            deliver(None)

    # ---- sending ----------------------------------------------------------------------------------------------------

    def send_message(self, message: OutgoingMessage) -> None:
        """Send a message in its own task. Raises ConnectionClosedError."""
        if self._closing is not None or self._end.is_set():
            raise ConnectionClosedError(self.close_reason)
        match message.message:
            case RequestMessage() as request:
                self._requests[request.id] = self._start(self._send_request(request, message.encoded))
            case NotificationMessage() as notification:
                self._send_notification(notification, message.encoded)
            case None:
                self._unsent += 1
                if self._unsent == _MAX_UNSENT:
                    self._gate.pause()
                    self._room.clear()
                self._start(self._send_response(message.encoded)).add_done_callback(self._response_sent)

    def _send_notification(self, notification: NotificationMessage, encoded: bytes) -> None:
        lifecycle = self._streamable.revision.lifecycle
        if notification.method == lifecycle.cancelled.method and is_object(notification.params):
            task = self._requests.pop(notification.params.get("requestId", ""), None)
            if task is not None:
                task.cancel()
            if not isinstance(lifecycle, Handshake):
                return  # Closing the response stream of a stateless request cancels it.
        self._last_notification = self._start(self._post_message(notification, encoded))

    async def _send_response(self, encoded: bytes) -> None:
        async with self._response_lock:
            await self._post_message(None, encoded)

    def _response_sent(self, _: object) -> None:
        self._unsent -= 1
        if self._unsent == _MAX_UNSENT - 1:
            self._gate.resume()
            self._room.set()

    async def drain(self) -> None:
        """Wait until few responses are unsent, and until the server has accepted the last notification. Raises MCPError
        if it has not."""
        await self._room.wait()
        notification = self._last_notification
        if notification is not None:
            await asyncio.wait([notification])
            error = ConnectionClosedError(self.close_reason) if notification.cancelled() else notification.result()
            if error is not None:
                raise error

    async def _send_request(self, request: RequestMessage, data: bytes) -> None:
        try:
            await self._post_request(request, data)
        except MCPError as error:
            self._fail_request(request.id, error)
        except TimeoutError:
            self._fail_request(
                request.id, ConnectionClosedError(f"{request.method!r}: the server did not accept it in time")
            )
        except Exception as error:
            _log.exception("sending %r failed", request.method)
            self._fail_request(request.id, ConnectionClosedError(f"{request.method!r}: {type(error).__name__}"))
        finally:
            if self._requests.get(request.id) is asyncio.current_task():
                del self._requests[request.id]

    def _fail_request(self, id: Id, error: MCPError) -> None:
        if self._sink is not None:
            self._sink.fail_request(id, error)

    async def _post_request(self, request: RequestMessage, data: bytes) -> None:
        if self._legacy is not None:
            await self._legacy.send(request, data)
            return
        try:
            await self._streamable.send_request(request, data)
        except LegacyServerError as rejection:
            try:
                legacy = await self.switch_to_legacy_sse()
            except MCPError as error:
                _log.debug("the server does not support HTTP+SSE either: %s", error)
                raise rejection.error from None
            await legacy.send(request, data)

    async def switch_to_legacy_sse(self) -> LegacyClient:
        """Open the stream of HTTP+SSE; the connection ends with the stream."""
        revision = self._streamable.revision
        module = products.require("legacy_sse_client", "a server of HTTP+SSE")
        legacy: LegacyClient = module.LegacySSEClient(
            self._http, revision, self._receive_message, self._read_large, self._gate
        )
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reading = self._start(legacy.run(ready))
        try:
            await ready
        except BaseException:
            reading.cancel()
            raise
        reading.add_done_callback(lambda task: self._ended())
        if self.on_endpoint is not None:
            self.on_endpoint(legacy.endpoint)
        self._legacy = legacy
        return legacy

    async def _post_message(self, message: NotificationMessage | None, data: bytes) -> MCPError | None:
        """Send a notification or a response; return the error if the server does not accept it."""
        try:
            if self._legacy is not None:
                await self._legacy.send(message, data)
            else:
                await self._streamable.send_message(message, data)
                await self._listen_after(message)
            return None
        except MCPError as error:
            _log.debug("not accepted: %s", error)
            return error
        except (TimeoutError, LegacyServerError):
            return ConnectionClosedError("the server did not accept a message in time")

    async def _listen_after(self, message: NotificationMessage | None) -> None:
        """Open the standalone SSE stream once the handshake is complete. Servers of the TypeScript SDK drop what they
        send before it is open, so that the first call comes after it, if it opens soon."""
        lifecycle = self._streamable.revision.lifecycle
        initialized = isinstance(lifecycle, Handshake) and lifecycle.initialized.method
        if isinstance(message, NotificationMessage) and message.method == initialized and self._closing is None:
            opened = asyncio.Event()
            self._start(self._streamable.listen(opened)).add_done_callback(lambda _: opened.set())
            with suppress(TimeoutError):
                async with asyncio.timeout(_LISTEN_SECONDS):
                    await opened.wait()

    def _start(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- closing ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Cancel all requests, end the session and close the connections; all calls wait for the same end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        with suppress(TimeoutError):
            if self._last_notification is not None:
                await asyncio.wait([self._last_notification], timeout=_CLOSE_SECONDS)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self.ends_session:
                    await self._streamable.end_session()
        except (MCPError, TimeoutError) as error:
            _log.debug("the session could not be ended: %s", error)
        await self._http.close()
        self._ended()
