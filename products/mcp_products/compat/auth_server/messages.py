"""Requests to the endpoints of an authorization server, the clients that send them, and responses."""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import Annotated, Any, Final, Literal

from pydantic import AnyUrl, BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from mcp_products.auth.authorization_server.clients import METHODS
from mcp_products.auth.authorization_server.http import HTTPRequest
from mcp_products.auth.authorization_server.models import OAuthError
from mcp_products.auth.authorization_server.requests import Fields, parse_client_authentication
from mcp_runtime.aio import clock as clocks

from .. import auth

NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class AuthorizationRequest(BaseModel):
    """The parameters of the authorization endpoint (https://www.rfc-editor.org/rfc/rfc6749#section-4.1.1)."""

    client_id: str
    response_type: Literal["code"]
    code_challenge: str
    code_challenge_method: Literal["S256"] = "S256"
    redirect_uri: AnyUrl | None = None
    state: str | None = None
    scope: str | None = None
    resource: str | None = None


class _OfClient(BaseModel):
    client_id: str
    client_secret: str | None = Field(None, repr=False)
    resource: str | None = None


class AuthorizationCodeRequest(_OfClient):
    """A token request with an authorization code (https://www.rfc-editor.org/rfc/rfc6749#section-4.1.3)."""

    grant_type: Literal["authorization_code"]
    code: str = Field(repr=False)
    code_verifier: str = Field(repr=False)
    redirect_uri: AnyUrl | None = None


class RefreshTokenRequest(_OfClient):
    """A token request with a refresh token (https://www.rfc-editor.org/rfc/rfc6749#section-6)."""

    grant_type: Literal["refresh_token"]
    refresh_token: str = Field(repr=False)
    scope: str | None = None


class JwtBearerRequest(_OfClient):
    """A token request with an identity assertion (https://www.rfc-editor.org/rfc/rfc7523#section-2.1)."""

    grant_type: Literal["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assertion: str = Field(repr=False)
    scope: str | None = None


class RevocationRequest(BaseModel):
    """The parameters of the revocation endpoint (https://www.rfc-editor.org/rfc/rfc7009#section-2.1)."""

    token: str = Field(repr=False)
    token_type_hint: Literal["access_token", "refresh_token"] | None = None


TokenRequest = Annotated[
    AuthorizationCodeRequest | RefreshTokenRequest | JwtBearerRequest, Field(discriminator="grant_type")
]
token_request_adapter: Final[TypeAdapter[TokenRequest]] = TypeAdapter(TokenRequest)


class PydanticJSONResponse(JSONResponse):
    """A response whose body is a pydantic model, without what is None."""

    def render(self, content: Any) -> bytes:
        """Return the model as JSON."""
        body: str = content.model_dump_json(exclude_none=True)
        return body.encode()


def stringify_pydantic_error(validation_error: ValidationError) -> str:
    """Return the errors of a validation, one a line. They have no values of the request, which may be secrets."""
    errors = validation_error.errors(include_url=False, include_context=False, include_input=False)
    return "\n".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors)


async def fields_of(request: Request) -> Fields:
    """Return the parameters of a GET, or the fields of a form. Raises OAuthError for what cannot be read."""
    headers = {"content-type": request.headers.get("content-type", "")}
    read = HTTPRequest(request.method, request.url.path, request.url.query, headers, await request.body())
    return read.parameters() if request.method == "GET" else read.form()


REFUSALS: Final = (OAuthError, ValidationError, auth.EndpointError, auth.RefusedClientError)
"""What a request is refused with."""


def refusal(error: Any, invalid: str = "invalid_request") -> dict[str, Any]:
    """Return an error as endpoints answer it; `invalid` is the code of a request that is not well-formed."""
    if isinstance(error, OAuthError):
        code, text = error.code.value, error.reason
    elif isinstance(error, ValidationError):
        code, text = invalid, stringify_pydantic_error(error)
    elif isinstance(error, auth.RefusedClientError):
        code, text = "invalid_scope" if isinstance(error, auth.InvalidScopeError) else "invalid_request", error.message
    else:
        code, text = error.error, error.error_description
    return {"error": code, "error_description": text} if text else {"error": code}


# Who sends a request: its client, by the secret that it was registered with.


class AuthenticationError(auth.RefusedClientError):
    """The client of a request is not known, or has not shown its secret."""


@dataclass
class ClientAuthenticator:
    """Authenticates the clients of a provider (https://www.rfc-editor.org/rfc/rfc6749#section-2.3)."""

    provider: auth.OAuthAuthorizationServerProvider[Any, Any, Any]

    async def authenticate_request(self, request: Request) -> auth.OAuthClientInformationFull:
        """Return the client of a request. Raises AuthenticationError, and OAuthError for a form that cannot be read."""
        fields = await fields_of(request)
        if "client_id" not in fields:
            raise AuthenticationError("Missing client_id")
        client = await self.provider.get_client(fields["client_id"])
        if client is None:
            raise AuthenticationError("Invalid client_id")
        method, secret = client.token_endpoint_auth_method, None
        if method not in METHODS:
            raise AuthenticationError(f"Unsupported auth method: {method}")
        if method == "client_secret_basic":
            secret = _basic_secret(request.headers.get("authorization", ""), fields["client_id"])
        elif method == "client_secret_post":
            secret = fields.get("client_secret")
        if method != "none" and not client.client_secret:
            raise AuthenticationError("Client is registered for secret-based authentication but has no stored secret")
        if client.client_secret:
            _check_secret(client, client.client_secret, secret)
        return client


def _basic_secret(header: str, client_id: str) -> str | None:
    if not header.lower().startswith("basic "):
        raise AuthenticationError("Missing or invalid Basic authentication in Authorization header")
    try:
        found = parse_client_authentication({"authorization": header}, {})
    except OAuthError:
        raise AuthenticationError("Invalid Basic authentication header") from None
    if found.client_id != client_id:
        raise AuthenticationError("Client ID mismatch in Basic auth")
    return found.client_secret


def _check_secret(client: auth.OAuthClientInformationFull, expected: str, secret: str | None) -> None:
    if not secret:
        raise AuthenticationError("Client secret is required")
    if not compare_digest(expected.encode(), secret.encode()):
        raise AuthenticationError("Invalid client_secret")
    if client.client_secret_expires_at and client.client_secret_expires_at < clocks.wall():
        raise AuthenticationError("Client secret has expired")
