"""Who sends a request to an authorization server: its client, by the secret that it was registered with."""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from starlette.requests import Request

from mcp_products.auth.authorization_server.clients import METHODS
from mcp_products.auth.authorization_server.models import OAuthError
from mcp_products.auth.authorization_server.requests import parse_client_authentication
from mcp_runtime.aio import clock as clocks

from ..auth import OAuthAuthorizationServerProvider, OAuthClientInformationFull, RefusedClientError
from .messages import fields_of


class AuthenticationError(RefusedClientError):
    """The client of a request is not known, or has not shown its secret."""


@dataclass
class ClientAuthenticator:
    """Authenticates the clients of a provider (https://www.rfc-editor.org/rfc/rfc6749#section-2.3)."""

    provider: OAuthAuthorizationServerProvider[Any, Any, Any]

    async def authenticate_request(self, request: Request) -> OAuthClientInformationFull:
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


def _check_secret(client: OAuthClientInformationFull, expected: str, secret: str | None) -> None:
    if not secret:
        raise AuthenticationError("Client secret is required")
    if not compare_digest(expected.encode(), secret.encode()):
        raise AuthenticationError("Invalid client_secret")
    if client.client_secret_expires_at and client.client_secret_expires_at < clocks.wall():
        raise AuthenticationError("Client secret has expired")
