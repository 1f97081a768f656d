"""The base class of generated servers: run it over a transport, or mount it in an ASGI application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import LocalError
from ..server.core import ServerCore
from ..server.service import service_candidates
from ..session import serving
from ..session.interfaces import Candidate, RevisionChoice, Service, Transport
from ..session.negotiation import ready_candidate

if TYPE_CHECKING:
    from ..transports.http_server.app import MCPASGIApp


class BaseServer(ServerCore):
    """A server: override its methods, then `run` it. One object serves any number of clients."""

    def run(self, transport: str = "stdio", *, revisions: RevisionChoice = "all", **settings: Any) -> None:
        """Serve clients of these protocol versions until the client closes the connection, or the process gets SIGINT or
        SIGTERM."""
        _run(_services(self, revisions), transport, **settings)

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Any) -> MCPASGIApp:
        """Return an ASGI application that serves clients of these protocol versions."""
        from ..transports.http_server.app import MCPASGIApp

        return MCPASGIApp([candidate.get() for candidate in _services(self, revisions)], **settings)

    async def serve(self, transport: Transport) -> None:
        """Serve one connection over a transport, in this server's protocol version alone."""
        await serve([self], transport)


def run(*servers: ServerCore, transport: str = "stdio", **settings: Any) -> None:
    """Serve several servers, oldest protocol version first: each client gets the one of the version it negotiates."""
    _run(services_of(servers), transport, **settings)


async def serve(servers: Sequence[ServerCore], transport: Transport) -> None:
    """Serve one connection over a transport with these servers, oldest protocol version first."""
    await serving.serve(services_of(servers), transport)


def asgi_app(*servers: ServerCore, **settings: Any) -> MCPASGIApp:
    """Return an ASGI application for these servers, oldest protocol version first."""
    from ..transports.http_server.app import MCPASGIApp

    return MCPASGIApp([candidate.get() for candidate in services_of(servers)], **settings)


def services_of(servers: Sequence[ServerCore]) -> list[Candidate[Service]]:
    """Return the service of each of these servers, oldest protocol version first."""
    return service_candidates([ready_candidate(server) for server in servers])


def _services(server: ServerCore, revisions: RevisionChoice) -> list[Candidate[Service]]:
    from ..versions.candidates import server_candidates

    return service_candidates(server_candidates(server, revisions))


def _run(services: Sequence[Candidate[Service]], transport: str, **settings: Any) -> None:
    match transport:
        case "stdio":
            from ..transports.stdio.server import run_server

            run_server(lambda opened: serving.serve(services, opened), **settings)
        case "http":
            from ..transports.http_server.run import serve_with_uvicorn

            serve_with_uvicorn([candidate.get() for candidate in services], **settings)
        case _:
            raise LocalError(f"there is no transport {transport!r}; use 'stdio' or 'http'")
