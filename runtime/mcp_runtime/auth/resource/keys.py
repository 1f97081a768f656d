"""The URL of a key set goes in, or that of its issuer; the keys that a token may be signed with come out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from joserfc import jwk
from joserfc.errors import JoseError

from ...errors import NotAuthorized
from ...exchange import log
from ...wire import is_list, is_object
from ..asking import Asking
from ..metadata import Discovery, issuer_urls, read_issuer

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_FRESH: Final = 3600.0  # Seconds for which a set is not asked for again, but for a key that is not in it.
_STALE: Final = 24 * 3600.0  # And for which it is used where it cannot be had again.
_PAUSE: Final = 15.0  # Seconds between two requests, so that strangers' tokens cause no more.
_MOST: Final = 64  # Keys of a set that are looked at.
_SMALLEST: Final = 342  # Characters of an RSA key's modulus in Base64: 2048 bits.
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class Keys:
    """The key set of one issuer, asked for when it is first needed and again when it is old or lacks a key."""

    def __init__(self, issuer: str, url: str | None, asking: Asking, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._url = url
        self._asking = asking
        self._clock = clock
        self._keys: dict[str | None, list[PublicKey]] = {}
        self._read = self._tried = float("-inf")
        self._asks = asyncio.Lock()

    async def find(self, kid: str | None, kinds: frozenset[str]) -> list[PublicKey]:
        """The keys of these kinds with this id, or all of these kinds for a token that names none. Raises
        NotAuthorized where there is no set to look in."""
        if self._clock() - self._read > _FRESH or not self._has(kid):
            async with self._asks:
                if self._clock() - self._read > _FRESH or not self._has(kid):
                    await self._refresh()
        found = [key for keys in self._keys.values() for key in keys] if kid is None else self._keys.get(kid, [])
        return [key for key in found if key.key_type in kinds]

    def _has(self, kid: str | None) -> bool:
        return bool(self._keys) if kid is None else kid in self._keys

    async def _refresh(self) -> None:
        now = self._clock()
        fault: Exception = NotAuthorized("the key set could not be had a moment ago")
        if now - self._tried >= _PAUSE:
            self._tried = now
            try:
                self._keys = await self._ask()
                self._read = self._clock()
                return
            except NotAuthorized as raised:
                fault = raised
                log.warning("the key set of %s cannot be had: %s", self._issuer, raised)
        if now - self._read > _STALE:
            raise fault

    async def _ask(self) -> dict[str | None, list[PublicKey]]:
        url = self._url or await self._discovered()
        said = await self._asking.get(url)
        listed = said.body.get("keys") if is_object(said.body) else None
        if said.status != 200 or not is_list(listed):
            raise NotAuthorized(f"there is no key set (status {said.status})")
        found: dict[str | None, list[PublicKey]] = {}
        for each in listed[:_MOST]:
            key = read_key(each)
            if key is not None:
                found.setdefault(cast(Mapping[str, Any], each).get("kid"), []).append(key)
        return found

    async def _discovered(self) -> str:
        for url in issuer_urls(self._issuer, Discovery.BY_RESOURCE):
            said = await self._asking.get(url)
            if said.status == 200:
                keys = read_issuer(said.body, self._issuer, self._asking.policy).keys
                if keys is None:
                    raise NotAuthorized(f"{self._issuer} names no key set")
                return keys
        raise NotAuthorized(f"{self._issuer} has no metadata")


def read_key(said: object) -> PublicKey | None:
    """A public key for signatures; None for one that is for something else, too weak, or cannot be read."""
    if not is_object(said) or said.get("use", "sig") != "sig" or _PRIVATE & said.keys():
        return None
    operations, kid = said.get("key_ops"), said.get("kid")
    if operations is not None and not (is_list(operations) and "verify" in operations):
        return None
    if (kid is not None and not isinstance(kid, str)) or len(str(said.get("n", "n" * _SMALLEST))) < _SMALLEST:
        return None
    try:
        key = jwk.import_key(said)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None if isinstance(key, jwk.OctKey) else key
