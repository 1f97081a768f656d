"""The key set of an issuer (https://www.rfc-editor.org/rfc/rfc7517#section-5): fetch it, and find keys in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from joserfc import jwk
from joserfc.errors import JoseError

from ...aio.shared_work import SharedWork
from ...errors import AuthorizationError
from ...protocol.models import is_list, is_object
from ..http import AuthHTTPClient
from ..metadata import (
    ISSUER_MEMBERS,
    DiscoveryMethod,
    authorization_server_metadata_urls,
    read_authorization_server_metadata,
)

_log: Final = logging.getLogger(__name__)

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_FRESH: Final = 3600.0  # Seconds for which a key set is not fetched again, unless it lacks a key.
_STALE: Final = 24 * 3600.0  # Seconds for which it is used if fetching it again fails.
_PAUSE: Final = 15.0  # Seconds between two requests, so that tokens with unknown keys cannot cause more.
_MAX_KEYS: Final = 64  # Keys of a set that are read.
_MIN_MODULUS_LENGTH: Final = 342  # Base64 characters of the modulus of an RSA key of 2048 bits.
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # Members of private keys in a JWK.


class JWKSClient:
    """The key set of one issuer, fetched when it is needed first, and again when it is old or lacks a key."""

    def __init__(self, issuer: str, url: str | None, http: AuthHTTPClient, clock: Callable[[], float]) -> None:
        """Create a client.

        Args:
            issuer: Issuer identifier of the authorization server.
            url: URL of the key set; None for the `jwks_uri` in the metadata of the issuer.
            http: Client for the requests.
            clock: Returns the current time in seconds.
        """
        self._issuer = issuer
        self._url = url
        self._http = http
        self._clock = clock
        self._keys: dict[str | None, list[PublicKey]] = {}
        self._fetched_at = self._last_attempt = float("-inf")
        self._refreshing: SharedWork[None] = SharedWork(f"fetching the key set of {issuer}")

    async def find(self, kid: str | None, key_types: frozenset[str]) -> list[PublicKey]:
        """Return the keys with this id, or all keys if it is None, that are of one of these types.

        Raises AuthorizationError if there is no key set.
        """
        if self._needs_refresh(kid):
            await self._refreshing.run(self._refresh)
        keys = [key for keys in self._keys.values() for key in keys] if kid is None else self._keys.get(kid, [])
        return [key for key in keys if key.key_type in key_types]

    def _needs_refresh(self, kid: str | None) -> bool:
        has_key = bool(self._keys) if kid is None else kid in self._keys
        return self._clock() - self._fetched_at > _FRESH or not has_key

    async def _refresh(self) -> None:
        now = self._clock()
        failure: Exception = AuthorizationError(f"fetching the key set of {self._issuer} failed a moment ago")
        if now - self._last_attempt >= _PAUSE:
            self._last_attempt = now
            try:
                self._keys = await self._fetch()
                self._fetched_at = self._clock()
                return
            except AuthorizationError as error:
                failure = error
                _log.warning("fetching the key set of %s failed: %s", self._issuer, error)
        if now - self._fetched_at > _STALE:
            raise failure

    async def _fetch(self) -> dict[str | None, list[PublicKey]]:
        url = self._url or await self._discover()
        response = await self._http.get(url)
        members = response.body.get("keys") if is_object(response.body) else None
        if response.status != 200 or not is_list(members):
            raise AuthorizationError(f"the response has no key set (status {response.status})")
        keys: dict[str | None, list[PublicKey]] = {}
        for member in members[:_MAX_KEYS]:
            key = read_key(member)
            if key is not None:
                keys.setdefault(cast(Mapping[str, Any], member).get("kid"), []).append(key)
        return keys

    async def _discover(self) -> str:
        urls = authorization_server_metadata_urls(self._issuer, DiscoveryMethod.PROTECTED_RESOURCE_METADATA)
        document, found = await self._http.first_document(urls, ISSUER_MEMBERS)
        if document is None:
            raise AuthorizationError(f"the authorization server {self._issuer} has no metadata (RFC 8414): {found}")
        metadata = read_authorization_server_metadata(document, self._issuer, self._http.policy)
        if metadata.jwks_uri is None:
            raise AuthorizationError(f"the metadata of {self._issuer} has no jwks_uri")
        return metadata.jwks_uri


def read_key(key_data: object) -> PublicKey | None:
    """Return the public signature key of a JWK; None if it has another use, is too weak, or cannot be read."""
    if not is_object(key_data) or key_data.get("use", "sig") != "sig" or _PRIVATE & key_data.keys():
        return None
    operations, kid = key_data.get("key_ops"), key_data.get("kid")
    if operations is not None and not (is_list(operations) and "verify" in operations):
        return None
    if kid is not None and not isinstance(kid, str):
        return None
    if "n" in key_data and len(str(key_data["n"])) < _MIN_MODULUS_LENGTH:
        return None
    try:
        key = jwk.import_key(key_data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None if isinstance(key, jwk.OctKey) else key
