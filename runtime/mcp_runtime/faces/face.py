"""What a client and a server have in common: handlers that a subclass overrides, and what they declare."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, Literal, Protocol, Self, TypeAlias, TypeVar

from ..errors import LocalError, JSONRPCError
from ..jsonrpc import METHOD_NOT_FOUND, Id
from ..lifecycle import Capabilities, declare, merge, parse_capability_path
from ..peer import RequestReceived, NotificationReceived
from ..seams import Channel
from ..spec import META, Direction, Handshake, InputRequest, Notification, Revision, Sent
from ..wire import is_object
from .calls import Requester
from .guards import with_checks
from .meta import request_meta
from .rates import TokenBucket, RateLimit
from .threads import WORKER_THREADS

_PROGRESS_RATE: Final = RateLimit(per_second=50, burst=200)

T = TypeVar("T")
HandlerResult: TypeAlias = T | Awaitable[T]
Handler = Callable[..., Any]
RevisionChoice = Literal["all"] | Sequence[str]  # Ids of revisions.

# Severities of log messages, least first (RFC 5424).
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Context(Requester):
    """What a handler knows of the message it handles, and how it reaches the other side while it does."""

    _progress = float("-inf")
    _progress_rate: TokenBucket | None = None

    def __init__(self, channel: Channel, message: RequestReceived | NotificationReceived, state: Any = None) -> None:
        self._channel = channel
        self._message = message
        self.state = state

    def _require_channel(self) -> Channel:
        return self._channel

    @property
    def request_id(self) -> Id | None:
        """The id of the request; None in the handler of a notification."""
        return self._message.id if isinstance(self._message, RequestReceived) else None

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params, as it came."""
        return request_meta(self._message)

    @property
    def capabilities(self) -> Capabilities:
        """What the other side has declared."""
        own = self.meta.get(f"{META}clientCapabilities")
        return own if is_object(own) else self._require_channel().connection.remote_capabilities

    @property
    def revision(self) -> Revision:
        """The revision that the two sides have agreed on."""
        return self._require_channel().connection.revision

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the request is. Nothing is sent where the other side did not ask for it; what comes too often
        (more than 50 times a second, after the first 200) is left out, but for the last: where `progress` is `total`.
        """
        token = self.meta.get("progressToken")
        asked = self._message
        if type(token) not in (int, str) or not isinstance(asked, RequestReceived) or not asked.open:
            return
        if progress <= self._progress:
            return
        self._progress = progress
        self._progress_rate = self._progress_rate or TokenBucket(_PROGRESS_RATE)
        if self._progress_rate.acquire() and progress != total:
            return
        row = self._require_channel().connection.local_row(self.revision.lifecycle.progress)
        said = {"progressToken": token, "progress": progress, "total": total, "message": message}
        known = {field.alias or name for name, field in row.params.model_fields.items()}
        await self._send_notification(row, {wire: value for wire, value in said.items() if wire in known}, None)


EndpointT_co = TypeVar("EndpointT_co", covariant=True)


class Candidate(Protocol[EndpointT_co]):
    """What speaks one revision, or can be made to."""

    @property
    def revision_id(self) -> str: ...

    @property
    def stateful(self) -> bool: ...

    def get(self) -> EndpointT_co: ...


class ExtensionMethods(Protocol):
    """The table of an extension, with the core's."""

    @property
    def REVISION(self) -> Revision: ...


class Extension(Protocol):
    """The generated package of an extension."""

    @property
    def methods(self) -> ExtensionMethods: ...


class Endpoint(Requester):
    """One side of a conversation, with a method for each message it may receive."""

    revision: ClassVar[Revision]
    _receives: ClassVar[Direction]
    _is_composed: ClassVar[bool] = False

    def __init_subclass__(cls, **settings: Any) -> None:
        """A class of several that each speak a revision speaks what all of them do, and the contexts of its handlers can
        do what theirs can. Raises LocalError where they contradict each other."""
        super().__init_subclass__(**settings)
        spoken = dict.fromkeys(getattr(base, "revision") for base in cls.__bases__ if hasattr(base, "revision"))
        if len(spoken) > 1 and "revision" not in vars(cls):
            cls.revision = extended_revision(*spoken)
            cls._is_composed = True
            contexts = dict.fromkeys(getattr(base, "context") for base in cls.__bases__ if hasattr(base, "context"))
            if len(contexts) > 1:
                setattr(cls, "context", type(Context.__name__, tuple(contexts), {}))

    def __init__(self, capabilities: Mapping[str, Any] | None, extensions: Sequence[Extension] = ()) -> None:
        if extensions:
            setattr(self, "revision", extended_revision(self.revision, *(each.methods.REVISION for each in extensions)))
        self._extra_capabilities: Mapping[str, Any] = capabilities or {}
        self._handlers = self._overridden_handlers()

    @property
    def revision_id(self) -> str:
        """The id of its revision."""
        return self.revision.id

    @property
    def stateful(self) -> bool:
        """Whether its conversations begin with a handshake."""
        return isinstance(self.revision.lifecycle, Handshake)

    def get(self) -> Self:
        """Itself; what is made only when it is needed has this method as well."""
        return self

    def _overridden_handlers(self) -> dict[str, Handler]:
        """The handlers a subclass has, by the method they serve, each to be awaited."""
        return {
            row.method: with_checks(row.name, _to_async(getattr(self, row.name)))
            for row in self._received_rows()
            if _is_overridden(type(self), row.name)
        }

    def _received_rows(self) -> list[Sent | InputRequest[Any]]:
        """The rows of what this side may be told, or asked, be it inside a result."""
        return [row for row in self.revision.rows if row.direction == self._receives]

    def _declared_capabilities(self, message: Any, name: str) -> Capabilities:
        """What the handlers declare, each what its method needs, and what was given by hand; `message` is the type
        that carries it in its property `name`."""
        message.model_rebuild()
        model = next(each.annotation for key, each in message.model_fields.items() if name in (key, each.alias))
        capabilities: Capabilities = {}
        side = self._receives.rpartition("_")[2]
        for row in self._received_rows():
            owner, path = parse_capability_path(row.capability) if row.capability else ("", ())
            if row.method in self._handlers and not isinstance(row, Notification) and owner == side:
                declare(capabilities, path, model)
        merge(capabilities, self._extra_capabilities)
        return capabilities

    def _not_handled(self, row: Sent | InputRequest[Any]) -> JSONRPCError:
        return JSONRPCError(METHOD_NOT_FOUND, f"{row.method!r} is not served here ({self.revision.id})")


def _is_overridden(endpoint_class: type[Endpoint], name: str) -> bool:
    """Whether a class, or one of its bases, has this method from somebody's hand, and not from the generator."""
    for each in endpoint_class.__mro__:
        if name in vars(each):
            return "revision" not in vars(each) or "_composed" in vars(each)
    return False


@cache
def extended_revision(revision: Revision, *extensions: Revision) -> Revision:
    """A revision with what these extensions add to it: one record for all conversations."""
    for each in extensions:
        if each.id != revision.id:
            raise LocalError(f"an extension of {each.id} cannot be used with {revision.id}")
        revision = revision.extended_with(each)
    return revision


def _to_async(handler: Handler) -> Handler:
    """The handler itself where it is an `async def`; a plain `def` runs in a worker thread."""
    if inspect.iscoroutinefunction(handler):
        return handler

    async def in_thread(*arguments: Any) -> Any:
        answer = await WORKER_THREADS.run(handler, *arguments)
        return await answer if inspect.isawaitable(answer) else answer

    return in_thread
