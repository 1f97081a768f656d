"""The protected resource (https://www.rfc-editor.org/rfc/rfc9728): authenticate the requests to an MCP endpoint."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from mcp_runtime.errors import AuthorizationError, LocalError
from mcp_runtime.http.authentication import AuthChallenge, check_scopes
from mcp_runtime.http.headers import Headers
from mcp_runtime.http.urls import base_url
from mcp_runtime.session.interfaces import INSUFFICIENT_SCOPE, AuthenticatedUser, RawHeaders, RequestAuth
from mcp_runtime.stores import Store, StoreUnavailableError
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import MAPPING, NAME, TEXT, instance

from ..discovery import PROTECTED_RESOURCE_PATH
from ..http import TEXTS, URLPolicy
from .dpop import DPoPVerifier, InvalidDPoPProofError
from .roles import ROLE, RoleRule, Roles
from .verifiers import VERIFIER, AnyVerifier, JWTVerifier, TokenVerifier

_log: Final = logging.getLogger("mcp_runtime.auth.resource_server.protection")

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MAX_TOKEN_LENGTH: Final = 16 * 1024  # Characters of a token; the largest tokens in use have a quarter of that.
_VERIFY_TIMEOUT: Final = 15.0  # Seconds for a verifier, with key sets and introspection.
_QUERY_PARAMETER: Final = "access_token"
_MAX_QUERY_FIELDS: Final = 100
_LATER: Final = AuthChallenge(
    503, "the access token cannot be verified at present; try again later", [(b"retry-after", b"5")]
)


# WWW-Authenticate challenges (https://www.rfc-editor.org/rfc/rfc6750#section-3).


@dataclass(frozen=True, slots=True)
class Challenges:
    """The challenges of one protected resource.

    Args:
        metadata_url: URL of the protected resource metadata; None if there is none.
        scopes: Scopes that every request needs.
        dpop_algorithms: Signature algorithms of DPoP proofs. Default: DPoP is not supported.
        bearer: True if bearer tokens are accepted. Default True.
    """

    metadata_url: str | None
    scopes: tuple[str, ...]
    dpop_algorithms: tuple[str, ...] = ()
    bearer: bool = True

    def missing_token(self) -> AuthChallenge:
        """Return the challenge for a request without a token. It has no error code
        (https://www.rfc-editor.org/rfc/rfc6750#section-3.1)."""
        return AuthChallenge(401, "the request needs an access token", self._headers(None, self.scopes))

    def invalid_request(self, reason: str) -> AuthChallenge:
        """Return the challenge for malformed credentials."""
        return AuthChallenge(400, reason, self._headers("invalid_request", self.scopes))

    def invalid_token(self, error: str = "invalid_token", extra_headers: RawHeaders = ()) -> AuthChallenge:
        """Return the challenge for an invalid token or proof. It does not reveal the reason."""
        headers = [*self._headers(error, self.scopes), *extra_headers]
        return AuthChallenge(401, "the access token or its proof is not valid", headers)

    def insufficient_scope(self, scopes: Iterable[str]) -> RawHeaders:
        """Return the headers that name all scopes the request needs, together with those every request needs.

        Raises LocalError for text that is not a scope: it could end its parameter, and begin another.
        """
        return self._headers(INSUFFICIENT_SCOPE, check_scopes([*self.scopes, *scopes]))

    def _headers(self, error: str | None, scopes: tuple[str, ...]) -> RawHeaders:
        parameters = {"error": error, "scope": " ".join(scopes) or None, "resource_metadata": self.metadata_url}
        parts = [f'{name}="{value}"' for name, value in parameters.items() if value is not None]
        headers = [_header("Bearer", parts)] if self.bearer else []
        if self.dpop_algorithms:
            headers.append(_header("DPoP", [f'algs="{" ".join(self.dpop_algorithms)}"', *parts]))
        return headers


def _header(scheme: str, parts: Sequence[str]) -> tuple[bytes, bytes]:
    return b"www-authenticate", f"{scheme} {', '.join(parts)}".rstrip().encode("ascii")


class ResourceServer:
    """Protects an endpoint with access tokens; pass it as `server.asgi(auth=ResourceServer(…))`."""

    @checked(
        rules={
            "resource": NAME,
            "issuers": TEXTS,
            "verifier": VERIFIER.or_none(),
            "scopes": TEXTS,
            "scopes_supported": TEXTS.or_none(),
            "name": TEXT.or_none(),
            "dpop": instance(DPoPVerifier, "a DPoPVerifier").or_none(),
            "roles": MAPPING.or_none(),
        },
        example='ResourceServer("https://notes.example/mcp", ["https://login.example"])',
    )
    def __init__(
        self,
        resource: str,
        issuers: Sequence[str],
        *,
        verifier: TokenVerifier | None = None,
        scopes: Sequence[str] = (),
        scopes_supported: Sequence[str] | None = None,
        name: str | None = None,
        dpop: DPoPVerifier | None = None,
        roles: Mapping[str, RoleRule] | None = None,
    ) -> None:
        """Create a protected resource. Raises LocalError for an invalid URL or scope, and without an issuer.

        Args:
            resource: URL of the endpoint as clients know it. Tokens have exactly this audience.
            issuers: Issuer identifiers of the authorization servers that issue accepted tokens.
            verifier: Verifies tokens. Default: a `JWTVerifier` for each issuer.
            scopes: Scopes that every request needs. Default: none.
            scopes_supported: Scopes that the metadata lists for clients. Default: the value of `scopes`.
            name: Name of the resource, to show to users. Default None: the metadata has no name.
            dpop: Verifies DPoP proofs, so that tokens may be bound to keys. Default None: bearer tokens only.
            roles: Who has which role, by claims of the token, such as `{"admin": {"claim": "groups", "value":
                "mcp-admins"}}`. A user with this role has the scope `role:admin`, which no client can request and no
                token has by itself. Default: none.
        """
        if not issuers:
            raise LocalError("a protected resource needs at least one issuer (RFC 9728)")
        policy = URLPolicy(local=True, private=frozenset(base_url(url).lower() for url in (resource, *issuers)))
        try:
            for url in (resource, *issuers):
                policy.check(url)
        except AuthorizationError as error:
            raise LocalError(str(error)) from None
        self.resource = resource
        self.issuers = tuple(issuers)
        self.scopes = check_scopes(scopes)
        self.roles = Roles(roles or {})
        self.roles.check(self.scopes, "ResourceServer(scopes=…)")
        self.scopes_supported = self.roles.issued(self.scopes if scopes_supported is None else scopes_supported)
        check_scopes(self.scopes_supported)
        self.name = name
        self.dpop = dpop
        self.verifier = verifier or self._default_verifier()

    def authenticator(self, mounted: bool, serves_metadata: bool) -> Authenticator:
        """Return an object that authenticates the requests to one endpoint.

        `serves_metadata`: the MCP versions of the endpoint use protected resource metadata. `mounted`: the endpoint is
        part of another application, so the metadata is at a path below the endpoint.
        """
        return Authenticator(self, self._metadata_url(mounted) if serves_metadata else None)

    def share(self, store: Store, name: str) -> None:
        """Use the store of all workers of an endpoint for what the workers have to know of each other.

        Args:
            store: The store.
            name: The beginning of the keys in the store.
        """
        if self.dpop is not None:
            self.dpop.share(store, name)

    def document(self) -> bytes:
        """Return the metadata of the resource as JSON (https://www.rfc-editor.org/rfc/rfc9728#section-2)."""
        metadata: dict[str, Any] = {
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "scopes_supported": self.scopes_supported or None,
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        if self.dpop is not None:
            metadata["dpop_signing_alg_values_supported"] = self.dpop.algorithms
            metadata["dpop_bound_access_tokens_required"] = self.dpop.required
        return json.dumps({name: value for name, value in metadata.items() if value is not None}).encode()

    def _metadata_url(self, mounted: bool) -> str:
        if mounted:
            return f"{self.resource.partition('?')[0].rstrip('/')}{PROTECTED_RESOURCE_PATH}"
        return f"{base_url(self.resource)}{PROTECTED_RESOURCE_PATH}{urlsplit(self.resource).path.rstrip('/')}"

    def _default_verifier(self) -> TokenVerifier:
        return AnyVerifier(*(JWTVerifier(issuer, audience=self.resource) for issuer in self.issuers))


class Authenticator:
    """Authenticates the requests to one endpoint by their headers."""

    def __init__(self, resource_server: ResourceServer, metadata_url: str | None) -> None:
        """Create an authenticator.

        Args:
            resource_server: The protected resource.
            metadata_url: URL of its metadata; None if the metadata is not served.
        """
        self._resource_server = resource_server
        self._dpop = resource_server.dpop
        algorithms = self._dpop.algorithms if self._dpop else ()
        bearer = self._dpop is None or not self._dpop.required
        self._roles = resource_server.roles
        self._challenges = Challenges(metadata_url, self._roles.issued(resource_server.scopes), algorithms, bearer)
        self._metadata_url = metadata_url
        self.document = resource_server.document()

    def is_metadata_path(self, path: str, endpoint: str | None) -> bool:
        """Return True if a path is a well-known path of the metadata: that of the resource, of the endpoint, or of the
        root."""
        own = urlsplit(self._resource_server.resource).path.rstrip("/")
        path = path.removeprefix(own)  # An application may be served at the root that could be mounted.
        if self._metadata_url is None or not path.startswith(PROTECTED_RESOURCE_PATH):
            return False
        suffixes = {"", own, (endpoint or "").rstrip("/")}
        return path.removeprefix(PROTECTED_RESOURCE_PATH).rstrip("/") in suffixes

    async def authenticate(
        self, headers: Headers, method: str, path: str | None, query: bytes
    ) -> RequestAuth | AuthChallenge:
        """Return the authentication of a request, or the challenge with which to reject it.

        `path` is the path of the request if it differs from that of the resource.
        """
        authorization = headers.get("authorization")
        if _has_token(query):
            if authorization is not None:
                return self._challenges.invalid_request("send the access token in the Authorization header only")
            return self._challenges.missing_token()
        if authorization is None:
            return self._challenges.missing_token()
        scheme, _, token = authorization.partition(" ")
        token = token.strip(" ")
        if scheme.lower() not in ("bearer", "dpop"):
            return self._challenges.missing_token()
        if not _TOKEN.fullmatch(token):
            return self._challenges.invalid_request("the Authorization header must be a scheme and an access token")
        if len(token) > _MAX_TOKEN_LENGTH:
            return self._challenges.invalid_token()
        user = await self._verify(token)
        if not isinstance(user, AuthenticatedUser):
            return user
        challenge = await self._check_dpop(user, scheme.lower(), token, headers.get("dpop"), method, path)
        if challenge is not None:
            return challenge
        user = self._roles.granted(user)
        if not user.scopes.issuperset(self._resource_server.scopes):
            lacking = self._insufficient_scope(user, self._resource_server.scopes)
            return AuthChallenge(403, "the access token lacks scopes that this endpoint needs", lacking)
        return RequestAuth(user, partial(self._insufficient_scope, user))

    def _insufficient_scope(self, user: AuthenticatedUser, scopes: Iterable[str]) -> RawHeaders:
        """Return the headers for a user who lacks some of these scopes; none for one who lacks a role: another token of
        this user would have it no more."""
        required = tuple(scopes)
        if self._roles and any(scope.startswith(ROLE) and scope not in user.scopes for scope in required):
            return ()
        return self._challenges.insufficient_scope(self._roles.issued(required))

    async def _verify(self, token: str) -> AuthenticatedUser | AuthChallenge:
        try:
            async with asyncio.timeout(_VERIFY_TIMEOUT):
                user = await self._resource_server.verifier.verify(token)
        except Exception as error:
            # The text of the error may contain the token, which must not be logged.
            frames = traceback.extract_tb(error.__traceback__)
            location = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
            _log.error("a token could not be verified: %s%s", type(error).__name__, location)
            return _LATER
        return self._challenges.invalid_token() if user is None else user

    async def _check_dpop(
        self, user: AuthenticatedUser, scheme: str, token: str, proof: str | None, method: str, path: str | None
    ) -> AuthChallenge | None:
        """Return a challenge unless a bound token comes with a proof, and a bearer token with the Bearer scheme."""
        verifier = self._dpop
        if user.dpop_thumbprint is None:
            return None if scheme == "bearer" and self._challenges.bearer else self._challenges.invalid_token()
        if verifier is None or scheme != "dpop":
            return self._challenges.invalid_token()
        resource = self._resource_server.resource
        url = resource if path is None else f"{base_url(resource)}{path}"
        try:
            await verifier.verify(proof, method, url, token, user.dpop_thumbprint)
        except StoreUnavailableError as error:
            _log.warning("a DPoP proof could not be compared with those that were used: %s", error)
            return _LATER
        except InvalidDPoPProofError as error:
            _log.debug("a DPoP proof was rejected: %s", error)
            nonce_headers = [] if error.nonce is None else [(b"dpop-nonce", error.nonce.encode())]
            return self._challenges.invalid_token(error.error, nonce_headers)
        return None


def _has_token(query: bytes) -> bool:
    """Return True if a query has an access token (https://www.rfc-editor.org/rfc/rfc6750#section-2.3)."""
    if not query:
        return False
    try:
        names = {name for name, _ in parse_qsl(query.decode("latin-1"), True, max_num_fields=_MAX_QUERY_FIELDS)}
    except ValueError:
        return True  # Too many fields to read them all: one of them may be a token.
    return _QUERY_PARAMETER in names
