"""Middleware of Starlette for applications that protect an endpoint themselves; `FastMCP(…, auth=…)` needs none."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl
from starlette.authentication import AuthCredentials, AuthenticationBackend
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_products.auth.resource_server.protection import Challenges
from mcp_runtime.http.authentication import AuthChallenge

from ..auth import OfficialTokenVerifier, OfficialUser, is_accepted
from ..context import auth_context_var


class BearerAuthBackend(AuthenticationBackend):
    """Authenticates requests by their bearer token, for `AuthenticationMiddleware` of Starlette."""

    def __init__(self, token_verifier: OfficialTokenVerifier, *, resource_server_url: AnyHttpUrl | None = None) -> None:
        """Create the backend. Tokens must be for `resource_server_url`; None: the verifier checks that."""
        self.token_verifier = token_verifier
        self.resource_server_url = resource_server_url

    async def authenticate(self, conn: HTTPConnection) -> Any:
        """Return the credentials and the user of a request; None without a token that is accepted."""
        scheme, _, token = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = await self.token_verifier.verify_token(token)
        resource = None if self.resource_server_url is None else str(self.resource_server_url)
        if found is None or not is_accepted(found, resource):
            return None
        return AuthCredentials(found.scopes), OfficialUser(found)


class RequireAuthMiddleware:
    """Serves only requests of an authenticated user with some scopes."""

    def __init__(
        self, app: ASGIApp, required_scopes: list[str], resource_metadata_url: AnyHttpUrl | None = None
    ) -> None:
        """Create the middleware of an application; challenges name the URL of the metadata."""
        self.app = app
        self.required_scopes = required_scopes
        url = None if resource_metadata_url is None else str(resource_metadata_url)
        self._challenges = Challenges(url, tuple(required_scopes))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or answer 401 or 403."""
        if not isinstance(scope.get("user"), OfficialUser):
            await self._refuse("invalid_token", self._challenges.invalid_token())(scope, receive, send)
            return
        granted = getattr(scope.get("auth"), "scopes", ())
        if missing := [needed for needed in self.required_scopes if needed not in granted]:
            headers = self._challenges.insufficient_scope(())
            refused = AuthChallenge(403, f"Required scope: {missing[0]}", headers)
            await self._refuse("insufficient_scope", refused)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refuse(self, error: str, challenge: AuthChallenge) -> JSONResponse:
        response = JSONResponse({"error": error, "error_description": challenge.reason}, challenge.status)
        response.raw_headers.extend(challenge.headers)
        return response


class AuthContextMiddleware:
    """Serves requests whose user `get_access_token` returns."""

    def __init__(self, app: ASGIApp) -> None:
        """Create the middleware of an application."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        user = scope.get("user")
        token = auth_context_var.set(user if isinstance(user, OfficialUser) else None)
        try:
            await self.app(scope, receive, send)
        finally:
            auth_context_var.reset(token)
