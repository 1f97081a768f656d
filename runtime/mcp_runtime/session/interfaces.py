"""The protocols between the layers: transports below a session, and the services and handlers above it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from .. import products
from ..aio import clock as clocks
from ..aio.tasks import BackgroundTasks
from ..errors import ConnectionClosedError, JSONRPCError, LocalError, MCPError
from ..protocol.connection import Connection, NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INVALID_REQUEST, Id, Message, OutgoingMessage
from ..protocol.lifecycle import Capabilities
from ..protocol.revision import Notification, Request, Revision
from .requests import RequestOptions

if TYPE_CHECKING:
    from pydantic import BaseModel


# The authenticated user of a request, and what the access token allows.

INSUFFICIENT_SCOPE: Final = "insufficient_scope"
_OF_ONE_TOKEN: Final = frozenset({"exp", "iat", "nbf", "jti"})
RawHeaders = Sequence[tuple[bytes, bytes]]
ChallengeBuilder = Callable[[Iterable[str]], RawHeaders]
# Takes the encoded response to a message or a batch, None if there is none, and its error code, 0 for a result.
Reply = Callable[[bytes | None, int], None]
Send = Callable[[bytes], None]
CURRENT_REQUEST: Final[ContextVar[LoggedRequest | None]] = ContextVar("mcp_current_request", default=None)


@dataclass(frozen=True, slots=True, eq=False)
class AuthenticatedUser:
    """The user of an access token. Raises LocalError without both subject and client id.

    Args:
        subject: Subject of the token (`sub`); None if the token is a client's own.
        client_id: The OAuth client that got the token. Default None: the token does not name it.
        scopes: Scopes of the token. Default: none.
        issuer: Issuer identifier of the authorization server. Default: empty.
        claims: All claims of the token, without the token itself. Default: none.
        dpop_thumbprint: Thumbprint of the key that the token is bound to
            (https://www.rfc-editor.org/rfc/rfc9449#section-6). Default None: it is a bearer token.
        expires_at: Time at which the token expires, in seconds since the epoch; subscriptions opened with the token
            end then. Default None: it does not expire.
    """

    subject: str | None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    dpop_thumbprint: str | None = None
    expires_at: float | None = None

    def __post_init__(self) -> None:
        if not self.subject and not self.client_id:
            raise LocalError("a user needs a subject or a client_id")

    @property
    def key(self) -> str:
        """A stable id of the user of one client, the same for all tokens of this user; use it as a key for storage."""
        import json  # Imported here: servers without authorization start faster without it.

        return json.dumps([self.issuer, self.subject, self.client_id])

    @property
    def rights_key(self) -> str:
        """What the access token allows, as text: the user, the scopes, and all claims, such as the audience, the actor
        and the key that it is bound to. Use it as a key for what may differ between two tokens of one user.

        Claims that each token has for itself, its times and its id, are left out: a token that was renewed has the same
        key.
        """
        import json
        from hashlib import sha256

        claims = {name: value for name, value in self.claims.items() if name not in _OF_ONE_TOKEN}
        rights = [sorted(self.scopes), self.dpop_thumbprint, claims]
        return f"{self.key} {sha256(json.dumps(rights, sort_keys=True, default=repr).encode()).hexdigest()}"


class RequestAuth:
    """The authentication of one HTTP request."""

    __slots__ = ("user", "owner", "challenge_headers", "checked_scopes", "_challenge")

    def __init__(
        self, user: AuthenticatedUser | None, challenge: ChallengeBuilder | None = None, owner: object = None
    ) -> None:
        """Create the authentication of a request.

        Args:
            user: The authenticated user; None if the endpoint is not protected.
            challenge: Returns the headers of an `insufficient_scope` challenge for scopes. Default None: there is no
                challenge.
            owner: The value that a session is bound to if there is no user. Default None.
        """
        self.user = user
        self.owner = owner if user is None else user.key
        # Headers of the response with status 403, set by a failed `require_scopes`.
        self.challenge_headers: RawHeaders = ()
        # All scopes that were required and granted: who reads the result later needs them as well.
        self.checked_scopes: frozenset[str] = frozenset()
        self._challenge = challenge

    @property
    def owner_key(self) -> str:
        """A stable id of the owner, `user.key` for the user of an access token; empty without an owner."""
        if self.user is not None:
            return self.user.key
        return "" if self.owner is None else f"owner:{self.owner!r}"

    @property
    def expires_in(self) -> float | None:
        """Seconds until the token expires; None if it does not."""
        expires_at = None if self.user is None else self.user.expires_at
        return None if expires_at is None else max(expires_at - clocks.wall(), 0.0)

    def require_scopes(self, scopes: Iterable[str]) -> None:
        """Raise JSONRPCError unless the access token has all of these scopes; without a token it has none."""
        required = tuple(dict.fromkeys(scopes))
        if not required:
            return
        if self.user is not None and self.user.scopes.issuperset(required):
            self.checked_scopes = self.checked_scopes.union(required)
            return
        if self.user is not None and self._challenge is not None:
            self.challenge_headers = self._challenge(required)
        data = {"error": INSUFFICIENT_SCOPE, "scope": " ".join(required)}
        raise JSONRPCError(INVALID_REQUEST, f"this request needs the scopes: {', '.join(required)}", data)


# The authentication of requests to an endpoint without protection: `require_scopes` always raises.
UNAUTHENTICATED: Final = RequestAuth(None)


class Transport(Protocol):
    """Sends and receives whole messages in order. `close_reason` describes the end of the connection in errors."""

    @property
    def close_reason(self) -> str:
        """Why the connection has ended, for the messages of errors."""
        ...

    def send(self, message: bytes, more: bool = False) -> None:
        """Send a message; never blocks. With `more`, further messages follow at once. Raises ConnectionClosedError."""

    async def drain(self) -> None:
        """Wait until few messages are unsent. Raises ConnectionClosedError."""

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        ...

    async def close(self) -> None:
        """Send unsent messages, close the connection and release its resources. It may be called more than once."""


def closed_error(transport: Any, prefix: str = "") -> ConnectionClosedError:
    """Return the error of what waits for a transport that has ended, with the last output of the process behind it."""
    return ConnectionClosedError(f"{prefix}{transport.close_reason}", getattr(transport, "last_output", ""))


class PushTransport(Protocol):
    """A transport that calls a receiver with each message, which saves an iteration of the event loop."""

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class MessageSink(Protocol):
    """Receives the messages of a request transport, and the errors of requests that get no response."""

    @property
    def connection(self) -> Connection: ...

    def receive_message(self, message: Message | list[Message]) -> None: ...

    def fail_request(self, id: Id, error: MCPError) -> None: ...


@runtime_checkable
class RequestTransport(Protocol):
    """A transport that sends each request separately, so that a single request can fail. It delivers parsed messages to
    its sink, and calls the receiver of `set_receiver` only at the end of the connection. It sends messages as the
    protocol version requires; `alternatives` of `set_revision` returns all versions that the client accepts."""

    @property
    def close_reason(self) -> str: ...

    def send_message(self, message: OutgoingMessage) -> None:
        """Send a message; never blocks. Raises ConnectionClosedError."""

    async def drain(self) -> None: ...

    async def receive(self) -> bytes | None: ...

    async def close(self) -> None: ...

    def set_sink(self, sink: MessageSink) -> None: ...

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None: ...

    def set_revision(self, revision: Revision, alternatives: Callable[[], Iterable[Revision]] = ...) -> None: ...


class Channel(Protocol):
    """The connection as the handler of one message uses it."""

    @property
    def connection(self) -> Connection: ...

    @property
    def auth(self) -> RequestAuth | None:
        """The authentication of the message; None over stdio and in memory."""
        ...

    @property
    def scope(self) -> Mapping[str, Any] | None:
        """The ASGI scope of the HTTP request; None over stdio and in memory."""
        ...

    async def send_request(
        self, row: Request[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel: ...

    async def send_notification(self, row: Notification, params: Any) -> None: ...

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Close the HTTP connection of the response, or that of the session's own stream, if the client can resume
        the stream."""


class ChannelProxy:
    """A channel that forwards to another one; subclasses override some methods."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def wrapped(self) -> Channel:
        """The channel that this one forwards to."""
        return self._channel

    @property
    def connection(self) -> Connection:
        return self._channel.connection

    @property
    def auth(self) -> RequestAuth | None:
        return self._channel.auth

    @property
    def scope(self) -> Mapping[str, Any] | None:
        return self._channel.scope

    def close_sse_stream(self, standalone: bool = False) -> None:
        self._channel.close_sse_stream(standalone)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Send a notification on the wrapped channel."""
        await self._channel.send_notification(row, params)


def channel_of_connection(channel: Channel) -> Channel:
    """Return the channel of the connection itself, in the negotiated protocol version, below all that wrap it."""
    while isinstance(channel, ChannelProxy):
        channel = channel.wrapped
    return channel


Connect = Callable[[], Awaitable[Transport | RequestTransport]]
RevisionChoice = Literal["all"] | Sequence[str]  # Ids of revisions.
EndpointT_co = TypeVar("EndpointT_co", covariant=True)


class Candidate(Generic[EndpointT_co]):
    """An endpoint or a service of one protocol version, which `get` makes when it is first needed."""

    def __init__(self, revision_id: str, stateful: bool, make: Callable[[], EndpointT_co]) -> None:
        self.revision_id = revision_id
        self.stateful = stateful
        self._make = make
        self._endpoint: EndpointT_co | None = None

    def get(self) -> EndpointT_co:
        """Return the endpoint or the service, the same one at each call."""
        if self._endpoint is None:
            self._endpoint = self._make()
        return self._endpoint


class Dispatcher(Protocol):
    """Handle the messages of one client."""

    @property
    def background_tasks(self) -> BackgroundTasks: ...

    def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Coroutine[Any, Any, Any]:
        """Run the handler of a message; the result of a request is what the handler returns."""
        ...

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel | None:
        """Negotiate the protocol version and return the result of the opening request; None if `handle` returns it."""
        ...

    def identify(self, session_id: str | None) -> None:
        """Set the id of the client's session; None if the dispatcher handles requests without sessions."""

    def attach(self, channel: Channel) -> None:
        """Send change notifications to this client from now on."""

    def detach(self) -> None:
        """End the client's subscriptions."""

    def stamp_server_info(self, connection: Connection) -> None:
        """Add the server's name and version to the `_meta` of every result, where the lifecycle is stateless."""


class TaskQueue(Protocol):
    """The queue of tasks that may run at any worker."""

    async def open(self, state: Callable[[], Awaitable[Any]]) -> None:
        """Run tasks from now on; `state` returns what the lifespan of the server yields."""

    async def close(self) -> None:
        """Run no more tasks, and let others begin again at other workers."""


class StreamLimits(NamedTuple):
    """How many streams of subscriptions one client may have open: a user or a session, or an address without a user."""

    of_user: int = 100
    of_address: int = 1000


DEFAULT_STREAM_LIMITS: Final = StreamLimits()


class Service(Protocol):
    """A server of one protocol version, as transports drive it. Services that adapt the same server have the same
    `origin`, and share its lifespan."""

    stream_limits: StreamLimits
    """What the endpoint that serves it allows; set before the first connection."""

    @property
    def revision(self) -> Revision: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def origin(self) -> object: ...

    def lifespan(self) -> AbstractAsyncContextManager[Any]: ...

    def connection(self) -> Connection:
        """Return the server's side of a new connection."""
        ...

    def dispatcher(self, state: Any) -> Dispatcher:
        """Make the dispatcher of a new connection; `state` is what the lifespan yielded."""
        ...


# The request that a program's log records belong to.


class LoggedRequest:
    """A request whose handler may write log records.

    Attributes:
        loop: The event loop of the handler.
        context: A function that makes a context to send log messages with.
        dropped: How many records were not sent, because the client reads too slowly.
        unfinished: The task that waits until the client has read more; None if no message waits.
    """

    __slots__ = ("loop", "context", "dropped", "unfinished")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Callable[[], Any]) -> None:
        """Create the record of a request."""
        self.loop = loop
        self.context = context
        self.dropped = 0
        self.unfinished: asyncio.Task[None] | None = None


class ForwardingSwitch:
    """Whether a handler of log records exists, so that the current request has to be set.

    Attributes:
        is_on: True from the first handler on.
    """

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        """Create the switch; it is off."""
        self.is_on = False


FORWARDING: Final = ForwardingSwitch()


def set_current_request(context: Callable[[], Any] | None) -> None:
    """Set the request of the current task; None if its log records belong to no request."""
    CURRENT_REQUEST.set(None if context is None else LoggedRequest(asyncio.get_running_loop(), context))


def other_versions() -> Any:
    """Return what negotiates and converts between protocol versions; None where it is not there."""
    return products.find("versions")


class WaitingMessages(Protocol):
    """The messages of a session that wait while a large one is handled in pieces."""

    def add(self, data: bytes) -> None: ...

    async def finish(self) -> None: ...

    def cancel(self) -> None: ...


def large_messages() -> Any:
    """Return what handles messages above LARGE in pieces; None where it is not there, and each is handled at once."""
    return products.find("large")
