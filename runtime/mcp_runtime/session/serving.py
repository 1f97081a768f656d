"""Serve one connection over a transport."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.connection import Connection
from .identity import RequestAuth
from .interfaces import Candidate, Service, Transport
from .negotiation import reject_message, select_service
from .session import Session


async def serve(
    candidates: Sequence[Candidate[Service]], transport: Transport, auth: RequestAuth | None = None
) -> None:
    """Serve one connection with the candidate of the version that the client names; then close the transport."""
    try:
        while (first := await transport.receive()) is not None:
            service = select_service(candidates, first)
            if service is not None:
                await _serve_session(service, transport, auth, first)
                return
            reject_message(candidates, transport, first)
            await transport.drain()
    finally:
        await transport.close()


async def _serve_session(service: Service, transport: Transport, auth: RequestAuth | None, first: bytes) -> None:
    async with service.lifespan() as state:
        dispatcher = service.dispatcher(state)
        connection = Connection(service.revision, "server", local_capabilities=service.capabilities)
        dispatcher.stamp_server_info(connection)
        session = Session(connection, transport, dispatcher.handle, dispatcher.initialize, auth=auth)
        dispatcher.attach(session)
        session.closed.add_done_callback(lambda _: dispatcher.detach())
        try:
            await session.run(first)
        finally:
            dispatcher.detach()
            await dispatcher.background_tasks.end()
