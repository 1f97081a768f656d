"""What a relay connects to: the target of a bridge, and whatever `App.proxy` takes."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from mcp_products.host.handlers import FunctionClient
from mcp_products.host.multi_client import TABLES, URLS, client_of_entry, read_entries, unused
from mcp_products.host.targets import RUNNERS, MadeClient
from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.bindings.client import BaseClient, connect
from mcp_runtime.bindings.server import BaseServer, Servable
from mcp_runtime.client.core import DISTRIBUTION
from mcp_runtime.errors import LocalError
from mcp_runtime.http.urls import redact_url
from mcp_runtime.protocol.framing import MAX_MESSAGE_BYTES, SizeLimit
from mcp_runtime.protocol.jsonrpc import Id
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.session.interfaces import RequestTransport, RevisionChoice, Transport
from mcp_runtime.usage.rules import shown

from .opening import OPEN_SECONDS
from .places import HTTP_CONNECTIONS, PROCESSES

if TYPE_CHECKING:
    from mcp_runtime.transports.http_client import connection
    from mcp_runtime.transports.http_client.connection import HTTPOptions
    from mcp_runtime.transports.stdio import client as stdio

    from . import http
else:  # Imported when they are used.
    stdio = LazyModule("mcp_runtime.transports.stdio.client")
    connection = LazyModule("mcp_runtime.transports.http_client.connection")
    http = LazyModule("mcp_products.relay.upstream.http")

ProxyTarget: TypeAlias = (
    str
    | os.PathLike[str]
    | Sequence[str]
    | Mapping[str, Any]
    | BaseServer
    | Servable
    | BaseClient
    | MadeClient
    | Sequence[BaseServer]
)
_TARGETS: Final = "a URL, a command, the path of a server file, an App, a Server, a Client or a configuration"


@dataclass(frozen=True, slots=True)
class Target:
    """The server behind a bridge: a command with its environment and folder, or a URL with its headers.

    Args:
        command: The words of a command that starts a server over stdio. Default: none.
        url: The URL of the endpoint of a server over HTTP. Default: none.
        env: Variables of the child process besides those that every child inherits.
        cwd: The working directory of the child process.
        headers: Headers of every HTTP request.
        login: Whether to log in with a browser if the server requires it.
        tokens: A file to store the tokens of the login in.
        max_bytes: Bytes of one message of the server.
    """

    command: tuple[str, ...] = ()
    url: str = field(default="", repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    login: bool = False
    tokens: Path | None = None
    max_bytes: int = MAX_MESSAGE_BYTES

    def __str__(self) -> str:
        return redact_url(self.url) if self.url else shlex.join(self.command[:1])


class TargetConnector:
    """Opens transports to the target of a bridge."""

    def __init__(self, target: Target, stderr: Callable[[str], None] | None = None) -> None:
        """Check the target. `stderr` gets each line of its standard error; None writes it to ours.

        Raises LocalError for a target that is neither a command nor an HTTP URL.
        """
        if bool(target.command) == bool(target.url):
            raise LocalError("a bridge needs one target: a command, or the URL of a server")
        if target.url and not target.url.startswith(("http://", "https://")):
            raise LocalError("the URL of a server has to begin with http:// or https://")
        self.target = target
        self._stderr = stderr
        self._options: HTTPOptions | None = None

    @property
    def is_process(self) -> bool:
        """True if the target is a command: each connection is a process."""
        return bool(self.target.command)

    async def connect(self, newest: Revision, stream_closed: Callable[[Id], None]) -> Transport | RequestTransport:
        """Return a new transport to the target. Raises ConnectionClosedError.

        `stream_closed` gets the id of a request whose SSE stream the target closes before the response.
        """
        target = self.target
        if target.command:
            limit = SizeLimit(target.max_bytes, "--max-bytes of the bridge")
            return stdio.start_server(target.command, target.env, target.cwd, self._stderr, limit)
        options = self._http_options()
        try:
            transport = http.UpstreamHTTPTransport
        except ModuleNotFoundError as error:
            raise LocalError(f"a bridge to a URL needs {error.name}: pip install 'mcp-generated[http]'") from None
        return transport(target.url, newest, options, stream_closed)

    def _http_options(self) -> HTTPOptions:
        """Return the options of all connections: they share one login."""
        if self._options is None:
            auth = _browser_login(self.target) if self.target.login else None
            self._options = connection.HTTPOptions(
                headers=self.target.headers, auth=auth, max_bytes=self.target.max_bytes
            )
        return self._options

    @property
    def open_seconds(self) -> float:
        """Seconds that the first request may take: a user has some to log in."""
        return OPEN_SECONDS + (0.0 if self.is_process else self._http_options().login_timeout)


def _browser_login(target: Target) -> Any:
    auth: Any = load("mcp_products.auth.client.browser")  # An extra installs it.
    return auth.login_in_browser(target.url, auth.LoopbackBrowser(), DISTRIBUTION, target.tokens)


class _EntryReader:
    """Takes the place of a client class: what a client would be created with is the target of a bridge."""

    @classmethod
    def http(cls, url: str, *, http: HTTPOptions) -> Target:
        return Target(url=url, headers=http.headers, max_bytes=http.max_bytes)

    @classmethod
    def stdio(
        cls, *words: str, env: Mapping[str, str], cwd: str | None, stderr: object, max_bytes: int = MAX_MESSAGE_BYTES
    ) -> Target:
        return Target(command=words, env=env, cwd=cwd, max_bytes=max_bytes)


def target_of_entry(entry: object) -> Target:
    """Return the target of one entry of a host's configuration, whose variables are replaced. Raises LocalError."""
    target: Target = client_of_entry(cast(Any, _EntryReader), entry, None, {})
    return target


