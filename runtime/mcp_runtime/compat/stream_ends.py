"""Transports as the official SDK writes them: context managers that yield two streams.

The streams are the two ends of one connection, which a `ClientSession` or `Server.run` opens. They carry no messages
of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..bindings.client import BaseClient
from ..bindings.server import BaseServer, services_of
from ..errors import LocalError
from ..session.identity import RequestAuth
from ..session.interfaces import RevisionChoice, Transport
from ..session.serving import serve
from ..versions.candidates import server_candidates

if TYPE_CHECKING:
    import httpx2


@dataclass
class StdioServerParameters:
    """The command that starts a server."""

    command: str
    args: list[str] = field(default_factory=list[str])
    env: dict[str, str] | None = None
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    encoding_error_handler: str = "strict"

    def __post_init__(self) -> None:
        if self.encoding.lower().replace("-", "") != "utf8":
            raise LocalError(
                f"StdioServerParameters: encoding {self.encoding!r}: messages are always in UTF-8; omit it"
            )


@dataclass(frozen=True)
class ClientStream:
    """One end of a connection to a server: `start` returns a client of a class, with these settings."""

    start: Callable[[type[BaseClient], dict[str, Any]], BaseClient]


@dataclass(frozen=True)
class ServerStream:
    """One end of a connection to a client: `serve` handles it with a server.

    `auth` and `scope` are those of the HTTP request that has opened the connection.
    """

    serve: Callable[[Callable[[Transport], Awaitable[None]]], Awaitable[None]]
    auth: RequestAuth | None = None
    scope: Mapping[str, Any] | None = None


ClientStreams = tuple[ClientStream, ClientStream]
ServerStreams = tuple[ServerStream, ServerStream]


@asynccontextmanager
async def stdio_server() -> AsyncGenerator[ServerStreams]:
    """Yield the streams of this process's standard input and output, for `Server.run`."""
    from ..transports.stdio.server import serve_in_loop

    stream = ServerStream(serve_in_loop)
    yield stream, stream


@asynccontextmanager
async def stdio_client(server: StdioServerParameters, errlog: TextIO | None = None) -> AsyncGenerator[ClientStreams]:
    """Yield the streams of a server that is started as a child process, for `ClientSession`.

    Args:
        server: The command.
        errlog: A text file for the standard error of the child; by default it goes to this process's.
    """

    def start(client_class: type[BaseClient], settings: dict[str, Any]) -> BaseClient:
        cwd = None if server.cwd is None else str(server.cwd)
        stderr = None if errlog is None else partial(print, file=errlog)
        return client_class.stdio(server.command, *server.args, env=server.env, cwd=cwd, stderr=stderr, **settings)

    stream = ClientStream(start)
    yield stream, stream


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: httpx2.AsyncClient | None = None, terminate_on_close: bool = True
) -> AsyncGenerator[ClientStreams]:
    """Yield the streams of a server at a URL, for `ClientSession`.

    Args:
        url: The URL of the server's endpoint.
        http_client: The client that sends the requests; it is not closed.
        terminate_on_close: Must be True: the session of the server always ends with the connection.
    """
    if not terminate_on_close:
        raise LocalError("streamable_http_client: terminate_on_close=False: a closed session always ends; omit it")
    stream = _http_stream(url, client=http_client)
    yield stream, stream


@asynccontextmanager
async def streamablehttp_client(
    url: str,
    headers: dict[str, str] | None = None,
    timeout: float | timedelta = 30,
    sse_read_timeout: float | timedelta = 300,
    terminate_on_close: bool = True,
    httpx_client_factory: None = None,
    auth: httpx2.Auth | None = None,
    *,
    http_client: httpx2.AsyncClient | None = None,
) -> AsyncGenerator[tuple[ClientStream, ClientStream, Callable[[], str | None]]]:
    """Yield the streams of a server at a URL and a function that returns the id of the session, as the last 1.x does.

    `timeout` is that of connecting. `sse_read_timeout` is accepted: streams have no time limit here, requests do.
    `http_client` sends the requests, and is not closed.
    """
    if httpx_client_factory is not None or not terminate_on_close:
        name = "httpx_client_factory" if httpx_client_factory is not None else "terminate_on_close=False"
        raise LocalError(
            f"streamablehttp_client: {name} has no counterpart; use streamable_http_client(url, http_client=…)"
        )
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    stream = (
        _http_stream(url, headers=headers or {}, auth=auth, timeout=seconds)
        if http_client is None
        else _http_stream(url, client=http_client)
    )
    yield stream, stream, lambda: None


@asynccontextmanager
async def sse_client(
    url: str,
    headers: dict[str, str] | None = None,
    timeout: float = 30,
    sse_read_timeout: float = 300,
    auth: httpx2.Auth | None = None,
) -> AsyncGenerator[ClientStreams]:
    """Yield the streams of a server with the HTTP+SSE transport of 2024, for `ClientSession`.

    `timeout` is that of connecting. `sse_read_timeout` is accepted: streams have no time limit here, requests do.
    """
    stream = _http_stream(url, headers=headers or {}, auth=auth, timeout=timeout)
    yield stream, stream


@asynccontextmanager
async def memory_client(
    servers: Sequence[BaseServer], revisions: RevisionChoice = "all"
) -> AsyncGenerator[ClientStreams]:
    """Yield the streams of servers in this process."""

    def start(client_class: type[BaseClient], settings: dict[str, Any]) -> BaseClient:
        [server] = servers
        return client_class.memory(*server_candidates(server, revisions), **settings)

    stream = ClientStream(start)
    yield stream, stream


def create_mcp_http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return an HTTP client that follows redirects. Needs the extra `http`."""
    import httpx2

    settings = {} if timeout is None else {"timeout": timeout}
    return httpx2.AsyncClient(headers=headers, auth=auth, follow_redirects=True, **settings)


async def serve_stream(server: BaseServer, stream: object) -> None:
    """Serve one connection in every protocol version. Raises LocalError for a stream of another library."""
    if not isinstance(stream, ServerStream):
        raise LocalError(
            f"Server.run: read_stream is a {type(stream).__name__}; pass the streams of `stdio_server()`,"
            " or serve a transport of your own with `await server.serve(transport)`"
        )
    services = services_of(server_candidates(server))
    await stream.serve(lambda transport: serve(services, transport, stream.auth, stream.scope))


def _http_stream(url: str, **options: Any) -> ClientStream:
    def start(client_class: type[BaseClient], settings: dict[str, Any]) -> BaseClient:
        from ..transports.http_client.connection import HTTPOptions

        return client_class.http(url, http=HTTPOptions(**options), **settings)

    return ClientStream(start)
