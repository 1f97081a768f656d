"""The OAuth client of an MCP server, as an authentication flow of httpx."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx2

from mcp_runtime.aio import clock as clocks
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError, LocalError
from mcp_runtime.http.client_rules import REVISION_EXTENSION, NegotiatedRevision
from mcp_runtime.http.urls import base_url, origin, redact_url
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import FLAG, MAPPING, NAME, Rule, instance

from ..discovery import (
    AuthorizationServerDiscovery,
    AuthorizationServerMetadata,
    DiscoveryMethod,
    ProtectedResourceMetadata,
    is_same_issuer,
)
from ..http import POLICY, TEXTS, AuthHTTPClient, URLPolicy, is_loopback, methods
from .grants import Grant, TokenRequest
from .storage import InMemoryTokenStorage, OAuthClientInformation, OAuthToken, StoredCredentials, TokenStorage
from .token_endpoint import DPoPProver, TokenEndpoint, parse_challenges, select_scopes

_MAX_CLOCK_DIFFERENCE: Final = 30.0  # Seconds. Servers accept proofs that are a minute old, or less.
_MAX_TOKENS: Final = 3  # Tokens that are requested for one HTTP request.
_RENEW_BEFORE_SECONDS: Final = 10.0  # Seconds before its expiry a token is renewed.
_RULES: Final[Mapping[str, Rule]] = {
    "server": NAME,
    "grant": methods("client_for", "token_request_form", expected="a grant, such as AuthorizationCode(…)"),
    "storage": methods("load", "save", "lock", expected='a storage, such as FileTokenStorage("tokens.json")').or_none(),
    "discovery": instance(DiscoveryMethod, "a DiscoveryMethod").or_none(),
    "issuers": TEXTS,
    "aliases": Rule(
        lambda value: MAPPING.accepts(value) and all(map(TEXTS.accepts, value.values())),
        'a dict of lists of strings, such as {"https://a.example": ["https://b.example"]}',
    ).or_none(),
    "policy": POLICY.or_none(),
    "dpop": FLAG,
    "resource_indicator": FLAG,
    "tls": instance(ssl.SSLContext, "an ssl.SSLContext").or_none(),
    "pkce": TEXTS,
}


class OAuthClientProvider(httpx2.Auth):
    """Authorizes the requests to one MCP server; pass it as `HTTPOptions(auth=…)`.

    On status 401, and on 403 with `insufficient_scope`, it discovers the authorization server, gets a token by the
    grant and sends the request again. It sends tokens to the origin of the MCP server only. It raises
    AuthorizationError if a server breaks a rule of https://modelcontextprotocol.io/specification/draft/basic/authorization.
    """

    _newest: OAuthToken | None = None  # It may have replaced that of a request meanwhile.

    @checked(rules=_RULES, example="OAuthClientProvider(url, grant)")
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
        resource_indicator: bool = True,
        tls: ssl.SSLContext | None = None,
        pkce: Sequence[str] = (),
    ) -> None:
        """Create the client of one MCP server. Raises AuthorizationError if the URL policy forbids its URL.

        Args:
            server: URL of the MCP server.
            grant: The method to get a token, such as `AuthorizationCode`.
            storage: Where credentials are stored. Default: in memory.
            discovery: The method to find the authorization server. Default None: that of the negotiated MCP version.
            issuers: Issuer identifiers of trusted authorization servers. Default: any that the MCP server names.
            aliases: Other issuer identifiers that an issuer's metadata may have, by issuer. Default: none.
            policy: URLs that may be requested. Default: public ones and the origin of the MCP server, and this machine
                if the MCP server runs on it.
            dpop: True to bind tokens to a key of this process (https://www.rfc-editor.org/rfc/rfc9449). Default False:
                only if the MCP server requires it.
            resource_indicator: False to send no `resource`, for an authorization server that refuses it
                (https://www.rfc-editor.org/rfc/rfc8707). Its tokens must then be for this server only, and `issuers`
                must name it: else an MCP server could get a token that others accept. Default True.
            tls: Certificates that authorization servers may have. Default: the system's certificate authorities.
            pkce: Issuer identifiers of authorization servers that support PKCE with S256 although their metadata does
                not say so, as their documentation says. Default: none; without PKCE nobody can log in.
        """
        if not resource_indicator and not issuers:
            raise LocalError(
                "OAuthClientProvider(): resource_indicator=False needs issuers=[…] with the authorization server whose"
                " tokens are for this server only"
            )
        policy = policy or URLPolicy(
            local=is_loopback(urlsplit(server).hostname or ""), private=frozenset({base_url(server).lower()})
        )
        policy.check(server)
        self._server = server
        self._resource_indicator = resource_indicator
        self._grant = grant
        self._storage = storage or InMemoryTokenStorage()
        self._http = AuthHTTPClient(policy, tls)
        self._discovery = AuthorizationServerDiscovery(self._http, server, discovery, issuers, aliases or {})
        self._pkce = tuple(pkce)
        self._negotiated: NegotiatedRevision | None = None
        self._dpop = DPoPProver() if dpop else None
        self._metadata_url: str | None = None
        self._has_resource_metadata = False
        self._challenged_scope: str | None = None
        self._requested_scopes: set[str] = set()
        self._lacking_scopes: set[str] = set()  # Those for which requests wait now.
        self._bound_token: OAuthToken | None = None  # No other process could use it: it is not stored.
        self._renewing: SharedWork[tuple[OAuthToken, bool]] = SharedWork("getting an access token")

    @property
    def login_timeout(self) -> float:
        """Seconds a user has to log in before a request fails."""
        return self._grant.timeout

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Raise LocalError: synchronous HTTP clients are not supported."""
        raise LocalError("OAuthClientProvider needs an asynchronous HTTP client")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token, and again after each challenge for which another token can be had."""
        if origin(str(request.url)) != origin(self._server):
            yield request
            return
        self._negotiated = request.extensions.get(REVISION_EXTENSION)
        token = await self._current_token()
        retried_with_nonce = is_final = False
        remaining = _MAX_TOKENS
        while True:
            self._sign(request, token)
            sent_nonce = self._dpop.nonce(str(request.url)) if self._dpop is not None else None
            response = yield request
            challenges = parse_challenges(", ".join(response.headers.get_list("www-authenticate")))
            has_new_nonce = self._dpop is not None and self._dpop.update_nonce(
                str(request.url), response.headers.get("dpop-nonce"), sent_nonce
            )
            challenge = challenges.get("dpop") or challenges.get("bearer") or {}
            if not remaining:
                break
            remaining -= 1
            if response.status_code == 401 and has_new_nonce and not retried_with_nonce and token is not None:
                retried_with_nonce = True
            elif response.status_code == 401 and not (is_final and self._is_newest(token)):
                if "dpop" in challenges and "bearer" not in challenges and self._dpop is None:
                    self._dpop = DPoPProver()
                token, is_final = await self._renew(token, challenge)
            elif response.status_code == 403 and token is not None and challenge.get("error") == "insufficient_scope":
                lacks, (token, is_final) = token, await self._renew(token, challenge, step_up=True)
                if token.access_token == lacks.access_token:
                    break
            else:
                break
        if response.status_code == 401 and challenge.get("error") == "invalid_dpop_proof":
            raise AuthorizationError(_refused_proof(self._server, response.headers.get("date", "")))

    # ---- one token for all requests ----------------------------------------------------------------------------------

    async def _current_token(self) -> OAuthToken | None:
        token = self._usable_token(await self._load())
        if token is not None and token.is_due(clocks.wall(), _RENEW_BEFORE_SECONDS):
            return (await self._renew(token, {}))[0]
        return token

    def _usable_token(self, credentials: StoredCredentials | None) -> OAuthToken | None:
        """Return the stored token, unless it is bound to a key of another process."""
        token = credentials.token if credentials is not None else None
        own = self._dpop.thumbprint if self._dpop is not None else None
        return token if token is not None and token.dpop_thumbprint in (None, own) else None

    def _is_newest(self, token: OAuthToken | None) -> bool:
        """Return False if another token is there, or on its way."""
        return token is self._newest and not self._renewing.is_running

    def _sign(self, request: httpx2.Request, token: OAuthToken | None) -> None:
        if token is None:
            return
        request.headers["authorization"] = f"{token.token_type} {token.access_token}"
        if token.token_type == "DPoP" and self._dpop is not None:
            request.headers["dpop"] = self._dpop.header(request.method, str(request.url), token.access_token)

    async def _renew(
        self, old: OAuthToken | None, challenge: Mapping[str, str], *, step_up: bool = False
    ) -> tuple[OAuthToken, bool]:
        """Return a token that replaces `old`, and True if it comes from a new grant, after which another would not
        help.

        Requests that wait for a token at the same time share it. A refresh token is used once: the new one is stored,
        and a login goes on, although the request that has begun it is cancelled.
        """
        lacking = set(challenge.get("scope", "").split()) if step_up else set[str]()
        self._lacking_scopes |= lacking
        try:
            rounds = 0
            while True:
                rounds += 1
                is_joined = self._renewing.is_running
                token, is_new = await self._renewing.run(partial(self._renew_alone, old, challenge, step_up))
                # A login had begun before, without these; or this was for a request with an older token.
                lacks = is_new and not lacking <= self._requested_scopes
                is_same = is_joined and not is_new and old is not None and token.access_token == old.access_token
                if rounds == _MAX_TOKENS or not (lacks or is_same):
                    return token, is_new
                old = token
        finally:
            self._lacking_scopes -= lacking

    async def _renew_alone(
        self, old: OAuthToken | None, challenge: Mapping[str, str], step_up: bool
    ) -> tuple[OAuthToken, bool]:
        async with self._storage.lock(self._server):
            stored = await self._load()
            current = self._usable_token(stored)
            if current is not None and (old is None or current.access_token != old.access_token):
                return current, False
            if step_up and old is not None and self._lacking_scopes <= self._requested_scopes:
                return old, True  # To request the same again would not help.
            if named := challenge.get("resource_metadata"):
                self._metadata_url = _absolute(named, self._server)
            if not step_up:
                self._challenged_scope = challenge.get("scope", self._challenged_scope)
            resource, issuer = await self._discovery.find(
                self._metadata_url, self._negotiated, has_resource_metadata=self._has_resource_metadata
            )
            self._has_resource_metadata = self._has_resource_metadata or resource is not None
            if any(is_same_issuer(issuer.issuer, name) for name in self._pkce) and not issuer.code_challenge_methods:
                issuer = replace(issuer, code_challenge_methods=("S256",))
            if stored is not None and not is_same_issuer(stored.issuer, issuer.issuer):
                self._check_issuer_changed()
                stored = old = None
                self._requested_scopes.clear()
                await self._save(None)
            if stored is not None and old is not None and old.refresh_token is not None and not step_up:
                refreshed = await self._refresh(stored, issuer, resource, old)
                if refreshed is not None:
                    return refreshed, False
            return await self._request_token(stored, issuer, resource, old, step_up), True

    async def _refresh(
        self,
        credentials: StoredCredentials,
        issuer: AuthorizationServerMetadata,
        resource: ProtectedResourceMetadata | None,
        old: OAuthToken,
    ) -> OAuthToken | None:
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh_token or ""}
        if (indicator := self._indicator(resource)) is not None:
            form["resource"] = indicator
        try:
            token = await self._endpoint(issuer, self._grant.client_information or credentials.client).token(
                form, old.scopes
            )
        except AuthorizationServerUnavailableError:
            raise
        except AuthorizationError:
            token = None
        # Deletes a rejected token: trying it again could revoke all tokens of its grant.
        await self._save(replace(credentials, token=token))
        return token

    async def _request_token(
        self,
        stored: StoredCredentials | None,
        issuer: AuthorizationServerMetadata,
        resource: ProtectedResourceMetadata | None,
        old: OAuthToken | None,
        step_up: bool,
    ) -> OAuthToken:
        configured = self._grant.client_information
        client = await self._grant.client_for(self._http, issuer, stored.client if stored else None)
        if client.issuer is not None and not is_same_issuer(client.issuer, issuer.issuer):
            raise AuthorizationError(
                f"the client is registered with {client.issuer}, but the server names another issuer: {issuer.issuer}"
            )
        current_scopes = {*self._requested_scopes, *(old.scopes if old else ())}
        scopes = select_scopes(
            " ".join(sorted(self._lacking_scopes)) if step_up else self._challenged_scope,
            resource.scopes_supported if resource else (),
            sorted(current_scopes),
            issuer.scopes_supported,
            self._grant.offline,
        )
        request = TokenRequest(issuer, self._indicator(resource), scopes)
        # Secrets of a configured client are not stored. Other requests go on with the token that lacks scopes, while a
        # user decides about them, and if the user refuses.
        credentials = StoredCredentials(
            issuer.issuer,
            client if configured is None else OAuthClientInformation(configured.client_id),
            old if step_up else None,
        )
        # The client is stored before its first token, so that an interrupted login does not register it again.
        await self._save(credentials)
        try:
            form = await self._grant.token_request_form(self._http, request, client)
            token = await self._endpoint(issuer, client).token(form, scopes)
        except AuthorizationServerUnavailableError:
            raise
        except AuthorizationError:
            # The server may have forgotten a self-registered client. Without a redirect URI, the next login registers
            # it.
            if configured is None:
                await self._save(replace(credentials, client=replace(client, redirect_uri="")) if step_up else None)
            raise
        self._requested_scopes |= set(scopes)
        await self._save(replace(credentials, token=token))
        return token

    async def _load(self) -> StoredCredentials | None:
        stored = await self._storage.load(self._server)
        return stored if stored is None or self._bound_token is None else replace(stored, token=self._bound_token)

    async def _save(self, credentials: StoredCredentials | None) -> None:
        """Store credentials, but a token that is bound to the key of this process only in it: others that share the
        storage could not use it, and theirs would replace it."""
        token = credentials.token if credentials is not None else None
        self._newest = token
        self._bound_token = token if token is not None and token.dpop_thumbprint is not None else None
        if credentials is not None and self._bound_token is not None:
            credentials = replace(credentials, token=None)
        await self._storage.save(self._server, credentials)

    def _indicator(self, resource: ProtectedResourceMetadata | None) -> str | None:
        """Return the value of the parameter `resource`; None if it is not sent."""
        return resource.resource if resource is not None and self._resource_indicator else None

    def _endpoint(self, issuer: AuthorizationServerMetadata, client: OAuthClientInformation) -> TokenEndpoint:
        return TokenEndpoint(self._http, issuer, client, self._dpop)

    def _check_issuer_changed(self) -> None:
        """Raise AuthorizationError if the configured client has no issuer: it is bound to the first one."""
        configured = self._grant.client_information
        if configured is not None and configured.issuer is None:
            raise AuthorizationError(
                "the server names another issuer than before, to which the client is not registered; set the issuer of "
                "client_information"
            )


def _refused_proof(server: str, date: str) -> str:
    """Return the text of the error for a server that refuses each DPoP proof, with what is wrong most often."""
    try:
        difference = abs(parsedate_to_datetime(date).timestamp() - clocks.wall())
    except ValueError:
        difference = 0.0
    remedy = (
        f"the clocks of this machine and of the server differ by {difference:.0f} seconds; set the clock"
        if difference > _MAX_CLOCK_DIFFERENCE
        else "its URL may be another one than this program knows; the log of the server may have the reason"
    )
    return f"{redact_url(server)} does not accept the proofs of the key that the token is bound to (DPoP): {remedy}"


def _absolute(named: str, server: str) -> str:
    """Return the URL of metadata that a challenge names: some servers name only its path."""
    try:
        return urljoin(server, named)
    except ValueError:  # The URL policy refuses it, with the reason.
        return named
