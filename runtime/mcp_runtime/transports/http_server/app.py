"""Servers go in, one for each revision they are to speak, and an ASGI application comes out: one endpoint for all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
    send_error,
    send_metadata,
)
from ...http.body import BodyReader
from ...http.headers import HTTPError
from ...http.origins import OriginPolicy
from ...http.request_head import CachedRequestHeadParser
from ...http.server_rules import (
    RequestHead,
    RequestKind,
    ServedRevisions,
    check_stateless,
    classify,
)
from ...protocol.framing import MAX_MESSAGE_BYTES
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, decode
from ...protocol.revision import Revision
from ...session.identity import UNAUTHENTICATED, RequestAuth
from ...session.interfaces import Service
from ...session.negotiation import ready_candidate
from .event_store import EventStore, InMemoryEventStore
from .legacy_sse import LegacySSEHandler
from .responders import IncomingPost
from .sessions import SessionStore
from .stateful import StatefulHandler
from .stateless import StatelessHandler

if TYPE_CHECKING:
    from ...auth.resource_server.protection import Authenticator, ResourceServer

_log: Final = logging.getLogger(__name__)

Owner = Callable[[Mapping[str, Any]], object]

# Looked up here, because it takes longer in an enumeration than in a module.
_SESSION: Final = RequestKind.SESSION
_STATELESS: Final = RequestKind.STATELESS


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """What a client may ask of an endpoint: the length of a message in bytes, seconds for a request to arrive, open
    sessions, seconds a session may be idle, messages in a batch; and the seconds of silence on a stream after which a
    comment is sent, so that no proxy takes it for dead."""

    max_body: int = MAX_MESSAGE_BYTES
    body_timeout: float = 30.0
    max_sessions: int = 20_000
    session_idle_timeout: float = 1800.0
    max_batch: int = 100
    keep_alive: float = KEEP_ALIVE


def user_of(scope: Mapping[str, Any]) -> object:
    """Who made a request, as middleware for authentication leaves it in the scope; None for nobody."""
    user = scope.get("user")
    if user is None or not getattr(user, "is_authenticated", False):
        return None
    return getattr(user, "display_name", None)


class MCPASGIApp:
    """The application. It serves `path`, or whatever it is mounted at where `path` is None.

    With `legacy_sse` it also serves the older pair of endpoints, /sse and /messages, to clients that know no other.
    `hosts` and `origins` are what `http.origins.OriginPolicy` says; `owner` tells who made a request, and a session is
    found only by whom it was opened for. With `auth` every request needs a token that it takes, and who made it is
    the token's user; where the resource's metadata is served is said in `ResourceServer`.
    """

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
    ) -> None:
        if not servers:
            raise LocalError("an endpoint needs a server")
        self._path = path
        self._owner = owner
        self._limits = limits
        self._revisions = ServedRevisions.create({each.revision.id: each.revision for each in servers})
        announced = any(each.revision.http.resource_metadata for each in servers)
        self._authenticator = None if auth is None else auth.authenticator(path is None, announced)
        self._head_parser = CachedRequestHeadParser(OriginPolicy.create(hosts, origins), self._revisions)
        self._keep_alive = KeepAliveTimer(limits.keep_alive)
        self._body_reader = BodyReader(limits.max_body, limits.body_timeout)
        self._lifespans = {id(each.origin): SharedLifespan(each.lifespan) for each in servers}
        self._stateless = {
            each.revision.id: StatelessHandler(each, self._lifespans[id(each.origin)], self._keep_alive)
            for each in servers
            if each.revision.id in self._revisions.stateless
        }
        self._sessions = SessionStore(
            event_store or InMemoryEventStore(), limits.max_sessions, limits.session_idle_timeout
        )
        shaking = [each for each in servers if each.revision.id in self._revisions.stateful]
        self._stateful = StatefulHandler(shaking, self._lifespans, self._sessions, self._keep_alive)
        self._legacy_sse = (
            LegacySSEHandler(
                [ready_candidate(each.revision, each) for each in shaking],
                "/sse",
                "/messages",
                limits.max_sessions,
                self._keep_alive,
            )
            if legacy_sse
            else None
        )
        self._is_open = auth is None and not legacy_sse and owner is user_of
        self._closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3."""
        if scope["type"] != "http":
            return await self._run_lifespan(scope, receive, send)
        method: str = scope["method"]
        head, length = self._head_parser.read(method, scope["headers"])
        try:
            auth = UNAUTHENTICATED
            # At an endpoint that is open to all, nothing of what is looked at here is in the way of most requests.
            if (
                not self._is_open
                or head.error is not None
                or "user" in scope
                or (scope["path"] != self._path and self._path is not None)
                or scope.get("root_path")
            ):
                admitted = await self._authenticate(scope, head, length, receive, send)
                if not isinstance(admitted, RequestAuth):
                    del head
                    return await admitted
                auth = admitted
            if method == "POST":
                body = await self._body_reader.read(receive, length)
                if not isinstance(body, bytes):
                    return await send_error(send, body)
                answer = self._handle_post((decode(body), head, auth, receive, send))
                del body
            elif method == "GET":
                answer = self._stateful.listen(head.headers, auth, receive, send)
            else:
                answer = self._stateful.end(head.headers, auth, send)
            del head  # What is left to do may last for days, and needs nothing more of what was read.
            await answer
        except ClientDisconnectError:
            _log.debug("a client left before its request was there")

    async def close(self) -> None:
        """End every stream and session, then the lifespans of the servers."""
        self._closing = True
        for single in self._stateless.values():
            await single.close()
        await self._stateful.close()
        if self._legacy_sse is not None:
            await self._legacy_sse.close()
        for life in self._lifespans.values():
            await life.end()

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin and end with the process; whatever else is asked for is refused."""
        if scope["type"] != "lifespan":
            return await send({"type": "websocket.close", "code": 1000})
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    for life in self._lifespans.values():
                        await life.state()
                except Exception as fault:
                    _log.exception("the lifespan of a server failed")
                    await send({"type": "lifespan.startup.failed", "message": type(fault).__name__})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # ---- one request --------------------------------------------------------------------------------------------------

    async def _authenticate(
        self, scope: Scope, head: RequestHead, length: bytes, receive: Receive, send: Send
    ) -> RequestAuth | Sending:
        """Who made a request to the endpoint; else what is left to do for it."""
        if head.origin_error is not None:
            return send_error(send, head.origin_error)
        path = path_of(scope)
        if self._authenticator is not None and self._authenticator.is_metadata_path(path, self._path):
            return send_metadata(send, scope["method"], self._authenticator.document)
        pairs = self._legacy_sse if self._legacy_sse is not None and self._legacy_sse.serves(path) else None
        if pairs is None and self._path not in (None, path):
            return send_error(send, HTTPError(404, "there is nothing here"))
        auth = UNAUTHENTICATED
        if self._authenticator is not None:
            judged = await self._check_token(self._authenticator, scope, head, pairs is None)
            if isinstance(judged, AuthChallenge):
                code = INTERNAL_ERROR if judged.status == 503 else INVALID_REQUEST
                return send_error(send, HTTPError(judged.status, judged.reason, code), headers=judged.headers)
            auth = judged
        elif (owner := self._owner(scope)) is not None:
            auth = RequestAuth(None, owner=owner)
        if pairs is not None:
            arriving = partial(self._body_reader.read, receive, length)
            return pairs.serve(scope, head.headers, auth, arriving, receive, send)
        if head.error is not None:
            allow = [(b"allow", self._revisions.methods.encode())] if head.error.status == 405 else []
            return send_error(send, head.error, headers=allow)
        return auth

    async def _check_token(
        self, authenticator: Authenticator, scope: Scope, head: RequestHead, at_resource: bool
    ) -> RequestAuth | AuthChallenge:
        """Who made a request, by its token."""
        path = None if at_resource else scope["path"]
        return await authenticator.authenticate(head.headers, scope["method"], path, scope.get("query_string", b""))

    def _handle_post(self, post: IncomingPost) -> Sending:
        message, head, _, _, send = post
        way = head.kind or classify(head, message, self._revisions)
        if type(message) is list and len(message) > self._limits.max_batch:
            way = HTTPError(413, f"a batch has at most {self._limits.max_batch} messages")
        if self._closing:
            way = HTTPError(503, "the server is about to end", INTERNAL_ERROR)
        if way is _SESSION:
            return self._stateful.serve(post)
        if way is _STATELESS:
            revision = check_stateless(head, message, self._revisions)
            if not isinstance(revision, Revision):
                return send_error(send, revision, id_of(message))
            return self._stateless[revision.id].serve(post)
        if isinstance(way, HTTPError):
            null = next(iter(self._revisions.stateful.values())).null_ids if self._revisions.stateful else False
            return send_error(send, way, id_of(message), null)
        return self._stateful.open(post)
