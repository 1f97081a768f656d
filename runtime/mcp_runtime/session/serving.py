"""Serve one connection over a transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .identity import RequestAuth
from .interfaces import Candidate, Dispatcher, Service, Transport
from .negotiation import reject_message, select_service
from .reading.calls_in_threads import CallsInThreads, ThreadDispatcher, ThreadTransport
from .session import Session


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
                await _serve_session(service, transport, auth, scope, first)
                return
            reject_message(candidates, transport, first)
            await transport.drain()
    finally:
        await transport.close()


def session_class(dispatcher: Dispatcher) -> type[Session]:
    """Return the class of the sessions of a dispatcher: its own `session_class`, or `Session`."""
    return getattr(dispatcher, "session_class", Session)


async def _serve_session(
    service: Service,
    transport: Transport,
    auth: RequestAuth | None,
    scope: Mapping[str, Any] | None,
    first: bytes,
) -> None:
    async with service.lifespan() as state:
        dispatcher = service.dispatcher(state)
        connection = service.connection()
        dispatcher.stamp_server_info(connection)
        make = session_class(dispatcher)
        session = make(connection, transport, dispatcher.handle, dispatcher.initialize, auth=auth, scope=scope)
        dispatcher.attach(session)
        if type(session) is Session and isinstance(transport, ThreadTransport) and isinstance(dispatcher, ThreadDispatcher):
            session.note_request = CallsInThreads(session, dispatcher, transport).note
        session.closed.add_done_callback(lambda _: dispatcher.detach())
        try:
            await session.run(first)
        finally:
            dispatcher.detach()
            await dispatcher.background_tasks.end()
