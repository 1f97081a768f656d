"""The candidates of a negotiation: a server or a client in each protocol version, created on first use."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.endpoint.base import Endpoint
from mcp_runtime.errors import HTTPStatusError, LocalError, RemoteError, RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.protocol.connection import NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.records import records
from mcp_runtime.protocol.revision import Handshake, Notification, Revision
from mcp_runtime.server.context import ConnectionState, ServerContext
from mcp_runtime.server.core import ServerCore
from mcp_runtime.session.interfaces import Candidate, Channel, RevisionChoice
from mcp_runtime.session.serving import ready_candidate

from .messages import ConvertingChannel, MessageConverter, convert_handlers
from .serving import ServedVersions as ServedVersions

if TYPE_CHECKING:
    from mcp_runtime.client import negotiation
    from mcp_runtime.client.core import ClientCore
    from mcp_runtime.http import client_rules
    from mcp_runtime.server.subscriptions import SubscriptionBus

    from . import client_adapter
else:  # A server does without them.
    client_adapter = LazyModule("mcp_products.versions.client_adapter")
    client_rules = LazyModule("mcp_runtime.http.client_rules")
    negotiation = LazyModule("mcp_runtime.client.negotiation")

EndpointT = TypeVar("EndpointT", bound=Endpoint)
_HANDSHAKE: Final = Handshake.__name__.lower()
# The constant of the error for a version that the server does not support.
_UNSUPPORTED_VERSION: Final = "UNSUPPORTED_PROTOCOL_VERSION"


def server_candidates(server: ServerCore, revisions: RevisionChoice = "all") -> list[Candidate[ServerCore]]:
    """Return a server for each of these protocol versions, oldest first.

    Args:
        server: The server to adapt.
        revisions: The protocol versions: "all", or their ids.

    Raises LocalError for an unknown id.
    """
    return _candidates(server, revisions, lambda revision: server_adapter_class(revision)(server))


def client_candidates(client: ClientCore, revisions: RevisionChoice = "all") -> list[Candidate[ClientCore]]:
    """Return a client for each of these protocol versions, oldest first.

    Args:
        client: The client to adapt.
        revisions: The protocol versions: "all", or their ids.

    Raises LocalError for an unknown id.
    """
    return _candidates(client, revisions, lambda revision: client_adapter.client_adapter_class(revision)(client))


def attach_to_client(negotiated: ClientCore) -> None:
    """Give the open connection of one of these clients to the client that they were made of."""
    assert isinstance(negotiated, client_adapter.ClientAdapter), "a client in another version is an adapter"
    negotiated.attach_to_client()


def _candidates(
    endpoint: EndpointT, revisions: RevisionChoice, adapt: Callable[[Revision], EndpointT]
) -> list[Candidate[EndpointT]]:
    own = endpoint.revision
    package = import_module(own.package)
    modules: dict[str, str] = package.REVISIONS
    if own.id not in modules and revisions == "all":
        return [ready_candidate(own, endpoint)]  # The protocol of an extension, which has no other versions.
    convertible = {id for older, newer, _ in package.CONVERSIONS for id in (older, newer)} | {own.id}
    requested = [id for id in modules if id in convertible] if revisions == "all" else list(revisions)
    for id in requested:
        if id not in modules or id not in convertible:
            raise LocalError(f"there is no protocol version {id!r} besides {own.id}; there are {', '.join(modules)}")

    def lazy_candidate(id: str) -> Candidate[EndpointT]:
        def create() -> EndpointT:
            return adapt(load(f"{own.package}.{modules[id]}.methods").REVISION)

        return Candidate(id, package.LIFECYCLES[id] == _HANDSHAKE, create)

    chosen = [id for id in modules if id in requested]
    return [ready_candidate(own, endpoint) if id == own.id else lazy_candidate(id) for id in chosen]


# The versions to fall back to after a server has rejected the first request.


def other_candidates(
    revision: Revision, error: RemoteError | RequestTimeoutError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """Return the other candidates that the server may support, the one to try next as the last: a stateless one that
    the error lists, or else those with a handshake lifecycle.

    Args:
        revision: The protocol version of the request that the server has rejected.
        error: The error of the server, or that of the request that it has not responded to.
        candidates: The clients of all protocol versions that may be negotiated.

    Raises the error again if it is not about the protocol version.
    """
    stateful = [candidate for candidate in candidates if candidate.stateful]
    if isinstance(error, RequestTimeoutError):
        return stateful
    if not isinstance(error, (RemoteJSONRPCError, HTTPStatusError)):  # An answer that nobody can read, such as a page.
        if not stateful:
            raise error
        return stateful
    if others := _other_stateless(revision, error, candidates):
        return [*stateful, *others]
    code = error.code if isinstance(error, RemoteJSONRPCError) else 0
    if not stateful and code == INTERNAL_ERROR:
        raise error  # The server has failed, which says nothing about its versions.
    if not stateful or client_rules.may_know_other_lifecycle(error.status, code, revision):
        return stateful
    versions = negotiation.supported_versions(error)
    if not versions:
        raise error
    return [candidate for candidate in stateful if candidate.revision_id in versions]


def _other_stateless(
    revision: Revision, error: RemoteJSONRPCError | HTTPStatusError, candidates: Sequence[Candidate[EndpointT]]
) -> Sequence[Candidate[EndpointT]]:
    """Return the stateless candidates that an error about the version lists; all others if it lists none."""
    others = [item for item in candidates if not item.stateful and item.revision_id != revision.id]
    versions = negotiation.supported_versions(error)
    if versions:
        return [candidate for candidate in others if candidate.revision_id in versions]
    unsupported = revision.constants.get(_UNSUPPORTED_VERSION)
    return others if isinstance(error, RemoteJSONRPCError) and error.code == unsupported else ()


# Adapt a server that was written for one protocol version to another.


class AdapterSubscriber:
    """What subscribes an adapter to the changes of its server, for as long as the adapter lives: an app may have any
    number of clients in its process, one after another."""

    def __init__(self, adapter: ServerAdapter, bus: SubscriptionBus) -> None:
        self._adapter = weakref.ref(adapter, lambda _: bus.unsubscribe(self))

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs that the subscribers of the adapter want."""
        adapter = self._adapter()
        return () if adapter is None else adapter.subscribed_uris(rows)

    def wants(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True: the subscribers of the adapter decide for themselves."""
        return True

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Send a change notification to the clients of the adapter."""
        if (adapter := self._adapter()) is not None:
            await adapter.notify(row, params)


class ServerAdapter(ServerCore):
    """A server object in another protocol version than its own."""

    _capabilities: Capabilities | None = None

    def __init__(self, server: ServerCore) -> None:
        """Adapt this server to the protocol version of the class."""
        self._server = server
        read_params, tasks = server.parts.read_params, server.parts.tasks
        self.converter = MessageConverter(server.revision, self.revision, self._receives, read_params)
        self._requested_tasks = None if tasks is None else tasks.of_clients(self.converter)
        super().__init__(name=server.name, version=server.version, instructions=server.instructions)
        self.info = server.info
        self.lifespan = server.lifespan  # type: ignore[method-assign]
        self.parts.origin = server
        self.parts.read_params = records().read_as_record
        self.parts.own_change = self.converter.convert_outgoing
        server.parts.bus.subscribe(AdapterSubscriber(self, server.parts.bus))

    def connected(self) -> None:
        """Note that a client gets to know the capabilities of the server."""
        self._server.connected()

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the server in this version. It may get others until its first connection."""
        if (capabilities := self._capabilities) is None:
            capabilities = self._declared_capabilities(None, "")
            self._capabilities = capabilities if self._server.has_connected else None
        return capabilities

    @capabilities.setter
    def capabilities(self, capabilities: Capabilities) -> None:
        self._capabilities = None

    def subscribed_uris(self, rows: Iterable[Notification]) -> Iterable[str]:
        """Return the URIs that the subscribers of this adapter want."""
        own = [row for row in self.revision.rows if isinstance(row, Notification)]
        return self.parts.bus.subscribed_uris(own)

    async def notify(self, row: Notification, params: Mapping[str, Any]) -> None:
        """Convert a change notification, and send it to the clients of this protocol version."""
        converted = self.parts.own_change(row, params)
        if converted is not None:
            await self.parts.bus.publish(*converted)

    def own_context(
        self, connection: ConnectionState, channel: Channel, message: RequestReceived | NotificationReceived
    ) -> ServerContext:
        """Return the context of a message that the protocol does not have, in the version of the server."""
        own = self.converter.own_message(message, channel.connection.remote_capabilities)
        return self._server.context(connection, ConvertingChannel(self.converter, channel, message), own)

    def _overridden_handlers(self) -> Any:
        def make_context(
            channel: ConvertingChannel, message: RequestReceived | NotificationReceived, wire_context: ServerContext
        ) -> ServerContext:
            state = wire_context.connection_state
            context = self._server.context(state, channel, message)
            context.multi_round_trip = wire_context.multi_round_trip
            context.task_request = wire_context.task_request
            return context

        converted = convert_handlers(self.converter, self._server.parts.handlers, make_context)
        return converted if self._requested_tasks is None else self._requested_tasks.handlers(converted)

    def _declared_capabilities(self, message: Any, name: str) -> Any:
        capabilities = self.converter.wire_capabilities(self._server.capabilities)
        requested = self._requested_tasks
        return capabilities if requested is None else {**capabilities, "tasks": requested.capability()}


@cache
def server_adapter_class(revision: Revision) -> Callable[[ServerCore], ServerCore]:
    """Return the class that adapts servers to this protocol version."""
    return type("ServerAdapter", (ServerAdapter,), {"revision": revision, "context": ServerContext})
