"""The upstream provider: users sign in at a third party's authorization server, and tools may use its tokens."""

from __future__ import annotations

import json
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final

from mcp_products.common.caches import BoundedCache
from mcp_products.common.keys import KeyRing
from mcp_products.common.shared_works import SharedWorks
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError
from mcp_runtime.server.state_tokens import InvalidTokenError

from ..client.grants import with_query
from ..client.storage import OAuthClientInformation, OAuthToken
from ..client.token_endpoint import (
    AuthorizationRequest,
    TokenEndpoint,
    check_challenge_method,
    parse_authorization_response,
)
from ..discovery import (
    ISSUER_MEMBERS,
    AuthorizationServerMetadata,
    DiscoveryMethod,
    authorization_server_metadata_urls,
    read_authorization_server_metadata,
)
from ..http import AuthHTTPClient, URLPolicy
from .models import StoredGrant
from .storage import AuthorizationStorage

_log: Final = logging.getLogger("mcp_runtime.auth.authorization_server.upstream")

_MAX_CHECKED: Final = 10_000  # Grants for which the last check is cached.
_RENEW_BEFORE_SECONDS: Final = 30.0  # Seconds before its expiry an upstream token is renewed.


@dataclass(frozen=True, kw_only=True)
class UpstreamProvider:
    """A third party where users sign in, and for which tools may use tokens.

    Args:
        issuer: Issuer identifier of the third party's authorization server.
        client: This server as it is registered there; the same for all of its own clients.
        identify: Coroutine function that returns a stable id of the user of an upstream token. It calls the third
            party and raises AuthorizationError if the token is no longer valid.
        name: Name to show to users. Default `a third party`.
        scopes: Scopes to request. Default: none.
        recheck_seconds: Seconds after which `identify` is called again before a token of this server is accepted.
            Default 60.
        policy: URLs that may be requested. Default: public ones.
    """

    issuer: str
    client: OAuthClientInformation
    identify: Callable[[OAuthToken], Awaitable[str]] = field(repr=False)
    name: str = "a third party"
    scopes: tuple[str, ...] = ()
    recheck_seconds: float = 60.0
    policy: URLPolicy = URLPolicy()  # noqa: RUF009 - it is frozen


