"""OAuth 2.1 in its three roles: client, resource server and authorization server.

See https://modelcontextprotocol.io/specification/draft/basic/authorization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from mcp_runtime.session.interfaces import AuthenticatedUser as AuthenticatedUser

    from .authorization_server.app import AuthorizationServer as AuthorizationServer
    from .authorization_server.app import AuthorizationServerLimits as AuthorizationServerLimits
    from .authorization_server.authorize import Login as Login
    from .authorization_server.http import HTTPRequest as HTTPRequest
    from .authorization_server.http import HTTPResponse as HTTPResponse
    from .authorization_server.models import OAuthClient as OAuthClient
    from .authorization_server.models import OAuthError as OAuthError
    from .authorization_server.models import OAuthErrorCode as OAuthErrorCode
    from .authorization_server.storage import AuthorizationStorage as AuthorizationStorage
    from .authorization_server.storage import SQLiteStorage as SQLiteStorage
    from .authorization_server.store_storage import StoreStorage as StoreStorage
    from .authorization_server.tokens import TokenLifetimes as TokenLifetimes
    from .authorization_server.upstream import UpstreamProvider as UpstreamProvider
    from .client.browser import LoopbackBrowser as LoopbackBrowser
    from .client.grants import AuthorizationCode as AuthorizationCode
    from .client.grants import ClientCredentials as ClientCredentials
    from .client.grants import Grant as Grant
    from .client.grants import IdentityAssertion as IdentityAssertion
    from .client.grants import JWTAssertion as JWTAssertion
    from .client.grants import TokenRequest as TokenRequest
    from .client.provider import OAuthClientProvider as OAuthClientProvider
    from .client.storage import FileTokenStorage as FileTokenStorage
    from .client.storage import InMemoryTokenStorage as InMemoryTokenStorage
    from .client.storage import KeyringTokenStorage as KeyringTokenStorage
    from .client.storage import OAuthClientInformation as OAuthClientInformation
    from .client.storage import OAuthToken as OAuthToken
    from .client.storage import StoredCredentials as StoredCredentials
    from .client.storage import TokenStorage as TokenStorage
    from .discovery import DiscoveryMethod as DiscoveryMethod
    from .http import URLPolicy as URLPolicy
    from .providers.provider import IdentityProvider as IdentityProvider
    from .resource_server.dpop import DPoPVerifier as DPoPVerifier
    from .resource_server.dpop import InMemoryReplayCache as InMemoryReplayCache
    from .resource_server.dpop import ReplayCache as ReplayCache
    from .resource_server.dpop import StoreReplayCache as StoreReplayCache
    from .resource_server.protection import ResourceServer as ResourceServer
    from .resource_server.verifiers import AnyVerifier as AnyVerifier
    from .resource_server.verifiers import IntrospectionVerifier as IntrospectionVerifier
    from .resource_server.verifiers import JWTVerifier as JWTVerifier
    from .resource_server.verifiers import TokenVerifier as TokenVerifier

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "authorization_server.app": ("AuthorizationServer", "AuthorizationServerLimits"),
        "authorization_server.authorize": ("Login",),
        "authorization_server.http": ("HTTPRequest", "HTTPResponse"),
        "authorization_server.models": ("OAuthClient", "OAuthError", "OAuthErrorCode"),
        "authorization_server.storage": ("AuthorizationStorage", "SQLiteStorage"),
        "authorization_server.store_storage": ("StoreStorage",),
        "authorization_server.tokens": ("TokenLifetimes",),
        "authorization_server.upstream": ("UpstreamProvider",),
        "client.browser": ("LoopbackBrowser",),
        "client.grants": (
            "AuthorizationCode",
            "ClientCredentials",
            "Grant",
            "IdentityAssertion",
            "JWTAssertion",
            "TokenRequest",
        ),
        "client.provider": ("OAuthClientProvider",),
        "client.storage": (
            "FileTokenStorage",
            "InMemoryTokenStorage",
            "KeyringTokenStorage",
            "OAuthClientInformation",
            "OAuthToken",
            "StoredCredentials",
            "TokenStorage",
        ),
        "discovery": ("DiscoveryMethod",),
        "http": ("URLPolicy",),
        "mcp_runtime.session.interfaces": ("AuthenticatedUser",),
        "providers.provider": ("IdentityProvider",),
        "resource_server.dpop": ("DPoPVerifier", "InMemoryReplayCache", "ReplayCache", "StoreReplayCache"),
        "resource_server.protection": ("ResourceServer",),
        "resource_server.verifiers": ("AnyVerifier", "IntrospectionVerifier", "JWTVerifier", "TokenVerifier"),
    },
)
