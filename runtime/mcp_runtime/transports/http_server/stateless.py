"""HTTP requests of the stateless lifecycle, which belong to no session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Hashable, Mapping
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final

from pydantic_core import from_json

from ...aio.shared_work import SharedWork
from ...aio.tasks import Coro, LongWait, SharedLifespan, adopted_task, go_on, noting_wait
from ...aio.threads import CALLER
from ...errors import ConnectionClosedError, RemoteError
from ...http.asgi import respond, send_error
from ...http.clients import ClientCounts
from ...http.headers import (
    ARGUMENTS,
    INPUT_SCHEMA,
    TOOL_NAME,
    Headers,
    HTTPError,
    check_parameter_headers,
    parameter_headers,
)
from ...protocol.connection import Connection, Event, MessageRejected, NotificationReceived, RequestReceived
from ...protocol.jsonrpc import INVALID_REQUEST, RequestMessage
from ...protocol.models import is_list, is_object
from ...protocol.result_types import FollowedPages
from ...protocol.revision import META, Request, Stateless
from ...session.interfaces import UNAUTHENTICATED, Dispatcher, Service
from ...session.session import run_notification_handler
from .responses import SHUTTING_DOWN, TOO_MANY, IncomingPost, JSONStatelessResponder, StatelessResponder
from .streams import KeepAliveTimer

_log: Final = logging.getLogger(__name__)

_HEADERS_FRESH_SECONDS: Final = 5.0  # Seconds after which the header declarations of tools are read again.
_HEADERS_SECONDS: Final = 5.0  # Seconds that calls wait for them: a proxy may stand before a server that is silent.
_SILENT_SECONDS: Final = 60.0  # Seconds after which they are read again if they did not come in that time.
_DRAIN_SECONDS: Final = 0.5  # Seconds for requests to complete when the server shuts down.
_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled handlers to end.
_MAX_PAGES: Final = 100  # Pages of the list of tools.
_MAX_RUNNING: Final = 1024  # Requests of one user that run at the same time, as in one session.
_MAX_RUNNING_OF_ADDRESS: Final = 8192  # The same of one address without a user.

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
        # Requests that wait for something, by their responders, with their clients.
        self._waiting: dict[StatelessResponder, tuple[asyncio.Future[Any], Hashable]] = {}
        self._counts = ClientCounts(_MAX_RUNNING, _MAX_RUNNING_OF_ADDRESS)
        lifecycle, calls = service.revision.lifecycle, service.revision.http.tool_call
        self._listen_row = lifecycle.listen if isinstance(lifecycle, Stateless) else None
        self._tool_call = None if calls is None else calls.method
        self._name_param = "" if calls is None else self._revision.http.name_params.get(calls.method, "")
        self._paths: dict[str, HeaderPaths] = {}
        self._headers_expire = float("-inf")
        self._reading: SharedWork[None] = SharedWork("reading the tools", _HEADERS_SECONDS)

    session_count = 0

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        return len(self._waiting)

    def serve(self, post: IncomingPost) -> Awaitable[None]:
        """Return what serves a POST. A client that disconnects cancels its request."""
        dispatcher, message = self._dispatcher, post.message
        if dispatcher is None:
            return self._serve_first(post)
        if isinstance(message, RequestMessage) and message.method == self._tool_call:
            if self._loop.time() > self._headers_expire:
                return self._serve_first(post)
            if self._paths and (error := self._check_parameter_headers(post.head.headers, message.params)) is not None:
                return send_error(post.send, error, message.id)
        event = self._connection.receive_message(message)
        responder = self._responder_class(self._connection, post.auth, post, self._keep_alive)
        if not isinstance(event, RequestReceived):
            return self._handle_notification(event, responder, post)
        if len(self._waiting) >= _MAX_RUNNING and self._counts.is_full(responder.client_key()):
            return send_error(post.send, TOO_MANY, event.id)
        CALLER.set(responder.client_key)
        responder.parks = event.row is self._listen_row
        if not post.head.accepts_json:
            responder.open_stream()
        work = responder.serve(event, dispatcher.handle)
        if responder.parks:
            return self._serve_long(work, responder)
        return noting_wait(work, self._look_out, self._look_away, responder)

    async def _serve_first(self, post: IncomingPost) -> None:
        """Serve a POST when the server has started, and the headers of its tools are known."""
        dispatcher, message = self._dispatcher or await self._start(), post.message
        if isinstance(message, RequestMessage) and message.method == self._tool_call:
            try:
                if self._loop.time() > self._headers_expire:
                    await self._load_tool_headers(dispatcher)
            except ConnectionClosedError:
                return await send_error(post.send, SHUTTING_DOWN, message.id)
        await self.serve(post)

    async def _serve_long(self, work: Coro, responder: StatelessResponder) -> None:
        """Serve a request whose handler may wait for days: it has no task while it does."""
        context = copy_context()
        try:
            waits_for = context.run(work.send, None)
        except StopIteration:
            return await responder.send_parked()
        if type(waits_for) is LongWait:
            self._look_out(responder, waits_for)
            waits_for.add_done_callback(partial(self._go_on, work, context, responder), context=context)
            return await responder.send_parked()
        responder.unpark()
        self._look_out(responder)
        try:
            await go_on(work, context.run, waits_for, None)
        finally:
            self._look_away(responder)

    def _go_on(self, work: Coro, context: Context, responder: StatelessResponder, done: LongWait) -> None:
        """Let a handler go on that has waited without a task."""
        task = adopted_task(self._loop, work, context, done)
        self._waiting[responder] = task, self._waiting[responder][1]
        responder.look_out(task)
        task.add_done_callback(lambda _: self._look_away(responder))

    def _look_out(self, responder: StatelessResponder, waits_for: LongWait | None = None) -> None:
        """Count a request that waits for something, and look out for its client."""
        task = waits_for or asyncio.current_task(self._loop)
        assert task is not None, "a request is served by a task"
        client = responder.client_key()
        self._waiting[responder] = (task, client)
        self._counts.add(client)
        responder.look_out(task)

    def _look_away(self, responder: StatelessResponder) -> None:
        self._counts.remove(self._waiting.pop(responder)[1])
        responder.close()

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

    async def _handle_notification(self, event: Event, responder: StatelessResponder, post: IncomingPost) -> None:
        """Let a notification be handled, or turn away what cannot be understood."""
        if isinstance(event, MessageRejected) and event.reply is not None:
            responder.reply(event.reply, event.code)
            return await responder.send_body(post)
        if isinstance(event, NotificationReceived) and (dispatcher := self._dispatcher) is not None:
            responder.reply(None, 0)  # The handler of a notification cannot send messages.
            dispatcher.background_tasks.add(
                self._loop.create_task(run_notification_handler(event, dispatcher.handle, responder))
            )
        await respond(post.send, 202)

    def end_subscriptions(self) -> None:
        """End subscriptions: their requests get their results."""
        if self._dispatcher is not None:
            self._dispatcher.detach()

    async def close(self) -> None:
        """End subscriptions, wait for running requests, then cancel them and the background tasks."""
        self.end_subscriptions()
        await self._wait_for_handlers(_DRAIN_SECONDS)
        for responder in self._waiting:
            responder.cancel()
        await self._reading.close()
        await self._wait_for_handlers(_CANCEL_SECONDS)
        for responder in self._waiting:
            responder.client_disconnected(self)
        if self._dispatcher is not None:
            await self._dispatcher.background_tasks.end()

    async def _wait_for_handlers(self, timeout: float) -> None:
        await asyncio.sleep(0)  # What has waited without a task gets one.
        if self._waiting:
            await asyncio.wait([task for task, _ in self._waiting.values()], timeout=timeout)

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
        request = self._connection.receive_message(message)
        if not isinstance(request, RequestReceived):
            return None
        channel = JSONStatelessResponder(self._connection, UNAUTHENTICATED)  # What else the handler sends is dropped.
        await channel.serve(request, dispatcher.handle)
        result = None if channel.response is None else from_json(channel.response).get("result")
        return result if is_object(result) else None


def _tool_headers(schema: Any, name: Any) -> HeaderPaths:
    try:
        return parameter_headers(schema)
    except ValueError as error:
        _log.error("the tool %r cannot be called over HTTP: %s", name, error)
        return {}
