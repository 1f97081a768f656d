"""The base class of generated servers: run it over a transport, or mount it in an ASGI application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, Unpack, cast, overload

from .. import products
from .._lazy import LazyModule
from ..aio.tasks import foreign_loop
from ..endpoint.base import HandlerResult as HandlerResult
from ..endpoint.base import check_revisions
from ..errors import LocalError
from ..server.context import Level as Level
from ..server.context import ServerContext as ServerContext
from ..server.core import ServerCore
from ..session import serving
from ..session.interfaces import Candidate, RevisionChoice, Service, Transport, other_versions
from ..session.requests import RequestKeywords as RequestKeywords
from ..session.requests import RequestOptions as RequestOptions
from ..session.serving import ready_candidate
from ..stores import workers
from ..usage.keywords import NoKeywords as NoKeywords
from ..usage.keywords import named_when_missing as named_when_missing
from ..usage.rules import shown
from .arguments import ASGISettings, HTTPServerSettings, StdioServerSettings, check_asgi, check_run, stdio_limit

if TYPE_CHECKING:
    from ..client.core import ClientCore
    from ..server import service
    from ..transports.http_server import app as http_server
    from ..transports.http_server.app import MCPASGIApp
    from ..transports.stdio import server as stdio
else:  # Imported when they are used.
    stdio = LazyModule("mcp_runtime.transports.stdio.server")
    service = LazyModule("mcp_runtime.server.service")
    http_server = LazyModule("mcp_runtime.transports.http_server.app")

ServerChoice: TypeAlias = "ServerCore | Candidate[ServerCore] | Servable"
HTTPTransport = Literal["http", "streamable-http", "sse"]
_RUN_STDIO: Final = 'run("stdio") of the server'


class Hosting(Protocol):
    """The seam of servers over HTTP: what listens, and passes requests to an ASGI application."""

    def serve_with_uvicorn(self, servers: Sequence[Service], **settings: Any) -> None:
        """Serve until SIGINT or SIGTERM, with several processes where the settings say so."""

    async def serve_http(self, servers: Sequence[Service], **settings: Any) -> None:
        """Serve in the running event loop until SIGINT or SIGTERM."""

    def metrics_route(self, path: str) -> Any:
        """Return the Starlette route of what this process measures. Raises LocalError if an extra is missing."""


def _hosting(user: str = 'run("http")') -> Hosting:
    return cast("Hosting", products.require("hosting", user))


class Versions(Protocol):
    """The seam of conversion: what makes a server or a client of one protocol version one of several."""

    def server_candidates(self, server: ServerCore, revisions: RevisionChoice) -> list[Candidate[ServerCore]]:
        """Return a server for each of these protocol versions, oldest first."""
        ...

    def client_candidates(self, client: ClientCore, revisions: RevisionChoice) -> list[Candidate[ClientCore]]:
        """Return a client for each of these protocol versions, oldest first."""
        ...

    def attach_to_client(self, negotiated: ClientCore) -> None:
        """Give the open connection of one of these clients to the client that they were made of."""


def versions(revisions: RevisionChoice) -> Versions | None:
    """Return what converts between protocol versions; None where it is not there, and no others are asked for."""
    found = cast("Versions | None", other_versions())
    if found is None and revisions != "all":
        raise LocalError("revisions= needs 'versions', which is not there: import mcp_generated first")
    return found


def _candidates(server: ServerCore, revisions: RevisionChoice = "all") -> list[Candidate[ServerCore]]:
    found = versions(revisions)
    return [ready_candidate(server.revision, server)] if found is None else found.server_candidates(server, revisions)


class Servable:
    """The base of objects that have a server, such as an App: what takes a server object takes them as well."""

    def as_server(self) -> ServerCore:
        """Return the server of this object."""
        raise NotImplementedError


class BaseServer(ServerCore):
    """A server: override its methods, then `run` it. One object serves any number of clients."""

    @overload
    def run(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    def run(
        self, transport: HTTPTransport, *, revisions: RevisionChoice = "all", **settings: Unpack[HTTPServerSettings]
    ) -> None: ...
    def run(self, transport: str = "stdio", *, revisions: RevisionChoice = "all", **settings: Any) -> None:
        """Serve until the client disconnects (stdio), or until the process gets SIGINT or SIGTERM.

        Args:
            transport: "stdio" (the default), "http" for Streamable HTTP, which needs the extra `http`, or "sse" for
                HTTP+SSE of 2024 besides.
            revisions: The protocol versions to serve: "all", or their ids. Messages of other versions than the server's
                own are converted.
            max_bytes: Bytes of one message of the client, by default 8 MiB. Stdio only.
            host: The address to listen on, by default "127.0.0.1". HTTP only, as all that follow.
            port: The port to listen on, by default 8000; 0 takes a free one.
            path: The path of the endpoint, by default "/mcp".
            uvicorn: Further settings of `uvicorn.Config`.
            server: The ASGI server: "uvicorn" (the default), or "hypercorn" or "granian", which need the extra of that
                name.
            settings: The other keywords of `asgi`: `hosts`, `origins`, `owner`, `auth`, `event_store`, `limits`,
                `legacy_sse`, `routes`, `json_response`, `stateless_http`, `store`, `health_path`, `ready_path`
                and `metrics_path`, which has what all workers have measured.
            workers: How many processes serve, by default 1. They share the store, or else a temporary SQLite file.

        Raises LocalError for an unknown transport, a wrong value and inside a running event loop, and TypeError for an
        unknown keyword.
        """
        kind = check_run(transport, settings)
        check_revisions("run", revisions, self.revision)
        self.parts.check_place("run", kind, settings)
        _run(services_of_versions(self, revisions), kind, **settings)

    @overload
    async def run_async(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    async def run_async(
        self, transport: HTTPTransport, *, revisions: RevisionChoice = "all", **settings: Unpack[HTTPServerSettings]
    ) -> None: ...
    async def run_async(self, transport: str = "stdio", *, revisions: RevisionChoice = "all", **settings: Any) -> None:
        """Serve as `run` does, in the running event loop. SIGINT raises KeyboardInterrupt at the end.

        The arguments are those of `run`. Raises LocalError for an unknown transport, and TypeError for an unknown
        keyword.
        """
        kind = check_run(transport, settings, "run_async")
        check_revisions("run_async", revisions, self.revision)
        self.parts.check_place("run_async", kind, settings)
        if (foreign := foreign_loop()) is not None:
            await foreign.run_in_asyncio_thread(self.run_async, transport, revisions=revisions, **settings)
            return
        services = services_of_versions(self, revisions)
        if kind == "stdio":
            await stdio.serve_in_loop(lambda stdio: serving.serve(services, stdio), stdio_limit(_RUN_STDIO, **settings))
        else:
            await _hosting().serve_http([candidate.get() for candidate in services], **_http_settings(kind, settings))

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Unpack[ASGISettings]) -> MCPASGIApp:
        """Return an ASGI application that serves this server over Streamable HTTP.

        Args:
            revisions: The protocol versions to serve: "all", or their ids.
            path: The path of the endpoint; None (the default) serves every path, for an application that is mounted.
            hosts: The values of the Host header to accept, without ports; by default those of this machine.
            origins: The origins of web pages to accept, such as `https://app.example.com`; their scripts may read the
                responses (CORS).
            owner: A function from the ASGI scope to the user that a session belongs to.
            auth: A `ResourceServer` that authenticates each request by its access token.
            event_store: Where the events of SSE streams are stored so that clients can resume; by default in memory.
            limits: An `HTTPLimits`: sizes, timeouts and numbers of sessions.
            legacy_sse: Whether to serve the HTTP+SSE transport of 2024 as well, at /sse and /messages.
            json_response: Whether a POST is answered with JSON, never with an SSE stream.
            stateless_http: Whether clients of versions with a handshake are served without sessions.
            routes: Starlette routes to serve besides, such as `Route("/health", health)`.
            store: What all workers of the endpoint share: "memory" (the default: there is one worker),
                "sqlite:///path", "redis://host" or a Store.
            health_path: A path that answers 200 while the process runs, such as "/healthz".
            ready_path: A path that answers 200 while requests can be served, and 503 otherwise, such as "/readyz".
            metrics_path: A path with what this process has measured, for Prometheus, such as "/metrics". It needs the
                extra `metrics`.

        Raises TypeError for an unknown keyword, and LocalError for a wrong value.
        """
        check_asgi(settings)
        check_revisions("asgi", revisions, self.revision)
        self.parts.check_place("asgi", "http", settings)
        return _asgi(services_of_versions(self, revisions), settings)

    async def serve(self, transport: Transport) -> None:
        """Serve one connection, only in this server's protocol version, until it is closed.

        Args:
            transport: The open transport of the connection.
        """
        await serve([self], transport)


@overload
def run(
    *servers: ServerChoice, transport: Literal["stdio"] = "stdio", **settings: Unpack[StdioServerSettings]
) -> None: ...
@overload
def run(*servers: ServerChoice, transport: HTTPTransport, **settings: Unpack[HTTPServerSettings]) -> None: ...
def run(*servers: ServerChoice, transport: str = "stdio", **settings: Any) -> None:
    """Run several servers as one: each client gets the server of the protocol version that it negotiates.

    Args:
        servers: Servers of different protocol versions, oldest first.
        transport: "stdio" (the default), or "http" for Streamable HTTP, which needs the extra `http`.
        settings: The other keywords of `Server.run`.

    Raises LocalError for an unknown transport, and TypeError for an unknown keyword.
    """
    kind = check_run(transport, settings)
    check_servers("run", servers, kind, settings)
    _run(services_of(servers), kind, **settings)


async def serve(servers: Sequence[ServerChoice], transport: Transport) -> None:
    """Serve one connection until it is closed.

    Args:
        servers: Servers of different protocol versions, oldest first.
        transport: The open transport of the connection.
    """
    await serving.serve(services_of(servers), transport)


def asgi_app(*servers: ServerChoice, **settings: Unpack[ASGISettings]) -> MCPASGIApp:
    """Return an ASGI application that serves several servers as one over Streamable HTTP.

    Args:
        servers: Servers of different protocol versions, oldest first.
        settings: The keywords of `Server.asgi`.

    Raises TypeError for an unknown keyword, and LocalError for a wrong value.
    """
    check_asgi(settings)
    check_servers("asgi_app", servers, "http", settings)
    return _asgi(services_of(servers), settings)


def services_of(servers: Sequence[ServerChoice]) -> list[Candidate[Service]]:
    """Return the services of servers of different protocol versions, oldest first.

    An App has a service for every protocol version.
    """
    return service.service_candidates([candidate for server in servers for candidate in _candidates_of(server)])


def _candidates_of(server: ServerChoice) -> list[Candidate[ServerCore]]:
    if isinstance(server, ServerCore):
        return [ready_candidate(server.revision, server)]
    if not isinstance(server, Servable):
        return [server]

    return _candidates(server.as_server())


def check_servers(
    function: str, servers: Sequence[object], transport: str = "", settings: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Raise LocalError unless there are server objects, and nothing else, and for one that needs another transport or
    another store than these."""
    if not servers:
        raise LocalError(f"{function}() needs at least one server: write {function}(server)")
    for server in servers:
        if not isinstance(server, (ServerCore, Servable)) and not hasattr(server, "revision_id"):
            raise LocalError(f"{function}() needs the object of an App or a Server, not {shown(server)}")
        core = server.as_server() if isinstance(server, Servable) else server
        if transport and isinstance(core, ServerCore):
            core.parts.check_place(function, transport, settings)


