"""Codes, tokens and the clients that show them go in; new tokens, or what a token is worth, come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..exchange import log
from .records import CODE, CREDENTIALS, REFRESH, Client, Error, Grant, Kind, Refused, Secret, digest, new_secret
from .requests import Fields, Wish, is_answered, scopes_of, target
from .storage import Storage

_DAY: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds: a code, an access token, a refresh token that is not used, all that comes of one consent, and a client
    that registered itself and got no token."""

    code: float = 60.0
    access: float = 900.0
    refresh: float = 14 * _DAY
    grant: float = 90 * _DAY
    unused: float = 1 * _DAY


@dataclass(frozen=True, slots=True)
class Worth:
    """What an access token is worth at this moment."""

    grant: Grant
    scopes: tuple[str, ...]
    expires: float


class Tokens:
    """Gives tokens, and knows what they are worth."""

    def __init__(
        self,
        storage: Storage,
        lifetimes: Lifetimes,
        offered: Sequence[str],
        resources: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._lifetimes = lifetimes
        self._offered = offered
        self._resources = resources
        self._clock = clock

    async def code(self, wish: Wish, user: str, upstream: str | None = None) -> str:
        """A code for what a person agreed to: the beginning of a grant."""
        now, code = self._clock(), new_secret()
        end = now + self._lifetimes.grant
        grant = Grant(new_secret(), wish.client, user, wish.scopes, wish.resource, end, upstream)
        until = now + self._lifetimes.code
        first = Secret(digest(code), Kind.CODE, grant.id, until, redirect=wish.redirect, challenge=wish.challenge)
        await self._storage.add_grant(grant, first)
        return code

    async def answer(self, client: Client, said: Fields) -> dict[str, Any]:
        """What the token endpoint answers. Raises Refused."""
        kind = said.get("grant_type", "")
        if kind not in (CODE, REFRESH, CREDENTIALS):
            raise Refused(Error.UNSUPPORTED_GRANT_TYPE, "there are no tokens for this grant_type")
        if kind not in client.grants or (kind == CREDENTIALS and client.secret is None):
            raise Refused(Error.UNAUTHORIZED_CLIENT, "the client may not use this grant_type")
        if kind == CODE:
            return await self._redeem(client, said)
        if kind == REFRESH:
            return await self._refresh(client, said)
        return await self._own(client, said)

    async def worth(self, token: str) -> Worth | None:
        """What an access token is worth; None for nothing."""
        found, now = await self._storage.find(digest(token)), self._clock()
        if found is None or found.kind is not Kind.ACCESS or found.expires <= now:
            return None
        grant = await self._storage.grant(found.grant)
        return None if grant is None or grant.expires <= now else Worth(grant, found.scopes, found.expires)

    async def end(self, client: Client, token: str) -> None:
        """End the grant that a token is of (RFC 7009). Raises Refused for a token of another client."""
        found = await self._storage.find(digest(token))
        grant = await self._storage.grant(found.grant) if found and found.kind is not Kind.CODE else None
        if grant is None:
            return
        if grant.client != client.id:
            raise Refused(Error.INVALID_GRANT, "the token is not this client's to revoke")
        await self._storage.revoke(grant.id)

    # ---- grants -------------------------------------------------------------------------------------------------------

    async def _redeem(self, client: Client, said: Fields) -> dict[str, Any]:
        found, grant = await self._taken(client, said, "code", Kind.CODE)
        fits = said.get("redirect_uri", found.redirect) == found.redirect
        if not fits or not is_answered(found.challenge, said.get("code_verifier", "")):
            # Whoever has a code and not what it is bound to has no second try.
            await self._storage.revoke(grant.id)
            raise Refused(Error.INVALID_GRANT, "the code is bound to another redirect_uri or code_verifier")
        return await self._give(client, grant, grant.scopes)

    async def _refresh(self, client: Client, said: Fields) -> dict[str, Any]:
        found = await self._storage.find(digest(said.get("refresh_token", "")))
        grant = await self._storage.grant(found.grant) if found else None
        # What is asked for is judged first: a mistake in it does not cost the client its token.
        scopes = scopes_of(said.get("scope"), grant.scopes, grant.scopes) if grant else ()
        _, grant = await self._taken(client, said, "refresh_token", Kind.REFRESH)
        return await self._give(client, grant, scopes)

    async def _own(self, client: Client, said: Fields) -> dict[str, Any]:
        scopes = scopes_of(said.get("scope"), client.scopes if client.scopes is not None else (), client.scopes or ())
        end = self._clock() + self._lifetimes.access
        grant = Grant(new_secret(), client.id, client.id, scopes, target(said, self._resources), end)
        await self._storage.add_grant(grant)
        return await self._give(client, grant, scopes, again=False)

    async def _taken(self, client: Client, said: Fields, field: str, kind: Kind) -> tuple[Secret, Grant]:
        """A secret that is used up with this, and its grant. One that was used before ends all that came of it."""
        found, now = await self._storage.find(digest(said.get(field, ""))), self._clock()
        grant = await self._storage.grant(found.grant) if found and found.kind is kind else None
        if found is None or grant is None or grant.client != client.id:
            raise Refused(Error.INVALID_GRANT, f"the {field} is not valid for this client")
        if said.get("resource", grant.resource) != grant.resource:
            raise Refused(Error.INVALID_TARGET, "this was allowed for another resource")
        if not await self._storage.spend(found.digest):
            log.warning("a %s was used twice: all that client %s got with it is void", field, client.id)
            await self._storage.revoke(grant.id)
            raise Refused(Error.INVALID_GRANT, f"the {field} was used before")
        if min(found.expires, grant.expires) <= now:
            raise Refused(Error.INVALID_GRANT, f"the {field} is too old")
        return found, grant

    async def _give(self, client: Client, grant: Grant, scopes: tuple[str, ...], again: bool = True) -> dict[str, Any]:
        now, access, refresh = self._clock(), new_secret(), new_secret()
        end = min(now + self._lifetimes.access, grant.expires)
        kept = [Secret(digest(access), Kind.ACCESS, grant.id, end, scopes)]
        more: Mapping[str, str] = {}
        if again and REFRESH in client.grants:
            until = min(now + self._lifetimes.refresh, grant.expires)
            kept.append(Secret(digest(refresh), Kind.REFRESH, grant.id, until, grant.scopes))
            more = {"refresh_token": refresh}
        if not await self._storage.keep(*kept):
            raise Refused(Error.INVALID_GRANT, "what was allowed was taken back")
        said = {"access_token": access, "token_type": "Bearer", "expires_in": int(end - now), "scope": " ".join(scopes)}
        return {**said, **more}
