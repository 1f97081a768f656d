"""DPoP proofs at a resource server (https://www.rfc-editor.org/rfc/rfc9449#section-7): verify that the sender of a
request possesses the key that its access token is bound to."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from hashlib import sha256
from heapq import heappop, heappush
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.http.urls import origin
from mcp_runtime.protocol.models import is_object
from mcp_runtime.stores import Store

# The DPoP proofs that were used and the secret of nonces, in the store that the workers of an endpoint share.

_MAX_PROOFS: Final = 10_000  # Proofs of one key that are stored at the same time.
_SECRET_SECONDS: Final = 30 * 86_400.0  # Seconds for which the secret of nonces is stored after its last use.

_ALGORITHMS: Final = ("ES256", "ES384", "PS256", "Ed25519", "EdDSA")
_MAX_PROOF_LENGTH: Final = 8 * 1024
_MAX_ID_LENGTH: Final = 256
_MIN_RSA_BITS: Final = 2048  # https://www.rfc-editor.org/rfc/rfc7518#section-3.3
_MAX_ENTRIES: Final = 100_000  # Proofs that a replay cache stores.
_REPLAYED: Final = "the proof was used before"
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # Members of private keys in a JWK.


class StoreReplayCache:
    """A replay cache in the store of all workers. While the store cannot be reached, no proof is accepted."""

    def __init__(self, store: Store, name: str = "dpop", clock: Callable[[], float] | None = None) -> None:
        """Use a store.

        Args:
            store: The store of all workers.
            name: The beginning of all keys. Default "dpop".
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        self._store = store
        self._name = name
        self._clock = clocks.wall if clock is None else clock
        self._secret: bytes | None = None

    async def add(self, id: str, expires_at: float) -> bool:
        """Store the id of a proof, `<thumbprint of the key>.<jti>`, until a time in seconds since the epoch.

        Return False if it is stored already, or if there are too many of one key. Raises StoreUnavailableError.
        """
        seconds = max(expires_at - self._clock(), 1.0)
        key = id.partition(".")[0]
        if await self._store.count(f"{self._name}:key:{key}", 1, seconds) > _MAX_PROOFS:
            return False
        # With a value of its own, a repeated command sees that it has stored the proof itself.
        name = f"{self._name}:proof:{sha256(id.encode()).hexdigest()}"
        return await self._store.put(name, secrets.token_bytes(16), seconds, None)

    async def nonce_secret(self) -> bytes:
        """Return the secret from which all workers derive nonces. Raises StoreUnavailableError."""
        if self._secret is None:
            key = f"{self._name}:nonce"
            while (secret := await self._store.touch(key, _SECRET_SECONDS)) is None:
                await self._store.put(key, secrets.token_bytes(32), _SECRET_SECONDS, None)
            self._secret = secret
        return self._secret


class InvalidDPoPProofError(Exception):
    """A DPoP proof is not valid. `error` is the error code of the challenge, `nonce` a nonce for the next proof."""

    def __init__(self, reason: str, error: str = "invalid_dpop_proof", nonce: str | None = None) -> None:
        """Create an error.

        Args:
            reason: Reason, for the log.
            error: Error code. Default `invalid_dpop_proof`.
            nonce: Value of the `DPoP-Nonce` header. Default None: the response has none.
        """
        super().__init__(reason)
        self.error = error
        self.nonce = nonce


class ReplayCache(Protocol):
    """The proofs that were used. Replicas of a server share one cache."""

    def add(self, id: str, expires_at: float) -> bool | Awaitable[bool]:
        """Store the id of a proof until a time in seconds since the epoch. Return False if it is stored already."""
        ...


