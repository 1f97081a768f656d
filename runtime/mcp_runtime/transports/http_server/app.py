"""The ASGI application: one MCP endpoint that serves all protocol versions of a server.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#streamable-http
ASGI: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ... import products
from ...aio.tasks import SharedLifespan, fast_paths
from ...errors import LocalError
from ...http.asgi import (
    BodyReader,
    ClientDisconnectError,
    CORSPolicy,
    Receive,
    RefusedRequestError,
    Scope,
    Send,
    closing_sender,
    id_of,
    path_of,
    preflight_headers,
    refuse_body,
    respond,
    send_error,
    send_metadata,
)
from ...http.authentication import AuthChallenge, Authenticator, Protection
from ...http.clients import address_of, client_key, user_of
from ...http.headers import HTTPError
from ...http.origins import OriginPolicy
from ...http.server_rules import (
    RequestHead,
    RequestHeadParser,
    RequestKind,
    ServedRevisions,
    check_stateless,
    classify,
)
from ...protocol.framing import LARGE, SizeLimit
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MalformedMessage, Message, decode
from ...session.instruments import instruments
from ...session.interfaces import UNAUTHENTICATED, RequestAuth, Service, StreamLimits, large_messages
from ...session.serving import ready_candidate
from ...stores import StoreUnavailableError
from .events import EventStore, InMemoryEventStore
from .limits import HTTPLimits as HTTPLimits
from .responses import IncomingPost, JSONSessionResponder, JSONStatelessResponder, SessionResponder, StatelessResponder
from .sessions import EndpointSharing, LegacyEndpoint, LocalSessions, SessionFactory
from .stateful import SessionlessHandler, StatefulHandler
from .stateless import StatelessHandler
from .streams import KeepAliveTimer

_log: Final = logging.getLogger(__name__)
_DEFAULT_LIMITS: Final = HTTPLimits()
_NO_STORE: Final = HTTPError(
    503,
    "the store of this server cannot be reached: send the request again",
    INTERNAL_ERROR,
    {"retryAfter": 1},
    retry_after=1,
)
_SESSION: Final = RequestKind.SESSION  # To look up a member of an enumeration calls a function.
_STATELESS: Final = RequestKind.STATELESS
Owner = Callable[[Mapping[str, Any]], object]

# Routes beside the MCP endpoint.


class CustomRoutes:
    """Starlette routes that an HTTP endpoint serves beside the MCP endpoint, without authentication."""

    def __init__(self, routes: Sequence[Any], debug: bool = False) -> None:
        """Create the application of the routes. Raises LocalError if Starlette is not installed."""
        try:
            from starlette.applications import Starlette
        except ModuleNotFoundError:
            raise LocalError("custom routes need Starlette: pip install 'mcp-generated[http]'") from None
        self._application = Starlette(debug=debug, routes=routes)

    def serves(self, scope: Scope, endpoint: str | None) -> bool:
        """Return True if a route has the path of the request, and the MCP endpoint has not."""
        if endpoint is not None and path_of(scope) == endpoint:
            return False
        return any(route.matches(scope)[0].value for route in self._application.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that a route matches."""
        await self._application(scope, receive, send)


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
        auth: Protection | None = None,
        event_store: EventStore | None = None,
        limits: HTTPLimits = _DEFAULT_LIMITS,
        legacy_sse: bool = False,
        routes: Sequence[Any] = (),
        json_response: bool = False,
        stateless_http: bool = False,
        shared: EndpointSharing | None = None,
        health_path: str | None = None,
        ready_path: str | None = None,
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
            shared: What this endpoint shares with those of other workers. Default None: there are no others.
            health_path: Path that is answered while the process runs. Default None: there is none.
            ready_path: Path that is answered with 200 while requests can be served, and 503 otherwise. Default None.

        Raises LocalError without servers, for routes without Starlette, and for an event store beside a shared one.
        """
        self._path = path
        self._owner = owner
        self._limits = limits
        self._shared = shared
        self._set_revisions(servers, auth, stateless_http)
        self._set_policies(hosts, [*(origins or ())], routes)
        self._probes = {health_path: False, ready_path: True} if health_path or ready_path else None
        self._create_handlers(servers, event_store, legacy_sse, json_response)
        self._is_extended = (self._routes, self._probes, self._cors) != (None, None, None)
        self._closing = False
        self._is_leaving = False
        self._is_starting = shared is not None

    def _set_revisions(self, servers: Sequence[Service], auth: Protection | None, stateless_http: bool) -> None:
        if not servers:
            raise LocalError("an HTTP endpoint needs at least one server")
        revisions = {server.revision.id: server.revision for server in servers}
        self._revisions = ServedRevisions.create(revisions, sessions=not stateless_http)
        has_metadata = any(server.revision.http.resource_metadata for server in servers)
        self._authenticator = None if auth is None else auth.authenticator(self._path is None, has_metadata)

    def _set_policies(self, hosts: Iterable[str] | None, origins: Sequence[str], routes: Sequence[Any]) -> None:
        fast = fast_paths()
        parser: type[RequestHeadParser] = RequestHeadParser if fast is None else fast.CachedRequestHeadParser
        self._head_parser = parser(OriginPolicy.create(hosts, origins), self._revisions)
        self._cors = CORSPolicy(origins) if origins else None
        self._routes = CustomRoutes(routes) if routes else None
        self._keep_alive = KeepAliveTimer(self._limits.keep_alive)
        self._body_reader = BodyReader(
            SizeLimit(self._limits.max_body, "HTTPLimits(max_body=…) of the server, or --max-bytes of a relay,"),
            self._limits.body_timeout,
            self._limits.max_buffered,
        )

    def _create_handlers(
        self, servers: Sequence[Service], event_store: EventStore | None, legacy_sse: bool, json_response: bool
    ) -> None:
        if self._shared is not None and event_store is not None:
            raise LocalError("store= stores the events of streams as well: leave out event_store=, or store=")
        limits = self._limits
        for server in servers:
            server.stream_limits = StreamLimits(limits.max_subscriptions, limits.max_subscriptions_per_address)
        responder = JSONStatelessResponder if json_response else StatelessResponder
        session_responder = JSONSessionResponder if json_response else SessionResponder
        self._lifespans = {id(server.origin): SharedLifespan(server.lifespan) for server in servers}
        self._stateless = {
            server.revision.id: StatelessHandler(
                server, self._lifespans[id(server.origin)], self._keep_alive, responder
            )
            for server in servers
            if server.revision.id in self._revisions.stateless
        }
        if self._shared is not None:
            self._shared.bind(self._lifespans[id(servers[-1].origin)])
        stateful = [server for server in servers if server.revision.id in self._revisions.stateful]
        self._stateful = self._sessions_handler(stateful, event_store, session_responder)
        self._legacy_sse = self._legacy_endpoint(stateful) if legacy_sse else None

    def _legacy_endpoint(self, servers: Sequence[Service]) -> LegacyEndpoint:
        """Return what serves HTTP+SSE, for this process or for all workers."""
        legacy = products.require("legacy_sse_server", "legacy_sse=True")
        candidates = [
            ready_candidate(server.revision, legacy.ServiceOfEndpoint(server, self._lifespans[id(server.origin)]))
            for server in servers
        ]
        create = legacy.LegacySSEHandler if self._shared is None else self._shared.legacy_sse
        endpoint: LegacyEndpoint = create(candidates, self._limits.max_sessions, self._keep_alive)
        return endpoint

    def _sessions_handler(
        self, servers: Sequence[Service], event_store: EventStore | None, responder_class: type[SessionResponder]
    ) -> StatefulHandler | SessionlessHandler:
        """Return what serves the revisions with a handshake."""
        if not (self._revisions.sessions and servers):
            return SessionlessHandler(servers, self._lifespans, self._keep_alive, responder_class)
        limits, factory = self._limits, SessionFactory(servers[-1], self._lifespans[id(servers[-1].origin)])
        if self._shared is not None:
            directory = self._shared.sessions(factory, limits)
        else:
            waits = (limits.session_idle_timeout, limits.retry_interval, limits.handshake_timeout)
            directory = LocalSessions(factory, event_store or InMemoryEventStore(), limits.max_sessions, *waits)
        return StatefulHandler(factory, directory, self._keep_alive, responder_class)

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this process."""
        return self._stateful.session_count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI 3 connection: an HTTP request, or the lifespan of the process."""
        if scope["type"] != "http":
            return await self._run_lifespan(scope, receive, send)
        method: str = scope["method"]
        head, length = self._head_parser.read(method, scope["headers"])
        message: Message | list[Message] | None = None
        try:
            if self._is_extended or self._is_starting or self._is_leaving:
                if (extended := await self._serve_extensions(scope, receive, send)) is None:
                    return
                send = extended
            if head.origin_error is not None:
                raise RefusedRequestError(head.origin_error)
            path = path_of(scope)
            if method == "OPTIONS" and self._cors is not None:
                return await respond(send, 204, headers=preflight_headers(scope["headers"], self._revisions.methods))
            if self._authenticator is not None and self._authenticator.is_metadata_path(path, self._path):
                return await send_metadata(send, method, self._authenticator.document)
            legacy = self._legacy_sse if self._legacy_sse is not None and self._legacy_sse.serves(path) else None
            if path != self._path and self._path is not None and legacy is None:
                endpoint = f"{scope.get('root_path', '')}{self._path}"
                raise RefusedRequestError(HTTPError(404, f"there is no endpoint at this path: it is at {endpoint}"))
            if self._authenticator is None:
                owner = self._owner(scope)
                auth = UNAUTHENTICATED if owner is None else RequestAuth(None, owner=owner)
            else:
                auth = await _authenticated(self._authenticator, scope, head, legacy is None)
            if legacy is not None:
                read_body = partial(self._body_reader.read, receive, length, scope)
                return await legacy.serve(scope, head.headers, auth, read_body, receive, send)
            if head.error is not None:
                allow = [(b"allow", self._revisions.methods.encode())] if head.error.status == 405 else ()
                raise RefusedRequestError(head.error, allow)
            if method == "POST":
                body, limits = self._body_reader.take(receive, length), self._limits
                if body is None:
                    body = await self._body_reader.read(receive, length, scope)
                if not isinstance(body, bytes):
                    return await refuse_body(receive, send, body)
                large = large_messages() if len(body) > LARGE else None
                if large is None:
                    decoded = decode(body, limits.max_parts, limits.max_batch)
                else:
                    client = client_key(auth.owner, address_of(scope))
                    decoded = await large.decode_in_turn(body, client, limits.max_parts, limits.max_batch)
                del body  # A request may run for long.
                message = decoded
                await self._handle_post(IncomingPost(decoded, head, auth, scope, receive, send))
            elif method == "GET":
                await self._stateful.listen(head.headers, auth, receive, send)
            else:
                await self._stateful.end(head.headers, auth, send)
        except RefusedRequestError as refused:
            await send_error(send, refused.error, id_of(message), headers=refused.headers)
        except StoreUnavailableError as error:
            _log.warning("a request was refused: %s", error)
            await send_error(send, _NO_STORE, id_of(message))
        except ClientDisconnectError:
            _log.debug("a client disconnected before its request was complete")

    async def _serve_extensions(self, scope: Scope, receive: Receive, send: Send) -> Send | None:
        """Serve a request to a route or a probe, and return None; else return what sends the response."""
        if self._routes is not None and self._routes.serves(scope, self._path):
            await self._routes(scope, receive, send)
            return None
        if self._probes is not None and path_of(scope) in self._probes:
            await self._probe(self._probes[path_of(scope)], send)
            return None
        if self._shared is not None:
            await self._shared.open()
        self._is_starting = False
        send = closing_sender(send) if self._is_leaving else send
        return send if self._cors is None else self._cors.sender(scope["headers"], send)

    async def open(self) -> None:
        """Start the lifespans of the servers, which otherwise start with the first request."""
        if self._shared is not None:
            await self._shared.start()
        for lifespan in self._lifespans.values():
            await lifespan.state()
        instruments().endpoint_opened(self, [self._stateful, *self._stateless.values()], self._keep_alive)

    def hand_over(self) -> None:
        """Close the streams that clients can resume at other workers, and end subscriptions; calls go on."""
        self._is_leaving = True
        for handler in self._stateless.values():
            handler.end_subscriptions()
        self._stateful.hand_over()

    async def close(self) -> None:
        """End every stream and session, then the lifespans of the servers; with a store, sessions go on elsewhere."""
        self._closing = self._is_leaving = True
        self._body_reader.close()
        for handler in self._stateless.values():
            await handler.close()
        await self._stateful.close()
        if self._legacy_sse is not None:
            await self._legacy_sse.close()
        if self._shared is not None:
            await self._shared.close()
        for lifespan in self._lifespans.values():
            await lifespan.end()
        instruments().endpoint_closed(self)

    async def _probe(self, for_requests: bool, send: Send) -> None:
        """Answer a probe of a load balancer or an orchestrator."""
        if for_requests and (self._is_leaving or not (self._shared is None or await self._shared.is_ready())):
            return await respond(send, 503, b'{"status": "not ready"}')
        await respond(send, 200, b'{"status": "ok"}')

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
                    # A LocalError says what to write: nobody needs a traceback.
                    _log.error("the lifespan of a server failed: %s", error, exc_info=not isinstance(error, LocalError))
                    await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                return await send({"type": "lifespan.shutdown.complete"})

    # ---- one request -------------------------------------------------------------------------------------------------

    def _handle_post(self, post: IncomingPost) -> Awaitable[None]:
        head, message, send = post.head, post.message, post.send
        kind = head.kind or classify(head, message, self._revisions)
        if type(message) is MalformedMessage and message.is_too_large:
            kind = HTTPError(413, message.message, limit="max_parts")
        if self._closing:
            kind = HTTPError(503, "the server is shutting down", INTERNAL_ERROR, retry_after=1)
        if kind is _SESSION:
            return self._stateful.serve(post)
        if kind is _STATELESS:
            revision = check_stateless(head, message, self._revisions)
            if isinstance(revision, HTTPError):
                return send_error(send, revision, id_of(message))
            return self._stateless[revision.id].serve(post)
        if isinstance(kind, HTTPError):
            null_id = next(iter(self._revisions.stateful.values())).null_ids if self._revisions.stateful else False
            return send_error(send, kind, id_of(message), null_id)
        return self._stateful.open(post)


async def _authenticated(
    authenticator: Authenticator, scope: Scope, head: RequestHead, at_resource: bool
) -> RequestAuth:
    """Return the authentication of a request by its access token. Raises RefusedRequestError."""
    path, query = None if at_resource else scope["path"], scope.get("query_string", b"")
    checked = await authenticator.authenticate(head.headers, scope["method"], path, query)
    if isinstance(checked, AuthChallenge):
        code = INTERNAL_ERROR if checked.status == 503 else INVALID_REQUEST
        raise RefusedRequestError(HTTPError(checked.status, checked.reason, code), checked.headers)
    return checked
