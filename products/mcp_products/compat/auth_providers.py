"""`OAuthProvider` of FastMCP: a server that is its own authorization server has one as `auth=…`."""

from __future__ import annotations

from typing import Any, Final

from pydantic import AnyHttpUrl, TypeAdapter

from mcp_runtime._lazy import LazyModule

from . import auth

routes: Any = LazyModule("mcp_products.compat.auth_server.routes")  # They need the extra `http`.

_METADATA: Final = "/.well-known/oauth-authorization-server"
_URL: Final = TypeAdapter[Any](AnyHttpUrl | None)
Address = AnyHttpUrl | str | None


class OAuthProvider(auth.OAuthAuthorizationServerProvider):
    """An authorization server within a server; a subclass stores clients, codes and tokens, and may add routes."""

    def __init__(
        self,
        *,
        base_url: AnyHttpUrl | str,
        resource_base_url: Address = None,
        issuer_url: Address = None,
        service_documentation_url: Address = None,
        client_registration_options: auth.ClientRegistrationOptions | None = None,
        revocation_options: auth.RevocationOptions | None = None,
        required_scopes: list[str] | None = None,
    ) -> None:
        """Create a provider.

        Args:
            base_url: The URL below which the endpoints are.
            resource_base_url: The URL below which the MCP endpoint is; by default `base_url`.
            issuer_url: The issuer identifier; by default `base_url`.
            service_documentation_url: A page for developers of clients.
            client_registration_options: Whether clients may register themselves; by default not.
            revocation_options: Whether clients may revoke tokens; by default not.
            required_scopes: Scopes that every request needs.
        """
        self.base_url = _URL.validate_python(base_url)
        self.resource_base_url = _URL.validate_python(resource_base_url)
        self.issuer_url = _URL.validate_python(issuer_url) or self.base_url
        self.service_documentation_url = _URL.validate_python(service_documentation_url)
        self.client_registration_options = client_registration_options
        self.revocation_options = revocation_options
        self.required_scopes = required_scopes or []
        self.set_mcp_path(None)

    async def verify_token(self, token: str) -> auth.OfficialAccessToken | None:
        """Return the token's data; None if it is not valid."""
        return await self.load_access_token(token)

    @property
    def scopes_supported(self) -> list[str]:
        """The scopes that clients may register."""
        options = self.client_registration_options
        return (options and options.valid_scopes) or self.required_scopes

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Take the path of the MCP endpoint."""
        self._mcp_path = mcp_path
        self._resource_url = self._get_resource_url(mcp_path)

    def _get_resource_url(self, path: str | None = None) -> Any:
        base = self.resource_base_url or self.base_url
        return AnyHttpUrl(f"{str(base).rstrip('/')}/{path.lstrip('/')}") if path else base

    def settings(self, mcp_path: str) -> auth.AuthSettings:
        """Return how an endpoint at this path is protected."""
        self.set_mcp_path(mcp_path)
        urls = {"issuer_url": self.issuer_url, "resource_server_url": self._resource_url}
        return auth.AuthSettings(required_scopes=self.required_scopes, **urls)

    def get_routes(self, mcp_path: str | None = None) -> list[Any]:
        """Return the routes of the authorization server and of the metadata of the endpoint."""
        self.set_mcp_path(mcp_path)
        options = (self.service_documentation_url, self.client_registration_options, self.revocation_options)
        made = routes.create_auth_routes(self, self.base_url, *options, issuer=self.issuer_url)
        scopes = self.scopes_supported
        return [*made, *routes.create_protected_resource_routes(self._resource_url, [self.issuer_url], scopes)]

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Any]:
        """Return the routes of metadata, for the root of an application that mounts the endpoint."""
        found = [route for route in self.get_routes(mcp_path) if route.path.startswith("/.well-known/")]
        path = f"{_METADATA}{(self.issuer_url.path or '').rstrip('/')}"
        return [routes.Route(path, at.app, methods=at.methods) if at.path == _METADATA else at for at in found]
