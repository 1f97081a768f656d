"""The data of OAuth as the official SDK has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import AnyHttpUrl, AnyUrl, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import TypeVar

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.session.interfaces import AuthenticatedUser

if TYPE_CHECKING:
    from mcp_products.auth.resource_server.protection import ResourceServer

JWT_BEARER_GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class ClientRegistrationOptions(BaseModel):
    """Whether clients may register themselves, and their scopes."""

    enabled: bool = False
    client_secret_expiry_seconds: int | None = None
    valid_scopes: list[str] | None = None
    default_scopes: list[str] | None = None


class RevocationOptions(BaseModel):
    """Whether clients may revoke tokens."""

    enabled: bool = False


class URLModel(BaseModel):
    """A model whose URLs are written as they were read."""

    model_config = ConfigDict(url_preserve_empty_path=True)


class AuthSettings(URLModel):
    """How a server is protected: `resource_server_url` is its own URL, `issuer_url` its authorization server."""

    issuer_url: AnyHttpUrl
    service_documentation_url: AnyHttpUrl | None = None
    client_registration_options: ClientRegistrationOptions | None = None
    revocation_options: RevocationOptions | None = None
    required_scopes: list[str] | None = None
    identity_assertion_enabled: bool = False
    resource_server_url: AnyHttpUrl | None = None
    validate_token_resource: bool | None = None

    @model_validator(mode="after")
    def _names_what_it_checks(self) -> Self:
        if self.validate_token_resource and self.resource_server_url is None:
            raise ValueError("validate_token_resource requires resource_server_url")
        return self


class IssuedToken(BaseModel):
    """What a token was issued for."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None


class OfficialAccessToken(IssuedToken):
    """A verified access token, as a `TokenVerifier` returns it."""

    claims: dict[str, Any] | None = None


class StoredRefreshToken(IssuedToken):
    """`RefreshToken` of the official SDK: a refresh token, and what it was issued for."""


class RequestedRedirect(BaseModel):
    """What an authorization request says of its redirect."""

    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None


class AuthorizationParams(RequestedRedirect):
    """The parameters of an authorization request."""

    state: str | None
    scopes: list[str] | None


class StoredAuthorizationCode(RequestedRedirect):
    """`AuthorizationCode` of the official SDK: an authorization code, and what it was issued for."""

    code: str
    scopes: list[str]
    expires_at: float
    client_id: str
    subject: str | None = None


class IdentityAssertionParams(BaseModel):
    """The parameters of a token request with an identity assertion."""

    assertion: str
    scopes: list[str] | None = None
    resource: str | None = None


class OfficialOAuthToken(BaseModel):
    """`OAuthToken` of the official SDK: a token response (https://www.rfc-editor.org/rfc/rfc6749#section-5.1)."""

    access_token: str
    token_type: Annotated[Literal["Bearer"], BeforeValidator(lambda kind: str(kind).title())] = "Bearer"
    expires_in: int | None = None
    scope: str | None = None
    refresh_token: str | None = None


class RefusedClientError(Exception):
    """A client is refused."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidScopeError(RefusedClientError):
    """A client has requested a scope that it was not registered with."""


class InvalidRedirectUriError(RefusedClientError):
    """A client has named a redirect URI that it was not registered with."""


class OAuthClientMetadata(URLModel):
    """The metadata of a client (https://www.rfc-editor.org/rfc/rfc7591#section-2)."""

    redirect_uris: list[AnyUrl] | None = Field(..., min_length=1)
    token_endpoint_auth_method: str | None = None
    grant_types: list[str] = ["authorization_code", "refresh_token"]
    response_types: list[str] = ["code"]
    scope: str | None = None
    client_name: str | None = None
    client_uri: AnyHttpUrl | None = None
    logo_uri: AnyHttpUrl | None = None
    contacts: list[str] | None = None
    tos_uri: AnyHttpUrl | None = None
    policy_uri: AnyHttpUrl | None = None
    jwks_uri: AnyHttpUrl | None = None
    jwks: Any | None = None
    software_id: str | None = None
    software_version: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_placeholders(cls, data: Any) -> Any:
        if not is_object(data):
            return data  # Servers write null or an empty text for what they do not know.
        return {name: value for name, value in data.items() if value not in (None, "") or name == "redirect_uris"}

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """Return the scopes of a request; None for none. Raises InvalidScopeError for one that is not registered."""
        if requested_scope is None:
            return None
        scopes, registered = requested_scope.split(" "), (self.scope or "").split(" ")
        for scope in scopes:
            if scope not in registered:
                raise InvalidScopeError(f"Client was not registered with scope {scope}")
        return scopes

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """Return the redirect URI of a request; for None the only one that is registered.

        Raises InvalidRedirectUriError for one that is not registered, and for None if there are several.
        """
        registered = self.redirect_uris or []
        if redirect_uri is not None:
            if str(AnyUrl(str(redirect_uri))) not in {str(AnyUrl(str(uri))) for uri in registered}:
                raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' not registered for client")
            return redirect_uri
        if len(registered) != 1:
            raise InvalidRedirectUriError("redirect_uri must be specified when client has multiple registered URIs")
        return registered[0]


class OAuthClientInformationFull(OAuthClientMetadata):
    """A registered client (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)."""

    redirect_uris: list[AnyUrl] | None = None
    client_id: str | None = None
    client_secret: str | None = None
    client_id_issued_at: int | None = None
    client_secret_expires_at: int | None = None
    issuer: str | None = None


class OAuthMetadata(URLModel, extra="allow"):
    """The metadata of an authorization server (https://www.rfc-editor.org/rfc/rfc8414#section-2)."""

    issuer: AnyHttpUrl
    authorization_endpoint: AnyHttpUrl | None = None
    token_endpoint: AnyHttpUrl
    registration_endpoint: AnyHttpUrl | None = None
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] = ["code"]
    grant_types_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    service_documentation: AnyHttpUrl | None = None
    revocation_endpoint: AnyHttpUrl | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None


