"""`OAuthAuthorizationServerProvider` of the official SDK: the storage and the rules of an authorization server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from typing_extensions import TypeVar

from .oauth_models import (
    AuthorizationParams,
    IdentityAssertionParams,
    OAuthClientInformationFull,
    OfficialAccessToken,
    OfficialOAuthToken,
    StoredAuthorizationCode,
    StoredRefreshToken,
)

CodeT = TypeVar("CodeT", bound=StoredAuthorizationCode, default=StoredAuthorizationCode)
RefreshT = TypeVar("RefreshT", bound=StoredRefreshToken, default=StoredRefreshToken)
AccessT = TypeVar("AccessT", bound=OfficialAccessToken, default=OfficialAccessToken)


@dataclass(frozen=True)
class RegistrationError(Exception):
    """An error of the registration endpoint."""

    error: str
    error_description: str | None = None


@dataclass(frozen=True)
class AuthorizeError(Exception):
    """An error of the authorization endpoint."""

    error: str
    error_description: str | None = None


@dataclass(frozen=True)
class TokenError(Exception):
    """An error of the token endpoint."""

    error: str
    error_description: str | None = None


class OAuthAuthorizationServerProvider(Generic[CodeT, RefreshT, AccessT]):
    """The storage and the rules of an authorization server.

    Its `load_access_token` verifies tokens, by `ProviderTokenVerifier`. The endpoints are those of
    `mcp_generated.auth.AuthorizationServer`, which stores clients and tokens itself.
    """

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client."""
        raise NotImplementedError

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client."""
        raise NotImplementedError

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the URL to redirect the user to."""
        raise NotImplementedError

    async def load_authorization_code(self, client: OAuthClientInformationFull, authorization_code: str) -> Any:
        """Return the data of an authorization code."""
        raise NotImplementedError

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: CodeT
    ) -> OfficialOAuthToken:
        """Return the token for an authorization code."""
        raise NotImplementedError

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> Any:
        """Return the data of a refresh token."""
        raise NotImplementedError

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshT, scopes: list[str]
    ) -> OfficialOAuthToken:
        """Return the token for a refresh token."""
        raise NotImplementedError

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OfficialOAuthToken:
        """Return the token for an identity assertion."""
        raise NotImplementedError

    async def load_access_token(self, token: str) -> AccessT | None:
        """Return the data of an access token; None if it is not valid."""
        raise NotImplementedError

    async def revoke_token(self, token: Any) -> None:
        """Revoke an access token or a refresh token."""
        raise NotImplementedError


class ProviderTokenVerifier:
    """Verifies the tokens of a provider, in the same process."""

    def __init__(self, provider: OAuthAuthorizationServerProvider[Any, Any, Any]) -> None:
        """Create a verifier."""
        self.provider = provider

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the data of an access token; None if it is not valid."""
        access_token: OfficialAccessToken | None = await self.provider.load_access_token(token)
        return access_token


def construct_redirect_uri(redirect_uri_base: str, **params: str | None) -> str:
    """Return a redirect URI with parameters added to its query; those that are None are left out."""
    parts = urlsplit(redirect_uri_base)
    added = [(name, value) for name, value in params.items() if value is not None]
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *added])))


def resource_url_from_server_url(url: Any) -> str:
    """Return the resource indicator of a server's URL: scheme and host in lower case, without a fragment."""
    parts = urlsplit(str(url))
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def check_resource_allowed(requested_resource: str, configured_resource: str) -> bool:
    """Return True if a resource is the configured one, or at a path below it at the same origin."""
    requested, configured = urlsplit(requested_resource), urlsplit(configured_resource)
    if (requested.scheme.lower(), requested.netloc.lower()) != (configured.scheme.lower(), configured.netloc.lower()):
        return False
    return f"{requested.path.rstrip('/')}/".startswith(f"{configured.path.rstrip('/')}/")
