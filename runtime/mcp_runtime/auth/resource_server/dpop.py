"""A proof that a request's sender holds the key of its token goes in; out comes nothing, or why it is none (RFC 9449)."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from ...errors import LocalError
from ...protocol.models import is_object

_ALGORITHMS: Final = ("ES256", "ES384", "PS256", "Ed25519", "EdDSA")
_MAX_PROOF_LENGTH: Final = 8 * 1024
_MAX_ID_LENGTH: Final = 256
_MAX_ENTRIES: Final = 100_000  # Proofs that are remembered at once.
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


class InvalidDPoPProofError(Exception):
    """A proof that is none. `error` is what the challenge says, `nonce` the one that the next proof has to have."""

    def __init__(self, reason: str, error: str = "invalid_dpop_proof", nonce: str | None = None) -> None:
        super().__init__(reason)
        self.error = error
        self.nonce = nonce


class ReplayCache(Protocol):
    """Remembers what may come once only; replicas share one."""

    def add(self, id: str, expires: float) -> bool:
        """Whether this comes for the first time; it is remembered until then, in seconds since the epoch."""
        ...


class InMemoryReplayCache:
    """Remembers in this process, so many at most: what comes beyond is taken for known, which refuses it."""

    def __init__(self, max_entries: int = _MAX_ENTRIES, clock: Callable[[], float] = time.time) -> None:
        self._max_entries = max_entries
        self._clock = clock
        self._expires: dict[str, float] = {}

    def add(self, id: str, expires: float) -> bool:
        if id in self._expires:
            return False
        if len(self._expires) >= self._max_entries:
            now = self._clock()
            self._expires = {each: end for each, end in self._expires.items() if end > now}
            if len(self._expires) >= self._max_entries:
                return False
        self._expires[id] = expires
        return True


class DPoPVerifier:
    """How proofs are checked. `required`: tokens that are not bound to a key are refused. `window`: seconds that the
    clock of a client may differ. `nonces`: proofs have to have a nonce of this server, which is good for one to two
    times `nonce_life` seconds; replicas share the `secret` it is made of, and `seen`."""

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
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not algorithms or any(each == "none" or each.startswith("HS") for each in algorithms):
            raise LocalError("proofs are signed, and never with a key that both sides know (RFC 9449)")
        try:
            import joserfc  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise LocalError("proofs of possession need joserfc: pip install 'mcp-codegen[auth]'") from None
        self.required = required
        self.algorithms = algorithms
        self._nonces = require_nonce
        self._window = max_clock_skew
        self._nonce_life = nonce_lifetime
        self._secret = nonce_secret or secrets.token_bytes(32)
        self._replay_cache = replay_cache or InMemoryReplayCache(clock=clock)
        self._clock = clock

    def check(self, proof: str | None, method: str, url: str, token: str, thumbprint: str) -> None:
        """Raises InvalidDPoPProofError unless the proof is of the key with this thumbprint, for this request with this token, new,
        and with a nonce of this server where that wants one."""
        if not proof or len(proof) > _MAX_PROOF_LENGTH:
            raise InvalidDPoPProofError("there is no proof")
        claims = self._verify_signature(proof, thumbprint)
        if claims.get("htm") != method:
            raise InvalidDPoPProofError("it is for another method")
        if _normalized_url(claims.get("htu")) != _normalized_url(url):
            raise InvalidDPoPProofError("it is for another URL")
        digest = urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        if claims.get("ath") != digest:
            raise InvalidDPoPProofError("it is for another token")
        self._check_replay(claims, thumbprint)

    def _check_replay(self, claims: dict[str, Any], thumbprint: str) -> None:
        now, id = self._clock(), claims.get("jti")
        try:
            at = time_claim(claims, "iat")
        except ValueError:
            at = None
        if at is None or not abs(now - at) <= self._window:
            raise InvalidDPoPProofError("it was not made now")
        if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID_LENGTH:
            raise InvalidDPoPProofError("it has no id")
        if self._nonces and not self._is_own_nonce(claims.get("nonce"), now):
            raise InvalidDPoPProofError("it has no nonce of this server", "use_dpop_nonce", self._nonce(now))
        # The id alone could be chosen so that another client's proof is taken for a replay.
        if not self._replay_cache.add(f"{thumbprint}.{id}", at + 2 * self._window):
            raise InvalidDPoPProofError("it was used before")

    def _verify_signature(self, proof: str, thumbprint: str) -> dict[str, Any]:
        from joserfc import jwk, jws, jwt
        from joserfc.errors import JoseError

        try:
            head = jws.extract_compact(proof.encode("ascii"), registry=_registry(self.algorithms)).headers()
            key: Any = head.get("jwk")
            if head.get("typ") != "dpop+jwt" or head.get("alg") not in self.algorithms or "crit" in head:
                raise InvalidDPoPProofError("its header is not that of a proof")
            if not is_object(key) or key.get("kty") not in ("EC", "RSA", "OKP") or _PRIVATE & key.keys():
                raise InvalidDPoPProofError("it brings no public key")
            public = jwk.import_key(key)
            if not hmac.compare_digest(public.thumbprint(), thumbprint):
                raise InvalidDPoPProofError("it is of another key than the token")
            alg: str = head["alg"]
            claims: dict[str, Any] = jwt.decode(proof, public, [alg], _registry((alg,))).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as fault:
            raise InvalidDPoPProofError(f"it cannot be read: {type(fault).__name__}") from None
        return claims

    def _nonce(self, now: float, earlier: int = 0) -> str:
        turn = int(now // self._nonce_life) - earlier
        return urlsafe_b64encode(hmac.digest(self._secret, b"nonce %d" % turn, "sha256")[:18]).decode()

    def _is_own_nonce(self, nonce: object, now: float) -> bool:
        if not isinstance(nonce, str) or not nonce.isascii():
            return False
        return any(hmac.compare_digest(nonce, self._nonce(now, earlier)) for earlier in (0, 1))


def _registry(algorithms: tuple[str, ...]) -> Any:
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
    registry.max_header_length = _MAX_PROOF_LENGTH
    return registry


def _normalized_url(url: object) -> tuple[str, str, int | None, str] | None:
    """A URL as far as a proof is about it: without query and fragment (RFC 9449 4.3)."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname or "", port, parts.path or "/"


def confirmation_thumbprint(claims: Mapping[str, Any]) -> str | None:
    """The thumbprint of the key that a token is bound to, if it is. Raises ValueError for a claim that is not one."""
    confirmed = claims.get("cnf")
    if confirmed is None:
        return None
    found = confirmed.get("jkt") if is_object(confirmed) else None
    if not isinstance(found, str) or not found:
        raise ValueError(f"cnf is not what can be checked here: {json.dumps(confirmed)[:80]}")
    return found


def time_claim(claims: Mapping[str, Any], name: str) -> float | None:
    """A time of a token, in seconds since the epoch; None where it says none. Raises ValueError for what is no time."""
    value = claims.get(name)
    if value is None:
        return None
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"{name} is no time")
    return found
