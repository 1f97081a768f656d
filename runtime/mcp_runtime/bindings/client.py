"""The base class of generated clients: connect over a transport with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from ..aio.trio_programs.trio_tasks import is_trio_task
from ..client.context import ClientContext as ClientContext
from ..client.core import ClientCore
from ..client.subscriptions import Subscription as Subscription
from ..endpoint.base import HandlerResult as HandlerResult
from ..protocol.framing import MAX_MESSAGE_BYTES
from ..server.core import ServerCore
from ..session.interfaces import RequestTransport, Transport
from ..session.negotiation import ready_candidate
from ..session.options import RequestKeywords as RequestKeywords
from ..session.options import RequestOptions as RequestOptions
from ..usage.keywords import NoKeywords as NoKeywords
from ..usage.keywords import checked
from ..usage.required import named_when_missing as named_when_missing
from ..versions.candidates import client_candidates
from .arguments import HTTP_RULES, STDIO_RULES, check_command, check_url, stdio_limit
from .server import ServerChoice, check_servers, services_of
from .settings import ClientSettings, HTTPClientSettings, StdioClientSettings

if TYPE_CHECKING:
    from ..transports.http_client.connection import HTTPOptions


class BaseClient(ClientCore):
    """A client: `async with` connects to the server, and disconnects."""

    @classmethod
    @checked(StdioClientSettings, rules=STDIO_RULES)
    def stdio(
        cls,
        *command: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: Callable[[str], None] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
        **settings: Unpack[ClientSettings],
    ) -> Self:
        """Return a client of a server that is started as a child process and connected by its standard streams.

        Args:
            command: The words of the command, such as `"python", "server.py"`.
            env: Environment variables for the child, besides the few that every child inherits (PATH, HOME, …).
            cwd: The working directory of the child.
            stderr: A function that gets each line of the child's standard error; by default they go to this process's.
            max_bytes: Bytes of one message of the server. Default 8 MiB.
            settings: The keywords of the constructor.

        Raises TypeError for an unknown keyword, and LocalError for a wrong command.
        """
        check_command(f"{cls.__name__}.stdio", command)
        limit = stdio_limit("connect() or Client.stdio()", max_bytes)

        async def start() -> Transport:
            from ..transports.stdio.client import start_server

            return start_server(command, env, cwd, stderr, limit)

        return cls(start, **settings)

    @classmethod
    @checked(ClientSettings)
    def memory(cls, *servers: ServerChoice, **settings: Unpack[ClientSettings]) -> Self:
        """Return a client of server objects in the same process, oldest protocol version first; for tests.

        Args:
            servers: The servers, or an App, which serves every protocol version; each client gets the one of the
                protocol version that it negotiates. A single server serves the client's version as well.
            settings: The keywords of the constructor.

        Raises TypeError for an unknown keyword, and LocalError for something that is no server.
        """
        check_servers(f"{cls.__name__}.memory", servers)
        from ..transports.memory import connect_in_memory

        client = cls(connect_in_memory(services_of(servers)), **settings)
        if len(servers) == 1 and isinstance(servers[0], ServerCore) and not client._negotiates(servers[0].revision.id):
            from ..versions.candidates import server_candidates

            client._connect = connect_in_memory(services_of(server_candidates(servers[0])))
        return client

    @classmethod
    @checked(HTTPClientSettings, rules=HTTP_RULES, example='Client.http("http://host:port/mcp")')
    def http(cls, url: str, *, http: HTTPOptions | None = None, **settings: Unpack[ClientSettings]) -> Self:
        """Return a client of the server at a URL. Needs the extra `http`.

        Args:
            url: The URL of the server's endpoint, such as "http://localhost:8000/mcp".
            http: Headers, credentials, proxy, TLS and limits of the HTTP requests.
            settings: The keywords of the constructor.

        Raises TypeError for an unknown keyword, and LocalError for a wrong URL.
        """
        check_url(f"{cls.__name__}.http", url)

        async def start() -> RequestTransport:
            from ..transports.http_client.connection import HTTPOptions
            from ..transports.http_client.transport import HTTPClientTransport

            return HTTPClientTransport(url, cls.revision, http or HTTPOptions())

        if http is not None and http.login_timeout:
            settings.setdefault("connect_options", RequestOptions(timeout=http.login_timeout + 60.0))
        return cls(start, **settings)

    def _negotiates(self, revision_id: str) -> bool:
        """Return True if the client may negotiate this protocol version."""
        return (not self._revisions and revision_id == self.revision.id) or (
            self._revisions == "all" or revision_id in self._revisions
        )

    async def _uri_of(
        self,
        name: str,
        variables: Mapping[str, Any] | None,
        options: RequestOptions | None,
        keywords: RequestKeywords,
    ) -> str:
        """Return the URI of the resource or the resource template with this name."""
        from ..client.resources.named_resource import uri_of
        from ..usage.required import refuse_missing

        if keywords:
            options = self._with_keywords("get_resource", options or self._options, keywords)
        refuse_missing("get_resource", {"name": name})
        listing: Any = self
        return await uri_of(
            name,
            variables or {},
            partial(listing.iter_resources, options=options),
            partial(listing.iter_resource_templates, options=options),
        )

    async def __aenter__(self) -> Self:
        if is_trio_task():
            from .trio_client import enter

            await enter(self)
            return self
        if not self._revisions:
            await self._open([ready_candidate(self.revision, self)])
            return self
        from ..versions.client_adapter import ClientAdapter

        candidates = client_candidates(self, self._revisions)
        # Discovery comes first: a server with a handshake lifecycle rejects it with an error that allows to fall back,
        # while a stateless server may reject `initialize` without one.
        stateless = (candidate for candidate in reversed(candidates) if not candidate.stateful)
        negotiated = await next(stateless, candidates[-1]).get()._open(candidates)
        if isinstance(negotiated, ClientAdapter):
            negotiated.attach_to_client()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


async def negotiate(*clients: BaseClient) -> ClientCore:
    """Connect with the last client, and return the client of the negotiated protocol version. It is open: close it.

    Args:
        clients: Clients of different protocol versions, oldest first; the newest version is requested.
    """
    return await clients[-1]._open(  # pyright: ignore[reportPrivateUsage]
        [ready_candidate(client.revision, client) for client in clients]
    )
