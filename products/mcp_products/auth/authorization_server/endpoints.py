"""The endpoints that programs use: metadata, registration, token, revocation and introspection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .clients import METHODS, ClientRegistry, RegistrationQuota, read_registration
from .http import HTTPRequest, HTTPResponse
from .models import CODE, CREDENTIALS, REFRESH, OAuthClient, OAuthError, OAuthErrorCode
from .requests import Fields, check_client_authentication, parse_client_authentication
from .tokens import TokenInfo, TokenService


@dataclass(eq=False, repr=False)
class TokenEndpoints:
    """The endpoints that programs use.

    Args:
        issuer: Issuer identifier of the server.
        scopes: Scopes of the server.
        clients: Clients of the server.
        tokens: Issues tokens.
        quota: Limit on registrations; None if clients cannot register.
        supports_documents: True if client id metadata documents are supported.
        introspect_token: Returns the state of an access token.
    """

    _issuer: str
    _scopes: Sequence[str]
    _clients: ClientRegistry
    _tokens: TokenService
    _quota: RegistrationQuota | None
    _supports_documents: bool
    _introspect_token: Callable[[str], Awaitable[TokenInfo | None]]

    async def metadata(self, request: HTTPRequest) -> HTTPResponse:
        """Return the metadata of the server (https://www.rfc-editor.org/rfc/rfc8414#section-2)."""
        issuer, methods = self._issuer, list(METHODS)
        metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "revocation_endpoint": f"{issuer}/revoke",
            "introspection_endpoint": f"{issuer}/introspect",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": [CODE, REFRESH, CREDENTIALS],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "introspection_endpoint_auth_methods_supported": methods[1:],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._supports_documents,
        }
        if self._quota is not None:
            metadata["registration_endpoint"] = f"{issuer}/register"
        if self._scopes:
            metadata["scopes_supported"] = list(self._scopes)
        return HTTPResponse.json(metadata)

    async def register(self, request: HTTPRequest) -> HTTPResponse:
        """Register a client (https://www.rfc-editor.org/rfc/rfc7591#section-3). Raises OAuthError."""
        if self._quota is None:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "this server does not support client registration", 404)
        if not self._quota.acquire(request.address):
            raise OAuthError(
                OAuthErrorCode.TEMPORARILY_UNAVAILABLE,
                "too many clients were registered from this address; try again in an hour",
                429,
            )
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, "the Content-Type must be application/json")
        return HTTPResponse.json(await self._clients.register(read_registration(request.body)), 201)

    async def token(self, request: HTTPRequest) -> HTTPResponse:
        """Issue tokens (https://www.rfc-editor.org/rfc/rfc6749#section-3.2). Raises OAuthError."""
        client, params = await self._authenticated_client(request)
        return HTTPResponse.json(await self._tokens.token_response(client, params))

    async def revoke(self, request: HTTPRequest) -> HTTPResponse:
        """Revoke the grant of a token (https://www.rfc-editor.org/rfc/rfc7009#section-2). Raises OAuthError."""
        client, params = await self._authenticated_client(request)
        if "token" not in params:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "the parameter token is missing")
        await self._tokens.revoke(client, params["token"])
        return HTTPResponse.json({})

    async def introspect(self, request: HTTPRequest) -> HTTPResponse:
        """Return the state of a token to a resource server (https://www.rfc-editor.org/rfc/rfc7662#section-2).

        Raises OAuthError.
        """
        client, params = await self._authenticated_client(request)
        if not client.may_introspect or client.secret_digest is None:
            raise OAuthError(OAuthErrorCode.UNAUTHORIZED_CLIENT, "this client may not introspect tokens", 403)
        info = await self._introspect_token(params.get("token", ""))
        return HTTPResponse.json({"active": False} if info is None else {"active": True, **claims(info, self._issuer)})

    async def _authenticated_client(self, request: HTTPRequest) -> tuple[OAuthClient, Fields]:
        """Return the authenticated client and the fields of the form. Raises OAuthError."""
        params = request.form()
        authentication = parse_client_authentication(request.headers, params)
        client = await self._clients.find(authentication.client_id)
        return check_client_authentication(client, authentication), params


def claims(info: TokenInfo, issuer: str) -> Mapping[str, Any]:
    """Return the claims of a token (https://www.rfc-editor.org/rfc/rfc7662#section-2.2); `sid` is the id of its
    grant."""
    return {
        "iss": issuer,
        "sub": info.grant.user,
        "client_id": info.grant.client_id,
        "aud": info.grant.resource,
        "scope": " ".join(info.scopes),
        "exp": int(info.expires_at),
        "sid": info.grant.id,
        "token_type": "Bearer",
    }
