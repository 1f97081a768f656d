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

from ...errors import AuthorizationError
from ...protocol.models import is_object
from ..http import AuthHTTPClient
from ..metadata import AuthorizationServerMetadata
from .responses import (
    OFFLINE,
    AuthorizationRequest,
    application_type,
    check_challenge_method,
    check_redirect_uri,
    parse_authorization_response,
)
from .storage import OAuthClientInformation
from .token_endpoint import TokenEndpoint, describe_error

RedirectHandler = Callable[[str], Awaitable[str]]
_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a token is asked for: of whom, for which resource (None where the revision names none), with what."""

    issuer: AuthorizationServerMetadata
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
    timeout: float

    @property
    def client_information(self) -> OAuthClientInformation | None: ...

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation: ...

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]: ...


@dataclass
class AuthorizationCode:
    """A person agrees, in a browser. `visit` gets the URL to open and gives the one the browser came back to.
    `registered`: a client known beforehand; `document`: the https URL of the client's metadata, which is its id where
    the server takes it; else the client registers as `name`. `patience`: seconds the person has."""

    redirect_handler: RedirectHandler = field(repr=False)
    redirect_uri: str
    client_name: str = "MCP client"
    client_information: OAuthClientInformation | None = None
    client_metadata_url: str | None = None
    offline: bool = True
    timeout: float = 300.0

    def __post_init__(self) -> None:
        check_redirect_uri(self.redirect_uri)

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """The client to be at this server, in the order the specification gives."""
        if self.client_information is not None:
            return self.client_information
        if previous is not None and previous.redirect_uri in (None, self.redirect_uri):
            return previous
        if self.client_metadata_url is not None and issuer.client_id_metadata_documents_supported:
            return OAuthClientInformation(self.client_metadata_url, token_endpoint_auth_method="none", issuer=issuer.issuer)
        if issuer.registration_endpoint is None:
            raise AuthorizationError(f"{issuer.issuer} registers no clients: give it one that it knows")
        return await self._register(http, issuer, issuer.registration_endpoint)

    async def _register(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, url: str
    ) -> OAuthClientInformation:
        known = issuer.token_endpoint_auth_methods or ("none",)
        method = next((each for each in ("none", "client_secret_basic", "client_secret_post") if each in known), "none")
        said = await http.post_json(
            url,
            {
                "client_name": self.client_name,
                "redirect_uris": [self.redirect_uri],
                "grant_types": ["authorization_code", "refresh_token"] if self.offline else ["authorization_code"],
                "response_types": ["code"],
                "token_endpoint_auth_method": method,
                "application_type": application_type(self.redirect_uri),
            },
        )
        body: Any = said.body
        if said.status not in (200, 201) or not is_object(body) or not isinstance(body.get("client_id"), str):
            raise AuthorizationError(f"{issuer.issuer} does not register this client: {describe_error(said)}")
        secret, given = body.get("client_secret"), body.get("token_endpoint_auth_method")
        return OAuthClientInformation(
            body["client_id"],
            secret if isinstance(secret, str) else None,
            given if isinstance(given, str) else method,
            issuer=issuer.issuer,
            redirect_uri=self.redirect_uri,
        )

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        issuer = request.issuer
        check_challenge_method(issuer)
        if issuer.authorization_endpoint is None:
            raise AuthorizationError(f"{issuer.issuer} has no authorization endpoint")
        asked = AuthorizationRequest(issuer, self.redirect_uri, secrets.token_urlsafe(32), secrets.token_urlsafe(48))
        said = request.form(
            response_type="code",
            client_id=client.client_id,
            redirect_uri=self.redirect_uri,
            state=asked.state,
            code_challenge=urlsafe_b64encode(sha256(asked.code_verifier.encode()).digest()).decode(),
            code_challenge_method="S256",
        )
        if OFFLINE in request.scopes:
            said["prompt"] = "consent"
        url = with_query(http.policy.check(issuer.authorization_endpoint), said)
        try:
            async with asyncio.timeout(self.timeout):
                answer = await self.redirect_handler(url)
        except TimeoutError:
            raise AuthorizationError(f"nobody agreed within {self.timeout:g} seconds") from None
        form = {
            "grant_type": "authorization_code",
            "code": parse_authorization_response(answer, asked),
            "redirect_uri": self.redirect_uri,
            "code_verifier": asked.code_verifier,
        }
        return form if request.resource is None else {**form, "resource": request.resource}


@dataclass
class ClientCredentials:
    """A program asks for itself, with a secret or a key."""

    client_information: OAuthClientInformation
    offline: bool = False
    timeout: float = 0.0

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        return self.client_information

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        return request.form(grant_type="client_credentials")


@dataclass
class JWTAssertion:
    """Somebody whom the authorization server trusts vouches with a JWT (RFC 7523). `vouch` gives it: a platform's
    token for a workload, or what `IdentityAssertion` gets from an identity provider."""

    client_information: OAuthClientInformation
    assertion: Callable[[AuthHTTPClient, TokenRequest], Awaitable[str]] = field(repr=False)
    offline: bool = False
    timeout: float = 0.0

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        return self.client_information

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        return request.form(grant_type=_BEARER, assertion=await self.assertion(http, request))


@dataclass(frozen=True)
class IdentityAssertion:
    """An identity provider vouches for a person it signed in: give it to `JWTAssertion` as what vouches (ID-JAG)."""

    provider: str
    token_endpoint: str
    client: OAuthClientInformation
    id_token: Callable[[], Awaitable[str]] = field(repr=False)

    async def __call__(self, http: AuthHTTPClient, request: TokenRequest) -> str:
        at = AuthorizationServerMetadata(self.provider, self.token_endpoint)
        said = await TokenEndpoint(http, at, self.client, None).exchange(
            request.form(
                grant_type=_EXCHANGE,
                requested_token_type=_ID_JAG,
                audience=request.issuer.issuer,
                subject_token=await self.id_token(),
                subject_token_type=_ID_TOKEN,
            )
        )
        token = said.get("access_token")
        if said.get("issued_token_type") != _ID_JAG or not isinstance(token, str):
            raise AuthorizationError(f"{self.provider} does not vouch with the token that was asked for")
        return token


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """The URL with this in its query as well. Raises AuthorizationError where it says one of these already."""
    query = urlsplit(url).query
    if parse_qs(query, keep_blank_values=True).keys() & parameters.keys():
        raise AuthorizationError("the authorization endpoint has parameters of its own that are the client's to say")
    return f"{url}{'&' if query else '' if url.endswith('?') else '?'}{urlencode(parameters)}"
