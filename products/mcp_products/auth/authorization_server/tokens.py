"""Codes and tokens of the authorization server: issue, refresh, introspect and revoke them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .models import (
    CODE,
    CREDENTIALS,
    REFRESH,
    OAuthClient,
    OAuthError,
    OAuthErrorCode,
    SecretKind,
    StoredGrant,
    StoredSecret,
    digest,
    new_secret,
)
from .requests import Fields, PendingAuthorization, parse_resource, parse_scopes, verify_pkce
from .storage import AuthorizationStorage

_log: Final = logging.getLogger("mcp_runtime.auth.authorization_server.tokens")

_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """Lifetimes in seconds.

    Args:
        code: An authorization code. Default 60.
        access_token: An access token. Default 900.
        refresh_token: A refresh token that is not used. Default 14 days.
        grant: A grant, with all of its tokens. Default 90 days.
        unused_client: A registered client that never got a token. Default 1 day.
    """

    code: float = 60.0
    access_token: float = 900.0
    refresh_token: float = 14 * _DAY
    grant: float = 90 * _DAY
    unused_client: float = 1 * _DAY


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """The state of a valid access token.

    Args:
        grant: The grant it belongs to.
        scopes: Scopes of the token.
        expires_at: Time at which it expires, in seconds since the epoch.
    """

    grant: StoredGrant
    scopes: tuple[str, ...]
    expires_at: float


@dataclass(eq=False, repr=False)
class TokenService:
    """Issues, introspects and revokes tokens.

    Args:
        storage: Storage of grants and secrets.
        lifetimes: Lifetimes of codes and tokens.
        resources: Resources that tokens are for; the first one is the default.
        clock: Returns the current time in seconds since the epoch.
    """

    _storage: AuthorizationStorage
    _lifetimes: TokenLifetimes
    _resources: Sequence[str]
    _clock: Callable[[], float]

    async def code(self, id: str, request: PendingAuthorization, user: str, upstream: str | None = None) -> str:
        """Create a grant with this id and return its authorization code.

        `upstream` is the encrypted upstream token, if any. Raises OAuthError if the id is in use: one decision of a
        user makes one grant, also if several processes share the storage.
        """
        if await self._storage.grant(id) is not None:
            raise OAuthError(OAuthErrorCode.ACCESS_DENIED, "this page was used before; start again", 403)
        now, code = self._clock(), new_secret()
        grant = StoredGrant(
            id, request.client_id, user, request.scopes, request.resource, now + self._lifetimes.grant, upstream
        )
        secret = StoredSecret(
            digest(code),
            SecretKind.CODE,
            grant.id,
            now + self._lifetimes.code,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
        )
        await self._storage.add_grant(grant, secret)
        return code

    async def token_response(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        """Return the response to a token request. Raises OAuthError."""
        grant_type = params.get("grant_type", "")
        if grant_type not in (CODE, REFRESH, CREDENTIALS):
            raise OAuthError(
                OAuthErrorCode.UNSUPPORTED_GRANT_TYPE, f"grant_type must be one of {CODE}, {REFRESH}, {CREDENTIALS}"
            )
        if grant_type not in client.grant_types or (grant_type == CREDENTIALS and client.secret_digest is None):
            raise OAuthError(OAuthErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant_type")
        if grant_type == CODE:
            return await self._redeem(client, params)
        if grant_type == REFRESH:
            return await self._refresh(client, params)
        return await self._client_credentials(client, params)

    async def introspect(self, token: str) -> TokenInfo | None:
        """Return the state of an access token; None if it is not valid."""
        secret, now = await self._storage.find_secret(digest(token)), self._clock()
        if secret is None or secret.kind is not SecretKind.ACCESS or secret.expires_at <= now:
            return None
        grant = await self._storage.grant(secret.grant_id)
        return None if grant is None or grant.expires_at <= now else TokenInfo(grant, secret.scopes, secret.expires_at)

    async def revoke(self, client: OAuthClient, token: str) -> None:
        """Revoke the grant of a token (https://www.rfc-editor.org/rfc/rfc7009#section-2.1).

        Raises OAuthError for a token of another client.
        """
        secret = await self._storage.find_secret(digest(token))
        is_token = secret is not None and secret.kind is not SecretKind.CODE
        grant = await self._storage.grant(secret.grant_id) if secret is not None and is_token else None
        if grant is None:
            return
        if grant.client_id != client.client_id:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "the token was issued to another client")
        await self._storage.revoke(grant.id)

    # ---- grant types -------------------------------------------------------------------------------------------------

    async def _redeem(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        secret, grant = await self._consume(client, params, "code", SecretKind.CODE)
        same_redirect = params.get("redirect_uri", secret.redirect_uri) == secret.redirect_uri
        if not same_redirect or not verify_pkce(secret.code_challenge, params.get("code_verifier", "")):
            # The code may be stolen, so there is no second try.
            await self._storage.revoke(grant.id)
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "the code is bound to another redirect_uri or code_verifier")
        return await self._issue(client, grant, grant.scopes)

    async def _refresh(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        secret = await self._storage.find_secret(digest(params.get("refresh_token", "")))
        grant = await self._storage.grant(secret.grant_id) if secret else None
        # Check the scopes before consuming the token, so that a wrong scope does not cost the client its token.
        scopes = parse_scopes(params.get("scope"), grant.scopes, grant.scopes) if grant else ()
        _, grant = await self._consume(client, params, "refresh_token", SecretKind.REFRESH)
        return await self._issue(client, grant, scopes)

    async def _client_credentials(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        allowed = client.scopes or ()
        scopes = parse_scopes(params.get("scope"), allowed, allowed)
        expires_at = self._clock() + self._lifetimes.access_token
        resource = parse_resource(params, self._resources)
        grant = StoredGrant(new_secret(), client.client_id, client.client_id, scopes, resource, expires_at)
        await self._storage.add_grant(grant)
        return await self._issue(client, grant, scopes, refreshable=False)

    async def _consume(
        self, client: OAuthClient, params: Fields, field: str, kind: SecretKind
    ) -> tuple[StoredSecret, StoredGrant]:
        """Consume the secret in a parameter, and return it with its grant.

        A second use revokes the grant: either the client or an attacker has stolen the secret. Raises OAuthError.
        """
        secret, now = await self._storage.find_secret(digest(params.get(field, ""))), self._clock()
        grant = await self._storage.grant(secret.grant_id) if secret and secret.kind is kind else None
        if secret is None or grant is None or grant.client_id != client.client_id:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} is not valid for this client")
        if params.get("resource", grant.resource) != grant.resource:
            raise OAuthError(OAuthErrorCode.INVALID_TARGET, "the grant is for another resource")
        if not await self._storage.consume(secret.digest):
            _log.warning("a %s was used twice: the grant of client %s is revoked", field, client.client_id)
            await self._storage.revoke(grant.id)
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} was used before")
        if min(secret.expires_at, grant.expires_at) <= now:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} has expired")
        return secret, grant

    async def _issue(
        self, client: OAuthClient, grant: StoredGrant, scopes: tuple[str, ...], refreshable: bool = True
    ) -> dict[str, Any]:
        now, access_token = self._clock(), new_secret()
        expires_at = min(now + self._lifetimes.access_token, grant.expires_at)
        secrets = [StoredSecret(digest(access_token), SecretKind.ACCESS, grant.id, expires_at, scopes)]
        response: dict[str, Any] = {
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": int(expires_at - now),
            "scope": " ".join(scopes),
        }
        if refreshable and REFRESH in client.grant_types:
            refresh_token = new_secret()
            refresh_expires_at = min(now + self._lifetimes.refresh_token, grant.expires_at)
            secrets.append(
                StoredSecret(digest(refresh_token), SecretKind.REFRESH, grant.id, refresh_expires_at, grant.scopes)
            )
            response["refresh_token"] = refresh_token
        if not await self._storage.add_secrets(*secrets):
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "the grant was revoked")
        return response
