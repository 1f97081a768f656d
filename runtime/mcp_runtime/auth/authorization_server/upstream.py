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

from ...encryption import InvalidTokenError, KeyRing
from ...errors import AuthorizationError, AuthorizationServerUnavailableError
from ...session.pending import log
from ..client.grants import with_query
from ..client.responses import (
    AuthorizationRequest,
    check_challenge_method,
    parse_authorization_response,
)
from ..client.storage import OAuthClientInformation, OAuthToken
from ..client.token_endpoint import TokenEndpoint
from ..http import AuthHTTPClient
from ..metadata import (
    AuthorizationServerMetadata,
    DiscoveryMethod,
    authorization_server_metadata_urls,
    read_authorization_server_metadata,
)
from ..url_policy import URLPolicy
from .models import Grant
from .storage import AuthorizationStorage

_MAX_CHECKED: Final = 10_000  # Grants of which it is remembered when they were checked.
_RENEW_BEFORE_SECONDS: Final = 30.0  # Seconds before its end a third party's token is renewed.


@dataclass(frozen=True, kw_only=True)
class UpstreamProvider:
    """A third party by which people sign in, and on whose behalf tools may act. `client`: what this server is there,
    the same for all clients here. `who`: asks the third party, with a token of its, who the person is; raises
    AuthorizationError where the token is no longer good. `recheck`: seconds after which it is asked again before one of our
    tokens is honoured. `policy`: which of its URLs are asked."""

    issuer: str
    client: OAuthClientInformation
    identify: Callable[[OAuthToken], Awaitable[str]] = field(repr=False)
    name: str = "a third party"
    scopes: tuple[str, ...] = ()
    recheck_seconds: float = 60.0
    policy: URLPolicy = URLPolicy()


class UpstreamClient:
    """One third party, as it is asked. What it gives is kept sealed: whoever has the storage alone, cannot use it."""

    def __init__(
        self,
        provider: UpstreamProvider,
        callback: str,
        storage: AuthorizationStorage,
        key_ring: KeyRing,
        clock: Callable[[], float],
    ) -> None:
        self.provider = provider
        self._callback = callback
        self._storage = storage
        self._key_ring = key_ring
        self._clock = clock
        self._http = AuthHTTPClient(provider.policy)
        self._issuer: AuthorizationServerMetadata | None = None
        self._checked: dict[str, float] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, encrypt: Callable[[bytes], str], request: Mapping[str, Any]) -> str:
        """The URL that the browser goes to. `seal` binds what is to come back to this browser. Raises AuthorizationError."""
        issuer = await self._discover()
        check_challenge_method(issuer)
        if issuer.authorization_endpoint is None:
            raise AuthorizationError(f"{issuer.issuer} has no authorization endpoint")
        verifier = secrets.token_urlsafe(48)
        said = {
            "response_type": "code",
            "client_id": self.provider.client.client_id,
            "redirect_uri": self._callback,
            "state": encrypt(json.dumps({"wish": request, "verifier": verifier}).encode()),
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if self.provider.scopes:
            said["scope"] = " ".join(self.provider.scopes)
        return with_query(self._http.policy.check(issuer.authorization_endpoint), said)

    async def finish(self, query: str, state: str, verifier: str) -> tuple[str, OAuthToken]:
        """Who came back, and what the third party gave for them. Raises AuthorizationError."""
        issuer = await self._discover()
        asked = AuthorizationRequest(issuer, self._callback, state, verifier)
        form = {
            "grant_type": "authorization_code",
            "code": parse_authorization_response(f"{self._callback}?{query}", asked),
            "redirect_uri": self._callback,
            "code_verifier": verifier,
        }
        token = await self._endpoint(issuer).token(form, self.provider.scopes)
        return await self.provider.identify(token), token

    def encrypt(self, token: OAuthToken, user: str) -> str:
        """What is kept of a third party's token, for one person."""
        return self._key_ring.encrypt(json.dumps(asdict(token)).encode(), _associated_data(user))

    async def token(self, grant: Grant) -> OAuthToken | None:
        """What the third party gave for a grant, renewed where it is about to expire, and not taken back since; None
        where it is no longer good, which ends the grant, with all of our tokens of it. Raises AuthorizationServerUnavailableError.
        """
        lock = self._locks.setdefault(grant.id, asyncio.Lock())
        try:
            async with lock:
                return await self._refreshed(grant)
        except AuthorizationServerUnavailableError:
            raise
        except (AuthorizationError, InvalidTokenError) as fault:
            log.warning("a grant of client %s ends, as the third party's does: %s", grant.client_id, fault)
            await self._storage.revoke(grant.id)
            self._checked.pop(grant.id, None)
            return None

    async def _refreshed(self, grant: Grant) -> OAuthToken:
        # It may have been renewed while this waited.
        grant = await self._storage.grant(grant.id) or grant
        token, now = self._decrypt(grant), self._clock()
        if token.expires_at is not None and token.expires_at - _RENEW_BEFORE_SECONDS <= now:
            if token.refresh_token is None:
                raise AuthorizationError("the third party's token has expired, and cannot be renewed")
            form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
            token = await self._endpoint(await self._discover()).token(form, token.scopes)
            await self._storage.update_upstream(grant.id, self.encrypt(token, grant.user))
            self._checked.pop(grant.id, None)
        if now - self._checked.get(grant.id, now - self.provider.recheck_seconds) >= self.provider.recheck_seconds:
            if await self.provider.identify(token) != grant.user:
                raise AuthorizationError("the third party's token is another person's now")
            if len(self._checked) >= _MAX_CHECKED:
                self._checked.clear()
            self._checked[grant.id] = now
        return token

    def _endpoint(self, issuer: AuthorizationServerMetadata) -> TokenEndpoint:
        return TokenEndpoint(self._http, issuer, self.provider.client, None, self._clock)

    def _decrypt(self, grant: Grant) -> OAuthToken:
        if grant.upstream is None:
            raise AuthorizationError("the grant has nothing of the third party")
        said: dict[str, Any] = json.loads(self._key_ring.decrypt(grant.upstream, _associated_data(grant.user)))
        said["scopes"] = tuple(said["scopes"])
        return OAuthToken(**said)

    async def _discover(self) -> AuthorizationServerMetadata:
        """What the third party says of itself, asked once. Raises AuthorizationError."""
        if self._issuer is None:
            for url in authorization_server_metadata_urls(self.provider.issuer, DiscoveryMethod.PROTECTED_RESOURCE_METADATA):
                said = await self._http.get(url)
                if said.status == 200:
                    self._issuer = read_authorization_server_metadata(
                        said.body, self.provider.issuer, self._http.policy
                    )
                    return self._issuer
            raise AuthorizationError(f"{self.provider.issuer} has no metadata")
        return self._issuer


def _associated_data(user: str) -> bytes:
    return b"upstream " + user.encode()
