"""A person goes to a third party's authorization server; who they are there, and what it gave for them, comes back."""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final
from weakref import WeakValueDictionary

from ..auth.asking import Asking
from ..auth.grants import with_query
from ..auth.metadata import Discovery, Issuer, issuer_urls, read_issuer
from ..auth.policy import UrlPolicy
from ..auth.rules import Asked, check_challenge_method, code_of
from ..auth.store import Registered, Token
from ..auth.tokens import TokenEndpoint
from ..errors import NotAuthorized, Unreachable
from ..exchange import log
from ..faces.sealing import KeyRing, Unsealable
from .records import Grant
from .storage import Storage

_MOST_CHECKED: Final = 10_000  # Grants of which it is remembered when they were checked.
_EARLY: Final = 30.0  # Seconds before its end a third party's token is renewed.


@dataclass(frozen=True, kw_only=True)
class ThirdParty:
    """A third party by which people sign in, and on whose behalf tools may act. `client`: what this server is there,
    the same for all clients here. `who`: asks the third party, with a token of its, who the person is; raises
    NotAuthorized where the token is no longer good. `recheck`: seconds after which it is asked again before one of our
    tokens is honoured. `policy`: which of its URLs are asked."""

    issuer: str
    client: Registered
    who: Callable[[Token], Awaitable[str]] = field(repr=False)
    name: str = "a third party"
    scopes: tuple[str, ...] = ()
    recheck: float = 60.0
    policy: UrlPolicy = UrlPolicy()


class Upstream:
    """One third party, as it is asked. What it gives is kept sealed: whoever has the storage alone, cannot use it."""

    def __init__(
        self, party: ThirdParty, callback: str, storage: Storage, ring: KeyRing, clock: Callable[[], float]
    ) -> None:
        self.party = party
        self._callback = callback
        self._storage = storage
        self._ring = ring
        self._clock = clock
        self._asking = Asking(party.policy)
        self._issuer: Issuer | None = None
        self._checked: dict[str, float] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def begin(self, seal: Callable[[bytes], str], wish: Mapping[str, Any]) -> str:
        """The URL that the browser goes to. `seal` binds what is to come back to this browser. Raises NotAuthorized."""
        issuer = await self._known()
        check_challenge_method(issuer)
        if issuer.authorize is None:
            raise NotAuthorized(f"{issuer.name} has no authorization endpoint")
        verifier = secrets.token_urlsafe(48)
        said = {
            "response_type": "code",
            "client_id": self.party.client.id,
            "redirect_uri": self._callback,
            "state": seal(json.dumps({"wish": wish, "verifier": verifier}).encode()),
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if self.party.scopes:
            said["scope"] = " ".join(self.party.scopes)
        return with_query(self._asking.policy.check(issuer.authorize), said)

    async def finish(self, query: str, state: str, verifier: str) -> tuple[str, Token]:
        """Who came back, and what the third party gave for them. Raises NotAuthorized."""
        issuer = await self._known()
        asked = Asked(issuer, self._callback, state, verifier)
        form = {
            "grant_type": "authorization_code",
            "code": code_of(f"{self._callback}?{query}", asked),
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        token = await self._endpoint(issuer).token(form, self.party.scopes)
        return await self.party.who(token), token

    def seal(self, token: Token, user: str) -> str:
        """What is kept of a third party's token, for one person."""
        return self._ring.seal(json.dumps(asdict(token)).encode(), _bound(user))

    async def token(self, grant: Grant) -> Token | None:
        """What the third party gave for a grant, renewed where it is about to expire, and not taken back since; None
        where it is no longer good, which ends the grant, with all of our tokens of it. Raises Unreachable."""
        lock = self._locks.setdefault(grant.id, asyncio.Lock())
        try:
            async with lock:
                return await self._current(grant)
        except Unreachable:
            raise
        except (NotAuthorized, Unsealable) as fault:
            log.warning("a grant of client %s ends, as the third party's does: %s", grant.client, fault)
            await self._storage.revoke(grant.id)
            self._checked.pop(grant.id, None)
            return None

    async def _current(self, grant: Grant) -> Token:
        # It may have been renewed while this waited.
        grant = await self._storage.grant(grant.id) or grant
        token, now = self._opened(grant), self._clock()
        if token.expires is not None and token.expires - _EARLY <= now:
            if token.refresh is None:
                raise NotAuthorized("the third party's token has expired, and cannot be renewed")
            form = {"grant_type": "refresh_token", "refresh_token": token.refresh}
            token = await self._endpoint(await self._known()).token(form, token.scopes)
            await self._storage.renew(grant.id, self.seal(token, grant.user))
            self._checked.pop(grant.id, None)
        if now - self._checked.get(grant.id, now - self.party.recheck) >= self.party.recheck:
            if await self.party.who(token) != grant.user:
                raise NotAuthorized("the third party's token is another person's now")
            if len(self._checked) >= _MOST_CHECKED:
                self._checked.clear()
            self._checked[grant.id] = now
        return token

    def _endpoint(self, issuer: Issuer) -> TokenEndpoint:
        return TokenEndpoint(self._asking, issuer, self.party.client, None, self._clock)

    def _opened(self, grant: Grant) -> Token:
        if grant.upstream is None:
            raise NotAuthorized("the grant has nothing of the third party")
        said: dict[str, Any] = json.loads(self._ring.open(grant.upstream, _bound(grant.user)))
        said["scopes"] = tuple(said["scopes"])
        return Token(**said)

    async def _known(self) -> Issuer:
        """What the third party says of itself, asked once. Raises NotAuthorized."""
        if self._issuer is None:
            for url in issuer_urls(self.party.issuer, Discovery.BY_RESOURCE):
                said = await self._asking.get(url)
                if said.status == 200:
                    self._issuer = read_issuer(said.body, self.party.issuer, self._asking.policy)
                    return self._issuer
            raise NotAuthorized(f"{self.party.issuer} has no metadata")
        return self._issuer


def _bound(user: str) -> bytes:
    return b"upstream " + user.encode()
