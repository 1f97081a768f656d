"""OAuth grants: the methods by which a client gets a token."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc.util import urlsafe_b64encode

from mcp_runtime.errors import AuthorizationError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.usage.keywords import checked_fields
from mcp_runtime.usage.rules import FLAG, FUNCTION, NAME, SECONDS, Rule, instance

from ..discovery import AuthorizationServerMetadata
from ..http import AuthHTTPClient
from .storage import OAuthClientInformation
from .token_endpoint import (
    OFFLINE,
    AuthorizationRequest,
    TokenEndpoint,
    application_type,
    check_challenge_method,
    check_redirect_uri,
    describe_error,
    parse_authorization_response,
)

RedirectHandler = Callable[[str], Awaitable[str]]
_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_REGISTRATION_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_CLIENT: Final = instance(OAuthClientInformation, 'the registered client, such as OAuthClientInformation("id", secret)')


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The token that a client needs.

    Args:
        issuer: Metadata of the authorization server.
        resource: Resource indicator (https://www.rfc-editor.org/rfc/rfc8707#section-2); None if the MCP version has
            none.
        scopes: Scopes to request.
    """

    issuer: AuthorizationServerMetadata
    resource: str | None
    scopes: tuple[str, ...]

    def form(self, **parameters: str) -> dict[str, str]:
        """Return parameters of a grant, with `resource` and `scope` added."""
        form = dict(parameters)
        if self.resource is not None:
            form["resource"] = self.resource
        if self.scopes:
            form["scope"] = " ".join(self.scopes)
        return form


