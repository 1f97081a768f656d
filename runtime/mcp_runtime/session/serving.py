"""Serve one connection over a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic_core import from_json

from ..protocol.connection import MessageRejected, RequestReceived
from ..protocol.framing import BOM, OversizedMessage
from ..protocol.models import is_object
from ..protocol.revision import NAMED_VERSION, Handshake, Revision
from .interfaces import Candidate, Dispatcher, RequestAuth, Service, Transport, other_versions
from .session import Session

# Choose the service that a connection is for, by the protocol version that its first message names.

T = TypeVar("T")
# Returns True if a request, the name of whose handler and params it gets, runs code of users in a worker thread only.
RunsInThread = Callable[[str, Any], bool]


def ready_candidate(revision: Revision, item: T) -> Candidate[T]:
    """Return the candidate of an existing endpoint or service."""
    return Candidate(revision.id, isinstance(revision.lifecycle, Handshake), lambda: item)


def newest(candidates: Sequence[Candidate[T]]) -> Candidate[T]:
    """Return the candidate of the newest protocol version, a stateless one if there is any."""
    stateless = [candidate for candidate in candidates if not candidate.stateful]
    return (stateless or candidates)[-1]


def version_of(params: object) -> str | None:
    """Return the protocol version that the params of a message name: each of a stateless lifecycle does."""
    meta = params.get("_meta") if is_object(params) else None
    version = meta.get(NAMED_VERSION) if is_object(meta) else None
    return version if version is None or isinstance(version, str) else ""


def initialize_methods(candidates: Sequence[Candidate[Service]]) -> frozenset[str]:
    """Return the methods of the requests that open a session."""
    lifecycles = [candidate.get().revision.lifecycle for candidate in candidates[::-1] if candidate.stateful][:1]
    return frozenset(item.initialize_request.method for item in lifecycles if isinstance(item, Handshake))


def select_service(candidates: Sequence[Candidate[Service]], first: bytes) -> Service | None:
    """Return the service of the protocol version that the first message of a connection names, or the newest one of
    its lifecycle.

    Returns None if the message does not open a connection.
    """
    stateful = [candidate for candidate in candidates if candidate.stateful]
    stateless = [candidate for candidate in candidates if not candidate.stateful]
    try:
        message = from_json(first.removeprefix(BOM)) if not isinstance(first, OversizedMessage) else None
    except ValueError:
        message = None
    params = message.get("params") if is_object(message) else None
    version = version_of(params)
    if stateless and (not stateful or version is not None):
        # The newest one refuses a version that is not served: its error lists those that are.
        return next((item for item in stateless if item.revision_id == version), stateless[-1]).get()
    requested = params.get("protocolVersion") if is_object(params) else None
    service = next((candidate for candidate in stateful if candidate.revision_id == requested), stateful[-1]).get()
    if not stateless:
        return service
    lifecycle = service.revision.lifecycle
    is_initialize = (
        isinstance(lifecycle, Handshake)
        and is_object(message)
        and message.get("method") == lifecycle.initialize_request.method
    )
    return service if is_initialize else None


def reject_message(candidates: Sequence[Candidate[Service]], transport: Transport, data: bytes) -> None:
    """Respond to a message that does not open a connection as a server before `initialize` does."""
    service = next(candidate for candidate in reversed(candidates) if candidate.stateful).get()
    connection = service.connection()
    event = connection.oversized(data) if isinstance(data, OversizedMessage) else connection.receive(data)
    if isinstance(event, RequestReceived):  # A ping: nothing else is served before the handshake.
        transport.send(connection.send_result(event, event.row.result()))
    elif isinstance(event, MessageRejected) and event.reply is not None:
        transport.send(event.reply)


@runtime_checkable
class WatchingTransport(Protocol):
    """A transport that watches the calls of its session, and may answer some itself."""

    def watch(self, session: Session, service: Service) -> None: ...


async def serve(
    candidates: Sequence[Candidate[Service]],
    transport: Transport,
    auth: RequestAuth | None = None,
    scope: Mapping[str, Any] | None = None,
) -> None:
    """Serve one connection with the candidate of the version that the client names; then close the transport.

    Args:
        candidates: The services of all protocol versions that the client may negotiate.
        transport: The open transport of the connection.
        auth: The authentication of the connection; None without one.
        scope: The ASGI scope of the HTTP request that opened the connection; None over stdio and in memory.
    """
    try:
        while (first := await transport.receive()) is not None:
            service = select_service(candidates, first)
            if service is not None:
                await _serve_session(candidates, service, transport, auth, scope, first)
                return
            reject_message(candidates, transport, first)
            await transport.drain()
    finally:
        await transport.close()


def session_class(dispatcher: Dispatcher) -> type[Session]:
    """Return the class of the sessions of a dispatcher: its own `session_class`, or `Session`."""
    return getattr(dispatcher, "session_class", Session)


def handler_of(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Return what handles the messages of a session: the dispatcher itself if it can be called, which saves the memory
    of a bound method for each session."""
    return dispatcher if callable(dispatcher) else dispatcher.handle


async def _serve_session(
    candidates: Sequence[Candidate[Service]],
    service: Service,
    transport: Transport,
    auth: RequestAuth | None,
    scope: Mapping[str, Any] | None,
    first: bytes,
) -> None:
    def make_session(service: Service, state: Any) -> tuple[Session, Dispatcher]:
        dispatcher = service.dispatcher(state)
        connection = service.connection()
        dispatcher.stamp_server_info(connection)
        make = session_class(dispatcher)
        session = make(connection, transport, dispatcher.handle, dispatcher.initialize, auth=auth, scope=scope)
        dispatcher.attach(session)
        return session, dispatcher

    async with service.lifespan() as state:
        session, dispatcher = make_session(service, state)
        versions: Any = None  # Sessions of other versions on the same connection.
        if len(candidates) > 1 and any(not candidate.stateful for candidate in candidates):
            found = other_versions()
            versions = found and found.ServedVersions(candidates, service, state, make_session, session)
        if isinstance(transport, WatchingTransport):
            transport.watch(session, service)
        session.closed.add_done_callback(lambda _: dispatcher.detach())
        try:
            await session.run(first)
        finally:
            dispatcher.detach()
            if versions is not None:
                await versions.end()
            await dispatcher.background_tasks.end()
