"""What a client and a server have in common: handlers that a subclass overrides, and what they declare."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeAlias, TypeVar

from ..aio.threads import WORKER_THREADS
from ..errors import JSONRPCError, LocalError
from ..protocol.capabilities import Capabilities, declare, merge, parse_capability_path
from ..protocol.jsonrpc import METHOD_NOT_FOUND
from ..protocol.revision import (
    Direction,
    InputRequest,
    Notification,
    Revision,
    Sent,
)
from .checks import with_checks
from .context import Context
from .extensions import Extension
from .requests import Requester

T = TypeVar("T")
HandlerResult: TypeAlias = T | Awaitable[T]
Handler = Callable[..., Any]


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
            return "revision" not in vars(each) or "_is_composed" in vars(each)
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
