"""Transports as the official SDK writes them: context managers that yield two streams of `SessionMessage`.

Those of `stdio_server` and of `SseServerTransport` carry no messages of their own: they are the two ends of a
connection that `Server.run` serves.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, cast
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID, uuid4

from pydantic import BaseModel, Field
from pydantic_core import to_json

from mcp_products.legacy_sse.server import LegacySSEHandler, Post
from mcp_products.versions.adapters import server_candidates
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio.tasks import is_trio_task
from mcp_runtime.bindings.server import BaseServer, services_of
from mcp_runtime.errors import ConnectionClosedError, LocalError, MCPError
from mcp_runtime.http.asgi import BodyReader, Receive, Scope, Send, send_error
from mcp_runtime.http.clients import user_of
from mcp_runtime.http.headers import EVENT_STREAM, Headers, HTTPError, read_headers
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.protocol.framing import SizeLimit
from mcp_runtime.session.interfaces import RequestAuth, RevisionChoice, Transport
from mcp_runtime.session.serving import serve
from mcp_runtime.transports.http_server.app import HTTPLimits
from mcp_runtime.transports.http_server.streams import KeepAliveTimer
from mcp_runtime.transports.memory import connect_in_memory
from mcp_runtime.transports.stdio.child import child_environment
from mcp_runtime.transports.stdio.client import start_server

from .forms.form import FORM, seconds, written
from .http import TransportSecuritySettings
from .streams.bridges import StreamTransport, http_failure, http_library, http_streams, streams_of
from .streams.message import MessageStream, ReadStream, SessionMessage, WriteStream

if TYPE_CHECKING:
    from mcp_runtime.transports.http_client import connection, transport
    from mcp_runtime.transports.stdio import server as stdio

    from .streams import foreign_http, trio_server
else:  # Imported when they are used.
    stdio = LazyModule("mcp_runtime.transports.stdio.server")
    connection = LazyModule("mcp_runtime.transports.http_client.connection")
    transport = LazyModule("mcp_runtime.transports.http_client.transport")
    foreign_http = LazyModule("mcp_products.compat.streams.foreign_http")
    trio_server = LazyModule("mcp_products.compat.streams.trio_server")

ClientFactory = Callable[..., Any]
_MAX_BODY: Final = 4 * 1024 * 1024


class StdioServerParameters(BaseModel):
    """The command that starts a server. Frameworks make subclasses with fields of their own."""

    command: str
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] | None = None
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"

    def model_post_init(self, context: Any, /) -> None:
        """Raise LocalError for an encoding that is not that of messages."""
        if self.encoding.lower().replace("-", "") != "utf8":
            raise LocalError(
                f"StdioServerParameters: encoding {self.encoding!r}: messages are always in UTF-8; omit it"
            )


@dataclass(frozen=True)
class ServerStream:
    """One end of a connection to a client: `serve` handles it with a server.

    `auth` and `scope` are those of the HTTP request that has opened the connection.
    """

    serve: Callable[[Callable[[Transport], Awaitable[None]]], Awaitable[None]]
    auth: RequestAuth | None = None
    scope: Mapping[str, Any] | None = None


ServerStreams = tuple[ServerStream, ServerStream]


@asynccontextmanager
async def stdio_server() -> AsyncGenerator[ServerStreams]:
    """Yield the streams of this process's standard input and output, for `Server.run`."""
    stream = ServerStream(stdio.serve_in_loop)
    yield stream, stream


def get_default_environment() -> dict[str, str]:
    """Return the environment variables that every child inherits."""
    return child_environment(None)


@asynccontextmanager
async def stdio_client(server: StdioServerParameters, errlog: TextIO | None = None) -> AsyncGenerator[MessageStream]:
    """Yield the streams of a server that is started as a child process, for `ClientSession`.

    Args:
        server: The command.
        errlog: A text file for the standard error of the child; by default it goes to this process's.

    Raises OSError if the command cannot be started.
    """

    async def start() -> Transport:
        cwd = None if server.cwd is None else str(server.cwd)
        stderr = None if errlog is None or errlog is sys.stderr else partial(print, file=errlog)
        try:
            return start_server((server.command, *server.args), server.env, cwd, stderr)
        except ConnectionClosedError as error:
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None

    async with streams_of(start) as streams:
        yield streams


@asynccontextmanager
async def memory_client(server: Any, revisions: RevisionChoice = "all") -> AsyncGenerator[MessageStream]:
    """Yield the streams of a server in this process."""
    services = services_of(server_candidates(server, revisions))
    async with streams_of(cast(Any, connect_in_memory(services))) as streams:
        yield streams


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncGenerator[Any]:
    """Yield the streams of a server at a URL, for `ClientSession`; in the form of 1.x, a function that returns the
    id of the session as well.

    Args:
        url: The URL of the server's endpoint.
        http_client: The client of httpx2 or httpx that sends the requests; it is not closed.
        terminate_on_close: Whether the session of the server ends with the connection.
    """
    transport = http_transport(url, client=http_client)
    transport.ends_session = terminate_on_close
    async with http_streams(transport) as streams:
        yield (*streams, lambda: transport.session_id) if FORM.is_v1 else streams


