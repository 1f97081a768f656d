"""The authorization server as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_products.common.keys import KeyRing
from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.http.asgi import ASGIApp, BodyReader, ClientDisconnectError, Receive, Scope, Send
from mcp_runtime.http.urls import base_url
from mcp_runtime.protocol.framing import SizeLimit
from mcp_runtime.session.interfaces import AuthenticatedUser
from mcp_runtime.stores import StoreUnavailableError
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import NAME, Rule, instance, is_items

from ..client.storage import OAuthToken
from ..http import POLICY, TEXTS, AuthHTTPClient, URLPolicy, is_loopback, methods
from ..resource_server.verifiers import TokenVerifier
from . import authorize as pages
from .authorize import AuthorizeEndpoints, Login
from .clients import ClientRegistry, RegistrationQuota
from .endpoints import TokenEndpoints, claims
from .http import HTTPRequest, HTTPResponse, read_request
from .models import OAuthClient, OAuthError, OAuthErrorCode
from .storage import AuthorizationStorage, SQLiteStorage
from .tokens import TokenInfo, TokenLifetimes, TokenService
from .upstream import UpstreamClient, UpstreamProvider

_log: Final = logging.getLogger("mcp_runtime.auth.authorization_server.app")

_METADATA: Final = "/.well-known/oauth-authorization-server"
_BODY_SECONDS: Final = 15.0  # Seconds in which the body of a request must arrive.
_CLEANUP_SECONDS: Final = 60.0  # Seconds between two deletions of expired data.
_CONSENT_SECONDS: Final = 600.0  # Seconds a user has to decide, and to sign in with the upstream provider.
_UPSTREAM_SECONDS: Final = 366 * 86400.0  # Seconds for which an encrypted upstream token can be decrypted.
# Clients in browsers call these endpoints from other origins. They use no cookies, so any origin is allowed.
_CORS_HEADERS: Final = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, POST"),
    ("access-control-allow-headers", "content-type, authorization, mcp-protocol-version"),
    ("access-control-max-age", "3600"),
)


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    handler: Callable[[HTTPRequest], Awaitable[HTTPResponse]]
    allows_cors: bool


def _list_of(kind: type[Any], expected: str) -> Rule:
    return Rule(lambda value: is_items(value) and all(isinstance(item, kind) for item in value), expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServerLimits:
    """Limits on requests of unknown clients.

    Args:
        max_body: Bytes of a request body. Default 32 KiB.
        max_registrations: Client registrations an hour from one address. Default 30.
        max_clients: Registered clients that are stored. Default 20,000.
    """

    max_body: int = 32 * 1024
    max_registrations: int = 30
    max_clients: int = 20_000


_RULES: Final[Mapping[str, Rule]] = {
    "issuer": NAME,
    "resources": TEXTS,
    "login": methods("current_user", "login_url", expected="a Login, with current_user and login_url").or_none(),
    "upstream": instance(UpstreamProvider, "an UpstreamProvider").or_none(),
    "storage": methods("client", expected='a storage, such as SQLiteStorage("grants.db")').or_none(),
    "scopes": TEXTS,
    "clients": _list_of(OAuthClient, 'a list of clients, such as [OAuthClient.static("id", redirect_uris)]'),
    "keys": _list_of(bytes, "a list of keys of 32 bytes, such as those of KeyRing.new_key()"),
    "policy": POLICY,
    "limits": instance(AuthorizationServerLimits, "AuthorizationServerLimits"),
    "lifetimes": instance(TokenLifetimes, "TokenLifetimes"),
}


class AuthorizationServer:
    """An OAuth 2.1 authorization server for MCP servers, as an ASGI 3 application.

    Use `wrap` to serve it at the same origin as another application. The constructor raises LocalError for a wrong
    configuration.

    Args:
        issuer: Issuer identifier: the URL of this server, with https, or http on this machine.
        resources: URLs of the MCP servers that tokens are for; the first one if a client names none.
        login: The sign-in of the site. Exactly one of `login` and `upstream` is needed.
        upstream: The third party where users sign in.
        storage: Storage of clients, grants and secrets. Default: in memory.
        scopes: Scopes that clients may request. Default: none.
        clients: Configured clients. Default: none.
        dynamic_registration: True to let clients register themselves (https://www.rfc-editor.org/rfc/rfc7591).
            Default True.
        client_id_metadata_documents: True to let a client id be the URL of the client's metadata. Default True.
        keys: Keys of 32 bytes for encryption, the newest first, shared by all processes. Without them a restart
            ends logins in progress and makes stored upstream tokens useless. Default: a random key.
        policy: URLs from which client id metadata documents may be fetched. Default: public ones.
        limits: Limits on requests of unknown clients.
        lifetimes: Lifetimes of codes, tokens and grants.
        clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
    """

    @checked(rules=_RULES)
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
        limits: AuthorizationServerLimits = AuthorizationServerLimits(),
        lifetimes: TokenLifetimes = TokenLifetimes(),  # noqa: B008
        clock: Callable[[], float] | None = None,
    ) -> None:
        _check_issuer(issuer)
        if not resources:
            raise LocalError("an authorization server needs at least one URL in `resources`")
        if (login is None) == (upstream is None):
            raise LocalError("an authorization server needs either `login` or `upstream`, and not both")
        self.issuer = issuer
        self._is_local = is_loopback(urlsplit(issuer).hostname or "")
        self._storage = storage or SQLiteStorage()
        self._lifetimes = lifetimes
        clock = clock or clocks.wall
        self._clock = clock
        self._last_cleanup = 0.0
        self._body_reader = BodyReader(SizeLimit(limits.max_body), _BODY_SECONDS)
        keys = keys or (KeyRing.new_key(),)
        self._upstream: UpstreamClient | None = None
        if upstream is not None:
            key_ring = KeyRing(*keys, lifetime=_UPSTREAM_SECONDS)
            self._upstream = UpstreamClient(upstream, f"{issuer}/callback", self._storage, key_ring, clock)
        sign_in = self._upstream or login
        assert sign_in is not None, "checked above"
        http = AuthHTTPClient(policy) if client_id_metadata_documents else None
        registry = ClientRegistry(self._storage, clients, scopes, http, limits.max_clients, clock)
        self._tokens = TokenService(self._storage, lifetimes, resources, clock)
        tickets = KeyRing(*keys, lifetime=_CONSENT_SECONDS)
        authorize = AuthorizeEndpoints(issuer, scopes, resources, registry, self._tokens, tickets, sign_in)
        quota = RegistrationQuota(limits.max_registrations, clock) if dynamic_registration else None
        endpoints = TokenEndpoints(
            issuer, scopes, registry, self._tokens, quota, client_id_metadata_documents, self.introspect
        )
        self._routes = _routes(urlsplit(issuer).path, authorize, endpoints)

    # ---- ASGI --------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by ASGI 3, with status 404 for paths of other applications."""
        await self.wrap(_not_found)(scope, receive, send)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return an application that serves the paths of this server, and passes all else, also the lifespan, to
        another application."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] not in self._routes:
                return await app(scope, receive, send)
            try:
                await self._serve(scope, receive, send)
            except ClientDisconnectError:
                _log.debug("a client disconnected before its request was complete")

        return wrapped

    async def introspect(self, token: str) -> TokenInfo | None:
        """Return the state of an access token of this server; None if it is not valid.

        Raises AuthorizationServerUnavailableError if its upstream token must be checked and the third party does not
        respond.
        """
        info = await self._tokens.introspect(token)
        if info is not None and info.grant.upstream is not None:
            return info if await self.upstream_token(info.grant.id) else None
        return info

    def verifier(self, resource: str) -> TokenVerifier:
        """Return a verifier of this server's tokens for a resource: for a `ResourceServer` in the same process."""
        return _OwnTokenVerifier(self, resource)

    async def upstream_token(self, grant: str) -> OAuthToken | None:
        """Return the upstream token of a grant, for tools that act at the third party; None if it is not valid.

        The id of the grant is the claim `sid` of a token. Never send an upstream token to a client.
        """
        stored = await self._storage.grant(grant)
        return None if stored is None or self._upstream is None else await self._upstream.token(stored)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes[scope["path"]]
        cors_headers = _CORS_HEADERS if route.allows_cors else ()
        request = await read_request(scope, receive, self._body_reader)
        if isinstance(request, HTTPResponse):
            response = request
        elif route.allows_cors and request.method == "OPTIONS":
            response = HTTPResponse(204)
        elif request.method != route.method:
            response = HTTPResponse(405, headers=(("allow", route.method),))
        elif self._is_local and not is_loopback(_host(request)):
            response = HTTPResponse(421)  # DNS rebinding: a foreign name that resolves to this machine.
        else:
            await self._delete_expired()
            response = await _run_route(route, request)
        await HTTPResponse(response.status, response.body, (*response.headers, *cors_headers)).send(send)

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
        info = await self.server.introspect(token)
        if info is None or info.grant.resource != self.resource:
            return None
        scopes, token_claims = frozenset(info.scopes), claims(info, self.server.issuer)
        return AuthenticatedUser(info.grant.user, info.grant.client_id, scopes, self.server.issuer, token_claims)


def _check_issuer(issuer: str) -> None:
    """Raise an error unless an issuer identifier is a URL as browsers write it: they compare origins as text."""
    URLPolicy(local=True, private=frozenset({base_url(issuer).lower()})).check(issuer)
    if issuer.endswith("/") or "?" in issuer:
        raise LocalError(f"{issuer}: an issuer must not end with a slash, or have a query")
    parts = urlsplit(issuer)
    if issuer != f"{parts.scheme}://{parts.netloc.lower()}{parts.path}" or parts.port in (80, 443):
        raise LocalError(f"{issuer}: an issuer must have scheme and host in lower case, and no default port")


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
    except OAuthError as raised:
        error = raised
    except StoreUnavailableError:
        _log.warning("the storage of the authorization server cannot be reached", exc_info=True)
        error = OAuthError(
            OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "the storage cannot be reached; try again later", 503
        )
    except Exception:
        _log.exception("an endpoint of the authorization server failed")
        error = OAuthError(OAuthErrorCode.SERVER_ERROR, "the server failed to process the request", 500)
    return HTTPResponse.error(error) if route.allows_cors else pages.error_page(error.reason, error.status)


def _host(request: HTTPRequest) -> str:
    return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve what a server without a wrapped application does not: 404 for all paths, and the lifespan."""
    if scope["type"] == "http":
        return await HTTPResponse(404).send(send)
    while scope["type"] == "lifespan":
        event: str = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return
