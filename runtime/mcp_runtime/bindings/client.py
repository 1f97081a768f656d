"""The base class of generated clients: connect over a transport with `async with`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast

from .. import products
from .._lazy import LazyModule
from ..aio.tasks import foreign_loop
from ..client.core import ClientCore
from ..client.subscriptions import Subscription as Subscription
from ..endpoint.base import HandlerResult as HandlerResult
from ..endpoint.context import ClientContext as ClientContext
from ..errors import LocalError
from ..http.urls import without_secrets
from ..protocol.framing import MAX_MESSAGE_BYTES
from ..server.core import ServerCore
from ..session.interfaces import RequestTransport, RevisionChoice, Transport
from ..session.requests import RequestKeywords as RequestKeywords
from ..session.requests import RequestOptions as RequestOptions
from ..session.serving import ready_candidate
from ..usage.keywords import NoKeywords as NoKeywords
from ..usage.keywords import checked, keywords_of, refuse_missing, refuse_unknown
from ..usage.keywords import named_when_missing as named_when_missing
from ..usage.rules import Rule, check_values, is_items, shown
from .arguments import (
    HTTP_RULES,
    STDIO_RULES,
    ClientSettings,
    ConnectSettings,
    HTTPClientSettings,
    StdioClientSettings,
    check_command,
    check_url,
    stdio_limit,
)
from .server import BaseServer, Servable, ServerChoice, check_servers, services_of, services_of_versions, versions

if TYPE_CHECKING:
    from ..transports import memory
    from ..transports.http_client import connection
    from ..transports.http_client import transport as http_client
    from ..transports.http_client.connection import HTTPOptions
    from ..transports.stdio import client as stdio
else:  # Imported when they are used.
    stdio = LazyModule("mcp_runtime.transports.stdio.client")
    memory = LazyModule("mcp_runtime.transports.memory")
    connection = LazyModule("mcp_runtime.transports.http_client.connection")
    http_client = LazyModule("mcp_runtime.transports.http_client.transport")


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
        limit = stdio_limit("connect() or Client.stdio(), or of an entry,", max_bytes)

        async def start() -> Transport:
            return stdio.start_server(command, env, cwd, stderr, limit)

        return cls(start, **settings)

    @classmethod
    @checked(ClientSettings)
    def memory(cls, *servers: ServerChoice, **settings: Unpack[ClientSettings]) -> Self:
        """Return a client of server objects in the same process, oldest protocol version first; for tests.

        Args:
            servers: The servers, or an App, which serves every protocol version; each client gets the one of the
                protocol version that it negotiates. A single server serves the client's version as well.
            settings: The keywords of the constructor.

        Raises TypeError for an unknown keyword, and LocalError for something that is not a server.
        """
        check_servers(f"{cls.__name__}.memory", servers)

        services, chosen = services_of(servers), settings.get("revisions", ())
        if len(servers) == 1 and isinstance(servers[0], ServerCore):
            if chosen != "all" and servers[0].revision.id not in (chosen or [cls.revision.id]):
                services = services_of_versions(servers[0])
        return cls(memory.connect_in_memory(services), **settings)

    @classmethod
    @checked(HTTPClientSettings, rules=HTTP_RULES, example='Client.http("http://host:port/mcp")')
    def http(cls, url: str, *, http: HTTPOptions | None = None, **settings: Unpack[ClientSettings]) -> Self:
        """Return a client of the server at a URL. Needs the extra `http`.

        Args:
            url: The URL of the server's endpoint, such as "http://localhost:8000/mcp". One without a path is that of a
                host, whose server card says where the endpoint is.
            http: Headers, credentials, proxy, TLS and limits of the HTTP requests.
            settings: The keywords of the constructor.

        Raises TypeError for an unknown keyword, and LocalError for a wrong URL.
        """
        check_url(f"{cls.__name__}.http", url)

        async def start() -> RequestTransport:
            options = http or connection.HTTPOptions()
            return http_client.HTTPClientTransport(await _endpoint_of(url, options), cls.revision, options)

        if http is not None and http.login_timeout:
            settings.setdefault("connect_options", RequestOptions(timeout=http.login_timeout + 60.0))
        return cls(start, **settings)

    async def _uri_of(
        self, name: str, variables: Mapping[str, Any] | None, options: RequestOptions | None, keywords: RequestKeywords
    ) -> str:
        """Return the URI of the resource or the resource template with this name."""
        if keywords:
            options = self._with_keywords("get_resource", options or self._options, keywords)
        refuse_missing("get_resource", {"name": name})
        listing: Any = self
        uri: str = await products.require("resource_names", "get_resource()").uri_of(
            name,
            variables or {},
            partial(listing.iter_resources, options=options),
            partial(listing.iter_resource_templates, options=options),
        )
        return uri

    async def __aenter__(self) -> Self:
        if (foreign := foreign_loop()) is not None:
            await foreign.enter(self)
            return self
        found = versions(self._revisions) if self._revisions else None
        if found is None:
            await self._open([ready_candidate(self.revision, self)])
            return self

        candidates = found.client_candidates(self, self._revisions)
        # Discovery comes first: a server with a handshake lifecycle rejects it with an error that allows to fall back,
        # while a stateless server may reject `initialize` without one.
        stateless = (candidate for candidate in reversed(candidates) if not candidate.stateful)
        negotiated = await next(stateless, candidates[-1]).get().parts.open(candidates)
        if negotiated is not self:
            found.attach_to_client(negotiated)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


async def _endpoint_of(url: str, options: HTTPOptions) -> str:
    cards: Any = products.find("cards")
    return url if cards is None else await cards.endpoint_of(url, options)


async def negotiate(*clients: BaseClient) -> ClientCore:
    """Connect with the last client, and return the client of the negotiated protocol version. It is open: close it.

    Args:
        clients: Clients of different protocol versions, oldest first; the newest version is requested.
    """
    return await clients[-1].parts.open([ready_candidate(client.revision, client) for client in clients])


# Connect to a URL, a command or server objects, in whatever protocol version the server supports.

ClientT = TypeVar("ClientT", bound=BaseClient)
Target = str | Sequence[str] | BaseServer | Sequence[BaseServer] | Servable

_HOST: Final = re.compile(r"[\w.-]+(?::\d+(?:/\S*)?|\.\w+/\S*)$")
_TARGETS: Final = 'a URL such as "http://host:port/mcp", the words of a command in a list, an App or a Server'
_RULES: Final[Mapping[str, Rule]] = {
    "client": Rule(lambda value: inspect.isclass(value) and issubclass(value, BaseClient), "a subclass of Client"),
}


def connect(
    client_class: type[ClientT], target: Target, revisions: RevisionChoice, settings: dict[str, Any]
) -> ClientT:
    """Return a client for a target; connect with `async with`.

    Args:
        client_class: The class of the client.
        target: A URL that starts with http:// or https://, the words of a command, an App, or server objects of this
            process.
        revisions: The protocol versions that may be negotiated: "all", or their ids.
        settings: The keywords of the client's constructor, and of `stdio` or `http`.

    Raises LocalError for a text that is not a URL and for another kind of target, and TypeError for a keyword that the
    target does not have.
    """
    refuse_unknown("connect", settings, keywords_of(ConnectSettings) | {"client", "revisions"})
    check_values("connect", {"client": client_class}, _RULES)
    if isinstance(target, str):
        if not target.startswith(("http://", "https://")):
            if "://" in target:
                raise LocalError(f"connect(): {without_secrets(target)!r} is not a URL with http:// or https:// first")
            url = f'write "http://{target}", or ' if _HOST.match(target) else ""
            words = f"pass a command as a list of its words: {_as_words(target)}"
            raise LocalError(f"connect(): {target!r} is not a URL; {url}{words}")
        _refuse_others("a URL", settings, HTTPClientSettings)
        return client_class.http(target, revisions=revisions, **settings)
    items = [*target] if is_items(target) and isinstance(target, Sequence) else [target]
    if items and all(isinstance(item, str) for item in items):
        _refuse_others("a command", settings, StdioClientSettings)
        return client_class.stdio(*cast("list[str]", items), revisions=revisions, **settings)
    if not items or not all(isinstance(item, (BaseServer, Servable)) for item in items):
        raise LocalError(f"connect() needs {_TARGETS}; {shown(target)} is none of them")
    _refuse_others("a server object", settings, ClientSettings)
    return client_class.memory(*cast("list[BaseServer]", items), revisions=revisions, **settings)


def default_client(package: str) -> type[BaseClient]:
    """Return the client class of the protocol version in which a generated package has its app."""
    index = import_module(package)
    client: type[BaseClient] = import_module(f"{package}.{index.REVISIONS[index.DEFAULT_REVISION]}").Client
    return client


def _as_words(command: str) -> str:
    words = command.split() or ["python", "server.py"]
    return repr(["python", *words] if words[0].endswith(".py") else words)


def _refuse_others(target: str, settings: Mapping[str, Any], allowed: type[Any]) -> None:
    """Raise TypeError for a keyword that belongs to another kind of target."""
    for keyword in settings:
        if keyword not in keywords_of(allowed):
            raise TypeError(f"connect() with {target} has no keyword argument {keyword!r}: leave it out")
