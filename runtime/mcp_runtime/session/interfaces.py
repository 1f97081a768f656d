"""The protocols between the layers: transports below a session, and the services and handlers above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..aio.background import BackgroundTasks
from ..errors import MCPError
from ..protocol.capabilities import Capabilities
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import Id, Message, OutgoingMessage
from ..protocol.revision import Notification, Request, Revision
from ..stores.primitives import Store
from .identity import RequestAuth
from .options import RequestOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

# Takes the encoded response to a message or a batch, None if there is none, and its error code, 0 for a result.
Reply = Callable[[bytes | None, int], None]
Send = Callable[[bytes], None]


class Transport(Protocol):
    """Sends and receives whole messages in order. `close_reason` describes the end of the connection in errors."""

    @property
    def close_reason(self) -> str:
        """Why the connection has ended, for the messages of errors."""
        ...

    def send(self, message: bytes, more: bool = False) -> None:
        """Send a message; never blocks. With `more`, further messages follow at once. Raises ConnectionClosedError."""
        ...

    async def drain(self) -> None:
        """Wait until few messages are unsent. Raises ConnectionClosedError."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end of the connection."""
        ...

    async def close(self) -> None:
        """Send unsent messages, close the connection and release its resources. It may be called more than once."""
        ...


@runtime_checkable
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
        ...

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
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel: ...

    async def send_notification(self, row: Notification, params: Any) -> None: ...

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Close the HTTP connection of the response, or that of the session's own stream, if the client can resume
        the stream."""
        ...


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


class Candidate(Protocol[EndpointT_co]):
    """An endpoint or a service of one protocol version, which `get` makes when it is first needed."""

    @property
    def revision_id(self) -> str: ...

    @property
    def stateful(self) -> bool: ...

    def get(self) -> EndpointT_co: ...


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
        ...

    def attach(self, channel: Channel) -> None:
        """Send change notifications to this client from now on."""
        ...

    def detach(self) -> None:
        """End the client's subscriptions."""
        ...

    def stamp_server_info(self, connection: Connection) -> None:
        """Add the server's name and version to the `_meta` of every result, where the lifecycle is stateless."""
        ...


class SessionSharing(Protocol):
    """What the workers of one server share of its sessions and of its announcements."""

    def export(self, dispatcher: Dispatcher, connection: Connection) -> dict[str, Any]:
        """Return the state of a session, as JSON."""
        ...

    def mark(self, dispatcher: Dispatcher, connection: Connection) -> object:
        """Return an object that is equal to an earlier one if the state is still the same; None if it may differ."""
        ...

    def restore(self, dispatcher: Dispatcher, connection: Connection, state: Mapping[str, Any]) -> bool:
        """Set the state of a session. Return False if this server does not serve its protocol version."""
        ...

    def update(self, dispatcher: Dispatcher, connection: Connection, state: Mapping[str, Any]) -> None:
        """Set the part of the state that requests change."""
        ...

    def leave_bus(self, dispatcher: Dispatcher) -> None:
        """Let the session get no announcements of the server itself."""
        ...

    def change(self, dispatcher: Dispatcher, connection: Connection, method: str, params: Any) -> bytes | None:
        """Return the message of a change for the client of a session; None if the client does not want it."""
        ...

    def missed(self, dispatcher: Dispatcher, connection: Connection) -> Sequence[bytes]:
        """Return the messages that tell the client of a session which changes it may have missed."""
        ...

    def relay(self, send: Callable[[str, Any], Awaitable[None]]) -> bool:
        """Pass all announcements to a function. Return False, and do nothing, if they are passed to one already."""
        ...

    async def deliver(self, method: str, params: Any) -> None:
        """Send a change to the subscribers of this process that are not sessions."""
        ...

    async def deliver_missed(self) -> None:
        """Tell the subscribers of this process that are not sessions which changes they may have missed."""
        ...

    def use(self, store: Store, keys: Sequence[bytes]) -> None:
        """Let the server store its state in a store, and encrypt with these keys unless it has its own."""
        ...

    def leave(self, store: Store) -> None:
        """Let the server use a store no more."""
        ...


class TaskQueue(Protocol):
    """The queue of tasks that may run at any worker."""

    async def open(self, state: Callable[[], Awaitable[Any]]) -> None:
        """Run tasks from now on; `state` returns what the lifespan of the server yields."""
        ...

    async def close(self) -> None:
        """Run no more tasks, and let others begin again at other workers."""
        ...


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