@asynccontextmanager
async def streamablehttp_client(
    url: str,
    headers: dict[str, str] | None = None,
    timeout: float | timedelta = 30,
    sse_read_timeout: float | timedelta = 300,
    terminate_on_close: bool = True,
    httpx_client_factory: ClientFactory | None = None,
    auth: Any = None,
    *,
    http_client: Any = None,
) -> AsyncGenerator[tuple[ReadStream, WriteStream, Callable[[], str | None]]]:
    """Yield the streams of a server at a URL and a function that returns the id of the session, as the last 1.x does.

    `timeout` is that of connecting. `sse_read_timeout` is accepted: streams have no time limit here, requests do.
    `http_client` sends the requests, and is not closed; one of `httpx_client_factory` is.
    """
    async with _options(headers, auth, timeout, sse_read_timeout, httpx_client_factory, http_client) as options:
        transport = http_transport(url, **options)
        transport.ends_session = terminate_on_close
        async with http_streams(transport) as (read, write):
            yield read, write, lambda: transport.session_id


@asynccontextmanager
async def sse_client(
    url: str,
    headers: dict[str, str] | None = None,
    timeout: float = 30,
    sse_read_timeout: float = 300,
    httpx_client_factory: ClientFactory | None = None,
    auth: Any = None,
    on_session_created: Callable[[str], None] | None = None,
) -> AsyncGenerator[MessageStream]:
    """Yield the streams of a server with the HTTP+SSE transport of 2024, for `ClientSession`.

    `timeout` is that of connecting. `sse_read_timeout` is accepted: streams have no time limit here, requests do.
    A server that cannot be reached is an error of the HTTP library, here. `on_session_created` is called with the id of
    the session, which the server has put into the URL for messages.
    """
    async with _options(headers, auth, timeout, sse_read_timeout, httpx_client_factory) as options:
        transport = http_transport(url, oldest=True, **options)
        transport.on_endpoint = partial(_session_of, on_session_created)
        async with http_streams(transport, keeps_revision=True) as streams:
            try:
                await transport.switch_to_legacy_sse()
            except MCPError as error:
                raise http_failure(error, transport) or error from error
            yield streams


def _session_of(on_session_created: Callable[[str], None] | None, endpoint: str) -> None:
    """Call a function with the id of a session in the URL for messages."""
    found = parse_qs(urlsplit(endpoint).query)
    ids = found.get("sessionId") or found.get("session_id")
    if on_session_created is not None and ids:
        on_session_created(ids[0])


@asynccontextmanager
async def _options(
    headers: Any, auth: Any, timeout: Any, read_timeout: Any, factory: ClientFactory | None, client: Any = None
) -> AsyncGenerator[dict[str, Any]]:
    """Yield the keywords of an HTTP transport. The client of a factory is closed with the context."""
    if client is not None:
        yield {"client": client}
    elif factory is None or factory is create_mcp_http_client:
        yield {"headers": headers or {}, "auth": auth, "timeout": seconds(timeout)}
    else:
        limits = http_library().Timeout(seconds(timeout), read=seconds(read_timeout))
        async with factory(headers=headers, timeout=limits, auth=auth) as made:
            yield {"client": made}


def create_mcp_http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return an HTTP client that follows redirects, of httpx in the form of 1.x and of httpx2 in that of 2.x."""
    httpx = http_library()
    limits = httpx.Timeout(30, read=300) if timeout is None else timeout
    return httpx.AsyncClient(headers=headers, auth=auth, follow_redirects=True, timeout=limits)


async def serve_stream(server: BaseServer, read: Any, write: Any) -> None:
    """Serve one connection in every protocol version."""
    if is_trio_task():
        return await trio_server.serve_in_trio(serve_stream, server, read, write)
    services = services_of(server_candidates(server))
    if isinstance(read, ServerStream):
        await read.serve(lambda transport: serve(services, transport, read.auth, read.scope))
    elif hasattr(read, "receive") and hasattr(write, "send"):
        await serve(services, StreamTransport(read, write))
    else:
        raise TypeError("Server.run() needs streams: pass those of `stdio_server()`, or streams of SessionMessage")


def http_transport(url: str, oldest: bool = False, client: Any = None, **options: Any) -> Any:
    """Return the HTTP transport to a URL; `oldest` is that of HTTP+SSE. Needs the extra `http`."""
    if client is not None:
        options["client"] = foreign_http.to_httpx2(client)
    ids = FORM.handshakes if oldest or FORM.is_v1 else FORM.stateless
    return transport.HTTPClientTransport(
        url, FORM.revisions[ids[0 if oldest else -1]], connection.HTTPOptions(**options, retry_seconds=0)
    )


# `SseServerTransport` of the official SDK: the HTTP+SSE transport of 2024, as two ASGI applications.


@dataclass(frozen=True)
class _Writer:
    """Puts messages of a program into a connection."""

    post: Post

    async def send(self, item: SessionMessage | Exception) -> None:
        """Put a message into the connection; an error of reading one is left out."""
        if isinstance(item, SessionMessage):
            await self.post(to_json(written(item.message)))


class _Connections(LegacySSEHandler):
    """Connections with UUIDs as ids, and in the place of the official SDK's table of writers."""

    async def _new_id(self, auth: RequestAuth) -> str:
        return uuid4().hex

    def get(self, id: UUID) -> _Writer | None:
        """Return the writer of a connection; None without one."""
        transport = self._connections.get(id.hex)
        return None if transport is None else _Writer(transport.post)