def services_of_versions(server: ServerCore, revisions: RevisionChoice = "all") -> list[Candidate[Service]]:
    """Return the services of one server in these protocol versions, oldest first."""
    return service.service_candidates(_candidates(server, revisions))


def _run(services: Sequence[Candidate[Service]], transport: str, **settings: Any) -> None:
    if transport == "stdio":
        stdio.run_server(lambda stdio: serving.serve(services, stdio), stdio_limit(_RUN_STDIO, **settings))
    else:
        _hosting().serve_with_uvicorn(
            [candidate.get() for candidate in services], **_http_settings(transport, settings)
        )


def _asgi(candidates: Sequence[Candidate[Service]], settings: Any) -> MCPASGIApp:
    services = [candidate.get() for candidate in candidates]
    keywords = dict(settings)
    if (measured_at := keywords.pop("metrics_path", None)) is not None:
        route = _hosting("metrics_path= of asgi()").metrics_route(measured_at)
        keywords["routes"] = [*keywords.get("routes", ()), route]
    store = keywords.pop("store", "memory")
    if store == "memory":
        return http_server.MCPASGIApp(services, **keywords)
    share_endpoint = workers("store= of asgi()").share_endpoint
    return http_server.MCPASGIApp(services, shared=share_endpoint(store, services, keywords.get("auth")), **keywords)


def _http_settings(transport: str, settings: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {"legacy_sse": True} if transport == "sse" else {}
    if settings.get("store", "memory") != "memory" or settings.get("workers", 1) > 1:
        more["share"] = workers("store= or workers= of run()").share_endpoint
    return {**more, **settings}
