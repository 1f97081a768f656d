"""The names of the official Python SDK, for programs that were written for it: thin adapters of what this package has.

`mcp_generated.compat` exports them, bound to the types of the revisions.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_module

if TYPE_CHECKING:
    from .app import RoleMessage as RoleMessage
    from .auth.client_providers import ClientCredentialsOAuthProvider as ClientCredentialsOAuthProvider
    from .auth.client_providers import IdentityAssertionOAuthProvider as IdentityAssertionOAuthProvider
    from .auth.client_providers import OfficialOAuthClientProvider as OfficialOAuthClientProvider
    from .auth.client_providers import OfficialTokenStorage as OfficialTokenStorage
    from .auth.oauth_models import JWT_BEARER_GRANT_TYPE as JWT_BEARER_GRANT_TYPE
    from .auth.oauth_models import AuthorizationCodeResult as AuthorizationCodeResult
    from .auth.oauth_models import AuthorizationParams as AuthorizationParams
    from .auth.oauth_models import AuthSettings as AuthSettings
    from .auth.oauth_models import ClientRegistrationOptions as ClientRegistrationOptions
    from .auth.oauth_models import IdentityAssertionParams as IdentityAssertionParams
    from .auth.oauth_models import OAuthClientInformationFull as OAuthClientInformationFull
    from .auth.oauth_models import OAuthClientMetadata as OAuthClientMetadata
    from .auth.oauth_models import OAuthMetadata as OAuthMetadata
    from .auth.oauth_models import OfficialAccessToken as OfficialAccessToken
    from .auth.oauth_models import OfficialOAuthToken as OfficialOAuthToken
    from .auth.oauth_models import RevocationOptions as RevocationOptions
    from .auth.oauth_models import StoredAuthorizationCode as StoredAuthorizationCode
    from .auth.oauth_models import StoredRefreshToken as StoredRefreshToken
    from .auth.providers import AuthorizeError as AuthorizeError
    from .auth.providers import OAuthAuthorizationServerProvider as OAuthAuthorizationServerProvider
    from .auth.providers import ProviderTokenVerifier as ProviderTokenVerifier
    from .auth.providers import RegistrationError as RegistrationError
    from .auth.providers import TokenError as TokenError
    from .auth.providers import check_resource_allowed as check_resource_allowed
    from .auth.providers import construct_redirect_uri as construct_redirect_uri
    from .auth.providers import resource_url_from_server_url as resource_url_from_server_url
    from .auth.static_tokens import StaticTokenVerifier as StaticTokenVerifier
    from .auth.token_verification import OfficialTokenVerifier as OfficialTokenVerifier
    from .current_token import get_access_token as get_access_token
    from .fastmcp.app_configuration import AppConfig as AppConfig
    from .fastmcp.app_configuration import ResourceCSP as ResourceCSP
    from .fastmcp.app_configuration import ResourcePermissions as ResourcePermissions
    from .fastmcp.ready_providers import ClaudeSkillsProvider as ClaudeSkillsProvider
    from .fastmcp.ready_providers import FastMCPProvider as FastMCPProvider
    from .fastmcp.ready_providers import LocalProvider as LocalProvider
    from .fastmcp.ready_providers import SkillsDirectoryProvider as SkillsDirectoryProvider
    from .fastmcp.span_tracer import get_tracer as get_tracer
    from .fastmcp.visibility_transform import Visibility as Visibility
    from .http.accepted_hosts import TransportSecuritySettings as TransportSecuritySettings
    from .http.stored_events import EventMessage as EventMessage
    from .http.stored_events import StreamEventStore as StreamEventStore
    from .initialization import InitializationOptions as InitializationOptions
    from .initialization import NotificationOptions as NotificationOptions
    from .initialization import ReadResourceContents as ReadResourceContents
    from .initialization import get_display_name as get_display_name
    from .mcp_errors import McpError as McpError
    from .mcp_errors import PromptError as PromptError
    from .mcp_errors import ResourceError as ResourceError
    from .mcp_errors import ResourceNotFoundError as ResourceNotFoundError
    from .mcp_errors import UrlElicitationRequiredError as UrlElicitationRequiredError
    from .request import OfficialRequestContext as OfficialRequestContext
    from .session_manager import StreamableHTTPSessionManager as StreamableHTTPSessionManager
    from .sse_transport import SseServerTransport as SseServerTransport
    from .stream_ends import StdioServerParameters as StdioServerParameters
    from .stream_ends import create_mcp_http_client as create_mcp_http_client
    from .stream_ends import sse_client as sse_client
    from .stream_ends import stdio_client as stdio_client
    from .stream_ends import stdio_server as stdio_server
    from .stream_ends import streamable_http_client as streamable_http_client
    from .stream_ends import streamablehttp_client as streamablehttp_client
    from .values.cache_times import MillisecondCacheHint as MillisecondCacheHint
    from .values.event_buses import EventBus as EventBus
    from .values.event_buses import InMemorySubscriptionBus as InMemorySubscriptionBus
    from .values.event_buses import PromptsListChanged as PromptsListChanged
    from .values.event_buses import ResourcesListChanged as ResourcesListChanged
    from .values.event_buses import ResourceUpdated as ResourceUpdated
    from .values.event_buses import ToolsListChanged as ToolsListChanged
    from .values.request_states import RequestStateSecurity as RequestStateSecurity
    from .values.safe_paths import PathEscapeError as PathEscapeError
    from .values.safe_paths import contains_path_traversal as contains_path_traversal
    from .values.safe_paths import is_absolute_path as is_absolute_path
    from .values.safe_paths import safe_join as safe_join

__all__ = [
    "JWT_BEARER_GRANT_TYPE",
    "AppConfig",
    "AuthSettings",
    "AuthorizationCodeResult",
    "AuthorizationParams",
    "AuthorizeError",
    "ClaudeSkillsProvider",
    "ClientCredentialsOAuthProvider",
    "ClientRegistrationOptions",
    "EventBus",
    "EventMessage",
    "FastMCPProvider",
    "IdentityAssertionOAuthProvider",
    "IdentityAssertionParams",
    "InMemorySubscriptionBus",
    "InitializationOptions",
    "LocalProvider",
    "McpError",
    "MillisecondCacheHint",
    "NotificationOptions",
    "OAuthAuthorizationServerProvider",
    "OAuthClientInformationFull",
    "OAuthClientMetadata",
    "OAuthMetadata",
    "OfficialAccessToken",
    "OfficialOAuthClientProvider",
    "OfficialOAuthToken",
    "OfficialRequestContext",
    "OfficialTokenStorage",
    "OfficialTokenVerifier",
    "PathEscapeError",
    "PromptError",
    "PromptsListChanged",
    "ProviderTokenVerifier",
    "ReadResourceContents",
    "RegistrationError",
    "RequestStateSecurity",
    "ResourceCSP",
    "ResourceError",
    "ResourceNotFoundError",
    "ResourcePermissions",
    "ResourceUpdated",
    "ResourcesListChanged",
    "RevocationOptions",
    "RoleMessage",
    "SkillsDirectoryProvider",
    "SseServerTransport",
    "StaticTokenVerifier",
    "StdioServerParameters",
    "StoredAuthorizationCode",
    "StoredRefreshToken",
    "StreamEventStore",
    "StreamableHTTPSessionManager",
    "TokenError",
    "ToolsListChanged",
    "TransportSecuritySettings",
    "UrlElicitationRequiredError",
    "Visibility",
    "check_resource_allowed",
    "construct_redirect_uri",
    "contains_path_traversal",
    "create_mcp_http_client",
    "get_access_token",
    "get_display_name",
    "get_tracer",
    "is_absolute_path",
    "resource_url_from_server_url",
    "safe_join",
    "sse_client",
    "stdio_client",
    "stdio_server",
    "streamable_http_client",
    "streamablehttp_client",
]

_MODULES = {
    "StaticTokenVerifier": "auth.static_tokens",
    "AppConfig": "fastmcp.app_configuration",
    "ResourceCSP": "fastmcp.app_configuration",
    "ResourcePermissions": "fastmcp.app_configuration",
    "ClaudeSkillsProvider": "fastmcp.ready_providers",
    "FastMCPProvider": "fastmcp.ready_providers",
    "LocalProvider": "fastmcp.ready_providers",
    "SkillsDirectoryProvider": "fastmcp.ready_providers",
    "get_tracer": "fastmcp.span_tracer",
    "Visibility": "fastmcp.visibility_transform",
    "RoleMessage": "app",
    "ClientCredentialsOAuthProvider": "auth.client_providers",
    "IdentityAssertionOAuthProvider": "auth.client_providers",
    "OfficialOAuthClientProvider": "auth.client_providers",
    "OfficialTokenStorage": "auth.client_providers",
    "get_access_token": "current_token",
    "AuthSettings": "auth.oauth_models",
    "AuthorizationCodeResult": "auth.oauth_models",
    "AuthorizationParams": "auth.oauth_models",
    "ClientRegistrationOptions": "auth.oauth_models",
    "IdentityAssertionParams": "auth.oauth_models",
    "JWT_BEARER_GRANT_TYPE": "auth.oauth_models",
    "OAuthClientInformationFull": "auth.oauth_models",
    "OAuthClientMetadata": "auth.oauth_models",
    "OAuthMetadata": "auth.oauth_models",
    "OfficialAccessToken": "auth.oauth_models",
    "OfficialOAuthToken": "auth.oauth_models",
    "RevocationOptions": "auth.oauth_models",
    "StoredAuthorizationCode": "auth.oauth_models",
    "StoredRefreshToken": "auth.oauth_models",
    "AuthorizeError": "auth.providers",
    "OAuthAuthorizationServerProvider": "auth.providers",
    "ProviderTokenVerifier": "auth.providers",
    "RegistrationError": "auth.providers",
    "TokenError": "auth.providers",
    "check_resource_allowed": "auth.providers",
    "construct_redirect_uri": "auth.providers",
    "resource_url_from_server_url": "auth.providers",
    "OfficialTokenVerifier": "auth.token_verification",
    "SseServerTransport": "sse_transport",
    "MillisecondCacheHint": "values.cache_times",
    **dict.fromkeys(
        (
            *("EventBus", "InMemorySubscriptionBus", "PromptsListChanged", "ResourceUpdated", "ResourcesListChanged"),
            "ToolsListChanged",
        ),
        "values.event_buses",
    ),
    **dict.fromkeys(
        ("PathEscapeError", "contains_path_traversal", "is_absolute_path", "safe_join"), "values.safe_paths"
    ),
    "ResourceNotFoundError": "mcp_errors",
    "StreamableHTTPSessionManager": "session_manager",
    "TransportSecuritySettings": "http.accepted_hosts",
    "EventMessage": "http.stored_events",
    "StreamEventStore": "http.stored_events",
    "McpError": "mcp_errors",
    "PromptError": "mcp_errors",
    "ResourceError": "mcp_errors",
    "UrlElicitationRequiredError": "mcp_errors",
    "InitializationOptions": "initialization",
    "NotificationOptions": "initialization",
    "ReadResourceContents": "initialization",
    "get_display_name": "initialization",
    "OfficialRequestContext": "request",
    "RequestStateSecurity": "values.request_states",
    "StdioServerParameters": "stream_ends",
    "create_mcp_http_client": "stream_ends",
    "sse_client": "stream_ends",
    "stdio_client": "stream_ends",
    "stdio_server": "stream_ends",
    "streamable_http_client": "stream_ends",
    "streamablehttp_client": "stream_ends",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
