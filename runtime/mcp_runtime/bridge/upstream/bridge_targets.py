"""The targets of a bridge: what it connects to, and how."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...errors import LocalError
from ...http.urls import redact_url
from ...protocol.framing import MAX_MESSAGE_BYTES, SizeLimit
from ...protocol.jsonrpc import Id
from ...protocol.revision import Revision
from ...session.interfaces import RequestTransport, Transport

if TYPE_CHECKING:
    from ...transports.http_client.connection import HTTPOptions


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


class Connector:
    """Opens transports to one target."""

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

    def connect(
        self, revision: Revision, stream_closed: Callable[[Id], None] | None = None
    ) -> Transport | RequestTransport:
        """Return a new transport to the target; `revision` is that of its first request. Raises
        ConnectionClosedError.

        `stream_closed` gets the id of a request whose SSE stream the target closes before the response.
        """
        target = self.target
        if target.command:
            from ...transports.stdio.client import start_server

            limit = SizeLimit(target.max_bytes, "--max-bytes of the bridge")
            return start_server(target.command, target.env, target.cwd, self._stderr, limit)
        options = self._http_options()
        try:
            from .http.upstream_http import UpstreamHTTPTransport
        except ImportError as error:
            raise LocalError(f"a bridge to a URL needs {error.name}: pip install 'mcp-generated[http]'") from None
        return UpstreamHTTPTransport(target.url, revision, options, stream_closed)

    def _http_options(self) -> HTTPOptions:
        """Return the options of all connections: they share one login."""
        if self._options is None:
            from ...transports.http_client.connection import HTTPOptions

            auth = _browser_login(self.target) if self.target.login else None
            self._options = HTTPOptions(headers=self.target.headers, auth=auth, max_bytes=self.target.max_bytes)
        return self._options

    @property
    def login_seconds(self) -> float:
        """Seconds that a user has to log in; 0 without a login."""
        return 0.0 if self.is_process else self._http_options().login_timeout


def _browser_login(target: Target) -> Any:
    from ...auth import AuthorizationCode, FileTokenStorage, LoopbackBrowser, OAuthClientProvider

    browser = LoopbackBrowser()
    grant = AuthorizationCode(browser, browser.redirect_uri, client_name="mcp-codegen bridge", timeout=300.0)
    storage = FileTokenStorage(str(target.tokens)) if target.tokens else None
    return OAuthClientProvider(target.url, grant, storage=storage)


class _EntryReader:
    """Takes the place of a client class: what a client would be created with is the target of a bridge."""

    @classmethod
    def http(cls, url: str, *, http: HTTPOptions) -> Target:
        return Target(url=url, headers=http.headers, max_bytes=http.max_bytes)

    @classmethod
    def stdio(
        cls,
        *words: str,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: object,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> Target:
        return Target(command=words, env=env, cwd=cwd, max_bytes=max_bytes)


def target_of_entry(entry: object) -> Target:
    """Return the target of one entry of a host's configuration, whose variables are replaced. Raises LocalError."""
    from ...bindings.hosts.configuration import client_of_entry

    target: Target = client_of_entry(cast(Any, _EntryReader), entry, None, {})
    return target
