"""The routes of an authorization server and of the metadata of a protected resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_products.auth.authorization_server.models import CODE, REFRESH
from mcp_products.auth.discovery import protected_resource_metadata_urls
from mcp_products.auth.http import is_loopback
from mcp_runtime.http.asgi import BodyReader, ClientDisconnectError, SizeLimit
from mcp_runtime.http.headers import HTTPError

from ..auth import (
    JWT_BEARER_GRANT_TYPE,
    ClientRegistrationOptions,
    OAuthMetadata,
    ProtectedResourceMetadata,
    RevocationOptions,
)
from ..forms.callbacks import MCP_PROTOCOL_VERSION
from .clients import ClientAuthenticator
from .handlers import (
    AuthorizationHandler,
    MetadataHandler,
    Provider,
    RegistrationHandler,
    RevocationHandler,
    TokenHandler,
)

_MAX_BODY: Final = 4 * 1024 * 1024  # Bytes, as there.
_BODY_SECONDS: Final = 30.0
_AUTH_METHODS: Final = ["client_secret_post", "client_secret_basic"]
_ASSERTIONS: Final = "urn:ietf:params:oauth:grant-profile:id-jag"

Handler = Callable[[Request], Awaitable[Response] | Response]


class RequestBodyLimitMiddleware:
    """Refuses requests whose body is too long, before the application sees them."""

    def __init__(self, app: ASGIApp, max_body_size: int) -> None:
        """Create the middleware of an application; `max_body_size` is in bytes."""
        self.app = app
        self._reader = BodyReader(SizeLimit(max_body_size), _BODY_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or answer 413; 408 if its body is late."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        try:
            body = await self._reader.read(receive, length, scope)
        except ClientDisconnectError:
            return
        if isinstance(body, HTTPError):
            await PlainTextResponse("Request body too large", body.status)(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, replay, send)


def _with_cors(app: ASGIApp, methods: Sequence[str]) -> ASGIApp:
    return CORSMiddleware(app, allow_origins=("*",), allow_methods=methods, allow_headers=(MCP_PROTOCOL_VERSION,))


def cors_middleware(handler: Handler, allow_methods: Sequence[str]) -> ASGIApp:
    """Return an ASGI application that pages of all origins may ask."""
    return _with_cors(request_response(handler), allow_methods)


def _document(path: str, metadata: Any) -> Route:
    methods = ["GET", "OPTIONS"]
    return Route(path, cors_middleware(MetadataHandler(metadata).handle, methods), methods=methods)


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
    client_registration_options: ClientRegistrationOptions,
    revocation_options: RevocationOptions,
    supports_identity_assertion: bool = False,
) -> OAuthMetadata:
    """Return the metadata of an authorization server (https://www.rfc-editor.org/rfc/rfc8414#section-2)."""
    base = str(issuer_url).rstrip("/")
    fields: dict[str, Any] = {
        "issuer": issuer_url,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "scopes_supported": client_registration_options.valid_scopes,
        "grant_types_supported": [CODE, REFRESH, *([JWT_BEARER_GRANT_TYPE] if supports_identity_assertion else ())],
        "token_endpoint_auth_methods_supported": _AUTH_METHODS,
        "service_documentation": service_documentation_url,
        "code_challenge_methods_supported": ["S256"],
        "authorization_grant_profiles_supported": [_ASSERTIONS] if supports_identity_assertion else None,
    }
    if client_registration_options.enabled:
        fields["registration_endpoint"] = f"{base}/register"
    if revocation_options.enabled:
        fields["revocation_endpoint"] = f"{base}/revoke"
        fields["revocation_endpoint_auth_methods_supported"] = _AUTH_METHODS
    return OAuthMetadata.model_validate(fields)


def create_auth_routes(
    provider: Provider,
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None = None,
    client_registration_options: ClientRegistrationOptions | None = None,
    revocation_options: RevocationOptions | None = None,
    identity_assertion_enabled: bool = False,
) -> list[Route]:
    """Return the routes of an authorization server. Raises ValueError for a URL that no issuer may have.

    Args:
        provider: Decides, and stores clients, codes and tokens.
        issuer_url: The URL of the server, below which the routes are.
        service_documentation_url: A page for developers of clients.
        client_registration_options: Whether clients may register themselves; by default not.
        revocation_options: Whether clients may revoke tokens; by default not.
        identity_assertion_enabled: Whether tokens are issued for assertions of an identity provider.
    """
    validate_issuer_url(issuer_url)
    registration = client_registration_options or ClientRegistrationOptions()
    revocation = revocation_options or RevocationOptions()
    clients = ClientAuthenticator(provider)
    metadata = build_metadata(
        issuer_url, service_documentation_url, registration, revocation, identity_assertion_enabled
    )
    authorize = request_response(AuthorizationHandler(provider).handle)
    routes = [
        _document("/.well-known/oauth-authorization-server", metadata),
        Route("/authorize", RequestBodyLimitMiddleware(authorize, _MAX_BODY), methods=["GET", "POST"]),
        _endpoint("/token", TokenHandler(provider, clients, identity_assertion_enabled).handle),
    ]
    if registration.enabled:
        routes.append(_endpoint("/register", RegistrationHandler(provider, registration).handle))
    if revocation.enabled:
        routes.append(_endpoint("/revoke", RevocationHandler(provider, clients).handle))
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
    fields = {"resource": resource_url, "authorization_servers": authorization_servers}
    shown = {"scopes_supported": scopes_supported, "resource_name": resource_name}
    documentation = {"resource_documentation": resource_documentation}
    metadata = ProtectedResourceMetadata.model_validate(fields | shown | documentation)
    return [_document(urlsplit(str(build_resource_metadata_url(resource_url))).path, metadata)]
