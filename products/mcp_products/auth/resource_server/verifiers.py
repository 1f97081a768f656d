"""Token verifiers: find the user of an access token, by the signature of a JWT or by introspection."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, Protocol, cast
from urllib.parse import quote_plus, urlsplit

from joserfc import jwk
from joserfc.errors import JoseError

from mcp_products.common.caches import BoundedCache
from mcp_runtime.aio import clock as clocks
from mcp_runtime.aio.shared_work import SharedWork
from mcp_runtime.errors import AuthorizationError, LocalError, NotInstalledError
from mcp_runtime.http.urls import base_url
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.session.interfaces import AuthenticatedUser
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import NAME, TEXT, Rule, check_values, is_number

from ..discovery import (
    ISSUER_MEMBERS,
    DiscoveryMethod,
    authorization_server_metadata_urls,
    is_same_issuer,
    read_authorization_server_metadata,
)
from ..http import TEXTS, AuthHTTPClient, SharedRequests, URLPolicy, is_loopback, methods
from .dpop import confirmation_thumbprint, time_claim

# The key set of an issuer (https://www.rfc-editor.org/rfc/rfc7517#section-5): fetch it, and find keys in it.

PublicKey = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_FRESH: Final = 3600.0  # Seconds for which a key set is not fetched again, unless it lacks a key.
_STALE: Final = 24 * 3600.0  # Seconds for which it is used if fetching it again fails.
_PATIENCE: Final = 2.0  # Seconds that a token waits for a new key set while the old one has its key.
_PAUSE: Final = 15.0  # Seconds between two requests, so that tokens with unknown keys cannot cause more.
_JWKS_MAX_KEYS: Final = 64  # Keys of a set that are read.
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
            await self._refresh_together(kid)
        keys = [key for keys in self._keys.values() for key in keys] if kid is None else self._keys.get(kid, [])
        return [key for key in keys if key.key_type in key_types]

    def _needs_refresh(self, kid: str | None) -> bool:
        return self._clock() - self._fetched_at > _FRESH or not self._has_key(kid)

    def _has_key(self, kid: str | None) -> bool:
        return bool(self._keys) if kid is None else kid in self._keys

    async def _refresh_together(self, kid: str | None) -> None:
        """Fetch the key set, and wait for it as long as there is no key to go on with. An issuer that does not answer
        then delays the request that asks it first, and no other."""
        if not self._has_key(kid) or self._clock() - self._fetched_at > _STALE:
            return await self._refreshing.run(self._refresh)
        if not self._refreshing.is_running:
            await asyncio.wait([self._refreshing.begin(self._refresh)], timeout=_PATIENCE)

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
        for member in members[:_JWKS_MAX_KEYS]:
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


# Claims of an access token, from a JWT or from introspection: check them, and read the user.


class InvalidClaimsError(Exception):
    """A token is not valid for this resource. The text is for the log and contains nothing of the token."""


@dataclass(frozen=True, slots=True)
class ClaimRequirements:
    """The claims that a valid token has.

    Args:
        issuer: The exact `iss`; None if it is not checked.
        audiences: Accepted values of `aud`; None if it is not checked.
        leeway: Seconds by which clocks may differ.
        require_all: True if `exp` and the checked `iss` must be present. Default True.
        audience_claim: The claim that has the audience. Default `aud`.
    """

    issuer: str | None
    audiences: frozenset[str] | None
    leeway: float
    require_all: bool = True
    audience_claim: str = "aud"


def read_user(claims: Mapping[str, Any], required: ClaimRequirements, now: float, token: str) -> AuthenticatedUser:
    """Return the user of a token. Raises InvalidClaimsError. `now` is in seconds since the epoch."""
    issuer = claims.get("iss")
    is_other = not isinstance(issuer, str) or not is_same_issuer(issuer, required.issuer or "")
    if required.issuer is not None and is_other and (required.require_all or issuer is not None):
        raise InvalidClaimsError("the token has another issuer")
    if required.audiences is not None and not required.audiences & _strings(
        claims, required.audience_claim, split=False
    ):
        raise InvalidClaimsError("the token is for another audience")
    _check_times(claims, required, now)
    subject, client_id = _string(claims, "sub"), _string(claims, "client_id") or _string(claims, "azp")
    if not subject and not client_id:
        raise InvalidClaimsError("the token has neither sub nor client_id")
    scopes = _strings(claims, "scope") or _strings(claims, "scp")
    try:
        thumbprint = confirmation_thumbprint(claims)
    except ValueError:
        raise InvalidClaimsError("the token is bound to a key by a confirmation method other than jkt") from None
    # Some introspection responses repeat the token.
    public = {name: value for name, value in claims.items() if value != token}
    return AuthenticatedUser(
        subject, client_id, scopes, required.issuer or str(issuer or ""), public, thumbprint, _time(claims, "exp")
    )


def _check_times(claims: Mapping[str, Any], required: ClaimRequirements, now: float) -> None:
    exp, nbf, iat = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if exp is None and required.require_all:
        raise InvalidClaimsError("the token has no exp")
    if exp is not None and not now < exp + required.leeway:
        raise InvalidClaimsError("the token has expired")
    if any(start is not None and not start - required.leeway <= now for start in (nbf, iat)):
        raise InvalidClaimsError("the token is not valid yet")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    try:
        return time_claim(claims, name)
    except ValueError as error:
        raise InvalidClaimsError(str(error)) from None


def _string(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidClaimsError(f"{name} is not a string")
    return value


def _strings(claims: Mapping[str, Any], name: str, split: bool = True) -> frozenset[str]:
    """Return the items of a list claim. A string counts as a list of words, or with `split=False` as one item."""
    value: object = claims.get(name)
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset(value.split() if split else [value])
    if not is_list(value) or not all(isinstance(item, str) for item in value):
        raise InvalidClaimsError(f"{name} is not a list of strings")
    return frozenset(cast(list[str], value))


try:
    from joserfc import jws, jwt
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    from ..http import AuthHTTPClient
except ModuleNotFoundError:
    raise NotInstalledError("token verifiers need joserfc and httpx2: pip install 'mcp-generated[http,auth]'") from None
_log: Final = logging.getLogger("mcp_runtime.auth.resource_server.verifiers")

_KEY_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519")
_TYPES: Final = frozenset({"at+jwt", "jwt"})  # Other types are not access tokens (RFC 8725, section 3.11).
_MAX_HEADER_LENGTH: Final = 8 * 1024
_MAX_KEYS: Final = 4  # Keys that are tried for a token without a key id.
_MAX_CACHED: Final = 4096
_MAX_INTROSPECTIONS: Final = 32  # Requests of introspection at the same time.
_INTROSPECTION_SECONDS: Final = 10.0  # Seconds for one, the time that it waits for others included.
_MAX_CACHE_SECONDS: Final = 60.0  # Seconds for which a valid signature is not checked again.


class TokenVerifier(Protocol):
    """Verifies access tokens."""

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not valid, or not for this resource.

        An exception means that the token cannot be verified at present; the request then gets status 503.
        """
        ...