class UpstreamClient:
    """The client of the upstream provider. Its tokens are stored encrypted, so the storage does not reveal them."""

    def __init__(
        self,
        provider: UpstreamProvider,
        callback: str,
        storage: AuthorizationStorage,
        key_ring: KeyRing,
        clock: Callable[[], float],
    ) -> None:
        """Create a client.

        Args:
            provider: The third party.
            callback: Redirect URI of this server.
            storage: Storage of grants.
            key_ring: Encrypts the tokens in the storage.
            clock: Returns the current time in seconds since the epoch.
        """
        self.provider = provider
        self._callback = callback
        self._storage = storage
        self._key_ring = key_ring
        self._clock = clock
        self._http = AuthHTTPClient(provider.policy)
        self._issuer: AuthorizationServerMetadata | None = None
        # The grants that were checked within `recheck_seconds`.
        self._checked: BoundedCache[str, bool] = BoundedCache(_MAX_CHECKED, ttl=provider.recheck_seconds, clock=clock)
        self._renewing: SharedWorks[str, OAuthToken] = SharedWorks("the renewal of an upstream token")

    async def start(self, encrypt: Callable[[bytes], str], request: Mapping[str, Any], decision: str) -> str:
        """Return the URL to which to redirect the browser. Raises AuthorizationError.

        `encrypt` binds the `state` parameter to the browser; `request` is the authorization request of the client,
        and `decision` the id of the user's consent to it.
        """
        issuer = await self._discover()
        check_challenge_method(issuer)
        if issuer.authorization_endpoint is None:
            raise AuthorizationError(f"the metadata of {issuer.issuer} has no authorization_endpoint")
        verifier = secrets.token_urlsafe(48)
        parameters = {
            "response_type": "code",
            "client_id": self.provider.client.client_id,
            "redirect_uri": self._callback,
            "state": encrypt(
                json.dumps({"request": request, "code_verifier": verifier, "decision": decision}).encode()
            ),
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if self.provider.scopes:
            parameters["scope"] = " ".join(self.provider.scopes)
        return with_query(self._http.policy.check(issuer.authorization_endpoint), parameters)

    async def finish(self, query: str, state: str, code_verifier: str) -> tuple[str, OAuthToken]:
        """Return the user who signed in, and the upstream token. `query` is that of the callback.

        Raises AuthorizationError.
        """
        issuer = await self._discover()
        request = AuthorizationRequest(issuer, self._callback, state, code_verifier)
        form = {
            "grant_type": "authorization_code",
            "code": parse_authorization_response(f"{self._callback}?{query}", request),
            "redirect_uri": self._callback,
            "code_verifier": code_verifier,
        }
        token = await self._endpoint(issuer).token(form, self.provider.scopes)
        return await self.provider.identify(token), token

    def encrypt(self, token: OAuthToken, user: str) -> str:
        """Return the encrypted upstream token of a user."""
        return self._key_ring.encrypt(json.dumps(asdict(token)).encode(), _associated_data(user))

    async def token(self, grant: StoredGrant) -> OAuthToken | None:
        """Return the upstream token of a grant, renewed if it is about to expire.

        If the token is no longer valid, revoke the grant, with all tokens of this server, and return None. Raises
        AuthorizationServerUnavailableError if the third party does not respond.
        """
        try:
            # A refresh token is used once: whoever asks may leave, but the new one has to be stored.
            return await self._renewing.run(grant.id, lambda: self._current_token(grant))
        except AuthorizationServerUnavailableError:
            raise
        except (AuthorizationError, InvalidTokenError) as error:
            _log.warning("a grant of client %s is revoked with its upstream token: %s", grant.client_id, error)
            await self._storage.revoke(grant.id)
            self._checked.remove(grant.id)
            return None

    async def _current_token(self, grant: StoredGrant) -> OAuthToken:
        # Another task may have renewed the token while this one waited for the lock.
        grant = await self._storage.grant(grant.id) or grant
        token, now = self._decrypt(grant), self._clock()
        if token.is_due(now, _RENEW_BEFORE_SECONDS):
            if token.refresh_token is None:
                raise AuthorizationError("the upstream token has expired, and there is no refresh token")
            form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
            token = await self._endpoint(await self._discover()).token(form, token.scopes)
            await self._storage.update_upstream(grant.id, self.encrypt(token, grant.user))
            self._checked.remove(grant.id)
        if self._checked.get(grant.id) is None:
            if await self.provider.identify(token) != grant.user:
                raise AuthorizationError("the upstream token now belongs to another user")
            self._checked.put(grant.id, True)
        return token

    def _endpoint(self, issuer: AuthorizationServerMetadata) -> TokenEndpoint:
        return TokenEndpoint(self._http, issuer, self.provider.client, None, self._clock)

    def _decrypt(self, grant: StoredGrant) -> OAuthToken:
        if grant.upstream is None:
            raise AuthorizationError("the grant has no upstream token")
        fields: dict[str, Any] = json.loads(self._key_ring.decrypt(grant.upstream, _associated_data(grant.user)))
        fields["scopes"] = tuple(fields["scopes"])
        return OAuthToken(**fields)

    async def _discover(self) -> AuthorizationServerMetadata:
        """Return the metadata of the third party, fetched once. Raises AuthorizationError."""
        if self._issuer is None:
            issuer, method = self.provider.issuer, DiscoveryMethod.PROTECTED_RESOURCE_METADATA
            urls = authorization_server_metadata_urls(issuer, method)
            document, found = await self._http.first_document(urls, ISSUER_MEMBERS)
            if document is None:
                raise AuthorizationError(f"the authorization server {issuer} has no metadata (RFC 8414): {found}")
            self._issuer = read_authorization_server_metadata(document, issuer, self._http.policy)
        return self._issuer


def _associated_data(user: str) -> bytes:
    return b"upstream " + user.encode()