async def _send_charset(send: Send, event: Any) -> None:
    """Send an event of ASGI; the content type of a stream names its charset, as there."""
    if event["type"] == "http.response.start":
        stream, named = EVENT_STREAM.encode(), f"{EVENT_STREAM}; charset=utf-8".encode()
        event = {**event, "headers": [(name, named if value == stream else value) for name, value in event["headers"]]}
    await send(event)


class SseServerTransport:
    """The connections of an application that serves the HTTP+SSE transport itself."""

    def __init__(
        self,
        endpoint: str,
        security_settings: TransportSecuritySettings | None = None,
        max_request_body_size: int = _MAX_BODY,
    ) -> None:
        """Create the transport.

        Args:
            endpoint: The path to which clients post messages, such as "/messages/", relative to the application.
            security_settings: The Host and Origin headers to accept; by default all hosts, as there.
            max_request_body_size: Bytes of the body of a POST.

        Raises ValueError for a URL in the place of the path, and for a size below 1.
        """
        if max_request_body_size <= 0:
            raise ValueError("SseServerTransport: max_request_body_size must be a number of bytes above 0")
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(f"SseServerTransport: {endpoint!r} is not a path; write one such as '/messages/'")
        path = "/" + endpoint.removeprefix("/")
        security = security_settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._policy = OriginPolicy.create(**security.keywords())
        limits = HTTPLimits()
        size = SizeLimit(max_request_body_size, "max_request_body_size= of the server")
        self._bodies = BodyReader(size, limits.body_timeout)
        timer = KeepAliveTimer(limits.keep_alive)
        self._connections = _Connections((), limits.max_sessions, timer, "", quote(path))
        self._read_stream_writers: Any = self._connections  # Frameworks put messages into connections by this name.

    @asynccontextmanager
    async def connect_sse(self, scope: Scope, receive: Receive, send: Send) -> AsyncGenerator[ServerStreams]:
        """Open the connection of a GET, and yield its streams for `Server.run`; the response ends with the context.

        Args:
            scope: The ASGI scope of the request.
            receive: The ASGI function that receives its body.
            send: The ASGI function that sends the response; `request._send` in Starlette.

        Raises ValueError for a request that is refused, after its response is sent.
        """
        if scope["type"] != "http":
            raise ValueError("connect_sse: this is not an HTTP request; add it as the endpoint of a route for GET")
        headers, auth = self._headers(scope), _auth_of(scope)
        if isinstance(headers, HTTPError):
            await send_error(send, headers)
            raise ValueError(f"connect_sse: {headers.reason}")
        opened: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        ended = asyncio.Event()

        async def handle(transport: Transport) -> None:
            opened.set_result(transport)
            await ended.wait()

        streaming = asyncio.create_task(
            self._connections.serve_stream(scope, headers, auth, receive, partial(_send_charset, send), handle),
            name="mcp sse",
        )
        waiting: set[asyncio.Future[Any]] = {opened, streaming}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            await streaming
            raise ValueError("connect_sse: the request was refused: it needs `Accept: text/event-stream`")
        transport = opened.result()

        async def serve(handler: Callable[[Transport], Awaitable[None]]) -> None:
            await handler(transport)

        stream = ServerStream(serve, auth, scope)
        try:
            yield stream, stream
        finally:
            ended.set()
            await transport.close()
            await streaming

    async def handle_post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a POST with a message of a connection: an ASGI application."""
        if scope["type"] != "http":
            raise LocalError("handle_post_message: this is not an HTTP request; mount it at the path of the endpoint")
        if scope["method"] != "POST":
            return await send_error(send, HTTPError(405, "this endpoint serves POST"), headers=[(b"allow", b"POST")])
        headers = self._headers(scope)
        if isinstance(headers, HTTPError):
            return await send_error(send, headers)
        body = partial(self._bodies.read, receive, headers.get("content-length", "").encode())
        await self._connections.accept_message(scope, headers, _auth_of(scope), body, send)

    def _headers(self, scope: Scope) -> Headers | HTTPError:
        headers = read_headers(scope["headers"])
        return headers if isinstance(headers, HTTPError) else self._policy.check(headers) or headers


def _auth_of(scope: Scope) -> RequestAuth:
    return RequestAuth(None, owner=user_of(scope))
