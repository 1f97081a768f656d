"""What a session is between: the transport below it, and above it the handlers, which it is a `Speaker` for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel

from .errors import McpError
from .exchange import OnProgress
from .jsonrpc import Id, Message
from .peer import Peer
from .spec import Notification, Request, Revision

if TYPE_CHECKING:
    from .auth.resource.caller import Caller

# Takes the answer to what came in one go, None where it gets none, and the code of the error if it is one.
Reply = Callable[[bytes | None, int], None]
Send = Callable[[bytes], None]


class Transport(Protocol):
    """Whole messages, in order, both ways. `ending` says why the conversation ended, for error messages."""

    @property
    def ending(self) -> str: ...

    def send(self, message: bytes, more: bool = False) -> None:
        """Take one message to be sent; never blocks. `more` tells that others may follow at once. Raises NotConnected."""
        ...

    async def drained(self) -> None:
        """Wait until little of what was taken is still to be sent. Raises NotConnected."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None at the end of the conversation."""
        ...

    async def close(self) -> None:
        """Send what is left, end the conversation and release all it holds; more than once does no harm."""
        ...


@runtime_checkable
class Pushing(Protocol):
    """A transport that can hand over each message as soon as it is there, which saves a turn of the event loop."""

    def push_to(self, deliver: Callable[[bytes | None], None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Taker(Protocol):
    """Who is told by a transport of exchanges what came, and which request will not be answered."""

    def take(self, message: Message | list[Message]) -> None: ...

    def fail(self, id: Id, fault: McpError) -> None: ...


@runtime_checkable
class Exchanging(Protocol):
    """A transport where each request is an exchange of its own, which may fail while the others go on; how it is made
    depends on the revision; until that is agreed, the server may be of one of the `others`. `push_to` is called after
    `exchange_with`, and is told of the end alone."""

    def exchange_with(self, taker: Taker) -> None: ...

    def speak(self, revision: Revision, others: Callable[[], Iterable[Revision]] = ...) -> None: ...


class Speaker(Protocol):
    """What a handler may do with its conversation."""

    @property
    def peer(self) -> Peer: ...

    @property
    def caller(self) -> Caller | None:
        """Who sent the message, over a network; None for whoever started this process."""
        ...

    async def ask(
        self,
        row: Request[Any],
        params: dict[str, Any] | BaseModel,
        timeout: float | None,
        on_progress: OnProgress | None = None,
        longest: float | None = None,
    ) -> BaseModel: ...

    async def tell(self, row: Notification, params: Any) -> None: ...

    def part(self) -> None:
        """End the connection that the answer was to come over, where the client can come back for it."""
        ...


class Passing:
    """A speaker in front of another: it hands on whatever it does not do itself."""

    __slots__ = ("_session",)

    def __init__(self, session: Speaker) -> None:
        self._session = session

    @property
    def peer(self) -> Peer:
        return self._session.peer

    @property
    def caller(self) -> Caller | None:
        return self._session.caller

    def part(self) -> None:
        self._session.part()

    async def tell(self, row: Notification, params: Any) -> None:
        """As the session's own."""
        await self._session.tell(row, params)
