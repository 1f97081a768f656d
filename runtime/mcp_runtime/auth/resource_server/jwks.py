"""The URL of a key set goes in, or that of its issuer; the keys that a token may be signed with come out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from joserfc import jwk
from joserfc.errors import JoseError

from ...errors import AuthorizationError
from ...protocol.models import is_list, is_object
from ...session.pending import log
from ..http import AuthHTTPClient
from ..metadata import (
    DiscoveryMethod,
    authorization_server_metadata_urls,
    read_authorization_server_metadata,
)

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_FRESH: Final = 3600.0  # Seconds for which a set is not asked for again, but for a key that is not in it.
_STALE: Final = 24 * 3600.0  # And for which it is used where it cannot be had again.
_PAUSE: Final = 15.0  # Seconds between two requests, so that strangers' tokens cause no more.
_MAX_KEYS: Final = 64  # Keys of a set that are looked at.
_MIN_KEY_BITS: Final = 342  # Characters of an RSA key's modulus in Base64: 2048 bits.
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class JWKSClient:
    """The key set of one issuer, asked for when it is first needed and again when it is old or lacks a key."""

    def __init__(self, issuer: str, url: str | None, http: AuthHTTPClient, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._url = url
        self._http = http
        self._clock = clock
        self._keys: dict[str | None, list[PublicKey]] = {}
        self._read = self._last_attempt = float("-inf")
        self._requests = asyncio.Lock()

    async def find(self, kid: str | None, kinds: frozenset[str]) -> list[PublicKey]:
        """The keys of these kinds with this id, or all of these kinds for a token that names none. Raises
        AuthorizationError where there is no set to look in."""
        if self._clock() - self._read > _FRESH or not self._has(kid):
            async with self._requests:
                if self._clock() - self._read > _FRESH or not self._has(kid):
                    await self._refresh()
        found = [key for keys in self._keys.values() for key in keys] if kid is None else self._keys.get(kid, [])
        return [key for key in found if key.key_type in kinds]

    def _has(self, kid: str | None) -> bool:
        return bool(self._keys) if kid is None else kid in self._keys

    async def _refresh(self) -> None:
        now = self._clock()
        fault: Exception = AuthorizationError("the key set could not be had a moment ago")
        if now - self._last_attempt >= _PAUSE:
            self._last_attempt = now
            try:
                self._keys = await self._fetch()
                self._read = self._clock()
                return
            except AuthorizationError as raised:
                fault = raised
                log.warning("the key set of %s cannot be had: %s", self._issuer, raised)
        if now - self._read > _STALE:
            raise fault

    async def _fetch(self) -> dict[str | None, list[PublicKey]]:
        url = self._url or await self._discover()
        said = await self._http.get(url)
        listed = said.body.get("keys") if is_object(said.body) else None
        if said.status != 200 or not is_list(listed):
            raise AuthorizationError(f"there is no key set (status {said.status})")
        found: dict[str | None, list[PublicKey]] = {}
        for each in listed[:_MAX_KEYS]:
            key = read_key(each)
            if key is not None:
                found.setdefault(cast(Mapping[str, Any], each).get("kid"), []).append(key)
        return found

    async def _discover(self) -> str:
        for url in authorization_server_metadata_urls(self._issuer, DiscoveryMethod.PROTECTED_RESOURCE_METADATA):
            said = await self._http.get(url)
            if said.status == 200:
                keys = read_authorization_server_metadata(said.body, self._issuer, self._http.policy).jwks_uri
                if keys is None:
                    raise AuthorizationError(f"{self._issuer} names no key set")
                return keys
        raise AuthorizationError(f"{self._issuer} has no metadata")


def read_key(key_data: object) -> PublicKey | None:
    """A public key for signatures; None for one that is for something else, too weak, or cannot be read."""
    if not is_object(key_data) or key_data.get("use", "sig") != "sig" or _PRIVATE & key_data.keys():
        return None
    operations, kid = key_data.get("key_ops"), key_data.get("kid")
    if operations is not None and not (is_list(operations) and "verify" in operations):
        return None
    if (kid is not None and not isinstance(kid, str)) or len(
        str(key_data.get("n", "n" * _MIN_KEY_BITS))
    ) < _MIN_KEY_BITS:
        return None
    try:
        key = jwk.import_key(key_data)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None if isinstance(key, jwk.OctKey) else key