_SECONDS: Final = Rule(lambda value: is_number(value) and value >= 0, "a number of seconds from 0")
_AUDIENCE: Final = Rule(
    lambda value: NAME.accepts(value) or (bool(value) and TEXTS.accepts(value) and all(map(NAME.accepts, value))),
    "the URL of the resource, or a list of its names, none of them empty",
)
VERIFIER: Final = methods("verify", expected='a verifier of tokens, such as JWTVerifier("https://login.example", …)')


class JWTVerifier:
    """Verifies the JWT access tokens of one issuer (https://www.rfc-editor.org/rfc/rfc9068#section-4)."""

    @checked(
        rules={"issuer": NAME, "audience": _AUDIENCE, "audience_claim": NAME, "algorithms": TEXTS, "leeway": _SECONDS}
    )
    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        audience_claim: str = "aud",
        jwks_uri: str | None = None,
        algorithms: Sequence[str] = _ALGORITHMS,
        leeway: float = 30.0,
        policy: URLPolicy | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a verifier. Raises LocalError for an unknown or symmetric algorithm, and without an audience.

        Args:
            issuer: Issuer identifier of the authorization server.
            audience: Accepted audiences: the URL of the resource, or several names of it.
            audience_claim: The claim that has the audience. Default `aud`. With `client_id`, for issuers whose tokens
                have no `aud`, the audience is the client whose tokens are for this resource only.
            jwks_uri: URL of the key set. Default: the `jwks_uri` in the metadata of the issuer.
            algorithms: Accepted signature algorithms, all asymmetric. Default: RS256, PS256, ES256, ES384, EdDSA and
                Ed25519.
            leeway: Seconds by which clocks may differ. Default 30.
            policy: URLs that may be requested. Default: public ones, and the origins of `issuer` and `jwks_uri`.
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        unknown = [name for name in algorithms if name not in _KEY_TYPES]
        if unknown or not algorithms:
            raise LocalError(
                f"unsupported signature algorithms: {', '.join(unknown) or 'none given'}; use any of "
                f"{', '.join(_KEY_TYPES)}"
            )
        self._algorithms = frozenset(algorithms)
        self._required = ClaimRequirements(issuer, _audiences(audience), leeway, audience_claim=audience_claim)
        self._clock = clock or clocks.wall
        self._cache = _TokenCache(_MAX_CACHE_SECONDS, leeway, self._clock)
        self._keys = JWKSClient(issuer, jwks_uri, AuthHTTPClient(policy or _policy(issuer, jwks_uri)), self._clock)

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not valid. Raises AuthorizationError without a key set."""
        cached = self._cache.get(token)
        if cached is not None:
            return cached[0]
        try:
            user = read_user(await self._verify_signature(token), self._required, self._clock(), token)
            self._cache.put(token, user)
            return user
        except InvalidClaimsError as error:
            _log.info("a token was rejected: %s", error)
            return None

    async def _verify_signature(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token after verifying its signature.

        Of the header's parameters about keys only `kid` is used: the others could name an attacker's key.
        """
        try:
            compact = jws.extract_compact(token.encode("ascii"), registry=_registry(self._algorithms))
            header, claims = compact.headers(), json.loads(compact.payload)
        except (JoseError, ValueError, RecursionError):
            raise InvalidClaimsError("the token is not a JWT") from None
        # Checked before the signature, so that tokens of other issuers cause no request for keys.
        if not is_object(claims) or not is_same_issuer(str(claims.get("iss")), self._required.issuer or ""):
            raise InvalidClaimsError("the token has another issuer")
        alg, kid, token_type = header.get("alg"), header.get("kid"), header.get("typ", "jwt")
        if not isinstance(alg, str) or alg not in self._algorithms:
            raise InvalidClaimsError("the signature algorithm of the token is not accepted")
        if (
            not isinstance(token_type, str)
            or token_type.lower().removeprefix("application/") not in _TYPES
            or "crit" in header
        ):
            raise InvalidClaimsError("the JWT is not an access token")
        if kid is not None and not isinstance(kid, str):
            raise InvalidClaimsError("the kid of the token is not a string")
        for key in (await self._keys.find(kid, frozenset({_KEY_TYPES[alg]})))[:_MAX_KEYS]:
            try:
                return jwt.decode(token, key, [alg], _registry({alg})).claims
            except (JoseError, ValueError, TypeError, RecursionError):
                continue
        raise InvalidClaimsError("the token is signed with no key of the issuer")