class InMemoryReplayCache:
    """A replay cache in memory. While it is full of valid ids, it rejects new ones: forgetting one would allow a
    replay."""

    def __init__(self, max_entries: int = _MAX_ENTRIES, clock: Callable[[], float] | None = None) -> None:
        """Create an empty cache.

        Args:
            max_entries: Number of ids that are stored at most. Default 100,000.
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        self._max_entries = max_entries
        self._clock = clock or clocks.wall
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}  # The numbers of ids of the keys.
        self._by_expiry: list[tuple[float, str]] = []  # A heap.

    def add(self, id: str, expires_at: float) -> bool:
        """Store the id of a proof, `<thumbprint of the key>.<jti>`, until a time in seconds since the epoch. Return
        False if it is stored already, or if there is no room: one key never takes more than is left for others."""
        now = self._clock()
        while self._by_expiry and self._by_expiry[0][0] <= now:
            self._forget(heappop(self._by_expiry)[1])
        if id in self._ids:
            return False
        key = id.partition(".")[0]
        count, free = self._counts.get(key, 0), self._max_entries - len(self._ids)
        if not 0 < free > count:
            return False
        self._ids.add(id)
        self._counts[key] = count + 1
        heappush(self._by_expiry, (expires_at, id))
        return True

    def _forget(self, id: str) -> None:
        key = id.partition(".")[0]
        self._ids.discard(id)
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]


class DPoPVerifier:
    """Verifies DPoP proofs (https://www.rfc-editor.org/rfc/rfc9449#section-4.3)."""

    def __init__(
        self,
        *,
        required: bool = False,
        require_nonce: bool = False,
        algorithms: tuple[str, ...] = _ALGORITHMS,
        max_clock_skew: float = 60.0,
        nonce_lifetime: float = 300.0,
        nonce_secret: bytes | None = None,
        replay_cache: ReplayCache | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a verifier. Raises LocalError for a symmetric algorithm, and if `joserfc` is not installed.

        Args:
            required: True to reject tokens that are not bound to a key. Default False.
            require_nonce: True to require a nonce of this server in each proof
                (https://www.rfc-editor.org/rfc/rfc9449#section-9). Default False.
            algorithms: Accepted signature algorithms, all asymmetric. Default: ES256, ES384, PS256, Ed25519 and EdDSA.
            max_clock_skew: Seconds by which the `iat` of a proof may differ from the clock. Default 60.
            nonce_lifetime: Seconds for which a nonce is valid; it is accepted for up to twice as long. Default 300.
            nonce_secret: Secret from which nonces are derived; replicas of a server share it. Default: random.
            replay_cache: The proofs that were used; replicas of a server share it. Default: in memory.
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        if not algorithms or any(name == "none" or name.startswith("HS") for name in algorithms):
            raise LocalError(
                "DPoP proofs need at least one algorithm, and asymmetric ones only (RFC 9449, section 4.3)"
            )
        try:
            import joserfc  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ModuleNotFoundError:
            raise LocalError("DPoP needs joserfc: pip install 'mcp-generated[auth]'") from None
        self.required = required
        self.algorithms = algorithms
        self._require_nonce = require_nonce
        self._max_clock_skew = max_clock_skew
        self._nonce_lifetime = nonce_lifetime
        self._has_own_secret = nonce_secret is not None
        self._nonce_secret = nonce_secret or secrets.token_bytes(32)
        self._has_own_cache = replay_cache is not None
        self._replay_cache: ReplayCache = replay_cache or InMemoryReplayCache(clock=clock)
        self._shared: StoreReplayCache | None = None
        self._clock = clock or clocks.wall

    def share(self, store: Store, name: str) -> None:
        """Use the store of all workers of an endpoint, unless this verifier has a replay cache or a secret of its own.

        Args:
            store: The store.
            name: The beginning of the keys in the store.
        """
        self._shared = StoreReplayCache(store, name, self._clock)
        if not self._has_own_cache:
            self._replay_cache = self._shared

    async def verify(self, proof: str | None, method: str, url: str, token: str, thumbprint: str) -> None:
        """Check a proof as `check` does, also with a replay cache that replicas share.

        Raises StoreUnavailableError if that cannot be reached.
        """
        if self._shared is not None and self._require_nonce and not self._has_own_secret:
            self._nonce_secret = await self._shared.nonce_secret()
        added = self._add(proof, method, url, token, thumbprint)
        if not (added if isinstance(added, bool) else await added):
            raise InvalidDPoPProofError(_REPLAYED)

    def check(self, proof: str | None, method: str, url: str, token: str, thumbprint: str) -> None:
        """Raise InvalidDPoPProofError unless the proof is valid: signed with the key of this thumbprint, for this
        method, URL and access token, not used before, and with a nonce if one is required.

        Raises LocalError if the replay cache is one to wait for: `verify` does.
        """
        added = self._add(proof, method, url, token, thumbprint)
        if not isinstance(added, bool):
            if isinstance(added, Coroutine):
                added.close()
            raise LocalError("DPoPVerifier.check() cannot wait for this replay_cache: write `await verifier.verify(…)`")
        if not added:
            raise InvalidDPoPProofError(_REPLAYED)

    def _add(self, proof: str | None, method: str, url: str, token: str, thumbprint: str) -> bool | Awaitable[bool]:
        """Check everything of a proof but that it is used for the first time, which the result says."""
        if not proof or len(proof) > _MAX_PROOF_LENGTH:
            raise InvalidDPoPProofError("the request has no proof, or a proof that is too long")
        claims = self._verify_signature(proof, thumbprint)
        if claims.get("htm") != method:
            raise InvalidDPoPProofError("the proof is for another method")
        if _comparable_url(claims.get("htu")) != _comparable_url(url):
            raise InvalidDPoPProofError("the proof is for another URL")
        digest = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if claims.get("ath") != digest:
            raise InvalidDPoPProofError("the proof is for another token")
        return self._add_claims(claims, thumbprint)

    def _add_claims(self, claims: dict[str, Any], thumbprint: str) -> bool | Awaitable[bool]:
        now, id = self._clock(), claims.get("jti")
        try:
            issued_at = time_claim(claims, "iat")
        except ValueError:
            issued_at = None
        if issued_at is None or not abs(now - issued_at) <= self._max_clock_skew:
            raise InvalidDPoPProofError("the iat of the proof is missing, too old, or in the future")
        if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID_LENGTH:
            raise InvalidDPoPProofError("the proof has no jti, or one that is too long")
        if self._require_nonce and not self._is_own_nonce(claims.get("nonce"), now):
            raise InvalidDPoPProofError("the proof has no nonce of this server", "use_dpop_nonce", self._nonce(now))
        # With the jti only, an attacker could choose one that another client uses, and so have its proof rejected.
        return self._replay_cache.add(f"{thumbprint}.{id}", issued_at + 2 * self._max_clock_skew)

    def _verify_signature(self, proof: str, thumbprint: str) -> dict[str, Any]:
        from joserfc import jwk, jws, jwt
        from joserfc.errors import JoseError

        try:
            header = jws.extract_compact(proof.encode("ascii"), registry=_registry(self.algorithms)).headers()
            key: Any = header.get("jwk")
            if header.get("typ") != "dpop+jwt" or header.get("alg") not in self.algorithms or "crit" in header:
                raise InvalidDPoPProofError("the header of the proof has another typ or alg, or crit")
            if not is_object(key) or key.get("kty") not in ("EC", "RSA", "OKP") or _PRIVATE & key.keys():
                raise InvalidDPoPProofError("the jwk of the proof is not a public key")
            public = jwk.import_key(key)
            if isinstance(public, jwk.RSAKey) and public.raw_value.key_size < _MIN_RSA_BITS:
                raise InvalidDPoPProofError(f"the RSA key of the proof has fewer than {_MIN_RSA_BITS} bits")
            if not hmac.compare_digest(public.thumbprint(), thumbprint):
                raise InvalidDPoPProofError("the proof is signed with another key than the token is bound to")
            alg: str = header["alg"]
            claims: dict[str, Any] = jwt.decode(proof, public, [alg], _registry((alg,))).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidDPoPProofError(f"the proof cannot be read: {type(error).__name__}") from None
        return claims

    def _nonce(self, now: float, age: int = 0) -> str:
        """Return the nonce of the current period, or of the one `age` periods ago."""
        period = int(now // self._nonce_lifetime) - age
        return urlsafe_b64encode(hmac.digest(self._nonce_secret, b"nonce %d" % period, "sha256")[:18]).decode()

    def _is_own_nonce(self, nonce: object, now: float) -> bool:
        if not isinstance(nonce, str) or not nonce.isascii():
            return False
        return any(hmac.compare_digest(nonce, self._nonce(now, age)) for age in (0, 1))


def _registry(algorithms: tuple[str, ...]) -> Any:
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
    registry.max_header_length = _MAX_PROOF_LENGTH
    return registry


def _comparable_url(url: object) -> tuple[tuple[str, str, int | None], str] | None:
    """Return origin and path of a URL: `htu` has neither query nor fragment
    (https://www.rfc-editor.org/rfc/rfc9449#section-4.3)."""
    if not isinstance(url, str):
        return None
    try:
        return origin(url), urlsplit(url).path or "/"
    except ValueError:
        return None


def confirmation_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """Return the thumbprint of the key that a token is bound to; None for a bearer token.

    Raises ValueError for a `cnf` claim without `jkt` (https://www.rfc-editor.org/rfc/rfc9449#section-6.1).
    """
    confirmation = claims.get("cnf")
    if confirmation is None:
        return None
    thumbprint = confirmation.get("jkt") if is_object(confirmation) else None
    if not isinstance(thumbprint, str) or not thumbprint:
        raise ValueError(f"cnf has no jkt: {json.dumps(confirmation)[:80]}")
    return thumbprint


def time_claim(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time claim in seconds since the epoch; None if it is absent. Raises ValueError if it is not a number."""
    value = claims.get(name)
    if value is None:
        return None
    try:
        seconds = math.nan if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise ValueError(f"{name} is not a finite number")
    return seconds
