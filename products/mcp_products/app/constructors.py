"""The constructors of apps from APIs, and of apps in front of other servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError

if TYPE_CHECKING:
    from mcp_products.openapi.apps import OpenAPIKeywords, RouteMap, RouteMapFunction
    from mcp_products.relay.upstream.target import ProxyTarget
    from mcp_runtime.session.interfaces import RevisionChoice
    from mcp_runtime.transports.http_client.connection import HTTPOptions

    from .settings import NamedKeywords

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _with_target(function: FunctionT) -> FunctionT:
    """Return a constructor whose message about a missing target says what a target is."""

    @wraps(function)
    def construct(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) < 2 and "target" not in keywords:  # The first argument is the class.
            raise TypeError(
                'proxy() needs a target, the server that it is in front of: write App.proxy("https://example.com/mcp"),'
                ' App.proxy("server.py") or App.proxy(app)'
            )
        return function(*arguments, **keywords)

    return cast(FunctionT, construct)


class Constructors:
    """The part of an app that makes apps from OpenAPI documents, from FastAPI applications, and of other servers."""

    @classmethod
    def from_openapi(
        cls,
        openapi_spec: Mapping[str, Any] | str | os.PathLike[str],
        client: Any = None,
        name: str | None = None,
        *,
        route_maps: Sequence[RouteMap] | None = None,
        route_map_fn: RouteMapFunction | None = None,
        mcp_names: Mapping[str, str] | None = None,
        tags: set[str] | None = None,
        validate_output: bool = True,
        encoded_slashes: Mapping[str, Collection[str]] | None = None,
        **settings: Unpack[NamedKeywords],
    ) -> Self:
        """Create an app whose tools and resources are the operations of an HTTP API. It reads the document, and blocks.

        Arguments of tools never leave the path of their operation. A response without success is an error result.

        Args:
            openapi_spec: A document of OpenAPI 3.0 or 3.1: a dict, a path, a URL or a text.
            client: An `httpx2.AsyncClient` with the base URL of the API and the headers that it needs. By default one
                for the first server of the document.
            name: The name of the app; by default the title of the API.
            route_maps: Rules that decide what an operation becomes; the first that applies counts. By default all
                operations become tools.
            route_map_fn: Called with the operation and its type; returns another `MCPType`, or None to keep it.
            mcp_names: Names of tools and resources by operationId.
            tags: Tags of all tools and resources.
            validate_output: Whether responses are validated against the schemas of the document.
            encoded_slashes: The path parameters whose values may have slashes, which are sent as `%2F`: names by
                operationId, by a line such as "GET /projects/{id}", or by "*" for all operations. By default a slash is
                refused, because many servers and proxies read `%2F` as a slash.
            settings: The other keywords of `App`.

        Raises LocalError for an invalid document or client, and TypeError for an unknown keyword.
        """
        converted = _converted_apps()
        document, _ = loaded = converted.load_document(openapi_spec)
        make: Any = cls
        app = make(name or converted.title_of(document), **settings)
        converted.add_operations(
            app,
            loaded,
            client,
            route_maps=route_maps or (),
            route_map_fn=route_map_fn,
            mcp_names=mcp_names,
            tags=tags,
            validate_output=validate_output,
            encoded_slashes=encoded_slashes,
        )
        return cast(Self, app)

    @classmethod
    def from_fastapi(
        cls,
        app: Any,
        name: str | None = None,
        *,
        httpx_client_kwargs: Mapping[str, Any] | None = None,
        client: None = None,
        **settings: Unpack[OpenAPIKeywords],
    ) -> Self:
        """Create an app whose tools and resources are the operations of a FastAPI application of this process.

        Args:
            app: The application; it is called without a socket, and its lifespan is not run.
            name: The name of the app; by default the title of the application.
            httpx_client_kwargs: Keywords of `httpx2.AsyncClient`, such as `headers`.
            client: Not for this constructor: the requests go to the application.
            settings: The other keywords of `from_openapi`.

        Raises LocalError if it is not a FastAPI application, and TypeError for an unknown keyword.
        """
        converted = _converted_apps()
        if client is not None:
            raise LocalError(
                "from_fastapi(): it has no client; write httpx_client_kwargs={…}, or App.from_openapi(document, client)"
            )
        document = converted.fastapi_document(app)
        return cls.from_openapi(document, converted.fastapi_client(app, httpx_client_kwargs or {}), name, **settings)

    @classmethod
    @_with_target
    def proxy(
        cls,
        target: ProxyTarget,
        name: str = "proxy",
        *,
        revisions: RevisionChoice = "all",
        http: HTTPOptions | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stderr: Callable[[str], None] | None = None,
        max_bytes: int | None = None,
        connections: int | None = None,
        session_connections: int | None = None,
        methods: Sequence[str] = (),
        **settings: Unpack[NamedKeywords],
    ) -> Self:
        """Create an app in front of another server, of any protocol version. It connects when a client needs it.

        The app passes lists, calls, errors, progress, cancellation, log messages and subscriptions, and the requests
        of the target to the client. A session of a client has a connection of its own.

        Args:
            target: A URL, a command (a text or a list of words), the path of a server file, an App, a Server, a Client,
                an entry of a host's configuration, or a configuration with `mcpServers` (a dict or a path), whose
                servers are prefixes if there are several. A Client that is connected is shared by all sessions.
            name: The name of the app. Instructions, title, description, icons and website that `settings` do not set
                are those of the target: of an App, a Server or a connected Client at once, of others when a client has
                connected to them.
            revisions: The protocol versions that may be negotiated with the target: "all", or their ids.
            http: With a URL: headers, credentials, proxy, TLS and limits.
            env: With a command: environment variables for the child process.
            cwd: With a command: its working directory.
            stderr: With a command: a function that gets each line of its standard error.
            max_bytes: With a command: bytes of one message of it, by default 8 MiB.
            connections: Connections of all requests without a session. Default None: 16.
            session_connections: Connections of all sessions of clients, of which one client, a user or else an address,
                has at most half of those that others leave. Default None: 256 to a command or for a Client, which may
                start a process each time, and 10,000 to a URL or an app.
            methods: Methods that the protocol does not have, such as "acme/search", which pass in both directions.
            settings: The other keywords of `App`.

        Raises LocalError for a wrong target and without the extra `proxy`, and TypeError for an unknown keyword.
        """
        proxies = load("mcp_products.relay.proxy.provider")  # An extra installs it.
        options = {"http": http, "env": env, "cwd": cwd, "stderr": stderr, "max_bytes": max_bytes}
        make: Any = cls
        app = make(name, **settings)
        given = {key: value for key, value in options.items() if value is not None}
        limits = proxies.ConnectionLimits(connections, session_connections)
        proxies.add_target(app, target, revisions, given, limits, methods)
        return app  # type: ignore[no-any-return]


def _converted_apps() -> Any:
    """Return the module that makes apps, which an extra installs. Raises LocalError without it."""
    return load("mcp_products.openapi.apps")
