"""A token goes in; whose it is comes out, by the signature of a JWT, or by what its authorization server says of it."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, urlsplit

from ...errors import AuthorizationError, LocalError
from ...protocol.models import is_object
from ...session.identity import AuthenticatedUser
from ...session.pending import log
from ..metadata import base_url
from ..url_policy import URLPolicy, is_loopback
from .claims import ClaimRequirements, InvalidClaimsError, read_user

try:
    from joserfc import jws, jwt
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    from ..http import AuthHTTPClient
    from .jwks import JWKSClient
except ImportError:
    raise LocalError("tokens need joserfc and httpx2: pip install 'mcp-codegen[http,auth]'") from None
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519")
_TYPES: Final = frozenset({"at+jwt", "jwt"})  # Others are of tokens that are no access tokens (RFC 8725 3.11).
_MAX_HEADER_LENGTH: Final = 8 * 1024
_MAX_KEYS: Final = 4  # That are tried for a token which does not name its key.
_MAX_CACHED: Final = 4096
_MAX_CACHE_SECONDS: Final = 60.0  # Seconds for which a signature that was good is not checked again.


class JWTVerifier:
    """Knows the JWTs of one issuer (RFC 9068). `keys` is the URL of its key set, by its metadata if absent. `audience`
    is what tokens have to be for: the URL of the resource, or several names of it. `algorithms` are all asymmetric.
    `leeway`: seconds that clocks may differ. `policy`: which URLs may be asked, public ones and the issuer's origin
    if absent. Raises LocalError for algorithms that cannot be checked with public keys."""

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = _ALGORITHMS,
        leeway: float = 30.0,
        policy: URLPolicy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        unknown = [each for each in algorithms if each not in _KINDS]
        if unknown or not algorithms:
            raise LocalError(f"tokens are signed with one of {', '.join(_KINDS)}; {', '.join(unknown)} is none of them")
        self._algorithms = frozenset(algorithms)
        self._required = ClaimRequirements(issuer, _audiences(audience), leeway)
        self._cache = _TokenCache(_MAX_CACHE_SECONDS, leeway, clock)
        self._clock = clock
        self._keys = JWKSClient(issuer, jwks_uri, AuthHTTPClient(policy or _policy(issuer, jwks_uri)), clock)

    async def verify(self, token: str) -> AuthenticatedUser | None:
        known = self._cache.get(token)
        if known is not None:
            return known[0]
        try:
            user = read_user(await self._verify_signature(token), self._required, self._clock(), token)
            self._cache.put(token, user)
            return user
        except InvalidClaimsError as why:
            log.info("a token is refused: %s", why)
            return None

    async def _verify_signature(self, token: str) -> Mapping[str, Any]:
        """The claims, once the signature is good. Nothing that the token says of keys is heeded but the id of one."""
        try:
            found = jws.extract_compact(token.encode("ascii"), registry=_registry(self._algorithms))
            head, claims = found.headers(), json.loads(found.payload)
        except (JoseError, ValueError, RecursionError):
            raise InvalidClaimsError("it is no JWT") from None
        if not is_object(claims) or claims.get("iss") != self._required.issuer:
            raise InvalidClaimsError("it is of another issuer")  # Whose keys are not worth a request.
        alg, kid, kind = head.get("alg"), head.get("kid"), head.get("typ", "jwt")
        if not isinstance(alg, str) or alg not in self._algorithms:
            raise InvalidClaimsError("its algorithm is not one of those allowed")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES or "crit" in head:
            raise InvalidClaimsError("it is no access token")
        if kid is not None and not isinstance(kid, str):
            raise InvalidClaimsError("its kid is no text")
        for key in (await self._keys.find(kid, frozenset({_KINDS[alg]})))[:_MAX_KEYS]:
            try:
                return jwt.decode(token, key, [alg], _registry({alg})).claims
            except (JoseError, ValueError, TypeError, RecursionError):
                continue
        raise InvalidClaimsError("no key of the issuer has signed it")


class IntrospectionVerifier:
    """Asks an authorization server about each token (RFC 7662), as the client `client_id` with its `secret`. Answers
    are kept for `kept` seconds, or until the token ends. A token for no audience, or another one, is refused; None for
    servers that say none because they know this resource alone. `issuer`: checked where the answer says one."""

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        audience: str | Sequence[str] | None,
        issuer: str | None = None,
        cache_ttl: float = 30.0,
        leeway: float = 30.0,
        policy: URLPolicy | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        both = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
        self._headers = {"authorization": f"Basic {b64encode(both.encode()).decode()}"}
        audiences = None if audience is None else _audiences(audience)
        self._required = ClaimRequirements(issuer, audiences, leeway, require_all=False)
        self._http = AuthHTTPClient(policy or _policy(url))
        self._clock = clock
        self._cache = _TokenCache(cache_ttl, leeway, clock)

    async def verify(self, token: str) -> AuthenticatedUser | None:
        known = self._cache.get(token)
        if known is not None:
            return known[0]
        claims = await self._introspect(token)
        try:
            user = read_user(claims, self._required, self._clock(), token) if claims is not None else None
        except InvalidClaimsError as why:
            log.info("a token is refused: %s", why)
            user = None
        self._cache.put(token, user)
        return user

    async def _introspect(self, token: str) -> Mapping[str, Any] | None:
        said = await self._http.post_form(self._url, {"token": token, "token_type_hint": "access_token"}, self._headers)
        if said.status != 200 or not is_object(said.body):
            raise AuthorizationError(f"introspection is answered with status {said.status}")
        return said.body if said.body.get("active") is True else None


class _TokenCache:
    """What was found out about tokens, by their digests, for some seconds or until the token ends."""

    def __init__(self, seconds: float, leeway: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._leeway = leeway
        self._clock = clock
        self._users: OrderedDict[bytes, tuple[float, AuthenticatedUser | None]] = OrderedDict()

    def get(self, token: str) -> tuple[AuthenticatedUser | None] | None:
        """Whose it is, or that it is not good; None where that is not known, or not any more."""
        until, user = self._users.get(sha256(token.encode()).digest(), (float("-inf"), None))
        return (user,) if self._clock() < until else None

    def put(self, token: str, user: AuthenticatedUser | None) -> None:
        expires = None if user is None else user.expires_at
        until = self._clock() + self._seconds
        digest = sha256(token.encode()).digest()
        self._users[digest] = until if expires is None else min(until, expires + self._leeway), user
        self._users.move_to_end(digest)
        if len(self._users) > _MAX_CACHED:
            self._users.popitem(last=False)


class AnyVerifier:
    """Knows the tokens that one of several verifiers knows, asked in this order."""

    def __init__(self, *verifiers: TokenVerifier) -> None:
        self._verifiers = verifiers

    async def verify(self, token: str) -> AuthenticatedUser | None:
        for each in self._verifiers:
            user = await each.verify(token)
            if user is not None:
                return user
        return None


def _audiences(audience: str | Sequence[str]) -> frozenset[str]:
    found = frozenset([audience] if isinstance(audience, str) else audience)
    if not found:
        raise LocalError("tokens are for somebody: an audience is needed")
    return found


def _policy(*urls: str | None) -> URLPolicy:
    """What was configured here may be asked wherever it is."""
    named = [url for url in urls if url is not None]
    local = any(is_loopback(urlsplit(url).hostname or "") for url in named)
    return URLPolicy(local=local, private=frozenset(base_url(url).lower() for url in named))


def _registry(algorithms: frozenset[str] | set[str]) -> JWSRegistry:
    registry = JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
    registry.max_header_length = _MAX_HEADER_LENGTH
    return registry


class TokenVerifier(Protocol):
    """Knows good tokens."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Whose token it is; None where it is not good, or not for this server. Whatever is raised means that nobody
        can tell now (HTTP 503)."""
        ...
