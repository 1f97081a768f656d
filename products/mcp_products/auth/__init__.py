"""OAuth 2.1 in its three roles: client, resource server and authorization server.

See https://modelcontextprotocol.io/specification/draft/basic/authorization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

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

__all__ = [
    "AnyVerifier",
    "AuthenticatedUser",
    "AuthorizationCode",
    "AuthorizationServer",
    "AuthorizationServerLimits",
    "AuthorizationStorage",
    "ClientCredentials",
    "DPoPVerifier",
    "DiscoveryMethod",
    "FileTokenStorage",
    "Grant",
    "HTTPRequest",
    "HTTPResponse",
    "IdentityAssertion",
    "IdentityProvider",
    "InMemoryReplayCache",
    "InMemoryTokenStorage",
    "IntrospectionVerifier",
    "JWTAssertion",
    "JWTVerifier",
    "KeyringTokenStorage",
    "Login",
    "LoopbackBrowser",
    "OAuthClient",
    "OAuthClientInformation",
    "OAuthClientProvider",
    "OAuthError",
    "OAuthErrorCode",
    "OAuthToken",
    "ReplayCache",
    "ResourceServer",
    "SQLiteStorage",
    "StoreReplayCache",
    "StoreStorage",
    "StoredCredentials",
    "TokenLifetimes",
    "TokenRequest",
    "TokenStorage",
    "TokenVerifier",
    "URLPolicy",
    "UpstreamProvider",
]

_MODULES = {
    "AuthenticatedUser": "mcp_runtime.session.interfaces",
    "AuthorizationServer": "authorization_server.app",
    "AuthorizationServerLimits": "authorization_server.app",
    "HTTPRequest": "authorization_server.http",
    "HTTPResponse": "authorization_server.http",
    "Login": "authorization_server.authorize",
    "OAuthClient": "authorization_server.models",
    "OAuthError": "authorization_server.models",
    "OAuthErrorCode": "authorization_server.models",
    "AuthorizationStorage": "authorization_server.storage",
    "SQLiteStorage": "authorization_server.storage",
    "StoreStorage": "authorization_server.store_storage",
    "TokenLifetimes": "authorization_server.tokens",
    "UpstreamProvider": "authorization_server.upstream",
    "LoopbackBrowser": "client.browser",
    "FileTokenStorage": "client.storage",
    "KeyringTokenStorage": "client.storage",
    "AuthorizationCode": "client.grants",
    "ClientCredentials": "client.grants",
    "Grant": "client.grants",
    "IdentityAssertion": "client.grants",
    "JWTAssertion": "client.grants",
    "TokenRequest": "client.grants",
    "OAuthClientProvider": "client.provider",
    "InMemoryTokenStorage": "client.storage",
    "OAuthClientInformation": "client.storage",
    "OAuthToken": "client.storage",
    "StoredCredentials": "client.storage",
    "TokenStorage": "client.storage",
    "DiscoveryMethod": "discovery",
    "IdentityProvider": "providers.provider",
    "DPoPVerifier": "resource_server.dpop",
    "InMemoryReplayCache": "resource_server.dpop",
    "ReplayCache": "resource_server.dpop",
    "StoreReplayCache": "resource_server.dpop",
    "ResourceServer": "resource_server.protection",
    "AnyVerifier": "resource_server.verifiers",
    "IntrospectionVerifier": "resource_server.verifiers",
    "JWTVerifier": "resource_server.verifiers",
    "TokenVerifier": "resource_server.verifiers",
    "URLPolicy": "http",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
