"""The context of a server's handlers: the message, the connection, and requests to the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from copy import deepcopy
from inspect import isawaitable
from typing import Any, Final, Literal, Protocol

from pydantic_core import from_json, to_json

from ..aio.rates import LOG_MESSAGES, TokenBucket
from ..aio.tasks import BackgroundTasks
from ..endpoint.checks import check_form_answer, warn_about_secrets
from ..endpoint.context import LEVELS, Context
from ..endpoint.requests import ResultT
from ..errors import InvalidMessageError, InvalidResponseError, JSONRPCError, ProtocolViolationError, RemoteJSONRPCError
from ..http.clients import ClientKey, address_of, client_key, session_client
from ..protocol.connection import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.lifecycle import is_declared, parse_capability_path
from ..protocol.models import is_object
from ..protocol.revision import META, InputRequest, Notification, Request
from ..session.interfaces import AuthenticatedUser, Channel
from ..session.requests import Params, RequestKeywords, RequestOptions
from ..usage.keywords import NoKeywords
from .input_requests import MultiRoundTripRequest
from .limits import ClientBuckets

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class _Closed:
    """The result of closing a stream: `await` returns at once, for programs of the official SDK."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


CLOSED: Final = _Closed()


class SessionState(Protocol):
    """What a product stores for the session of one client, which goes on at another worker: an app its rules."""

    def export(self) -> list[Any]:
        """Return the state as JSON."""
        ...

    def restore(self, state: list[Any]) -> None:
        """Set the state that `export` has returned."""


class TaskOptions(Protocol):
    """How a call becomes a task."""

    @property
    def required(self) -> bool:
        """Whether to reject clients that do not support tasks."""
        ...


class Deferrable(Protocol):
    """A request that can be answered with a task, whose result follows later."""

    async def begin(self, options: Any) -> bool:
        """Answer the request with a task, and return True; return False if the client does not support tasks.

        `options` are the TaskOptions of the call; None for the default ones. Raises JSONRPCError if the client does not
        support tasks and `options.required` is set.
        """
        ...

    async def set_status_message(self, message: str) -> None:
        """Set the status message of the task; do nothing if the request has not become one."""


