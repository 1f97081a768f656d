"""Tokens of users for one server, which a gateway gets for their tokens for the gateway: a token exchange.

RFC 8693: https://www.rfc-editor.org/rfc/rfc8693
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Final
from urllib.parse import urlsplit

import httpx2

from mcp_products.auth.client.storage import OAuthClientInformation, seconds_before_expiry
from mcp_products.auth.client.token_endpoint import TokenEndpoint, seconds_of
from mcp_products.auth.discovery import AuthorizationServerMetadata
from mcp_products.auth.http import AuthHTTPClient, URLPolicy, is_loopback
from mcp_runtime.aio import clock
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.errors import AuthorizationError, LocalError
from mcp_runtime.http.urls import base_url, origin

from .settings import ExchangeSettings

_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
_RENEW_BEFORE: Final = 10.0  # Seconds before its expiry a token is exchanged anew.
_DEFAULT_SECONDS: Final = 300.0  # Seconds that a token is used whose response has no `expires_in`.


class TokenExchange:
    """Exchanges tokens of users at one authorization server for tokens for one server behind the gateway."""

    def __init__(self, server: str, settings: ExchangeSettings) -> None:
        """Create an exchange for the server at a URL. Raises AuthorizationError for an endpoint that may not be used.

        The token endpoint stands in the settings of the gateway, so that it may be at a private address.
        """
        endpoint = settings.token_endpoint
        local = is_loopback(urlsplit(endpoint).hostname or "")
        policy = URLPolicy(local=local, private=frozenset({base_url(endpoint).lower()}))
        policy.check(endpoint)
        client = OAuthClientInformation(settings.client_id, settings.client_secret)
        metadata = AuthorizationServerMetadata(base_url(endpoint), endpoint)
        self.server = server
        self._endpoint = TokenEndpoint(AuthHTTPClient(policy), metadata, client, None)
        self._form = {
            "grant_type": _GRANT,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            **({"resource": server} if settings.audience is None else {"audience": settings.audience}),
            **({} if settings.scope is None else {"scope": settings.scope}),
        }

    async def exchanged(self, subject_token: str) -> tuple[str, float]:
        """Return a token for the server, and the seconds for which it is valid. Raises AuthorizationError."""
        response = await self._endpoint.exchange({**self._form, "subject_token": subject_token})
        token, kind = response.get("access_token"), response.get("token_type")
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
            raise AuthorizationError("the authorization server has exchanged no token")
        if not isinstance(kind, str) or kind.lower() != "bearer" or response.get("issued_token_type") != _ACCESS_TOKEN:
            raise AuthorizationError("the authorization server has exchanged a token of another type")
        if token == subject_token:
            raise AuthorizationError("the authorization server has exchanged a token for itself: it is not passed on")
        return token, seconds_of(response.get("expires_in")) or _DEFAULT_SECONDS


class UserToken(httpx2.Auth):
    """Authorizes the requests of tokens that allow the same with one exchanged token, which it gets when needed."""

    def __init__(self, exchange: TokenExchange) -> None:
        """Create the authorization of a user; `use` has to follow."""
        self._exchange = exchange
        self._subject = ""
        self._expires_at = float("inf")
        self._token: tuple[str, float] | None = None
        self._exchanging: SharedWork[tuple[str, float]] = SharedWork("the token exchange")

    def use(self, subject_token: str, expires_at: float | None) -> None:
        """Use the token that the last request of the user had. Nothing outlives it."""
        self._subject = subject_token
        self._expires_at = float("inf") if expires_at is None else expires_at

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Raise LocalError: synchronous HTTP clients are not supported."""
        raise LocalError("a token exchange needs an asynchronous HTTP client")

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; if the server refuses it, exchange another one once."""
        if origin(str(request.url)) != origin(self._exchange.server):
            yield request
            return
        token, is_new = await self._current()
        request.headers["authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401 and not is_new:
            token, _ = await self._current(refused=token)
            request.headers["authorization"] = f"Bearer {token}"
            yield request

    async def _current(self, refused: str | None = None) -> tuple[str, bool]:
        """Return the token, and whether it was exchanged just now. Raises AuthorizationError."""
        now, token = clock.wall(), self._token
        if self._expires_at <= now:
            raise AuthorizationError("the token of the user has expired")
        if token is not None and token[0] != refused and token[1] > now:
            return token[0], False
        return (await self._exchanging.run(self._exchanged))[0], True

    async def _exchanged(self) -> tuple[str, float]:
        """Return another token, and until when it is used: it outlives no token that it is for.

        It is kept although the requests that wait for it may have ended.
        """
        subject_expires_at = self._expires_at
        token, seconds = await self._exchange.exchanged(self._subject)
        ends = clock.wall() + seconds - seconds_before_expiry(seconds, _RENEW_BEFORE)
        self._token = token, min(ends, subject_expires_at)
        return self._token