class IntrospectionVerifier:
    """Verifies tokens by introspection at their authorization server
    (https://www.rfc-editor.org/rfc/rfc7662#section-2)."""

    @checked(
        rules={
            **dict.fromkeys(("url", "client_id"), NAME),
            "client_secret": Rule(TEXT.accepts, "a string", is_secret=True),
            "audience": _AUDIENCE.or_none(),
            **dict.fromkeys(("cache_ttl", "leeway"), _SECONDS),
        }
    )
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
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a verifier.

        Args:
            url: URL of the introspection endpoint.
            client_id: Client identifier of this resource server.
            client_secret: Client secret of this resource server.
            audience: Accepted audiences: the URL of the resource, or several names of it. None if the server has tokens
                for this resource only and reports no audience.
            issuer: Issuer identifier, compared with `iss` if the response has it. Default None: not compared.
            cache_ttl: Seconds for which a response is cached, at most until the token expires. Default 30.
            leeway: Seconds by which clocks may differ. Default 30.
            policy: URLs that may be requested. Default: public ones, and the origin of `url`.
            clock: Returns the current time in seconds since the epoch. Default: that of the runtime.
        """
        self._url = url
        credentials = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
        self._headers = {"authorization": f"Basic {b64encode(credentials.encode()).decode()}"}
        audiences = None if audience is None else _audiences(audience)
        self._required = ClaimRequirements(issuer, audiences, leeway, require_all=False)
        self._http = AuthHTTPClient(policy or _policy(url))
        self._clock = clock or clocks.wall
        self._cache = _TokenCache(cache_ttl, leeway, self._clock)
        self._requests: SharedRequests[bytes, Mapping[str, Any] | None] = SharedRequests(
            _MAX_INTROSPECTIONS, seconds=_INTROSPECTION_SECONDS
        )

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not valid. Raises AuthorizationError if introspection fails."""
        cached = self._cache.get(token)
        if cached is not None:
            return cached[0]
        try:
            claims = await self._requests.run(sha256(token.encode()).digest(), partial(self.introspect, token))
        except TimeoutError:
            reason = f"the introspection endpoint did not respond within {_INTROSPECTION_SECONDS:g} seconds"
            raise AuthorizationError(reason) from None
        try:
            user = read_user(claims, self._required, self._clock(), token) if claims is not None else None
        except InvalidClaimsError as error:
            _log.info("a token was rejected: %s", error)
            user = None
        self._cache.put(token, user)
        return user

    async def introspect(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token, None if it is not active. Raises AuthorizationError if the server cannot say.

        Override it for servers that say it in another form than that of RFC 7662.
        """
        form = {"token": token, "token_type_hint": "access_token"}
        response = await self._http.post_form(self._url, form, self._headers)
        if response.status != 200 or not is_object(response.body):
            raise AuthorizationError(f"the introspection endpoint responded with status {response.status}")
        return response.body if response.body.get("active") is True else None


class _TokenCache:
    """The users of verified tokens, by digest, until the token expires or the entry is too old."""

    def __init__(self, ttl: float, leeway: float, clock: Callable[[], float]) -> None:
        self._leeway = leeway
        self._clock = clock
        self._users: BoundedCache[bytes, tuple[AuthenticatedUser | None]] = BoundedCache(
            _MAX_CACHED, ttl=ttl, clock=clock
        )

    def get(self, token: str) -> tuple[AuthenticatedUser | None] | None:
        """Return the cached user in a tuple (None for an invalid token), or None if nothing is cached."""
        return self._users.get(sha256(token.encode()).digest())

    def put(self, token: str, user: AuthenticatedUser | None) -> None:
        expires_at = None if user is None else user.expires_at
        ttl = None if expires_at is None else expires_at + self._leeway - self._clock()
        self._users.put(sha256(token.encode()).digest(), (user,), ttl=ttl)


class AnyVerifier:
    """Accepts the tokens that one of several verifiers accepts."""

    def __init__(self, *verifiers: TokenVerifier) -> None:
        """Create a verifier.

        Args:
            verifiers: The verifiers, used in this order.
        """
        for verifier in verifiers:
            check_values("AnyVerifier", {"verifiers": verifier}, {"verifiers": VERIFIER})
        self._verifiers = verifiers

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if no verifier accepts it. Raises what a verifier raises that cannot say,
        unless another one accepts the token."""
        failure: Exception | None = None
        for verifier in self._verifiers:
            try:
                user = await verifier.verify(token)
            except Exception as error:
                failure = failure or error
                continue
            if user is not None:
                return user
        if failure is not None:
            raise failure
        return None


def _audiences(audience: str | Sequence[str]) -> frozenset[str]:
    audiences = frozenset([audience] if isinstance(audience, str) else audience)
    if not audiences:
        raise LocalError("a token verifier needs at least one audience")
    return audiences


def _policy(*urls: str | None) -> URLPolicy:
    """Return a policy that allows the origins of configured URLs at any address."""
    configured = [url for url in urls if url is not None]
    local = any(is_loopback(urlsplit(url).hostname or "") for url in configured)
    return URLPolicy(local=local, private=frozenset(base_url(url).lower() for url in configured))


def _registry(algorithms: frozenset[str] | set[str]) -> JWSRegistry:
    registry = JWSRegistry(algorithms=list(algorithms), strict_check_header=False)
    registry.max_header_length = _MAX_HEADER_LENGTH
    return registry
