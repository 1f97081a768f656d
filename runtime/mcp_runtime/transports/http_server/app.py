"""The ASGI application: one MCP endpoint that serves all protocol versions of a server.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#streamable-http
ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...aio import fast_paths
from ...aio.keepalive import KEEP_ALIVE, KeepAliveTimer
from ...aio.lifespan import SharedLifespan
from ...auth.resource_server.challenges import AuthChallenge
from ...errors import LocalError
from ...http.asgi import (
    ClientDisconnectError,
    Receive,
    Scope,
    Send,
    Sending,
    id_of,
    path_of,
    refuse_body,
    respond,
    send_error,
    send_metadata,
)
from ...http.body import BodyReader
from ...http.client_keys import user_of
from ...http.cors import CORSPolicy, preflight_headers
from ...http.headers import HTTPError
from ...http.large_bodies import serve_in_turn
from ...http.origins import OriginPolicy
from ...http.request_head import CachedRequestHeadParser, RequestHeadParser
from ...http.server_rules import RequestHead, RequestKind, ServedRevisions, check_stateless, classify
from ...protocol.framing import MAX_MESSAGE_BYTES
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MalformedMessage, decode
from ...protocol.large.pieces import LARGE
from ...protocol.revision import Revision
from ...session.identity import UNAUTHENTICATED, RequestAuth
from ...session.interfaces import Service
from ...session.negotiation import ready_candidate
from ...usage.keywords import checked_fields
from ...usage.rules import COUNT, SECONDS
from .event_store import EventStore, InMemoryEventStore
from .json_responders import JSONSessionResponder, JSONStatelessResponder
from .legacy_sse import LegacySSEHandler
from .responders import IncomingPost, SessionResponder, StatelessResponder
from .routes import CustomRoutes, serve_mount_path
from .sessionless import SessionlessHandler
from .sessions import SessionStore
from .stateful import StatefulHandler
from .stateless import StatelessHandler
from .streams import RETRY

if TYPE_CHECKING:
    from ...auth.resource_server.protection import Authenticator, ResourceServer

_log: Final = logging.getLogger(__name__)

Owner = Callable[[Mapping[str, Any]], object]

# Faster to look up in the module than in the enumeration.
_SESSION: Final = RequestKind.SESSION
_STATELESS: Final = RequestKind.STATELESS


@checked_fields(
    rules={
        **dict.fromkeys(("max_body", "max_parts", "max_sessions", "max_batch", "retry_interval"), COUNT),
        **dict.fromkeys(("body_timeout", "handshake_timeout", "session_idle_timeout", "keep_alive"), SECONDS),
    }
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """The limits of an HTTP endpoint.

    Args:
        max_body: Bytes of the body of a request. Default 8 MiB.
        max_parts: JSON values in the body of a request; a member of an object counts as four. Default 300000.
        body_timeout: Seconds for the body of a request to arrive. Default 30.
        max_sessions: Sessions that are open at the same time. Default 20000.
        handshake_timeout: Seconds after `initialize` at which a session ends if its client sends nothing more. Default
            30.
        session_idle_timeout: Seconds after its last use at which a session ends. Default 1800.
        max_batch: Messages of a JSON-RPC batch. Default 100.
        keep_alive: Seconds without a message on an SSE stream after which a comment is sent, so that proxies do not
            close the connection. Default 15.
        retry_interval: Milliseconds after which a client reconnects to an SSE stream whose connection was closed.
            Default 500.
    """

    max_body: int = MAX_MESSAGE_BYTES
    max_parts: int = 300_000
    body_timeout: float = 30.0
    max_sessions: int = 20_000
    handshake_timeout: float = 30.0
    session_idle_timeout: float = 1800.0
    max_batch: int = 100
    keep_alive: float = KEEP_ALIVE
    retry_interval: int = RETRY


class MCPASGIApp:
    """An ASGI 3 application with one MCP endpoint for the servers of several protocol versions."""

    def __init__(
        self,
        servers: Sequence[Service],
        *,
        path: str | None = None,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] | None = None,
        owner: Owner = user_of,
        auth: ResourceServer | None = None,
        event_store: EventStore | None = None,
        limits: HTTPLimits = HTTPLimits(),
        legacy_sse: bool = False,
        routes: Sequence[Any] = (),
        json_response: bool = False,
        stateless_http: bool = False,
    ) -> None:
        """Create the application.

        Args:
            servers: One server for each protocol version, oldest first.
            path: Path of the endpoint. Default None: any path that the application is mounted at.
            hosts: Values of `Host` to accept, see `http.origins.OriginPolicy`. Default None: localhost only.
            origins: Values of `Origin` to accept, whose pages may read responses (CORS). Default None: no further ones.
            owner: Returns the user of an ASGI scope, whose sessions only the user can use. Default: `user_of`.
            auth: Resource server that checks the access token of each request. Default None: no token is required.
            event_store: Stores the messages of SSE streams, to resume them. Default None: in memory.
            limits: Limits of requests, sessions and streams. Default: see `HTTPLimits`.
            legacy_sse: Also serve the HTTP+SSE transport of 2024, at /sse and /messages. Default False.
            routes: Starlette routes to serve besides, without authentication. Default: none.
            json_response: Answer a POST with JSON, never with an SSE stream, except a subscription.
            stateless_http: Serve revisions with a handshake without sessions.

        Raises LocalError without servers, and for routes without Starlette.
        """
        if not servers:
            raise LocalError("an HTTP endpoint needs at least one server")
        if path is None:
            serve_mount_path(MCPASGIApp)
        self._path, self._owner, self._limits = path, owner, limits
        revisions = {server.revision.id: server.revision for server in servers}
        self._revisions = ServedRevisions.create(revisions, sessions=not stateless_http)
        has_metadata = any(server.revision.http.resource_metadata for server in servers)
        self._authenticator = None if auth is None else auth.authenticator(path is None, has_metadata)
        self._set_policies(hosts, [*(origins or ())])
        self._routes = CustomRoutes(routes) if routes else None
        self._keep_alive = KeepAliveTimer(limits.keep_alive)
        self._body_reader = BodyReader(limits.max_body, limits.body_timeout)
        self._create_handlers(servers, event_store or InMemoryEventStore(), legacy_sse, json_response)
        self._is_open = auth is None and not legacy_sse and owner is user_of
        self._closing = False

    def _set_policies(self, hosts: Iterable[str] | None, origins: Sequence[str]) -> None:
        parser_class = CachedRequestHeadParser if fast_paths.ENABLED else RequestHeadParser
        self._head_parser = parser_class(OriginPolicy.create(hosts, origins), self._revisions)
        self._cors = CORSPolicy(origins) if origins else None

    def _create_handlers(
        self, servers: Sequence[Service], event_store: EventStore, legacy_sse: bool, json_response: bool
    ) -> None:
        limits = self._limits
        responder = JSONStatelessResponder if json_response else StatelessResponder
        session_responder = JSONSessionResponder if json_response else SessionResponder
        handler_class = StatefulHandler if self._revisions.sessions else SessionlessHandler
        self._lifespans = {id(server.origin): SharedLifespan(server.lifespan) for server in servers}
        self._stateless = {
            server.revision.id: StatelessHandler(
                server, self._lifespans[id(server.origin)], self._keep_alive, responder
            )
            for server in servers
            if server.revision.id in self._revisions.stateless
        }
        self._sessions = SessionStore(
            event_store,
            limits.max_sessions,
            limits.session_idle_timeout,
            limits.retry_interval,
            limits.handshake_timeout,
        )
        stateful = [server for server in servers if server.revision.id in self._revisions.stateful]
        self._stateful = handler_class(stateful, self._lifespans, self._sessions, self._keep_alive, session_responder)
        candidates = [ready_candidate(server.revision, server) for server in stateful]
        self._legacy_sse = (
            LegacySSEHandler(candidates, "/sse", "/messages", limits.max_sessions, self._keep_alive)
            if legacy_sse
            else None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI 3 connection: an HTTP request, or the lifespan of the process."""
        if scope["type"] != "http":
            return await self._run_lifespan(scope, receive, send)
        if self._routes is not None and self._routes.serves(scope, self._path):
            return await self._routes(scope, receive, send)
        if self._cors is not None:
            send = self._cors.sender(scope["headers"], send)
        method: str = scope["method"]
        head, length = self._head_parser.read(method, scope["headers"])
        try:
            auth = UNAUTHENTICATED
            # Fast path: an endpoint without authentication skips these checks for most requests.
            if (
                not self._is_open
                or head.error is not None
                or "user" in scope
                or (scope["path"] != self._path and self._path is not None)
                or scope.get("root_path")
            ):
                authenticated = await self._authenticate(scope, head, length, receive, send)
                if not isinstance(authenticated, RequestAuth):
                    del head
                    return await authenticated
                auth = authenticated
            if method == "POST":
                body = await self._body_reader.read(receive, length)
                if not isinstance(body, bytes):
                    return await refuse_body(receive, send, body)
                limits = self._limits
                if len(body) > LARGE:
                    context, handle = (head, auth, scope, receive, send), self._handle_post
                    response: Sending = serve_in_turn(body, context, handle, limits.max_parts, limits.max_batch)
                    del context
                else:
                    message = decode(body, limits.max_parts, limits.max_batch)
                    response = self._handle_post((message, head, auth, scope, receive, send))
                    del message
                del body
            elif method == "GET":
                response = self._stateful.listen(head.headers, auth, receive, send)
            else:
                response = self._stateful.end(head.headers, auth, send)
            del head  # Frees memory: a stream may last for days.
            await response
        except ClientDisconnectError:
            _log.debug("a client disconnected before its request was complete")

    async def open(self) -> None:
        """Start the lifespans of the servers, which otherwise start with the first request."""
        for lifespan in self._lifespans.values():
            await lifespan.state()

    async def close(self) -> None:
        """End every stream and session, then the lifespans of the servers."""
        self._closing = True
        self._body_reader.close()
        for handler in self._stateless.values():
            await handler.close()
        await self._stateful.close()
        if self._legacy_sse is not None:
            await self._legacy_sse.close()
        for lifespan in self._lifespans.values():
            await lifespan.end()

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the ASGI lifespan protocol; close any other connection, such as a WebSocket."""
        if scope["type"] != "lifespan":
            return await send({"type": "websocket.close", "code": 1000})
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.open()
                except Exception as error:
                    _log.exception("the lifespan of a server failed")
                    await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # ---- one request -------------------------------------------------------------------------------------------------

    async def _authenticate(
        self, scope: Scope, head: RequestHead, length: bytes, receive: Receive, send: Send
    ) -> RequestAuth | Sending:
        """Return the authentication of a request to the MCP endpoint, or else the coroutine that sends its response."""
        if head.origin_error is not None:
            return send_error(send, head.origin_error)
        path = path_of(scope)
        if scope["method"] == "OPTIONS" and self._cors is not None:
            return respond(send, 204, headers=preflight_headers(scope["headers"], self._revisions.methods))
        if self._authenticator is not None and self._authenticator.is_metadata_path(path, self._path):
            return send_metadata(send, scope["method"], self._authenticator.document)
        legacy = self._legacy_sse if self._legacy_sse is not None and self._legacy_sse.serves(path) else None
        if legacy is None and self._path not in (None, path):
            return send_error(send, HTTPError(404, "there is no endpoint at this path"))
        auth = UNAUTHENTICATED
        if self._authenticator is not None:
            checked = await self._check_token(self._authenticator, scope, head, legacy is None)
            if isinstance(checked, AuthChallenge):
                code = INTERNAL_ERROR if checked.status == 503 else INVALID_REQUEST
                return send_error(send, HTTPError(checked.status, checked.reason, code), headers=checked.headers)
            auth = checked
        elif (owner := self._owner(scope)) is not None:
            auth = RequestAuth(None, owner=owner)
        if legacy is not None:
            read_body = partial(self._body_reader.read, receive, length)
            return legacy.serve(scope, head.headers, auth, read_body, receive, send)
        if head.error is not None:
            allow = [(b"allow", self._revisions.methods.encode())] if head.error.status == 405 else []
            return send_error(send, head.error, headers=allow)
        return auth

    async def _check_token(
        self, authenticator: Authenticator, scope: Scope, head: RequestHead, at_resource: bool
    ) -> RequestAuth | AuthChallenge:
        """Return the authentication of a request by its access token, or the challenge to send."""
        path = None if at_resource else scope["path"]
        return await authenticator.authenticate(head.headers, scope["method"], path, scope.get("query_string", b""))

    def _handle_post(self, post: IncomingPost) -> Sending:
        message, head, _, _, _, send = post
        kind = head.kind or classify(head, message, self._revisions)
        if type(message) is MalformedMessage and message.is_too_large:
            kind = HTTPError(413, message.message)
        if self._closing:
            kind = HTTPError(503, "the server is shutting down", INTERNAL_ERROR)
        if kind is _SESSION:
            return self._stateful.serve(post)
        if kind is _STATELESS:
            revision = check_stateless(head, message, self._revisions)
            if not isinstance(revision, Revision):
                return send_error(send, revision, id_of(message))
            return self._stateless[revision.id].serve(post)
        if isinstance(kind, HTTPError):
            null_id = next(iter(self._revisions.stateful.values())).null_ids if self._revisions.stateful else False
            return send_error(send, kind, id_of(message), null_id)
        return self._stateful.open(post)
