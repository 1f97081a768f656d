"""The head of a request to a protected endpoint goes in; who sent it comes out, or how the request is turned away."""

from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ...errors import AuthorizationError, LocalError
from ...http.headers import Headers
from ...session.identity import AuthenticatedUser, RequestAuth
from ...session.pending import log
from ..metadata import PROTECTED_RESOURCE_PATH, base_url
from ..url_policy import URLPolicy
from .challenges import AuthChallenge, Challenges, check_scopes
from .dpop import DPoPVerifier, InvalidDPoPProofError
from .verifiers import TokenVerifier

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MAX_TOKEN_LENGTH: Final = 16 * 1024  # Characters of a token; the largest ones in use are a quarter of that.
_VERIFY_TIMEOUT: Final = 15.0  # Seconds that a verifier gets, key sets and introspection among it.
_IN_QUERY: Final = "access_token"
_MAX_QUERY_FIELDS: Final = 100


class ResourceServer:
    """What protects an endpoint: `server.asgi(auth=ResourceServer(…))`.

    `resource` is the URL of the endpoint as clients know it, byte for byte what tokens are asked for; `issuers` are the
    authorization servers that give them. `verifier` judges tokens; they are JWTs of the issuers if there is none. `scopes`
    are needed by every request; `offered` are told to clients that ask for no more than there is, `scopes` if absent.
    With `possession` tokens may be bound to a key of the client (DPoP). Raises LocalError for what cannot be told.
    """

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
    ) -> None:
        if not issuers:
            raise LocalError("a protected resource has at least one authorization server (RFC 9728)")
        own = URLPolicy(local=True, private=frozenset(base_url(url).lower() for url in (resource, *issuers)))
        try:
            for url in (resource, *issuers):
                own.check(url)
        except AuthorizationError as fault:
            raise LocalError(str(fault)) from None
        self.resource = resource
        self.issuers = tuple(issuers)
        self.scopes = check_scopes(scopes)
        self.scopes_supported = self.scopes if scopes_supported is None else check_scopes(scopes_supported)
        self.name = name
        self.dpop = dpop
        self.verifier = verifier or self._well_known_path()

    def authenticator(self, mounted: bool, serves_metadata: bool) -> Authenticator:
        """What judges the requests to one endpoint; `announced`: its clients know the metadata of RFC 9728, which is
        below the endpoint where that is `mounted` in another application."""
        return Authenticator(self, self._metadata_paths(mounted) if serves_metadata else None)

    def document(self) -> bytes:
        """The metadata of the resource (RFC 9728 2), as JSON."""
        said: dict[str, Any] = {
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "scopes_supported": self.scopes_supported or None,
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        if self.dpop is not None:
            said["dpop_signing_alg_values_supported"] = self.dpop.algorithms
            said["dpop_bound_access_tokens_required"] = self.dpop.required
        return json.dumps({name: value for name, value in said.items() if value is not None}).encode()

    def _metadata_paths(self, mounted: bool) -> str:
        parts = urlsplit(self.resource)
        path = parts.path.rstrip("/")
        return (
            f"{self.resource.partition('?')[0].rstrip('/')}{PROTECTED_RESOURCE_PATH}"
            if mounted
            else (f"{base_url(self.resource)}{PROTECTED_RESOURCE_PATH}{path}")
        )

    def _well_known_path(self) -> TokenVerifier:
        from .verifiers import AnyVerifier, JWTVerifier

        return AnyVerifier(*(JWTVerifier(issuer, audience=self.resource) for issuer in self.issuers))


class Authenticator:
    """Judges requests by their heads. `where` is the URL of the metadata, None where there is none."""

    def __init__(self, resource_server: ResourceServer, metadata_url: str | None) -> None:
        self._resource_server = resource_server
        self._dpop = resource_server.dpop
        proofs = self._dpop.algorithms if self._dpop else ()
        bearer = self._dpop is None or not self._dpop.required
        self._challenges = Challenges(metadata_url, resource_server.scopes, proofs, bearer)
        self._metadata_paths = metadata_url
        self.document = resource_server.document()

    def is_metadata_path(self, path: str, endpoint: str | None) -> bool:
        """Whether the metadata is asked for: at the path of the endpoint, or at the root."""
        if self._metadata_paths is None or not path.startswith(PROTECTED_RESOURCE_PATH):
            return False
        own = urlsplit(self._resource_server.resource).path
        return path.removeprefix(PROTECTED_RESOURCE_PATH).rstrip("/") in {
            "",
            own.rstrip("/"),
            (endpoint or "").rstrip("/"),
        }

    async def authenticate(
        self, headers: Headers, method: str, path: str | None, query: bytes
    ) -> RequestAuth | AuthChallenge:
        """Who sent a request; `path` is its path where it is another than that of the resource."""
        said = headers.get("authorization")
        if _has_token(query):
            if said is not None:
                return self._challenges.invalid_request("a token comes in the Authorization header alone")
            return self._challenges.missing_token()
        if said is None:
            return self._challenges.missing_token()
        scheme, _, token = said.partition(" ")
        token = token.strip(" ")
        if scheme.lower() not in ("bearer", "dpop"):
            return self._challenges.missing_token()
        if not _TOKEN.fullmatch(token):
            return self._challenges.invalid_request("the Authorization header has not the form of one with a token")
        if len(token) > _MAX_TOKEN_LENGTH:
            return self._challenges.invalid_token()
        user = await self._verify(token)
        if not isinstance(user, AuthenticatedUser):
            return user
        if (denied := self._check_dpop(user, scheme.lower(), token, headers.get("dpop"), method, path)) is not None:
            return denied
        if not user.scopes.issuperset(self._resource_server.scopes):
            return AuthChallenge(
                403, "the token has not the scopes that this needs", self._challenges.insufficient_scope(())
            )
        return RequestAuth(user, self._challenges.insufficient_scope)

    async def _verify(self, token: str) -> AuthenticatedUser | AuthChallenge:
        try:
            async with asyncio.timeout(_VERIFY_TIMEOUT):
                user = await self._resource_server.verifier.verify(token)
        except Exception as fault:
            # Its text may hold the token, which belongs in no log.
            frames = traceback.extract_tb(fault.__traceback__)
            where = "".join(f"\n  {each.filename}:{each.lineno} in {each.name}" for each in frames)
            log.error("a token could not be verified: %s%s", type(fault).__name__, where)
            return AuthChallenge(503, "nobody can tell now whether the token is good", [(b"retry-after", b"5")])
        return self._challenges.invalid_token() if user is None else user

    def _check_dpop(
        self, user: AuthenticatedUser, scheme: str, token: str, proof: str | None, method: str, path: str | None
    ) -> AuthChallenge | None:
        """What is wrong with how the token is shown: one that is bound to a key comes with a proof, and no other."""
        possession = self._dpop
        if user.dpop_thumbprint is None:
            return None if scheme == "bearer" and self._challenges.bearer else self._challenges.invalid_token()
        if possession is None or scheme != "dpop":
            return self._challenges.invalid_token()
        resource = self._resource_server.resource
        url = resource if path is None else f"{base_url(resource)}{path}"
        try:
            possession.check(proof, method, url, token, user.dpop_thumbprint)
        except InvalidDPoPProofError as fault:
            log.debug("a proof of possession is refused: %s", fault)
            more = [] if fault.nonce is None else [(b"dpop-nonce", fault.nonce.encode())]
            return self._challenges.invalid_token(fault.error, more)
        return None


def _has_token(query: bytes) -> bool:
    if not query:
        return False
    try:
        names = {name for name, _ in parse_qsl(query.decode("latin-1"), True, max_num_fields=_MAX_QUERY_FIELDS)}
    except ValueError:
        return True  # More fields than anybody needs: nothing of such a request is taken.
    return _IN_QUERY in names
