"""The data of OAuth as the official SDK has them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import AnyHttpUrl, AnyUrl, BaseModel, ConfigDict, Field

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


class AuthSettings(BaseModel):
    """How a server is protected: `resource_server_url` is its own URL, `issuer_url` its authorization server."""

    model_config = ConfigDict(url_preserve_empty_path=True)

    issuer_url: AnyHttpUrl
    service_documentation_url: AnyHttpUrl | None = None
    client_registration_options: ClientRegistrationOptions | None = None
    revocation_options: RevocationOptions | None = None
    required_scopes: list[str] | None = None
    identity_assertion_enabled: bool = False
    resource_server_url: AnyHttpUrl | None = None
    validate_token_resource: bool | None = None


class OfficialAccessToken(BaseModel):
    """A verified access token, as a `TokenVerifier` returns it."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: dict[str, Any] | None = None


class AuthorizationParams(BaseModel):
    """The parameters of an authorization request."""

    state: str | None
    scopes: list[str] | None
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None


class StoredAuthorizationCode(BaseModel):
    """`AuthorizationCode` of the official SDK: an authorization code, and what it was issued for."""

    code: str
    scopes: list[str]
    expires_at: float
    client_id: str
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None
    subject: str | None = None


class StoredRefreshToken(BaseModel):
    """`RefreshToken` of the official SDK: a refresh token, and what it was issued for."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None


class IdentityAssertionParams(BaseModel):
    """The parameters of a token request with an identity assertion."""

    assertion: str
    scopes: list[str] | None = None
    resource: str | None = None


class OfficialOAuthToken(BaseModel):
    """`OAuthToken` of the official SDK: a token response (https://www.rfc-editor.org/rfc/rfc6749#section-5.1)."""

    access_token: str
    token_type: str = "Bearer"
    expires_in: int | None = None
    scope: str | None = None
    refresh_token: str | None = None


class OAuthClientMetadata(BaseModel):
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


class OAuthClientInformationFull(OAuthClientMetadata):
    """A registered client (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)."""

    client_id: str | None = None
    client_secret: str | None = None
    client_id_issued_at: int | None = None
    client_secret_expires_at: int | None = None
    issuer: str | None = None


class OAuthMetadata(BaseModel, extra="allow"):
    """The metadata of an authorization server (https://www.rfc-editor.org/rfc/rfc8414#section-2)."""

    issuer: AnyHttpUrl
    authorization_endpoint: AnyHttpUrl | None = None
    token_endpoint: AnyHttpUrl
    registration_endpoint: AnyHttpUrl | None = None
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] = ["code"]
    grant_types_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None


class AuthorizationCodeResult(BaseModel):
    """The parameters with which the authorization server has redirected the user."""

    code: str
    state: str | None = None
    iss: str | None = None
