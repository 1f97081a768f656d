"""The names of the official SDK whose classes have another name here, for type checkers: those of `names_of`."""

from __future__ import annotations

from mcp_products.app.app import lifespan
from mcp_products.app.context.request_context import RequestContext as ClientRequestContext
from mcp_products.app.context.request_context import RequestContext as ServerRequestContext
from mcp_products.app.dependencies import Progress as Progress
from mcp_products.app.middleware.authorization import AccessRequest as AuthContext
from mcp_products.app.middleware.authorization import AuthorizationCheck as AuthCheck

from .app import RoleMessage as Message
from .auth import OfficialAccessToken as AccessToken
from .auth import OfficialOAuthToken as OAuthToken
from .auth import OfficialTokenVerifier as TokenVerifier
from .auth import StoredAuthorizationCode as AuthorizationCode
from .auth import StoredRefreshToken as RefreshToken
from .auth_clients import OfficialOAuthClientProvider as OAuthClientProvider
from .auth_clients import OfficialTokenStorage as TokenStorage
from .event_buses import EventBus as SubscriptionBus
from .forms.errors import McpError as MCPError
from .http import StreamEventStore as EventStore
from .values import MillisecondCacheHint as CacheHint

__all__ = [
    "AccessToken",
    "AuthCheck",
    "AuthContext",
    "AuthorizationCode",
    "CacheHint",
    "ClientRequestContext",
    "ContextManagerLifespan",
    "EventStore",
    "MCPError",
    "Message",
    "OAuthClientProvider",
    "OAuthToken",
    "Progress",
    "RefreshToken",
    "ServerRequestContext",
    "SubscriptionBus",
    "TokenStorage",
    "TokenVerifier",
]

ContextManagerLifespan = lifespan