class ConnectionState:
    """The state of one client's connection to a server.

    Attributes:
        state: The value that the server's `lifespan` yielded.
        log_level: The minimum level that the client has set with a request; None if it has set none.
        client_info: The `clientInfo` of the client's `initialize` request; empty on a stateless server.
        log_rate: The rate limit of log messages, of each client if several share the state; None before the first one.
        visibility: The rules that enable and disable tools, resources and prompts; None if there are none.
    """

    __slots__ = (
        "state", "log_level", "client_info", "log_rate", "visibility", "_session_id", "_background_tasks",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, state: Any, log_level: str | None) -> None:
        """Create the state of a new connection.

        Args:
            state: The value that the server's `lifespan` yielded.
            log_level: The minimum level of log messages before the client sets one; None sends no log messages.
        """
        self.state = state
        self.log_level = log_level
        self.client_info: dict[str, Any] = {}
        # Few clients need these, and there may be very many clients: they are created on first use.
        self.log_rate: TokenBucket | ClientBuckets | None = None
        self._session_id: str | None = ""
        self.visibility: SessionState | None = None
        self._background_tasks: BackgroundTasks | None = None

    @property
    def session_id(self) -> str | None:
        """The id of the client's session: that of the transport, or else a random one; None without sessions."""
        if self._session_id == "":
            from uuid import uuid4

            self._session_id = uuid4().hex
        return self._session_id

    @property
    def is_shared(self) -> bool:
        """True if this is the state of all clients of a server without sessions."""
        return self._session_id is None

    def identify(self, session_id: str | None) -> None:
        """Set the id of the client's session; None if this is the state of requests without sessions."""
        self._session_id = session_id

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The asyncio tasks that outlive the request that started them; they end with the connection."""
        if self._background_tasks is None:
            self._background_tasks = BackgroundTasks()
        return self._background_tasks

    @property
    def is_stateless(self) -> bool:
        """True if a stateless protocol version is used; over HTTP, all its clients share this object."""
        return False

    @property
    def session_channel(self) -> Channel | None:
        """The channel for messages that belong to no request; None without a session."""
        return None

    async def notify_lists_changed(self, lists: Iterable[str]) -> None:
        """Notify the client that some of its lists, such as "tools", have changed, if the server declares that."""


class ServerContext(Context):
    """The context of a server's handler: the message, the connection, and requests to the client.

    Attributes:
        state: The value that the server's `lifespan` yielded.
        request_id: The id of the request; None for a notification.
        meta: The `_meta` of the params.
        capabilities: The capabilities that the client has declared.
        client_info: The `clientInfo` of the client.
        user: The authenticated user; None without authentication.
        revision: The negotiated protocol version.
        connection_state: The state of the client's connection: one object per session. A stateless server has one for
            all clients.
        channel: The channel for messages to the client, with the HTTP request and its authentication.
        received: The message that the handler gets.
        multi_round_trip: The rounds of this request, in protocol versions that have them; None elsewhere.
        deferral: What makes a task of this request; None without tasks.
        task_options: How a call of this tool becomes a task.
    """

    connection_state: ConnectionState
    multi_round_trip: MultiRoundTripRequest | None = None
    deferral: Deferrable | None = None
    task_options: TaskOptions | None = None
    # What an app stores for a request: the exceptions of tools that middleware gets, and whether the request came
    # through the app that another one is mounted in.
    failures: Any = None
    task_request: Any = None  # That of a client of a version in which calls request to become tasks.
    raises_failures = False  # Whether exceptions of functions are raised, because the call begins again.
    is_mounted = False

    def __init__(
        self, connection: ConnectionState, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> None:
        """Create the context of one message. The runtime does this.

        Args:
            connection: The state of the client's connection.
            channel: The channel for messages to the client.
            message: The message that the handler gets.
        """
        # `super().__init__` is not called, because this runs for every message.
        self.channel = channel
        self.received = message
        self.state = connection.state
        self.connection_state = connection

    @property
    def client_info(self) -> dict[str, Any]:
        """The `clientInfo` of the client, as JSON. The client is not authenticated by it."""
        client_info = self.meta.get(f"{META}clientInfo")
        # A copy: sessions share what they have stored of equal clients.
        return client_info if is_object(client_info) else deepcopy(self.connection_state.client_info)

    @property
    def user(self) -> AuthenticatedUser | None:
        """The user that the access token of the request belongs to; None over stdio, and without authentication."""
        auth = self.channel.auth
        return None if auth is None else auth.user

    def require_scopes(self, *scopes: str) -> None:
        """Raise JSONRPCError unless the access token has all of these OAuth scopes.

        Over HTTP the response is 403 with an `insufficient_scope` challenge (RFC 6750, section 3.1), if nothing of the
        response was sent yet. Over stdio and without authentication nothing is required.

        Args:
            scopes: The required scopes.
        """
        auth = self.channel.auth
        if auth is not None:
            auth.require_scopes(scopes)

    def close_sse_stream(self) -> Awaitable[None]:
        """Close the SSE stream of this request without ending the request, to free the connection of a long request.

        The client reconnects with `Last-Event-ID` and gets the response then. Does nothing over transports without
        SSE streams, and for clients that cannot resume. It closes at once; the result may be awaited. See
        https://modelcontextprotocol.io/specification/draft/basic/transports
        """
        self._require_channel().close_sse_stream()
        return CLOSED

    def close_standalone_sse_stream(self) -> Awaitable[None]:
        """Close the SSE stream that the client has opened with a GET; the client reconnects with `Last-Event-ID`.

        Does nothing over transports without sessions. It closes at once; the result may be awaited.
        """
        self._require_channel().close_sse_stream(standalone=True)
        return CLOSED

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if its minimum level allows it.

        Messages above 1,000 a second (after the first 5,000) are dropped. See
        https://modelcontextprotocol.io/specification/draft/server/utilities/logging

        Args:
            level: The severity of the message (RFC 5424).
            data: The message: any JSON value.
            logger: The name of the logger.

        Raises ProtocolViolationError if the server does not declare the capability for log messages.
        """
        min_level = self.meta.get(f"{META}logLevel") or self.connection_state.log_level
        if min_level is not None and LEVELS.index(level) >= LEVELS.index(min_level):
            params = {"level": level, "data": data, "logger": logger}
            if not self._log_bucket().acquire():
                if (row := self.revision.lifecycle.log) is None:
                    raise ProtocolViolationError(f"servers of {self.revision.id} cannot send log messages")
                await self._send_notification(row, params, None)

    def _log_bucket(self) -> TokenBucket:
        """Return the bucket of the client's log messages: if many clients share one state, each has its own."""
        state = self.connection_state
        if state.log_rate is None:
            state.log_rate = ClientBuckets(LOG_MESSAGES) if state.is_shared else TokenBucket(LOG_MESSAGES)
        return state.log_rate.of_client(self) if isinstance(state.log_rate, ClientBuckets) else state.log_rate

    async def as_task(self, options: TaskOptions | None = None) -> bool:
        """Answer the request with a task, and continue the handler as that task.

        From then on, requests to the client become input requests of the task. Return True if the request is a task
        now, False if the server or the client does not support tasks.

        Args:
            options: How the call becomes a task; by default the options of the tool.

        Raises JSONRPCError if tasks are not supported and `options.required` is set.
        """
        options = options or self.task_options
        if self.deferral is None:
            if options is not None and options.required:
                raise JSONRPCError(INTERNAL_ERROR, "this call requires a task, and the server does not support tasks")
            return False
        if is_task := await self.deferral.begin(options):
            self.multi_round_trip = None
        return is_task

    async def status(self, message: str) -> None:
        """Set the status message of the task; do nothing if the request has not become a task.

        Args:
            message: A short text for the user.
        """
        if self.deferral is not None:
            await self.deferral.set_status_message(message)

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make` as JSON, and call it only once for a request.

        A handler of a multi round-trip request runs again for every round. The first result of `make` is stored in
        `requestState` and returned in later rounds. Use it for side effects; await it before the next request to the
        client.

        Args:
            key: A name for the value, unique in the handler.
            make: A function that returns a JSON value or an awaitable of one.
        """
        if self.multi_round_trip is not None:
            return await self.multi_round_trip.once(key, make)
        value = make()
        return from_json(to_json(await value if isawaitable(value) else value))

    async def _send_notification(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        side, path = parse_capability_path(row.capability) if row.capability else ("", ())
        # Keywords are unknown: they are refused below.
        if not keywords and side == "client" and not is_declared(self.capabilities, path):
            raise ProtocolViolationError(
                f"{row.method!r} in {self.revision.id} needs the capability {row.capability!r}, which was not declared"
            )
        await super()._send_notification(row, params, options, keywords)

    async def _send_request(
        self,
        row: Request[ResultT] | InputRequest[ResultT],
        params: Params,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> ResultT:
        warn_about_secrets(params)
        try:
            result = await super()._send_request(row, params, options, keywords)
        except (RemoteJSONRPCError, ProtocolViolationError) as error:
            error.is_refusal = True
            raise
        try:
            check_form_answer(params, result)
        except InvalidMessageError as error:
            raise InvalidResponseError(f"{row.method!r}: {error}") from None
        return result


def share_key(ctx: ServerContext) -> ClientKey:
    """Return what identifies the client of a request for its share of what clients use together: its user, else its
    address. A session is not a client: a client opens as many as it likes."""
    channel = ctx.channel
    return client_key(None if channel.auth is None else channel.auth.owner, address_of(channel.scope))


def session_key(ctx: ServerContext) -> ClientKey | None:
    """Return what identifies the client of a session over HTTP, its user or else its address; None elsewhere."""
    channel = ctx.channel
    return session_client(None if channel.auth is None else channel.auth.owner, channel.scope)
