"""The routes of an authorization server and of the metadata of a protected resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp

from mcp_products.auth.authorization_server.models import CODE, REFRESH
from mcp_products.auth.discovery import protected_resource_metadata_urls
from mcp_products.auth.http import is_loopback

from .. import auth
from ..forms.callbacks import MCP_PROTOCOL_VERSION
from . import handlers
from .messages import ClientAuthenticator

_MAX_BODY: Final = 4 * 1024 * 1024  # Bytes, as there.
_AUTH_METHODS: Final = ["client_secret_post", "client_secret_basic"]
_ASSERTIONS: Final = "urn:ietf:params:oauth:grant-profile:id-jag"

Handler = Callable[[Request], Awaitable[Response] | Response]


def _with_cors(app: ASGIApp, methods: Sequence[str]) -> ASGIApp:
    return CORSMiddleware(app, allow_origins=("*",), allow_methods=methods, allow_headers=(MCP_PROTOCOL_VERSION,))


def cors_middleware(handler: Handler, allow_methods: Sequence[str]) -> ASGIApp:
    """Return an ASGI application that pages of all origins may ask."""
    return _with_cors(request_response(handler), allow_methods)


def _document(path: str, metadata: Any) -> Route:
    methods = ["GET", "OPTIONS"]
    return Route(path, cors_middleware(handlers.MetadataHandler(metadata).handle, methods), methods=methods)


def _endpoint(path: str, handler: Handler) -> Route:
    methods = ["POST", "OPTIONS"]
    limited = RequestBodyLimitMiddleware(request_response(handler), _MAX_BODY)
    return Route(path, _with_cors(limited, methods), methods=methods)  # So that 413 is readable for pages too.


def validate_issuer_url(url: AnyHttpUrl) -> None:
    """Raise ValueError unless a URL may be an issuer: https, or this machine, without a query and a fragment."""
    if url.scheme != "https" and not is_loopback((url.host or "").strip("[]")):
        raise ValueError("Issuer URL must be HTTPS")
    if url.fragment is not None:
        raise ValueError("Issuer URL must not have a fragment")
    if url.query is not None:
        raise ValueError("Issuer URL must not have a query string")


def build_metadata(
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None,
    client_registration_options: auth.ClientRegistrationOptions,
    revocation_options: auth.RevocationOptions,
    supports_identity_assertion: bool = False,
) -> auth.OAuthMetadata:
    """Return the metadata of an authorization server (https://www.rfc-editor.org/rfc/rfc8414#section-2)."""
    base = str(issuer_url).rstrip("/")
    asserts = supports_identity_assertion
    fields: dict[str, Any] = {
        "issuer": issuer_url,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register" if client_registration_options.enabled else None,
        "scopes_supported": client_registration_options.valid_scopes,
        "grant_types_supported": [CODE, REFRESH, *([auth.JWT_BEARER_GRANT_TYPE] if asserts else ())],
        "token_endpoint_auth_methods_supported": _AUTH_METHODS,
        "service_documentation": service_documentation_url,
        "code_challenge_methods_supported": ["S256"],
        "authorization_grant_profiles_supported": [_ASSERTIONS] if asserts else None,
    }
    if revocation_options.enabled:
        fields["revocation_endpoint"] = f"{base}/revoke"
        fields["revocation_endpoint_auth_methods_supported"] = _AUTH_METHODS
    return auth.OAuthMetadata.model_validate(fields)


def create_auth_routes(
    provider: handlers.Provider,
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None = None,
    client_registration_options: auth.ClientRegistrationOptions | None = None,
    revocation_options: auth.RevocationOptions | None = None,
    identity_assertion_enabled: bool = False,
    *,
    issuer: AnyHttpUrl | None = None,
) -> list[Route]:
    """Return the routes of an authorization server. Raises ValueError for a URL that no issuer may have.

    Args:
        provider: Decides, and stores clients, codes and tokens.
        issuer_url: The URL of the server, below which the routes are.
        service_documentation_url: A page for developers of clients.
        client_registration_options: Whether clients may register themselves; by default not.
        revocation_options: Whether clients may revoke tokens; by default not.
        identity_assertion_enabled: Whether tokens are issued for assertions of an identity provider.
        issuer: The issuer identifier, if it is another one than `issuer_url`.
    """
    validate_issuer_url(issuer_url)
    registration = client_registration_options or auth.ClientRegistrationOptions()
    revocation = revocation_options or auth.RevocationOptions()
    clients = ClientAuthenticator(provider)
    asserts = identity_assertion_enabled
    metadata = build_metadata(issuer_url, service_documentation_url, registration, revocation, asserts)
    metadata.issuer = issuer or metadata.issuer
    authorize = request_response(handlers.AuthorizationHandler(provider).handle)
    routes = [
        _document("/.well-known/oauth-authorization-server", metadata),
        Route("/authorize", RequestBodyLimitMiddleware(authorize, _MAX_BODY), methods=["GET", "POST"]),
        _endpoint("/token", handlers.TokenHandler(provider, clients, asserts).handle),
    ]
    if registration.enabled:
        routes.append(_endpoint("/register", handlers.RegistrationHandler(provider, registration).handle))
    if revocation.enabled:
        routes.append(_endpoint("/revoke", handlers.RevocationHandler(provider, clients).handle))
    return routes


def build_resource_metadata_url(resource_server_url: AnyHttpUrl) -> AnyHttpUrl:
    """Return the URL of the metadata of a protected resource (https://www.rfc-editor.org/rfc/rfc9728#section-3.1)."""
    return AnyHttpUrl(protected_resource_metadata_urls(str(resource_server_url), None)[0])


def create_protected_resource_routes(
    resource_url: AnyHttpUrl,
    authorization_servers: list[AnyHttpUrl],
    scopes_supported: list[str] | None = None,
    resource_name: str | None = None,
    resource_documentation: AnyHttpUrl | None = None,
) -> list[Route]:
    """Return the route of the metadata of a protected resource."""
    shown = {"resource_name": resource_name, "resource_documentation": resource_documentation}
    fields = {"authorization_servers": authorization_servers, "scopes_supported": scopes_supported, **shown}
    metadata = auth.ProtectedResourceMetadata.model_validate({"resource": resource_url, **fields})
    return [_document(urlsplit(str(build_resource_metadata_url(resource_url))).path, metadata)]
