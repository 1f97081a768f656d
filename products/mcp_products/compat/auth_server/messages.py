"""Requests to the endpoints of an authorization server, and their responses."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AnyUrl, BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from mcp_products.auth.authorization_server.http import HTTPRequest
from mcp_products.auth.authorization_server.models import OAuthError
from mcp_products.auth.authorization_server.requests import Fields

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