class ProtectedResourceMetadata(URLModel, extra="allow"):
    """The metadata of a protected resource (https://www.rfc-editor.org/rfc/rfc9728#section-2)."""

    resource: AnyHttpUrl
    authorization_servers: list[AnyHttpUrl] = Field(..., min_length=1)
    scopes_supported: list[str] | None = None
    bearer_methods_supported: list[str] | None = ["header"]
    resource_name: str | None = None


class AuthorizationCodeResult(BaseModel):
    """The parameters with which the authorization server has redirected the user."""

    code: str
    state: str | None = None
    iss: str | None = None


# `OAuthAuthorizationServerProvider` of the official SDK: the storage and the rules of an authorization server.

CodeT = TypeVar("CodeT", bound=StoredAuthorizationCode, default=StoredAuthorizationCode, contravariant=True)
RefreshT = TypeVar("RefreshT", bound=StoredRefreshToken, default=StoredRefreshToken, contravariant=True)
AccessT = TypeVar("AccessT", bound=OfficialAccessToken, default=OfficialAccessToken, covariant=True)


@dataclass(frozen=True)
class EndpointError(Exception):
    """An error of an endpoint of an authorization server."""

    error: str
    error_description: str | None = None


class RegistrationError(EndpointError):
    """An error of the registration endpoint."""


class AuthorizeError(EndpointError):
    """An error of the authorization endpoint."""


class TokenError(EndpointError):
    """An error of the token endpoint."""


class OAuthAuthorizationServerProvider(Protocol[CodeT, RefreshT, AccessT]):
    """The storage and the rules of an authorization server.

    `FastMCP(…, auth_server_provider=…, auth=AuthSettings(…))` serves its endpoints beside the MCP endpoint, and accepts
    its tokens. `mcp_generated.auth.AuthorizationServer` stores clients and tokens itself.
    """

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client."""

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client."""

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the URL to redirect the user to."""
        ...

    async def load_authorization_code(self, client: OAuthClientInformationFull, authorization_code: str) -> Any:
        """Return the data of an authorization code."""

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: CodeT
    ) -> OfficialOAuthToken:
        """Return the token for an authorization code."""
        ...

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> Any:
        """Return the data of a refresh token."""

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshT, scopes: list[str]
    ) -> OfficialOAuthToken:
        """Return the token for a refresh token."""
        ...

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OfficialOAuthToken:
        """Return the token for an identity assertion. Raises TokenError, unless a provider takes assertions."""
        raise TokenError("unsupported_grant_type", "This authorization server takes no identity assertions")

    async def load_access_token(self, token: str) -> AccessT | None:
        """Return the data of an access token; None if it is not valid."""

    async def revoke_token(self, token: Any) -> None:
        """Revoke an access token or a refresh token."""


@dataclass
class ProviderTokenVerifier:
    """Verifies the tokens of a provider, in the same process."""

    provider: OAuthAuthorizationServerProvider

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the data of an access token; None if it is not valid."""
        return await self.provider.load_access_token(token)


def construct_redirect_uri(redirect_uri_base: str, **params: str | None) -> str:
    """Return a redirect URI with parameters added to its query; those that are None are left out."""
    parts = urlsplit(redirect_uri_base)
    added = [(name, value) for name, value in params.items() if value is not None]
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), *added])))


