"""A request to a server that wants a token goes in, the same with a token goes out, however that was had."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import httpx2

from ...errors import (
    AuthorizationError,
    AuthorizationServerUnavailableError,
    LocalError,
)
from ...http.client_rules import REVISION_EXTENSION, NegotiatedRevision
from ...http.urls import origin
from ..discovery import AuthorizationServerDiscovery
from ..http import AuthHTTPClient
from ..metadata import (
    AuthorizationServerMetadata,
    DiscoveryMethod,
    ProtectedResourceMetadata,
)
from ..url_policy import URLPolicy, is_loopback
from .dpop import DPoPProver
from .grants import Grant, TokenRequest
from .responses import parse_challenges, select_scopes
from .storage import (
    InMemoryTokenStorage,
    OAuthClientInformation,
    OAuthToken,
    StoredCredentials,
    TokenStorage,
)
from .token_endpoint import TokenEndpoint

_MAX_TOKENS: Final = 3  # Tokens asked for on behalf of one request.
_RENEW_BEFORE_SECONDS: Final = 10.0  # Seconds before its end a token is renewed.


class OAuthClientProvider(httpx2.Auth):
    """Authorization for one MCP server, to give to `HTTPOptions(auth=…)`. On a 401, or a 403 that asks for more scopes, it
    finds the authorization server, gets a token by `grant` and sends the request again. Tokens go to the origin of
    `server` and to nowhere else. Raises AuthorizationError where something it is told is not safe.

    `discovery`: who says which authorization server is asked; None for what the revision of the request has.
    `issuers`: if any are given, only these authorization servers are used. `aliases`: other names an issuer may give
    itself. `policy`: which URLs are asked; by default public ones, and this machine if the server is on it. `bound`:
    tokens have to be bound to a key of this process (DPoP). `tls`: which certificates authorization servers may have.
    """

    def __init__(
        self,
        server: str,
        grant: Grant,
        *,
        storage: TokenStorage | None = None,
        discovery: DiscoveryMethod | None = None,
        issuers: Sequence[str] = (),
        aliases: Mapping[str, Sequence[str]] | None = None,
        policy: URLPolicy | None = None,
        dpop: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(server)
        own = frozenset({f"{parts.scheme}://{parts.netloc}".lower()})
        policy = policy or URLPolicy(local=is_loopback(parts.hostname or ""), private=own)
        policy.check(server)
        self._server = server
        self._grant = grant
        self._storage = storage or InMemoryTokenStorage()
        self._http = AuthHTTPClient(policy, tls)
        self._discovery = AuthorizationServerDiscovery(self._http, server, discovery, issuers, aliases or {})
        self._negotiated: NegotiatedRevision | None = None
        self._dpop = DPoPProver() if dpop else None
        self._hint: str | None = None
        self._challenged_scope: str | None = None
        self._requested_scopes: set[str] = set()

    @property
    def login_timeout(self) -> float:
        """Seconds that a person may take to log in, before a request is answered."""
        return self._grant.timeout

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        raise LocalError("authorization is for asynchronous clients of HTTP")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and again while a better one can be had."""
        if origin(str(request.url)) != origin(self._server):
            yield request
            return
        self._negotiated = request.extensions.get(REVISION_EXTENSION)
        token = await self._current_token()
        with_nonce = fresh = False
        for left in reversed(range(_MAX_TOKENS + 1)):
            self._sign(request, token)
            response = yield request
            said = parse_challenges(", ".join(response.headers.get_list("www-authenticate")))
            new = self._dpop is not None and self._dpop.update_nonce(
                str(request.url), response.headers.get("dpop-nonce")
            )
            challenge = said.get("dpop") or said.get("bearer") or {}
            if not left:
                return
            if response.status_code == 401 and new and not with_nonce and token is not None:
                with_nonce = True
            elif response.status_code == 401 and not fresh:
                if "dpop" in said and "bearer" not in said and self._dpop is None:
                    self._dpop = DPoPProver()
                token, fresh = await self._renew(token, challenge)
            elif response.status_code == 403 and self._may_step_up(challenge, token):
                token, fresh = await self._renew(token, challenge, step_up=True)
            else:
                return

    # ---- one token for all requests -----------------------------------------------------------------------------------

    async def _current_token(self) -> OAuthToken | None:
        token = self._usable_token(await self._storage.load(self._server))
        if token is not None and token.expires_at is not None and token.expires_at - _RENEW_BEFORE_SECONDS < time.time():
            return (await self._renew(token, {}))[0]
        return token

    def _usable_token(self, credentials: StoredCredentials | None) -> OAuthToken | None:
        """The token that is kept, unless it is bound to a key of another process."""
        token = credentials.token if credentials is not None else None
        own = self._dpop.thumbprint if self._dpop is not None else None
        return token if token is not None and token.dpop_thumbprint in (None, own) else None

    def _sign(self, request: httpx2.Request, token: OAuthToken | None) -> None:
        if token is None:
            return
        request.headers["authorization"] = f"{token.token_type} {token.access_token}"
        if token.token_type == "DPoP" and self._dpop is not None:
            request.headers["dpop"] = self._dpop.header(request.method, str(request.url), token.access_token)

    def _may_step_up(self, challenge: Mapping[str, str], token: OAuthToken | None) -> bool:
        """Whether more can be had: a server that asks again for what was asked for already, will not be content."""
        wanted = set(challenge.get("scope", "").split())
        return (
            token is not None
            and challenge.get("error") == "insufficient_scope"
            and not wanted <= self._requested_scopes
        )

    async def _renew(
        self, old: OAuthToken | None, challenge: Mapping[str, str], *, step_up: bool = False
    ) -> tuple[OAuthToken, bool]:
        """A better token than the old one, and whether nothing better is to be had: one that was refreshed may be
        refused still. Requests that wait for the same, share it."""
        async with self._storage.lock(self._server):
            kept = await self._storage.load(self._server)
            there = self._usable_token(kept)
            if there is not None and (old is None or there.access_token != old.access_token):
                return there, False
            self._hint = challenge.get("resource_metadata", self._hint)
            self._challenged_scope = challenge.get("scope", self._challenged_scope)
            resource, issuer = await self._discovery.find(self._hint, self._negotiated)
            if kept is not None and kept.issuer != issuer.issuer:
                self._check_issuer_changed()
                kept = old = None
                self._requested_scopes.clear()
                await self._storage.save(self._server, None)
            if kept is not None and old is not None and old.refresh_token is not None and not step_up:
                refreshed = await self._refresh(kept, issuer, resource, old)
                if refreshed is not None:
                    return refreshed, False
            return await self._request_token(kept, issuer, resource, old), True

    async def _refresh(
        self,
        credentials: StoredCredentials,
        issuer: AuthorizationServerMetadata,
        resource: ProtectedResourceMetadata | None,
        old: OAuthToken,
    ) -> OAuthToken | None:
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh_token or ""}
        if resource is not None:
            form["resource"] = resource.resource
        try:
            token = await self._endpoint(issuer, self._grant.client_information or credentials.client).token(
                form, old.scopes
            )
        except AuthorizationServerUnavailableError:
            raise
        except AuthorizationError:
            token = None
        # One that was refused is not tried twice: reuse would end all tokens of its family.
        await self._storage.save(self._server, replace(credentials, token=token))
        return token

    async def _request_token(
        self,
        credentials: StoredCredentials | None,
        issuer: AuthorizationServerMetadata,
        resource: ProtectedResourceMetadata | None,
        old: OAuthToken | None,
    ) -> OAuthToken:
        known = self._grant.client_information
        client = await self._grant.client_for(self._http, issuer, credentials.client if credentials else None)
        if client.issuer is not None and client.issuer != issuer.issuer:
            raise AuthorizationError(f"the client is known to {client.issuer}, and {issuer.issuer} is another issuer")
        held = {*self._requested_scopes, *(old.scopes if old else ())}
        scopes = select_scopes(
            self._challenged_scope,
            resource.scopes_supported if resource else (),
            sorted(held),
            issuer.scopes_supported,
            self._grant.offline,
        )
        wanted = TokenRequest(issuer, resource.resource if resource else None, scopes)
        # What the program knows by itself is not kept with what it was given.
        keep = StoredCredentials(issuer.issuer, client if known is None else OAuthClientInformation(known.client_id))
        # The client is kept before its first token: whoever breaks off here need not register again.
        await self._storage.save(self._server, keep)
        try:
            form = await self._grant.token_request_form(self._http, wanted, client)
            token = await self._endpoint(issuer, client).token(form, scopes)
        except AuthorizationServerUnavailableError:
            raise
        except AuthorizationError:
            # A server that forgot a client that registered itself is told of it anew.
            await self._storage.save(self._server, keep if known else None)
            raise
        self._requested_scopes |= set(scopes)
        await self._storage.save(self._server, replace(keep, token=token))
        return token

    def _endpoint(self, issuer: AuthorizationServerMetadata, client: OAuthClientInformation) -> TokenEndpoint:
        return TokenEndpoint(self._http, issuer, client, self._dpop)

    def _check_issuer_changed(self) -> None:
        """A client that was known beforehand, at an issuer nobody named, stays with the first that was met."""
        known = self._grant.client_information
        if known is not None and known.issuer is None:
            raise AuthorizationError("the server has another issuer now, to which this client is not known")
