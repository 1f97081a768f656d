"""Requests of programs go in: for metadata, to register, for tokens, to end them, what they are worth; JSON comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from .clients import ClientRegistry, RegistrationQuota
from .http import HTTPRequest, HTTPResponse
from .models import CODE, CREDENTIALS, REFRESH, OAuthClient, OAuthError, OAuthErrorCode
from .registration import METHODS, read_registration
from .requests import Fields, check_client_authentication, parse_client_authentication
from .tokens import TokenInfo, TokenService


class TokenEndpoints:
    """The endpoints that programs ask."""

    def __init__(
        self,
        issuer: str,
        scopes: Sequence[str],
        clients: ClientRegistry,
        tokens: TokenService,
        quota: RegistrationQuota | None,
        documents: bool,
        introspect_token: Callable[[str], Awaitable[TokenInfo | None]],
    ) -> None:
        self._issuer = issuer
        self._scopes = scopes
        self._clients = clients
        self._tokens = tokens
        self._quota = quota
        self._documents = documents
        self._introspect_token = introspect_token

    async def metadata(self, request: HTTPRequest) -> HTTPResponse:
        """What this server says of itself (RFC 8414)."""
        at = self._issuer
        shows = list(METHODS)
        said: dict[str, Any] = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "revocation_endpoint": f"{at}/revoke",
            "introspection_endpoint": f"{at}/introspect",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": [CODE, REFRESH, CREDENTIALS],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": shows,
            "revocation_endpoint_auth_methods_supported": shows,
            "introspection_endpoint_auth_methods_supported": shows[1:],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._documents,
        }
        if self._quota is not None:
            said["registration_endpoint"] = f"{at}/register"
        if self._scopes:
            said["scopes_supported"] = list(self._scopes)
        return HTTPResponse.json(said)

    async def register(self, request: HTTPRequest) -> HTTPResponse:
        """Register a client (RFC 7591). Raises Refused."""
        if self._quota is None:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "clients do not register here", 404)
        if not self._quota.acquire(request.address):
            raise OAuthError(
                OAuthErrorCode.TEMPORARILY_UNAVAILABLE, "too many clients registered from this address", 429
            )
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise OAuthError(OAuthErrorCode.INVALID_CLIENT_METADATA, "the body is application/json")
        return HTTPResponse.json(await self._clients.register(read_registration(request.body)), 201)

    async def token(self, request: HTTPRequest) -> HTTPResponse:
        """Give tokens (RFC 6749 3.2). Raises Refused."""
        client, said = await self._authenticated_client(request)
        return HTTPResponse.json(await self._tokens.token_response(client, said))

    async def revoke(self, request: HTTPRequest) -> HTTPResponse:
        """End what a token is of (RFC 7009). Raises Refused."""
        client, said = await self._authenticated_client(request)
        if "token" not in said:
            raise OAuthError(OAuthErrorCode.INVALID_REQUEST, "there is no token to revoke")
        await self._tokens.revoke(client, said["token"])
        return HTTPResponse.json({})

    async def introspect(self, request: HTTPRequest) -> HTTPResponse:
        """Say to a resource server what a token is worth (RFC 7662). Raises Refused."""
        client, said = await self._authenticated_client(request)
        if not client.may_introspect or client.secret_digest is None:
            raise OAuthError(OAuthErrorCode.UNAUTHORIZED_CLIENT, "this client may not ask what tokens are worth", 403)
        found = await self._introspect_token(said.get("token", ""))
        return HTTPResponse.json({"active": False} if found is None else {"active": True, **claims(found, self._issuer)})

    async def _authenticated_client(self, request: HTTPRequest) -> tuple[OAuthClient, Fields]:
        """The client, once it has shown itself, and what it says."""
        said = request.form()
        who = parse_client_authentication(request.headers, said)
        return check_client_authentication(await self._clients.find(who.client_id), who), said


def claims(info: TokenInfo, issuer: str) -> Mapping[str, Any]:
    """What a token says, as claims of RFC 7662 2.2; `sid` is its grant."""
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