def resource_url_from_server_url(url: Any) -> str:
    """Return the resource indicator of a server's URL: scheme and host in lower case, without a fragment."""
    parts = urlsplit(str(url))
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def check_resource_allowed(requested_resource: str, configured_resource: str) -> bool:
    """Return True if a resource is the configured one, or at a path below it at the same origin."""
    requested, configured = urlsplit(requested_resource), urlsplit(configured_resource)
    if (requested.scheme.lower(), requested.netloc.lower()) != (configured.scheme.lower(), configured.netloc.lower()):
        return False
    return f"{requested.path.rstrip('/')}/".startswith(f"{configured.path.rstrip('/')}/")


# `StaticTokenVerifier` of FastMCP: access tokens that stand in the program, for development.


class StaticTokenVerifier:
    """Accepts the tokens of a dict; for development only."""

    def __init__(self, tokens: Mapping[str, Mapping[str, Any]], required_scopes: list[str] | None = None) -> None:
        """Create a verifier. Raises LocalError for a token without a `client_id`.

        Args:
            tokens: For each token its `client_id`, `sub`, `scopes` and `expires_at`, and other claims.
            required_scopes: Scopes that all tokens need.
        """
        for token, claims in tokens.items():
            if not claims.get("client_id"):
                raise LocalError(f"StaticTokenVerifier(): the token {token[:4] + '…'!r} needs a client_id")
        self.tokens = tokens
        self.required_scopes = required_scopes or []

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the token's data; None if it is unknown or has not the scopes."""
        claims = self.tokens.get(token)
        if claims is None or not {*self.required_scopes} <= {*claims.get("scopes", ())}:
            return None
        own = {"token": token, "subject": claims.get("sub"), "resource": None, "claims": dict(claims)}
        return OfficialAccessToken.model_validate({"scopes": [], **claims, **own})


# `TokenVerifier` of the official SDK, and the protected resource of a server that has one.


class OfficialTokenVerifier(Protocol):
    """Verifies access tokens."""

    async def verify_token(self, token: str) -> OfficialAccessToken | None:
        """Return the token's data; None if it is not valid, or not for this server."""


def is_accepted(access_token: OfficialAccessToken, resource: str | None) -> bool:
    """Return True for a token that has not expired and is for a resource: the same URL, but for a slash at its end.

    None for `resource`: the verifier has checked it.
    """
    if access_token.expires_at and access_token.expires_at < clocks.wall():
        return False
    if resource is None:
        return True
    try:
        found = AnyHttpUrl(access_token.resource or "")
    except ValidationError:
        return False
    return str(found).removesuffix("/") == str(AnyHttpUrl(resource)).removesuffix("/")


class OfficialUser:
    """`AuthenticatedUser` of the official SDK: the user of a request, as Starlette has users."""

    is_authenticated = True

    def __init__(self, auth_info: OfficialAccessToken) -> None:
        """Create the user of an access token."""
        self.access_token = auth_info
        self.scopes = auth_info.scopes
        self.username = self.display_name = auth_info.client_id
        issuer = (auth_info.claims or {}).get("iss")
        self.identity = repr((issuer, auth_info.client_id, auth_info.subject))  # Sessions are those of one user.


class TokenClaims(dict[str, Any]):
    """The claims of a token, with the token as the verifier returned it."""

    def __init__(self, access_token: OfficialAccessToken) -> None:
        super().__init__(access_token.claims or {})
        self.access_token = access_token


@dataclass(frozen=True)
class TokenVerifierAdapter:
    """Verifies tokens with a verifier of the official SDK.

    Args:
        verifier: The verifier.
        issuer: Issuer identifier of the authorization server.
        resource: The resource that a token has to be for; None if the verifier checks it.
    """

    verifier: OfficialTokenVerifier
    issuer: str
    resource: str | None

    async def verify(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not valid, has expired, or is for another resource."""
        found = await self.verifier.verify_token(token)
        if found is None or not is_accepted(found, self.resource):
            return None
        identity = (found.subject, found.client_id, frozenset(found.scopes), self.issuer)
        return AuthenticatedUser(*identity, TokenClaims(found), expires_at=found.expires_at)


def protected_resource(settings: AuthSettings, verifier: OfficialTokenVerifier, url: str) -> ResourceServer:
    """Return the protected resource of a server. Needs the extras `http` and `auth`.

    `url` is the URL of the server if the settings have none.
    """
    from mcp_products.auth.resource_server.protection import ResourceServer

    resource = url if settings.resource_server_url is None else str(settings.resource_server_url)
    checked = resource if settings.validate_token_resource else None
    issuer = str(settings.issuer_url)
    adapter = TokenVerifierAdapter(verifier, issuer, checked)
    return ResourceServer(resource, [issuer], verifier=adapter, scopes=settings.required_scopes or ())


def access_token_of(user: AuthenticatedUser | None) -> OfficialAccessToken | None:
    """Return the access token of a user, as its verifier returned it; None without one."""
    if user is None:
        return None
    return user.claims.access_token if isinstance(user.claims, TokenClaims) else None
