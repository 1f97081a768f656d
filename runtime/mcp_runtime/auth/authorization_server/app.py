"""Clients, people and a resource go in; an ASGI application comes out that is the authorization server between them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ...encryption import KeyRing
from ...errors import LocalError
from ...http.asgi import ClientDisconnectError, Receive, Scope, Send
from ...http.body import BodyReader
from ...session.identity import AuthenticatedUser
from ...session.pending import log
from ..client.storage import OAuthToken
from ..http import AuthHTTPClient
from ..resource_server.verifiers import TokenVerifier
from ..url_policy import URLPolicy, is_loopback
from . import pages
from .authorize import AuthorizeEndpoints
from .clients import ClientRegistry, RegistrationQuota
from .endpoints import TokenEndpoints, claims
from .http import HTTPRequest, HTTPResponse, read_request
from .login import Login
from .models import OAuthClient, OAuthError, OAuthErrorCode
from .storage import AuthorizationStorage, SQLiteStorage
from .tokens import TokenInfo, TokenLifetimes, TokenService
from .upstream import UpstreamClient, UpstreamProvider

_METADATA: Final = "/.well-known/oauth-authorization-server"
_BODY_SECONDS: Final = 15.0  # Seconds a request may take to arrive.
_CLEANUP_SECONDS: Final = 60.0  # Seconds between looks for what has expired.
_CONSENT_SECONDS: Final = 600.0  # Seconds a person has to decide, and to sign in with a third party.
_YEAR: Final = 366 * 86400.0
# Programs that run in browsers ask these from pages of other sites; no cookie has a say there.
_CORS_HEADERS: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, POST"),
    ("access-control-allow-headers", "content-type, authorization, mcp-protocol-version"),
    ("access-control-max-age", "3600"),
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    handler: Callable[[HTTPRequest], Awaitable[HTTPResponse]]
    allows_cors: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServerLimits:
    """What strangers may take: bytes of a body, registrations an hour from one address, and clients altogether."""

    max_body: int = 32 * 1024
    max_registrations: int = 30
    max_clients: int = 20_000


class AuthorizationServer:
    """An authorization server (OAuth 2.1), as an ASGI application; `beside` serves another one at the same origin.

    `issuer`: its URL, https or http on this machine. `resources`: the URLs of the MCP servers that tokens are for; the
    first is that of clients that name none. `login`: who a browser belongs to; or `third_party`: people sign in there.
    `clients`: those that are known beforehand. `register` and `documents`: whether others may register themselves, and
    may have their metadata at their id. `keys`: of 32 bytes, shared by all processes; what a third party gives is sealed
    with them, and is lost with them. `policy`: which documents of clients are asked for."""

    def __init__(
        self,
        issuer: str,
        *,
        resources: Sequence[str],
        login: Login | None = None,
        upstream: UpstreamProvider | None = None,
        storage: AuthorizationStorage | None = None,
        scopes: Sequence[str] = (),
        clients: Sequence[OAuthClient] = (),
        dynamic_registration: bool = True,
        client_id_metadata_documents: bool = True,
        keys: Sequence[bytes] = (),
        policy: URLPolicy = URLPolicy(),  # noqa: B008
        limits: AuthorizationServerLimits = AuthorizationServerLimits(),  # noqa: B008
        lifetimes: TokenLifetimes = TokenLifetimes(),  # noqa: B008
        clock: Callable[[], float] = time.time,
    ) -> None:
        URLPolicy(local=True, private=frozenset({issuer})).check(issuer)
        if issuer.endswith("/") or "?" in issuer:
            raise LocalError(f"{issuer}: an issuer has no slash at its end, and no query")
        base = urlsplit(issuer)
        if issuer != f"{base.scheme}://{base.netloc.lower()}{base.path}" or base.port in (80, 443):
            raise LocalError(f"{issuer}: an issuer is written as browsers write it, and has no usual port")
        if not resources:
            raise LocalError("an authorization server needs a resource to give tokens for")
        self.issuer = issuer
        self._local = is_loopback(urlsplit(issuer).hostname or "")
        self._storage = storage or SQLiteStorage()
        self._lifetimes = lifetimes
        self._clock = clock
        self._last_cleanup = 0.0
        self._body_reader = BodyReader(limits.max_body, _BODY_SECONDS)
        keys = keys or (KeyRing.new_key(),)
        self._upstream: UpstreamClient | None = None
        if upstream is not None:
            ring = KeyRing(*keys, lifetime=_YEAR)
            self._upstream = UpstreamClient(upstream, f"{issuer}/callback", self._storage, ring, clock)
        signs_in = self._upstream or login
        if signs_in is None or (login is not None and upstream is not None):
            raise LocalError("people sign in either by `login` or with a `third_party`")
        asking = AuthHTTPClient(policy) if client_id_metadata_documents else None
        known = ClientRegistry(self._storage, clients, scopes, asking, limits.max_clients, clock)
        self._tokens = TokenService(self._storage, lifetimes, scopes, resources, clock)
        tickets = KeyRing(*keys, lifetime=_CONSENT_SECONDS)
        people = AuthorizeEndpoints(issuer, scopes, resources, known, self._tokens, tickets, signs_in)
        quota = RegistrationQuota(limits.max_registrations, clock) if dynamic_registration else None
        programs = TokenEndpoints(
            issuer, scopes, known, self._tokens, quota, client_id_metadata_documents, self.introspect
        )
        self._routes = _routes(urlsplit(issuer).path, people, programs)

    # ---- ASGI ---------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI 3, with nothing else at this origin."""
        await self.wrap(_not_found)(scope, receive, send)

    def wrap(self, app: App) -> App:
        """This server and, for all paths that are not its own and for lifespans, another application."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in self._routes:
                return await app(scope, receive, send)
            try:
                await self._serve(scope, receive, send)
            except ClientDisconnectError:
                log.debug("a client left before its request was there")

        return both

    async def introspect(self, token: str) -> TokenInfo | None:
        """What an access token of this server is worth now; None for nothing. Raises AuthorizationServerUnavailableError where a third party
        that has to be asked gives no answer."""
        found = await self._tokens.introspect(token)
        if found is not None and found.grant.upstream is not None:
            return found if await self.upstream_token(found.grant.id) else None
        return found

    def verifier(self, resource: str) -> TokenVerifier:
        """What knows the tokens of this server that are for a resource: for `ResourceServer` in the same process."""
        return _OwnTokenVerifier(self, resource)

    async def upstream_token(self, grant: str) -> OAuthToken | None:
        """What the third party gave for a grant, for tools that act there; None where it is no longer good. Never give it
        to a client."""
        found = await self._storage.grant(grant)
        return None if found is None or self._upstream is None else await self._upstream.token(found)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes[scope["path"]]
        more = _CORS_HEADERS if route.allows_cors else ()
        request = await read_request(scope, receive, self._body_reader)
        if isinstance(request, HTTPResponse):
            reply = request
        elif route.allows_cors and request.method == "OPTIONS":
            reply = HTTPResponse(204)
        elif request.method != route.method:
            reply = HTTPResponse(405, headers=(("allow", route.method),))
        elif self._local and not is_loopback(_host(request)):
            reply = HTTPResponse(421)  # A name that was bent to this machine is not ours.
        else:
            await self._delete_expired()
            reply = await _run_route(route, request)
        await HTTPResponse(reply.status, reply.body, (*reply.headers, *more)).send(send)

    async def _delete_expired(self) -> None:
        now = self._clock()
        if now - self._last_cleanup >= _CLEANUP_SECONDS:
            self._last_cleanup = now
            await self._storage.delete_expired(now, now - self._lifetimes.unused_client)


@dataclass(frozen=True, slots=True)
class _OwnTokenVerifier:
    server: AuthorizationServer
    resource: str

    async def verify(self, token: str) -> AuthenticatedUser | None:
        found = await self.server.introspect(token)
        if found is None or found.grant.resource != self.resource:
            return None
        said = claims(found, self.server.issuer)
        return AuthenticatedUser(
            found.grant.user, found.grant.client_id, frozenset(found.scopes), self.server.issuer, said
        )


def _routes(path: str, authorize: AuthorizeEndpoints, endpoints: TokenEndpoints) -> Mapping[str, _Route]:
    return {
        f"{_METADATA}{path}": _Route("GET", endpoints.metadata, True),
        f"{path}/token": _Route("POST", endpoints.token, True),
        f"{path}/register": _Route("POST", endpoints.register, True),
        f"{path}/revoke": _Route("POST", endpoints.revoke, True),
        f"{path}/introspect": _Route("POST", endpoints.introspect, True),
        f"{path}/authorize": _Route("GET", authorize.authorize, False),
        f"{path}/consent": _Route("POST", authorize.consent, False),
        f"{path}/callback": _Route("GET", authorize.callback, False),
    }


async def _run_route(route: _Route, request: HTTPRequest) -> HTTPResponse:
    try:
        return await route.handler(request)
    except OAuthError as fault:
        refused = fault
    except Exception:
        log.exception("a request of authorization failed")
        refused = OAuthError(OAuthErrorCode.SERVER_ERROR, "something went wrong here", 500)
    return HTTPResponse.error(refused) if route.allows_cors else pages.error_page(refused.reason, refused.status)


def _host(request: HTTPRequest) -> str:
    return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """What is beside a server that is alone."""
    if scope["type"] == "http":
        return await HTTPResponse(404).send(send)
    while scope["type"] == "lifespan":
        said: str = (await receive())["type"]
        await send({"type": f"{said}.complete"})
        if said == "lifespan.shutdown":
            return
