"""The constructor of proxies."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from mcp_runtime._lazy import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_products.relay.upstream.target import ProxyTarget
    from mcp_runtime.session.interfaces import RevisionChoice
    from mcp_runtime.transports.http_client.connection import HTTPOptions

    from .settings import NamedKeywords

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any]")


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


class Proxies:
    """The part of an app that makes apps in front of other servers."""

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
