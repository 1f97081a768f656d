"""The base of clients and servers: handlers that a subclass overrides, and the capabilities that they declare."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar, cast

from .. import products
from ..aio.threads import worker_threads
from ..errors import JSONRPCError, LocalError
from ..protocol.jsonrpc import METHOD_NOT_FOUND
from ..protocol.lifecycle import Capabilities, declare, merge, parse_capability_path
from ..protocol.models import plain_of
from ..protocol.records import records
from ..protocol.revision import COMPLETE, META, RESULT_TYPE, Direction, InputRequest, Notification, Revision, Sent
from ..usage.keywords import NamesOfAttributes
from ..usage.rules import are_texts, shown
from .checks import with_checks
from .context import Context
from .requests import Requester

_META: Final = "_meta"
OwnHandlers: TypeAlias = "Mapping[tuple[str, type[Sent]], Callable[..., Awaitable[Any]]]"
T = TypeVar("T")
HandlerResult: TypeAlias = T | Awaitable[T]
Handler = Callable[..., Any]

# The check of the protocol versions that a user lists.


def check_revisions(function: str, revisions: Any, own: Revision) -> None:
    """Raise LocalError unless `revisions` is "all" or a list of ids of protocol versions.

    Args:
        function: The name of the function, as its user calls it.
        revisions: The value of its argument.
        own: The protocol version of the endpoint, whose generated package lists the others.
    """
    if revisions == "all" or revisions == ():
        return
    existing: Mapping[str, str] = import_module(own.package).REVISIONS
    ids = ", ".join(existing)
    if not are_texts(revisions):
        raise LocalError(f'{function}(): revisions must be "all" or a list of {ids}; {shown(revisions)} is not')
    for id in revisions:
        if id not in existing and id != own.id:
            raise LocalError(f"{function}(): there is no protocol version {id!r}; there are {ids}")


# Messages that the protocol does not have.


@cache
def protocol_names(package: str, direction: Direction) -> Mapping[str, str]:
    """Return the methods of a direction in all protocol versions of a package, with the newest name of each."""
    index = import_module(package)
    revisions = [import_module(f"{package}.{module}.methods").REVISION for module in index.REVISIONS.values()]
    return {row.method: row.name for revision in revisions for row in revision.rows if row.direction == direction}


def own_params(params: Any) -> dict[str, Any]:
    """Return the params or the result of an own message as JSON, without what the protocol adds."""
    fields: dict[str, Any] = {} if params is None else dict(plain_of(params))
    given: dict[str, Any] = fields.pop(_META, None) or {}
    meta = {name: value for name, value in given.items() if not name.startswith(META)}
    if fields.get(RESULT_TYPE) == COMPLETE:
        del fields[RESULT_TYPE]
    return {**fields, _META: meta} if meta else fields


# Generated packages of protocol extensions.


class ExtensionMethods(Protocol):
    """The module `methods` of a generated extension."""

    @property
    def REVISION(self) -> Revision:  # noqa: N802 - the constant of a generated module
        """The protocol version with the messages of the extension."""
        ...


class Extension(Protocol):
    """The generated package of an extension."""

    @property
    def methods(self) -> ExtensionMethods:
        """The messages of the extension."""
        ...


class Endpoint(NamesOfAttributes, Requester):
    """One side of a connection, with a method for each message that it can receive."""

    revision: ClassVar[Revision]
    _receives: ClassVar[Direction]
    _is_composed: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Combine the messages and the contexts of several base classes, such as those of two extensions.

        Raises LocalError if the base classes contradict each other.
        """
        super().__init_subclass__(**kwargs)
        revisions = dict.fromkeys(getattr(base, "revision") for base in cls.__bases__ if hasattr(base, "revision"))
        if len(revisions) > 1 and "revision" not in vars(cls):
            cls.revision = extended_revision(*revisions)
            cls._is_composed = True
            contexts = dict.fromkeys(getattr(base, "context") for base in cls.__bases__ if hasattr(base, "context"))
            if len(contexts) > 1:
                setattr(cls, "context", type(Context.__name__, tuple(contexts), {}))

    def __init__(self, capabilities: Mapping[str, Any] | None, extensions: Sequence[Extension] = ()) -> None:
        """Collect the handlers of the class.

        Args:
            capabilities: Further capabilities to declare, as JSON.
            extensions: The generated packages of protocol extensions.

        Raises LocalError if an extension belongs to another protocol version or contradicts another extension.
        """
        if extensions:
            revisions = [extension.methods.REVISION for extension in extensions]
            setattr(self, "revision", extended_revision(self.revision, *revisions))
        self._extra_capabilities: Mapping[str, Any] = capabilities or {}
        self._handlers = self._overridden_handlers()

    def _overridden_handlers(self) -> dict[str, Handler]:
        """Return the handlers that a subclass has overridden, as async functions, by method."""
        return {
            row.method: with_checks(row.name, self._to_async(getattr(self, row.name)))
            for row in self._received_rows()
            if _is_overridden(type(self), row.name)
        }

    def _to_async(self, handler: Handler) -> Handler:
        return to_async(handler)

    def _received_rows(self) -> list[Sent | InputRequest[Any]]:
        """Return the rows of all messages that this side can receive, input requests included."""
        return [row for row in self.revision.rows if row.direction == self._receives]

    def _declared_capabilities(self, message: Any, name: str) -> Capabilities:
        """Return the capabilities of the overridden handlers and those of the constructor.

        Args:
            message: The type of the message that declares the capabilities.
            name: Its property with the capabilities.
        """
        model = records().property_type(message, name)
        capabilities: Capabilities = {}
        side = self._receives.rpartition("_")[2]
        for row in self._received_rows():
            owner, path = parse_capability_path(row.capability) if row.capability else ("", ())
            if row.method in self._handlers and not isinstance(row, Notification) and owner == side:
                declare(capabilities, path, model)
        merge(capabilities, self._extra_capabilities)
        return capabilities

    def _not_handled(self, row: Sent | InputRequest[Any]) -> JSONRPCError:
        return not_handled(row, self.revision)


def not_handled(row: Sent | InputRequest[Any], revision: Revision) -> JSONRPCError:
    """Return the error for a request that an endpoint of this protocol version has no handler for."""
    return JSONRPCError(METHOD_NOT_FOUND, f"Method not found: {row.method!r} has no handler ({revision.id})")


def _is_overridden(endpoint_class: type[Endpoint], name: str) -> bool:
    """Return True if the method comes from a user's class, False if it comes from a generated class."""
    for base in endpoint_class.__mro__:
        if name in vars(base):
            return "revision" not in vars(base) or "_is_composed" in vars(base)
    return False


@cache
def extended_revision(revision: Revision, *extensions: Revision) -> Revision:
    """Return a protocol version with the messages of these extensions. The record is cached."""
    for extension in extensions:
        if extension.id != revision.id:
            raise LocalError(f"an extension of {extension.id} cannot be used with {revision.id}")
        revision = revision.extended_with(extension)
    return revision


def to_async(handler: Handler) -> Handler:
    """Return an async function: the handler itself, or one that runs a plain `def` in a worker thread."""
    if inspect.iscoroutinefunction(handler):
        return handler
    if (awaiting := products.find("awaiting")) is not None:
        return cast("Handler", awaiting.plain_to_async(handler, f"the handler {getattr(handler, '__name__', '')!r}"))

    async def in_thread(*arguments: Any) -> Any:
        result = await worker_threads().run(partial(handler, *arguments))
        return await result if inspect.isawaitable(result) else result

    return in_thread
