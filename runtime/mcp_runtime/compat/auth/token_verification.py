"""`TokenVerifier` of the official SDK, and the protected resource of a server that has one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from ...session.identity import AuthenticatedUser
from .oauth_models import AuthSettings, OfficialAccessToken

if TYPE_CHECKING:
    from ...auth.resource_server.protection import ResourceServer


class OfficialTokenVerifier(Protocol):
    """Verifies access tokens."""

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the token's data; None if it is not valid, or not for this server."""
        ...


class TokenClaims(dict[str, Any]):
    """The claims of a token, with the token as the verifier returned it."""

    def __init__(self, access_token: OfficialAccessToken) -> None:
        super().__init__(access_token.claims or {})
        self.access_token = access_token


class TokenVerifierAdapter:
    """Verifies tokens with a verifier of the official SDK."""

    def __init__(self, verifier: OfficialTokenVerifier, issuer: str, resource: str | None) -> None:
        """Create an adapter.

        Args:
            verifier: The verifier.
            issuer: Issuer identifier of the authorization server.
            resource: The resource that a token has to be for; None if the verifier checks it.
        """
        self._verifier = verifier
        self._issuer = issuer
        self._resource = resource

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not valid, has expired, or is for another resource."""
        access_token = await self._verifier.verify_token(token)
        if access_token is None:
            return None
        if access_token.expires_at is not None and access_token.expires_at < time.time():
            return None
        if self._resource is not None and access_token.resource != self._resource:
            return None
        return AuthenticatedUser(
            access_token.subject,
            access_token.client_id,
            frozenset(access_token.scopes),
            self._issuer,
            TokenClaims(access_token),
            expires_at=access_token.expires_at,
        )


def protected_resource(settings: AuthSettings, verifier: OfficialTokenVerifier, url: str) -> ResourceServer:
    """Return the protected resource of a server. Needs the extras `http` and `auth`.

    `url` is the URL of the server if the settings have none.
    """
    from ...auth.resource_server.protection import ResourceServer

    resource = url if settings.resource_server_url is None else str(settings.resource_server_url)
    checked = resource if settings.validate_token_resource else None
    issuer = str(settings.issuer_url)
    adapter = TokenVerifierAdapter(verifier, issuer, checked)
    return ResourceServer(resource, [issuer], verifier=adapter, scopes=settings.required_scopes or ())


def access_token_of(user: AuthenticatedUser | None) -> OfficialAccessToken | None:
    """Return the access token of a user, as its verifier returned it; None without one."""
    if user is None:
        return None
    return user.claims.access_token if isinstance(user.claims, TokenClaims) else None
