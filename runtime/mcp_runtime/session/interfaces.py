"""The protocols between the layers: transports below a session, and the services and handlers above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from ..aio.background import BackgroundTasks
from ..errors import MCPError
from ..protocol.capabilities import Capabilities
from ..protocol.connection import Connection
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import Id, Message, OutgoingMessage
from ..protocol.revision import Notification, Request, Revision
from .identity import RequestAuth
from .options import RequestOptions

# Takes the answer to what came in one go, None where it gets none, and the code of the error if it is one.
Reply = Callable[[bytes | None, int], None]
Send = Callable[[bytes], None]


class Transport(Protocol):
    """Whole messages, in order, both ways. `ending` says why the conversation ended, for error messages."""

    @property
    def close_reason(self) -> str: ...

    def send(self, message: bytes, more: bool = False) -> None:
        """Take one message to be sent; never blocks. `more` tells that others may follow at once. Raises ConnectionClosedError."""
        ...

    async def drain(self) -> None:
        """Wait until little of what was taken is still to be sent. Raises ConnectionClosedError."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None at the end of the conversation."""
        ...

    async def close(self) -> None:
        """Send what is left, end the conversation and release all it holds; more than once does no harm."""
        ...


@runtime_checkable
class PushTransport(Protocol):
    """A transport that can hand over each message as soon as it is there, which saves a turn of the event loop."""

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class MessageSink(Protocol):
    """Who is told by a transport of exchanges what came, and which request will not be answered."""

    def receive_message(self, message: Message | list[Message]) -> None: ...

    def fail_request(self, id: Id, error: MCPError) -> None: ...


@runtime_checkable
class RequestTransport(Protocol):
    """A transport that sends each request separately, so that one can fail while the others go on. It hands over parsed
    messages to its sink, and calls the receiver of `set_receiver` only at the end of the connection. How it sends
    depends on the protocol version; until one is negotiated, the server may have one of the `alternatives`."""

    @property
    def close_reason(self) -> str: ...

    def send_message(self, message: OutgoingMessage) -> None:
        """Take one message to be sent; never blocks. Raises ConnectionClosedError."""
        ...

    async def drain(self) -> None: ...

    async def receive(self) -> bytes | None: ...

    async def close(self) -> None: ...

    def set_sink(self, sink: MessageSink) -> None: ...

    def set_receiver(self, deliver: Callable[[bytes | None], None]) -> None: ...

    def set_revision(self, revision: Revision, alternatives: Callable[[], Iterable[Revision]] = ...) -> None: ...


class Channel(Protocol):
    """What a handler may do with its conversation."""

    @property
    def connection(self) -> Connection: ...

    @property
    def auth(self) -> RequestAuth | None:
        """Who sent the message, over a network; None for whoever started this process."""
        ...

    async def send_request(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        options: RequestOptions,
    ) -> BaseModel: ...

    async def send_notification(self, row: Notification, params: Any) -> None: ...

    def close_sse_stream(self) -> None:
        """End the connection that the answer was to come over, where the client can come back for it."""
        ...


class ChannelProxy:
    """A speaker in front of another: it hands on whatever it does not do itself."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def connection(self) -> Connection:
        return self._channel.connection

    @property
    def auth(self) -> RequestAuth | None:
        return self._channel.auth

    def close_sse_stream(self) -> None:
        self._channel.close_sse_stream()

    async def send_notification(self, row: Notification, params: Any) -> None:
        """As the session's own."""
        await self._channel.send_notification(row, params)


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

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel:
        """Negotiate the protocol version and return the result of the opening request."""
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


class Service(Protocol):
    """A server of one protocol version, as transports drive it. Services that adapt the same server have the same
    `origin`, and share its lifespan."""

    @property
    def revision(self) -> Revision: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def origin(self) -> object: ...

    def lifespan(self) -> AbstractAsyncContextManager[Any]: ...

    def dispatcher(self, state: Any) -> Dispatcher:
        """Make the dispatcher of a new connection; `state` is what the lifespan yielded."""
        ...
