"""Codes, tokens and the clients that show them go in; new tokens, or what a token is worth, come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...session.pending import log
from .models import (
    CODE,
    CREDENTIALS,
    REFRESH,
    Grant,
    OAuthClient,
    OAuthError,
    OAuthErrorCode,
    SecretKind,
    StoredSecret,
    digest,
    new_secret,
)
from .requests import (
    Fields,
    AuthorizationRequest,
    parse_resource,
    parse_scopes,
    verify_pkce,
)
from .storage import AuthorizationStorage

_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLifetimes:
    """Seconds: a code, an access token, a refresh token that is not used, all that comes of one consent, and a client
    that registered itself and got no token."""

    code: float = 60.0
    access_token: float = 900.0
    refresh_token: float = 14 * _DAY
    grant: float = 90 * _DAY
    unused_client: float = 1 * _DAY


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What an access token is worth at this moment."""

    grant: Grant
    scopes: tuple[str, ...]
    expires_at: float


class TokenService:
    """Gives tokens, and knows what they are worth."""

    def __init__(
        self,
        storage: AuthorizationStorage,
        lifetimes: TokenLifetimes,
        scopes: Sequence[str],
        resources: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._lifetimes = lifetimes
        self._scopes = scopes
        self._resources = resources
        self._clock = clock

    async def code(self, request: AuthorizationRequest, user: str, upstream: str | None = None) -> str:
        """A code for what a person agreed to: the beginning of a grant."""
        now, code = self._clock(), new_secret()
        end = now + self._lifetimes.grant
        grant = Grant(new_secret(), request.client_id, user, request.scopes, request.resource, end, upstream)
        until = now + self._lifetimes.code
        first = StoredSecret(
            digest(code),
            SecretKind.CODE,
            grant.id,
            until,
            redirect_uri=request.redirect_uri,
            code_challenge=request.code_challenge,
        )
        await self._storage.add_grant(grant, first)
        return code

    async def token_response(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        """What the token endpoint answers. Raises Refused."""
        kind = params.get("grant_type", "")
        if kind not in (CODE, REFRESH, CREDENTIALS):
            raise OAuthError(OAuthErrorCode.UNSUPPORTED_GRANT_TYPE, "there are no tokens for this grant_type")
        if kind not in client.grant_types or (kind == CREDENTIALS and client.secret_digest is None):
            raise OAuthError(OAuthErrorCode.UNAUTHORIZED_CLIENT, "the client may not use this grant_type")
        if kind == CODE:
            return await self._redeem(client, params)
        if kind == REFRESH:
            return await self._refresh(client, params)
        return await self._client_credentials(client, params)

    async def introspect(self, token: str) -> TokenInfo | None:
        """What an access token is worth; None for nothing."""
        found, now = await self._storage.find_secret(digest(token)), self._clock()
        if found is None or found.kind is not SecretKind.ACCESS or found.expires_at <= now:
            return None
        grant = await self._storage.grant(found.grant_id)
        return None if grant is None or grant.expires_at <= now else TokenInfo(grant, found.scopes, found.expires_at)

    async def revoke(self, client: OAuthClient, token: str) -> None:
        """End the grant that a token is of (RFC 7009). Raises Refused for a token of another client."""
        found = await self._storage.find_secret(digest(token))
        grant = await self._storage.grant(found.grant_id) if found and found.kind is not SecretKind.CODE else None
        if grant is None:
            return
        if grant.client_id != client.client_id:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "the token is not this client's to revoke")
        await self._storage.revoke(grant.id)

    # ---- grants -------------------------------------------------------------------------------------------------------

    async def _redeem(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        found, grant = await self._consume(client, params, "code", SecretKind.CODE)
        fits = params.get("redirect_uri", found.redirect_uri) == found.redirect_uri
        if not fits or not verify_pkce(found.code_challenge, params.get("code_verifier", "")):
            # Whoever has a code and not what it is bound to has no second try.
            await self._storage.revoke(grant.id)
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "the code is bound to another redirect_uri or code_verifier")
        return await self._issue(client, grant, grant.scopes)

    async def _refresh(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        found = await self._storage.find_secret(digest(params.get("refresh_token", "")))
        grant = await self._storage.grant(found.grant_id) if found else None
        # What is asked for is judged first: a mistake in it does not cost the client its token.
        scopes = parse_scopes(params.get("scope"), grant.scopes, grant.scopes) if grant else ()
        _, grant = await self._consume(client, params, "refresh_token", SecretKind.REFRESH)
        return await self._issue(client, grant, scopes)

    async def _client_credentials(self, client: OAuthClient, params: Fields) -> dict[str, Any]:
        scopes = parse_scopes(
            params.get("scope"), client.scopes if client.scopes is not None else (), client.scopes or ()
        )
        end = self._clock() + self._lifetimes.access_token
        grant = Grant(new_secret(), client.client_id, client.client_id, scopes, parse_resource(params, self._resources), end)
        await self._storage.add_grant(grant)
        return await self._issue(client, grant, scopes, refreshable=False)

    async def _consume(
        self, client: OAuthClient, params: Fields, field: str, kind: SecretKind
    ) -> tuple[StoredSecret, Grant]:
        """A secret that is used up with this, and its grant. One that was used before ends all that came of it."""
        found, now = await self._storage.find_secret(digest(params.get(field, ""))), self._clock()
        grant = await self._storage.grant(found.grant_id) if found and found.kind is kind else None
        if found is None or grant is None or grant.client_id != client.client_id:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} is not valid for this client")
        if params.get("resource", grant.resource) != grant.resource:
            raise OAuthError(OAuthErrorCode.INVALID_TARGET, "this was allowed for another resource")
        if not await self._storage.consume(found.digest):
            log.warning("a %s was used twice: all that client %s got with it is void", field, client.client_id)
            await self._storage.revoke(grant.id)
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} was used before")
        if min(found.expires_at, grant.expires_at) <= now:
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, f"the {field} is too old")
        return found, grant

    async def _issue(
        self, client: OAuthClient, grant: Grant, scopes: tuple[str, ...], refreshable: bool = True
    ) -> dict[str, Any]:
        now, access, refresh = self._clock(), new_secret(), new_secret()
        end = min(now + self._lifetimes.access_token, grant.expires_at)
        kept = [StoredSecret(digest(access), SecretKind.ACCESS, grant.id, end, scopes)]
        more: Mapping[str, str] = {}
        if refreshable and REFRESH in client.grant_types:
            until = min(now + self._lifetimes.refresh_token, grant.expires_at)
            kept.append(StoredSecret(digest(refresh), SecretKind.REFRESH, grant.id, until, grant.scopes))
            more = {"refresh_token": refresh}
        if not await self._storage.add_secrets(*kept):
            raise OAuthError(OAuthErrorCode.INVALID_GRANT, "what was allowed was taken back")
        said = {"access_token": access, "token_type": "Bearer", "expires_in": int(end - now), "scope": " ".join(scopes)}
        return {**said, **more}