class Grant(Protocol):
    """A method to get a token.

    `offline` is True if the grant can return refresh tokens; `timeout` is the number of seconds a user has to log in.
    """

    offline: bool
    timeout: float

    @property
    def client_information(self) -> OAuthClientInformation | None:
        """The client, if it is registered in advance."""
        ...

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """Return the client for an authorization server; `previous` is the one that was stored for it."""
        ...

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Return the parameters of the token request."""
        ...


@checked_fields(
    rules={
        "redirect_handler": FUNCTION,
        "redirect_uri": NAME,
        "client_name": NAME,
        "client_information": _CLIENT.or_none(),
        "client_metadata_url": Rule(
            lambda value: isinstance(value, str) and re.match("https://[^/]+/.", value) is not None,
            "an https URL with a path",
        ).or_none(),
        "timeout": SECONDS,
    }
)
@dataclass
class AuthorizationCode:
    """The authorization code grant with PKCE: a user agrees in a browser
    (https://www.rfc-editor.org/rfc/rfc6749#section-4.1, https://www.rfc-editor.org/rfc/rfc7636).

    Args:
        redirect_handler: Coroutine function that opens the authorization URL in a browser and returns the URL of the
            redirect; `LoopbackBrowser` is one.
        redirect_uri: Redirect URI of the client. Raises AuthorizationError unless it uses https, http on this machine,
            or a private scheme.
        client_name: Name under which the client registers itself. Default `MCP client`.
        client_information: The client, if it is registered in advance.
        client_metadata_url: The `https` URL of the client's metadata document. It is the client id at servers that
            support such documents.
        offline: True to request refresh tokens. Default True.
        timeout: Seconds the user has to log in. Default 300.
        accepts_segment: True if `redirect_handler` also accepts `redirect_uri` with one more segment in its path. Each
            authorization server that does not announce `iss` gets its own then, so that a response of another one is
            refused. Default None: what the handler says, as `LoopbackBrowser` does.
    """

    redirect_handler: RedirectHandler = field(repr=False)
    redirect_uri: str
    client_name: str = "MCP client"
    client_information: OAuthClientInformation | None = None
    client_metadata_url: str | None = None
    offline: bool = True
    timeout: float = 300.0
    accepts_segment: bool | None = None

    def __post_init__(self) -> None:
        check_redirect_uri(self.redirect_uri)

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """Return the client for an authorization server, registered in the order of preference of
        https://modelcontextprotocol.io/specification/draft/basic/authorization."""
        if self.client_information is not None:
            return self.client_information
        if previous is not None and previous.redirect_uri in (None, self._redirect_uri_of(issuer)):
            return previous
        if self.client_metadata_url is not None and issuer.client_id_metadata_documents_supported:
            return OAuthClientInformation(
                self.client_metadata_url, token_endpoint_auth_method="none", issuer=issuer.issuer
            )
        if issuer.registration_endpoint is None:
            raise AuthorizationError(
                f"{issuer.issuer} does not support client registration; register the client there and pass "
                "client_information"
            )
        return await self._register(http, issuer, issuer.registration_endpoint)

    async def _register(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, url: str
    ) -> OAuthClientInformation:
        supported = issuer.token_endpoint_auth_methods or ("none",)
        method = next((method for method in _REGISTRATION_METHODS if method in supported), "none")
        redirect_uri = self._redirect_uri_of(issuer)
        response = await http.post_json(
            url,
            {
                "client_name": self.client_name,
                "redirect_uris": [redirect_uri],
                "grant_types": ["authorization_code", "refresh_token"] if self.offline else ["authorization_code"],
                "response_types": ["code"],
                "token_endpoint_auth_method": method,
                "application_type": application_type(self.redirect_uri),
            },
        )
        body: Any = response.body
        if not 200 <= response.status < 300 or not is_object(body) or not isinstance(body.get("client_id"), str):
            raise AuthorizationError(f"{issuer.issuer} did not register this client: {describe_error(response)}")
        secret, assigned_method = body.get("client_secret"), body.get("token_endpoint_auth_method")
        return OAuthClientInformation(
            body["client_id"],
            secret if isinstance(secret, str) else None,
            assigned_method if isinstance(assigned_method, str) else method,
            issuer=issuer.issuer,
            redirect_uri=redirect_uri,
        )

    def _redirect_uri_of(self, issuer: AuthorizationServerMetadata) -> str:
        """Return the redirect URI that is registered at an authorization server.

        If its responses have no `iss`, a segment of the path distinguishes them, where the redirect handler accepts
        one (https://www.rfc-editor.org/rfc/rfc9700#section-4.4.2.2).
        """
        accepts = self.accepts_segment
        if accepts is None:
            accepts = bool(getattr(self.redirect_handler, "accepts_segment", False))
        if issuer.iss_parameter_supported or not accepts:
            return self.redirect_uri
        return f"{self.redirect_uri}/{sha256(issuer.issuer.encode()).hexdigest()[:16]}"

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Let the user authorize the client, and return the parameters of the token request with the code."""
        issuer = request.issuer
        check_challenge_method(issuer)
        if issuer.authorization_endpoint is None:
            raise AuthorizationError(f"the metadata of {issuer.issuer} has no authorization_endpoint")
        registered = self._redirect_uri_of(issuer)
        redirect_uri = registered if client.redirect_uri == registered else self.redirect_uri
        sent = AuthorizationRequest(issuer, redirect_uri, secrets.token_urlsafe(32), secrets.token_urlsafe(48))
        parameters = request.form(
            response_type="code",
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            state=sent.state,
            code_challenge=urlsafe_b64encode(sha256(sent.code_verifier.encode()).digest()).decode(),
            code_challenge_method="S256",
        )
        if OFFLINE in request.scopes:
            parameters["prompt"] = "consent"
        url = with_query(http.policy.check(issuer.authorization_endpoint), parameters)
        try:
            async with asyncio.timeout(self.timeout):
                redirect = cast(object, await self.redirect_handler(url))
        except TimeoutError:
            raise AuthorizationError(f"the user did not log in within {self.timeout:g} seconds") from None
        if not isinstance(redirect, str):
            raise AuthorizationError(
                f"the redirect_handler of AuthorizationCode returned {type(redirect).__name__}, not a string: "
                "return the URL that the browser was redirected to"
            )
        form = {
            "grant_type": "authorization_code",
            "code": parse_authorization_response(redirect, sent),
            "redirect_uri": redirect_uri,
            "code_verifier": sent.code_verifier,
        }
        return form if request.resource is None else {**form, "resource": request.resource}


@checked_fields(rules={"client_information": _CLIENT, "offline": FLAG})
@dataclass
class ClientCredentials:
    """The client credentials grant: a program acts for itself (https://www.rfc-editor.org/rfc/rfc6749#section-4.4).

    Args:
        client_information: The registered client, with a secret or a private key.
        offline: True to request refresh tokens. Default False.
        timeout: Not used; a program does not log in. Default 0.
    """

    client_information: OAuthClientInformation
    offline: bool = False
    timeout: float = 0.0

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """Return the registered client."""
        return self.client_information

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Return the parameters of the token request."""
        return request.form(grant_type="client_credentials")


@checked_fields(rules={"client_information": _CLIENT, "assertion": FUNCTION})
@dataclass
class JWTAssertion:
    """The JWT bearer grant: a JWT that the authorization server trusts (https://www.rfc-editor.org/rfc/rfc7523).

    Args:
        client_information: The registered client.
        assertion: Coroutine function that returns the JWT: for example the token that a platform gives a workload, or
            an `IdentityAssertion`.
        offline: True to request refresh tokens. Default False.
        timeout: Not used; nobody logs in. Default 0.
    """

    client_information: OAuthClientInformation
    assertion: Callable[[AuthHTTPClient, TokenRequest], Awaitable[str]] = field(repr=False)
    offline: bool = False
    timeout: float = 0.0

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """Return the registered client."""
        return self.client_information

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Return the parameters of the token request, with the assertion."""
        return request.form(grant_type=_BEARER, assertion=await self.assertion(http, request))


@dataclass(frozen=True)
class IdentityAssertion:
    """An identity assertion authorization grant (ID-JAG) of the identity provider that signed the user in. Pass it as
    `assertion` to `JWTAssertion`. It is a token exchange (https://www.rfc-editor.org/rfc/rfc8693).

    Args:
        provider: Issuer identifier of the identity provider.
        token_endpoint: URL of its token endpoint.
        client: The client as it is registered there.
        id_token: Coroutine function that returns the user's ID token.
    """

    provider: str
    token_endpoint: str
    client: OAuthClientInformation
    id_token: Callable[[], Awaitable[str]] = field(repr=False)

    async def __call__(self, http: AuthHTTPClient, request: TokenRequest) -> str:
        """Exchange the user's ID token for an assertion. Raises AuthorizationError."""
        provider = AuthorizationServerMetadata(self.provider, self.token_endpoint)
        response = await TokenEndpoint(http, provider, self.client, None).exchange(
            request.form(
                grant_type=_EXCHANGE,
                requested_token_type=_ID_JAG,
                audience=request.issuer.issuer,
                subject_token=await self.id_token(),
                subject_token_type=_ID_TOKEN,
            )
        )
        token = response.get("access_token")
        if response.get("issued_token_type") != _ID_JAG or not isinstance(token, str):
            raise AuthorizationError(f"{self.provider} issued a token of another type than id-jag")
        return token


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """Return a URL with parameters added to its query. Raises AuthorizationError if it has one of them already."""
    query = urlsplit(url).query
    if parse_qs(query, keep_blank_values=True).keys() & parameters.keys():
        raise AuthorizationError("the URL of the authorization endpoint has a parameter that only the client may set")
    return f"{url}{'&' if query else '' if url.endswith('?') else '?'}{urlencode(parameters)}"
