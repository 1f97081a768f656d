"""HTTP requests of the stateless lifecycle, which belong to no session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from pydantic_core import from_json

from ...aio.eager import first_step
from ...aio.keepalive import KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...aio.shared_work import SharedWork
from ...aio.workers.threads import CALLER
from ...errors import ConnectionClosedError, RemoteError
from ...http.asgi import Receive, Send, Sending, disconnection, id_of, respond, send_error
from ...http.client_keys import ClientCounts
from ...http.headers import Headers, HTTPError
from ...http.param_headers import ARGUMENTS, INPUT_SCHEMA, TOOL_NAME, check_parameter_headers, parameter_headers
from ...http.server_rules import retry_headers, status_of
from ...protocol.connection import Connection
from ...protocol.events import Event, MessageRejected, NotificationReceived, RequestReceived
from ...protocol.followed_pages import FollowedPages
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Id, RequestMessage
from ...protocol.models import is_list, is_object
from ...protocol.revision import META, Request
from ...session.identity import UNAUTHENTICATED, RequestAuth
from ...session.interfaces import Dispatcher, Service
from ...session.replies import CancelledRequestError, run_notification_handler, run_request_handler
from .responders import IncomingPost, StatelessResponder
from .stream_response import send_stream

_log: Final = logging.getLogger(__name__)

_HEADERS_FRESH_SECONDS: Final = 5.0  # Seconds after which the header declarations of tools are read again.
_HEADERS_SECONDS: Final = 5.0  # Seconds that calls wait for them: a proxy may stand before a server that is silent.
_SILENT_SECONDS: Final = 60.0  # Seconds after which they are read again if they did not come in that time.
_DRAIN_SECONDS: Final = 0.5  # Seconds for requests to complete when the server shuts down.
_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled handlers to end.
_MAX_PAGES: Final = 100  # Pages of the list of tools.
_MAX_RUNNING: Final = 1024  # Requests of one user that run at the same time, as in one session.
_MAX_RUNNING_OF_ADDRESS: Final = 8192  # The same of one address without a user.
_SHUTTING_DOWN: Final = HTTPError(503, "the server is shutting down", INTERNAL_ERROR)
_TOO_MANY: Final = HTTPError(
    503, "too many requests of this client run: wait for results first", INTERNAL_ERROR, retry_after=1
)

_NO_RESPONSE: Final = (None, 0)

HeaderPaths = Mapping[str, tuple[str, ...]]


class StatelessHandler:
    """Serve the stateless requests of one revision, of any number of clients."""

    def __init__(
        self,
        service: Service,
        lifespan: SharedLifespan,
        keep_alive: KeepAliveTimer,
        responder_class: type[StatelessResponder] = StatelessResponder,
    ) -> None:
        self._service = service
        self._revision = service.revision
        self._lifespan = lifespan
        self._keep_alive = keep_alive
        self._responder_class = responder_class
        self._connection: Connection
        self._dispatcher: Dispatcher | None = None
        self._loop: asyncio.AbstractEventLoop
        self._running: dict[StatelessResponder, asyncio.Task[None]] = {}  # The tasks that send the responses.
        self._counts = ClientCounts(_MAX_RUNNING, _MAX_RUNNING_OF_ADDRESS)
        calls = service.revision.http.tool_call
        self._tool_call = None if calls is None else calls.method
        self._name_param = "" if calls is None else self._revision.http.name_params.get(calls.method, "")
        self._paths: dict[str, HeaderPaths] = {}
        self._headers_expire = float("-inf")
        self._reading: SharedWork[None] = SharedWork("reading the tools", _HEADERS_SECONDS)

    session_count = 0

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        return len(self._running)

    def serve(self, post: IncomingPost) -> Sending:
        """Serve a POST. A client that disconnects cancels its request."""
        message, head, auth, scope, receive, send = post
        if self._dispatcher is None:
            return self._serve_after(self._start(), post)
        if isinstance(message, RequestMessage) and message.method == self._tool_call:
            if self._loop.time() > self._headers_expire:
                return self._serve_with_headers(self._dispatcher, post)
            if self._paths and (error := self._check_parameter_headers(head.headers, message.params)) is not None:
                return send_error(send, error, message.id)
        event, responder = self._connection.receive_message(message), self._responder_class(
            self._connection, auth, scope
        )
        if not isinstance(event, RequestReceived):
            return self._handle_notification(event, responder, send)
        if not head.accepts_json:
            responder.open_stream()
        if len(self._running) >= _MAX_RUNNING and self._counts.is_full(responder.client_key()):
            return send_error(send, _TOO_MANY, event.id)
        CALLER.set(responder.client_key)
        handler = run_request_handler(self._connection, event, self._dispatcher.handle, responder)
        try:
            rest = first_step(handler)
        except StopIteration as end:
            body, code = end.value or _NO_RESPONSE
            if responder.stream is not None or body is None:
                responder.reply(body, code)
                return self._send(responder, event.id, receive, send)
            responder.is_done = True
            return self._respond(body, code, responder.auth, send)
        return self._run_handler(responder, event.id, rest, receive, send)

    async def _serve_after(self, preparation: Awaitable[Any], post: IncomingPost) -> None:
        await preparation
        serving = self.serve(post)
        del post
        await serving

    async def _serve_with_headers(self, dispatcher: Dispatcher, post: IncomingPost) -> None:
        """Read the header declarations of tools, and serve a call, unless the endpoint is closed meanwhile."""
        try:
            await self._load_tool_headers(dispatcher)
        except ConnectionClosedError:
            message, *_, send = post
            del post
            return await send_error(send, _SHUTTING_DOWN, id_of(message))
        serving = self.serve(post)
        del post
        await serving

    async def _start(self) -> Dispatcher:
        """Start the lifespan, and return the dispatcher of all requests."""
        state = await self._lifespan.state()
        if self._dispatcher is None:
            self._connection = self._service.connection()
            self._connection.in_flight = None  # All clients share this connection: request ids may repeat.
            self._dispatcher = self._service.dispatcher(state)
            self._dispatcher.stamp_server_info(self._connection)
            self._dispatcher.identify(None)
            self._loop = asyncio.get_running_loop()
        return self._dispatcher

    def _handle_notification(self, event: Event, responder: StatelessResponder, send: Send) -> Sending:
        """Let a notification be handled, or turn away what cannot be understood."""
        if isinstance(event, MessageRejected) and event.reply is not None:
            return self._respond(event.reply, event.code, responder.auth, send)
        if isinstance(event, NotificationReceived) and (dispatcher := self._dispatcher) is not None:
            responder.reply(None, 0)  # The handler of a notification cannot send messages.
            dispatcher.background_tasks.add(
                self._loop.create_task(run_notification_handler(event, dispatcher.handle, responder))
            )
        return respond(send, 202)

    def _respond(self, response: bytes, code: int, auth: RequestAuth, send: Send) -> Sending:
        if code and auth.challenge_headers:
            return respond(send, 403, response, auth.challenge_headers)
        if code and (more := retry_headers(code, response)):
            return respond(send, 429, response, more)  # A limit of this client; it may try again later.
        return respond(send, status_of(code, self._revision), response)

    async def _run_handler(
        self,
        responder: StatelessResponder,
        id: Id,
        rest: Awaitable[tuple[bytes, int] | None],
        receive: Receive,
        send: Send,
    ) -> None:
        """Run the rest of a handler in the current task, while another task sends its messages and its response."""
        sending = self._running[responder] = self._loop.create_task(self._send(responder, id, receive, send))
        self._counts.add(client := responder.client_key())
        try:
            await responder.serve(rest)
            await sending
        except CancelledRequestError:
            await sending  # The client waits for the response.
            raise
        finally:
            sending.cancel()
            self._counts.remove(client)
            del self._running[responder]

    async def _send(self, responder: StatelessResponder, id: Id, receive: Receive, send: Send) -> None:
        """Send the response as one body, or as a stream with the messages before it."""
        client = disconnection(receive)
        client.add_done_callback(responder.client_disconnected)
        try:
            await responder.wait_until_decided(self._keep_alive.seconds)
            if responder.is_done and responder.stream is None:
                if responder.response is not None:
                    await self._respond(responder.response, responder.code, responder.auth, send)
                elif not client.done():
                    await send_error(send, _SHUTTING_DOWN, id)
            else:
                await send_stream(responder.open_stream(), client, send, self._keep_alive)
        finally:
            client.remove_done_callback(responder.client_disconnected)
            client.cancel()
            if not responder.is_done:
                responder.client_disconnected(client)

    def end_subscriptions(self) -> None:
        """End subscriptions: their requests get their results."""
        if self._dispatcher is not None:
            self._dispatcher.detach()

    async def close(self) -> None:
        """End subscriptions, wait for running requests, then cancel them and the background tasks."""
        self.end_subscriptions()
        await self._wait_for_handlers(_DRAIN_SECONDS)
        for responder in self._running:
            responder.cancel()
        await self._reading.close()
        await self._wait_for_handlers(_CANCEL_SECONDS)
        for responder in self._running:
            responder.client_disconnected(self)
        if self._dispatcher is not None:
            await self._dispatcher.background_tasks.end()

    async def _wait_for_handlers(self, timeout: float) -> None:
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=timeout)

    # ---- headers that repeat arguments -------------------------------------------------------------------------------

    def _check_parameter_headers(self, headers: Headers, params: Any) -> HTTPError | None:
        """Return the error if the headers that repeat tool arguments do not match them."""
        paths = self._paths.get(str(params.get(self._name_param))) if params else None
        if not paths:
            return None
        mismatch = check_parameter_headers(headers, params.get(self._revision.name_of(ARGUMENTS)), paths)
        code = int(self._revision.constants.get("HEADER_MISMATCH", INVALID_REQUEST))
        return None if mismatch is None else HTTPError(400, mismatch, code)

    async def _load_tool_headers(self, dispatcher: Dispatcher) -> None:
        """Read the header declarations of the server's tools; calls at the same time wait for the same."""
        try:
            await self._reading.run(lambda: self._refresh_tool_headers(dispatcher))
        except TimeoutError:
            if self._loop.time() > self._headers_expire:  # Once for all calls that have waited.
                _log.warning(
                    "the tools were not listed within %g s: calls are served with the headers that are known",
                    _HEADERS_SECONDS,
                )
                self._headers_expire = self._loop.time() + _SILENT_SECONDS

    async def _refresh_tool_headers(self, dispatcher: Dispatcher) -> None:
        schemas = self._revision.http.tool_schemas
        if schemas is not None:
            paths = await self._read_tool_headers(schemas, dispatcher)
            self._paths = self._paths if paths is None else paths
        self._headers_expire = self._loop.time() + _HEADERS_FRESH_SECONDS  # A list may take longer than that.

    async def _read_tool_headers(self, row: Request[Any], dispatcher: Dispatcher) -> dict[str, HeaderPaths] | None:
        """Return the header declarations by tool name, from all pages of the server's own list of tools.

        None if the list cannot be had now, so that those that were read before remain.
        """
        paths_by_tool: dict[str, HeaderPaths] = {}
        meta: dict[str, Any] = {f"{META}protocolVersion": self._revision.id, f"{META}clientCapabilities": {}}
        params: dict[str, Any] = {"_meta": meta}
        name, schema = self._revision.name_of(TOOL_NAME), self._revision.name_of(INPUT_SCHEMA)
        followed = FollowedPages(row.method, _MAX_PAGES)
        while True:
            page = await self._list_tools(RequestMessage(0, row.method, params), dispatcher)
            if page is None:
                return None
            for items in page.values():
                for item in items if is_list(items) else ():
                    if is_object(item) and schema in item and (paths := _tool_headers(item[schema], item.get(name))):
                        paths_by_tool[str(item.get(name))] = paths
            try:
                cursor = followed.add(0, page.get("nextCursor"))
            except RemoteError as error:
                _log.error("the headers of tools on further pages are not checked: %s", error)
                break
            if cursor is None:
                break
            params = {"_meta": meta, "cursor": cursor}
        return paths_by_tool

    async def _list_tools(self, message: RequestMessage, dispatcher: Dispatcher) -> dict[str, Any] | None:
        """Return the list of tools that the handler of this server returns; None if it fails."""
        responder = StatelessResponder(self._connection, UNAUTHENTICATED)
        request = self._connection.receive_message(message)
        if isinstance(request, RequestReceived):
            await responder.serve(run_request_handler(self._connection, request, dispatcher.handle, responder))
        response = from_json(responder.response) if responder.response is not None else None
        result = response.get("result") if is_object(response) else None
        return result if is_object(result) else None


def _tool_headers(schema: Any, name: Any) -> HeaderPaths:
    try:
        return parameter_headers(schema)
    except ValueError as error:
        _log.error("the tool %r cannot be called over HTTP: %s", name, error)
        return {}
