"""The head of a request to a protected endpoint goes in; who sent it comes out, or how the request is turned away."""

from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ...errors import LocalError, NotAuthorized
from ...exchange import log
from ...http.headers import Headers
from ..metadata import RESOURCE, base_of
from ..policy import UrlPolicy
from .caller import Caller, User, Verifier
from .challenge import Challenges, Denied, check_scopes
from .proofs import BadProof, Possession

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_LONGEST: Final = 16 * 1024  # Characters of a token; the largest ones in use are a quarter of that.
_PATIENCE: Final = 15.0  # Seconds that a verifier gets, key sets and introspection among it.
_IN_QUERY: Final = "access_token"
_MOST_FIELDS: Final = 100


class Protection:
    """What protects an endpoint: `server.asgi(auth=Protection(…))`.

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
        verifier: Verifier | None = None,
        scopes: Sequence[str] = (),
        offered: Sequence[str] | None = None,
        name: str | None = None,
        possession: Possession | None = None,
    ) -> None:
        if not issuers:
            raise LocalError("a protected resource has at least one authorization server (RFC 9728)")
        own = UrlPolicy(local=True, private=frozenset(base_of(url).lower() for url in (resource, *issuers)))
        try:
            for url in (resource, *issuers):
                own.check(url)
        except NotAuthorized as fault:
            raise LocalError(str(fault)) from None
        self.resource = resource
        self.issuers = tuple(issuers)
        self.scopes = check_scopes(scopes)
        self.offered = self.scopes if offered is None else check_scopes(offered)
        self.name = name
        self.possession = possession
        self.verifier = verifier or self._usual()

    def gate(self, mounted: bool, announced: bool) -> Gate:
        """What judges the requests to one endpoint; `announced`: its clients know the metadata of RFC 9728, which is
        below the endpoint where that is `mounted` in another application."""
        return Gate(self, self._where(mounted) if announced else None)

    def document(self) -> bytes:
        """The metadata of the resource (RFC 9728 2), as JSON."""
        said: dict[str, Any] = {
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "scopes_supported": self.offered or None,
            "bearer_methods_supported": ["header"],
            "resource_name": self.name,
        }
        if self.possession is not None:
            said["dpop_signing_alg_values_supported"] = self.possession.algorithms
            said["dpop_bound_access_tokens_required"] = self.possession.required
        return json.dumps({name: value for name, value in said.items() if value is not None}).encode()

    def _where(self, mounted: bool) -> str:
        parts = urlsplit(self.resource)
        path = parts.path.rstrip("/")
        return (
            f"{self.resource.partition('?')[0].rstrip('/')}{RESOURCE}"
            if mounted
            else (f"{base_of(self.resource)}{RESOURCE}{path}")
        )

    def _usual(self) -> Verifier:
        from .tokens import AnyOf, Jwt

        return AnyOf(*(Jwt(issuer, audience=self.resource) for issuer in self.issuers))


class Gate:
    """Judges requests by their heads. `where` is the URL of the metadata, None where there is none."""

    def __init__(self, protection: Protection, where: str | None) -> None:
        self._protection = protection
        self._possession = protection.possession
        proofs = self._possession.algorithms if self._possession else ()
        bearer = self._possession is None or not self._possession.required
        self._challenges = Challenges(where, protection.scopes, proofs, bearer)
        self._where = where
        self.document = protection.document()

    def announces(self, path: str, endpoint: str | None) -> bool:
        """Whether the metadata is asked for: at the path of the endpoint, or at the root."""
        if self._where is None or not path.startswith(RESOURCE):
            return False
        own = urlsplit(self._protection.resource).path
        return path.removeprefix(RESOURCE).rstrip("/") in {"", own.rstrip("/"), (endpoint or "").rstrip("/")}

    async def judge(self, headers: Headers, method: str, path: str | None, query: bytes) -> Caller | Denied:
        """Who sent a request; `path` is its path where it is another than that of the resource."""
        said = headers.get("authorization")
        if _has_token(query):
            if said is not None:
                return self._challenges.malformed("a token comes in the Authorization header alone")
            return self._challenges.unknown()
        if said is None:
            return self._challenges.unknown()
        scheme, _, token = said.partition(" ")
        token = token.strip(" ")
        if scheme.lower() not in ("bearer", "dpop"):
            return self._challenges.unknown()
        if not _TOKEN.fullmatch(token):
            return self._challenges.malformed("the Authorization header has not the form of one with a token")
        if len(token) > _LONGEST:
            return self._challenges.invalid()
        user = await self._verified(token)
        if not isinstance(user, User):
            return user
        if (denied := self._possessed(user, scheme.lower(), token, headers.get("dpop"), method, path)) is not None:
            return denied
        if not user.scopes.issuperset(self._protection.scopes):
            return Denied(403, "the token has not the scopes that this needs", self._challenges.lacking(()))
        return Caller(user, self._challenges.lacking)

    async def _verified(self, token: str) -> User | Denied:
        try:
            async with asyncio.timeout(_PATIENCE):
                user = await self._protection.verifier.verify(token)
        except Exception as fault:
            # Its text may hold the token, which belongs in no log.
            frames = traceback.extract_tb(fault.__traceback__)
            where = "".join(f"\n  {each.filename}:{each.lineno} in {each.name}" for each in frames)
            log.error("a token could not be verified: %s%s", type(fault).__name__, where)
            return Denied(503, "nobody can tell now whether the token is good", [(b"retry-after", b"5")])
        return self._challenges.invalid() if user is None else user

    def _possessed(
        self, user: User, scheme: str, token: str, proof: str | None, method: str, path: str | None
    ) -> Denied | None:
        """What is wrong with how the token is shown: one that is bound to a key comes with a proof, and no other."""
        possession = self._possession
        if user.bound is None:
            return None if scheme == "bearer" and self._challenges.bearer else self._challenges.invalid()
        if possession is None or scheme != "dpop":
            return self._challenges.invalid()
        resource = self._protection.resource
        url = resource if path is None else f"{base_of(resource)}{path}"
        try:
            possession.check(proof, method, url, token, user.bound)
        except BadProof as fault:
            log.debug("a proof of possession is refused: %s", fault)
            more = [] if fault.nonce is None else [(b"dpop-nonce", fault.nonce.encode())]
            return self._challenges.invalid(fault.error, more)
        return None


def _has_token(query: bytes) -> bool:
    if not query:
        return False
    try:
        names = {name for name, _ in parse_qsl(query.decode("latin-1"), True, max_num_fields=_MOST_FIELDS)}
    except ValueError:
        return True  # More fields than anybody needs: nothing of such a request is taken.
    return _IN_QUERY in names
