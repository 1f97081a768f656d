"""The names of the official SDK whose classes have another name here, for type checkers: those of `names_of`."""

from __future__ import annotations

from ... import RequestContext as ClientRequestContext
from ... import RequestContext as ServerRequestContext
from ... import lifespan
from ...app.dependencies import Progress as Progress
from ...app.middleware.authorization import AccessRequest as AuthContext
from ...app.middleware.authorization import AuthorizationCheck as AuthCheck
from ..app import RoleMessage as Message
from ..auth.client_providers import OfficialOAuthClientProvider as OAuthClientProvider
from ..auth.client_providers import OfficialTokenStorage as TokenStorage
from ..auth.oauth_models import OfficialAccessToken as AccessToken
from ..auth.oauth_models import OfficialOAuthToken as OAuthToken
from ..auth.oauth_models import StoredAuthorizationCode as AuthorizationCode
from ..auth.oauth_models import StoredRefreshToken as RefreshToken
from ..auth.token_verification import OfficialTokenVerifier as TokenVerifier
from ..http.stored_events import StreamEventStore as EventStore
from ..mcp_errors import McpError as MCPError
from ..values.cache_times import MillisecondCacheHint as CacheHint
from ..values.event_buses import EventBus as SubscriptionBus

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