# The targets of a proxy: what `App.proxy` takes, and the clients that connect to it.


class ClientConnector:
    """Opens transports to a target of `App.proxy`, as a client of it does."""

    def __init__(
        self, client_class: type[BaseClient], target: Any, revisions: RevisionChoice, settings: Mapping[str, Any]
    ) -> None:
        """Check a target. Raises LocalError for one that cannot be connected to.

        Args:
            client_class: The class of the clients, of the newest protocol version.
            target: The target: not the configuration of several servers.
            revisions: The protocol versions that may be negotiated with the target.
            settings: The keywords of `Client.http` or `Client.stdio`.
        """
        self.revisions = revisions
        self.connected: BaseClient | None = None
        """A client that is connected already; all connections share it."""
        self._target: Any = target if isinstance(target, (BaseClient, Mapping)) else _words_of_file(target)
        self._client = self._checked(target, settings) if isinstance(target, BaseClient) else None
        if self._client is None:
            self._client = self._made(client_class, {**settings, "revisions": revisions})

    def _made(self, client_class: type[BaseClient], settings: dict[str, Any]) -> BaseClient:
        target: Any = self._target
        if is_object(target):
            return client_of_entry(client_class, target, settings.pop("stderr", None), settings)
        return connect(client_class, target, settings.pop("revisions"), settings)

    def _checked(self, client: BaseClient, settings: Mapping[str, Any]) -> BaseClient:
        if client.parts.session is not None:
            self.connected = client
        elif handled := client.given if isinstance(client, FunctionClient) else sorted(client.parts.handlers):
            raise LocalError(
                f"proxy(): the client {type(client).__name__!r} handles {', '.join(handled)}, which a proxy passes to"
                " its own clients: connect it before, or pass its URL or command"
            )
        if settings:
            raise LocalError(f"proxy() with a Client takes no {next(iter(settings))!r}: pass it to the client")
        return client

    @property
    def session_connections(self) -> int:
        """How many connections sessions may have where no setting says so: of a client, nothing tells whether it starts
        a process."""
        target: Any = self._target
        if isinstance(target, BaseClient):
            is_process = True
        elif is_object(target):
            is_process = "command" in target
        else:
            is_process = isinstance(target, Sequence) and isinstance(target[0], str) and not isinstance(target, str)
        return PROCESSES if is_process else HTTP_CONNECTIONS

    @property
    def client(self) -> BaseClient:
        """A client of the target that nobody has connected, unless it was passed so."""
        assert self._client is not None, "it is made when the target is checked"
        return self._client

    @property
    def open_seconds(self) -> float | None:
        """Seconds that the first request may take."""
        return self.client.parts.connect_options.timeout

    async def connect(self, newest: Revision, stream_closed: Callable[[Id], None]) -> Transport | RequestTransport:
        """Return a new transport to the target. Raises MCPError and OSError."""
        return await self.client.parts.connect()


def entries_of(target: Any) -> dict[str, Any] | None:
    """Return the entries of a configuration with several servers, by name; None for another target.

    Raises LocalError for a configuration without servers.
    """
    if is_object(target) and any(table in target for table in TABLES):
        return _not_empty(read_entries(target))
    path = _path_text(target)
    if path.endswith(".json"):
        return _not_empty(read_entries(path))
    if is_object(target) and not any(key in target for key in ("command", *URLS)):
        raise LocalError('proxy(): the configuration has no servers: write {"mcpServers": {"name": {"command": …}}}')
    if (wrong := unused(target)) is not None:
        raise LocalError(f"proxy(): {wrong}")
    return None


def prefix_of(name: str) -> str:
    """Return the prefix of a server of a configuration: its name, with `_` for what no prefix may have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _path_text(target: Any) -> str:
    """Return a text or a path as a text; of another target, the empty one."""
    return os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""


def _not_empty(entries: dict[str, Any]) -> dict[str, Any]:
    if not entries:
        raise LocalError("proxy(): all servers of the configuration are disabled: enable one, or pass another target")
    return entries


def _words_of_file(target: Any) -> Any:
    """Return the words that start a server file or a command line; another target as it is."""
    if isinstance(target, os.PathLike):
        return _start_file(_path_text(target))
    if not isinstance(target, str):
        if isinstance(target, (BaseServer, Servable, Sequence)):
            return cast(Any, target)
        raise LocalError(f"proxy() needs {_TARGETS}; {shown(target)} is none of them")
    if target.startswith(("http://", "https://")):
        return target
    if os.path.splitext(target)[1] in RUNNERS and (os.path.exists(target) or not target.split()[1:]):
        return _start_file(target)
    try:
        words = split_command(target)
    except ValueError as error:
        raise LocalError(f"proxy(): {shown(target)} is not a command line: {error}") from None
    if not words:
        raise LocalError(f"proxy() needs {_TARGETS}; an empty string is none of them")
    return words


def split_command(text: str, *, windows: bool = sys.platform == "win32") -> list[str]:
    """Return the words of a command line: on Windows, a backslash is a part of a path. Raises ValueError for a quote
    without its end."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if windows:
        lexer.escape = ""
        lexer.quotes = '"'
    return list(lexer)


def _start_file(path: str) -> list[str]:
    runner = RUNNERS.get(os.path.splitext(path)[1])
    if runner is None:
        raise LocalError(f"proxy(): {path!r} is not a server file (.py, .js, .jar): pass its command as a list")
    if not Path(path).is_file():
        raise LocalError(f"proxy(): there is no file {path!r}: pass the path of a server, a URL or a command")
    return [*runner, path]
