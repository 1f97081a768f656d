"""An authorization server and scopes go in; by whose leave a token is asked for, comes out as a grant."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc.util import urlsafe_b64encode

from ..errors import NotAuthorized
from ..wire import is_object
from .asking import Asking
from .metadata import Issuer
from .rules import OFFLINE, Asked, application_type, check_challenge_method, check_redirect, code_of
from .store import Registered
from .tokens import TokenEndpoint, error_of

Visit = Callable[[str], Awaitable[str]]
_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a token is asked for: of whom, for which resource (None where the revision names none), with what."""

    issuer: Issuer
    resource: str | None
    scopes: tuple[str, ...]

    def form(self, **more: str) -> dict[str, str]:
        """The fields that every grant has."""
        said = dict(more)
        if self.resource is not None:
            said["resource"] = self.resource
        if self.scopes:
            said["scope"] = " ".join(self.scopes)
        return said


class Grant(Protocol):
    """A way to a token. `offline`: whether it can have refresh tokens. `patience`: seconds that a person may take.
    `registered`: the client, if it is known beforehand; else `client` says who it is at an issuer, where it may have
    been `before`."""

    offline: bool
    patience: float

    @property
    def registered(self) -> Registered | None: ...

    async def client(self, asking: Asking, issuer: Issuer, before: Registered | None) -> Registered: ...

    async def grant(self, asking: Asking, wanted: Wanted, client: Registered) -> Mapping[str, str]: ...


@dataclass
class AuthorizationCode:
    """A person agrees, in a browser. `visit` gets the URL to open and gives the one the browser came back to.
    `registered`: a client known beforehand; `document`: the https URL of the client's metadata, which is its id where
    the server takes it; else the client registers as `name`. `patience`: seconds the person has."""

    visit: Visit = field(repr=False)
    redirect: str
    name: str = "MCP client"
    registered: Registered | None = None
    document: str | None = None
    offline: bool = True
    patience: float = 300.0

    def __post_init__(self) -> None:
        check_redirect(self.redirect)

    async def client(self, asking: Asking, issuer: Issuer, before: Registered | None) -> Registered:
        """The client to be at this server, in the order the specification gives."""
        if self.registered is not None:
            return self.registered
        if before is not None and before.redirect in (None, self.redirect):
            return before
        if self.document is not None and issuer.knows_documents:
            return Registered(self.document, method="none", issuer=issuer.name)
        if issuer.register is None:
            raise NotAuthorized(f"{issuer.name} registers no clients: give it one that it knows")
        return await self._register(asking, issuer, issuer.register)

    async def _register(self, asking: Asking, issuer: Issuer, url: str) -> Registered:
        known = issuer.methods or ("none",)
        method = next((each for each in ("none", "client_secret_basic", "client_secret_post") if each in known), "none")
        said = await asking.post_json(
            url,
            {
                "client_name": self.name,
                "redirect_uris": [self.redirect],
                "grant_types": ["authorization_code", "refresh_token"] if self.offline else ["authorization_code"],
                "response_types": ["code"],
                "token_endpoint_auth_method": method,
                "application_type": application_type(self.redirect),
            },
        )
        body: Any = said.body
        if said.status not in (200, 201) or not is_object(body) or not isinstance(body.get("client_id"), str):
            raise NotAuthorized(f"{issuer.name} does not register this client: {error_of(said)}")
        secret, given = body.get("client_secret"), body.get("token_endpoint_auth_method")
        return Registered(
            body["client_id"],
            secret if isinstance(secret, str) else None,
            given if isinstance(given, str) else method,
            issuer=issuer.name,
            redirect=self.redirect,
        )

    async def grant(self, asking: Asking, wanted: Wanted, client: Registered) -> Mapping[str, str]:
        issuer = wanted.issuer
        check_challenge_method(issuer)
        if issuer.authorize is None:
            raise NotAuthorized(f"{issuer.name} has no authorization endpoint")
        asked = Asked(issuer, self.redirect, secrets.token_urlsafe(32), secrets.token_urlsafe(48))
        said = wanted.form(
            response_type="code",
            client_id=client.id,
            redirect_uri=self.redirect,
            state=asked.state,
            code_challenge=urlsafe_b64encode(sha256(asked.verifier.encode()).digest()).decode(),
            code_challenge_method="S256",
        )
        if OFFLINE in wanted.scopes:
            said["prompt"] = "consent"
        url = with_query(asking.policy.check(issuer.authorize), said)
        try:
            async with asyncio.timeout(self.patience):
                answer = await self.visit(url)
        except TimeoutError:
            raise NotAuthorized(f"nobody agreed within {self.patience:g} seconds") from None
        form = {
            "grant_type": "authorization_code",
            "code": code_of(answer, asked),
            "redirect_uri": self.redirect,
            "code_verifier": asked.verifier,
        }
        return form if wanted.resource is None else {**form, "resource": wanted.resource}


@dataclass
class ClientCredentials:
    """A program asks for itself, with a secret or a key."""

    registered: Registered
    offline: bool = False
    patience: float = 0.0

    async def client(self, asking: Asking, issuer: Issuer, before: Registered | None) -> Registered:
        return self.registered

    async def grant(self, asking: Asking, wanted: Wanted, client: Registered) -> Mapping[str, str]:
        return wanted.form(grant_type="client_credentials")


@dataclass
class Assertion:
    """Somebody whom the authorization server trusts vouches with a JWT (RFC 7523). `vouch` gives it: a platform's
    token for a workload, or what `Enterprise` gets from an identity provider."""

    registered: Registered
    vouch: Callable[[Asking, Wanted], Awaitable[str]] = field(repr=False)
    offline: bool = False
    patience: float = 0.0

    async def client(self, asking: Asking, issuer: Issuer, before: Registered | None) -> Registered:
        return self.registered

    async def grant(self, asking: Asking, wanted: Wanted, client: Registered) -> Mapping[str, str]:
        return wanted.form(grant_type=_BEARER, assertion=await self.vouch(asking, wanted))


@dataclass(frozen=True)
class Enterprise:
    """An identity provider vouches for a person it signed in: give it to `Assertion` as what vouches (ID-JAG)."""

    provider: str
    token_endpoint: str
    client: Registered
    id_token: Callable[[], Awaitable[str]] = field(repr=False)

    async def __call__(self, asking: Asking, wanted: Wanted) -> str:
        at = Issuer(self.provider, self.token_endpoint)
        said = await TokenEndpoint(asking, at, self.client, None).exchange(
            wanted.form(
                grant_type=_EXCHANGE,
                requested_token_type=_ID_JAG,
                audience=wanted.issuer.name,
                subject_token=await self.id_token(),
                subject_token_type=_ID_TOKEN,
            )
        )
        token = said.get("access_token")
        if said.get("issued_token_type") != _ID_JAG or not isinstance(token, str):
            raise NotAuthorized(f"{self.provider} does not vouch with the token that was asked for")
        return token


def with_query(url: str, said: Mapping[str, str]) -> str:
    """The URL with this in its query as well. Raises NotAuthorized where it says one of these already."""
    query = urlsplit(url).query
    if parse_qs(query, keep_blank_values=True).keys() & said.keys():
        raise NotAuthorized("the authorization endpoint has parameters of its own that are the client's to say")
    return f"{url}{'&' if query else '' if url.endswith('?') else '?'}{urlencode(said)}"
