"""The names of the official Python SDK, for programs that were written for it: thin adapters of what this package has.

`mcp_generated.compat` exports them, bound to the types of the revisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from .app import OfficialMiddleware as OfficialMiddleware
    from .app import RoleMessage as RoleMessage
    from .auth import JWT_BEARER_GRANT_TYPE as JWT_BEARER_GRANT_TYPE
    from .auth import AuthorizationCodeResult as AuthorizationCodeResult
    from .auth import AuthorizationParams as AuthorizationParams
    from .auth import AuthorizeError as AuthorizeError
    from .auth import AuthSettings as AuthSettings
    from .auth import ClientRegistrationOptions as ClientRegistrationOptions
    from .auth import IdentityAssertionParams as IdentityAssertionParams
    from .auth import InvalidRedirectUriError as InvalidRedirectUriError
    from .auth import InvalidScopeError as InvalidScopeError
    from .auth import OAuthAuthorizationServerProvider as OAuthAuthorizationServerProvider
    from .auth import OAuthClientInformationFull as OAuthClientInformationFull
    from .auth import OAuthClientMetadata as OAuthClientMetadata
    from .auth import OAuthMetadata as OAuthMetadata
    from .auth import OfficialAccessToken as OfficialAccessToken
    from .auth import OfficialOAuthToken as OfficialOAuthToken
    from .auth import OfficialTokenVerifier as OfficialTokenVerifier
    from .auth import ProviderTokenVerifier as ProviderTokenVerifier
    from .auth import RegistrationError as RegistrationError
    from .auth import RevocationOptions as RevocationOptions
    from .auth import StaticTokenVerifier as StaticTokenVerifier
    from .auth import StoredAuthorizationCode as StoredAuthorizationCode
    from .auth import StoredRefreshToken as StoredRefreshToken
    from .auth import TokenError as TokenError
    from .auth import check_resource_allowed as check_resource_allowed
    from .auth import construct_redirect_uri as construct_redirect_uri
    from .auth import resource_url_from_server_url as resource_url_from_server_url
    from .auth_clients import ClientCredentialsOAuthProvider as ClientCredentialsOAuthProvider
    from .auth_clients import IdentityAssertionOAuthProvider as IdentityAssertionOAuthProvider
    from .auth_clients import OAuthFlowError as OAuthFlowError
    from .auth_clients import OAuthRegistrationError as OAuthRegistrationError
    from .auth_clients import OAuthTokenError as OAuthTokenError
    from .auth_clients import OfficialOAuthClientProvider as OfficialOAuthClientProvider
    from .auth_clients import OfficialTokenStorage as OfficialTokenStorage
    from .auth_server.clients import AuthenticationError as AuthenticationError
    from .auth_server.clients import ClientAuthenticator as ClientAuthenticator
    from .auth_server.handlers import AuthorizationHandler as AuthorizationHandler
    from .auth_server.handlers import MetadataHandler as MetadataHandler
    from .auth_server.handlers import RegistrationHandler as RegistrationHandler
    from .auth_server.handlers import RevocationHandler as RevocationHandler
    from .auth_server.handlers import TokenHandler as TokenHandler
    from .auth_server.middleware import AuthContextMiddleware as AuthContextMiddleware
    from .auth_server.middleware import BearerAuthBackend as BearerAuthBackend
    from .auth_server.middleware import RequireAuthMiddleware as RequireAuthMiddleware
    from .auth_server.routes import build_metadata as build_metadata
    from .auth_server.routes import build_resource_metadata_url as build_resource_metadata_url
    from .auth_server.routes import cors_middleware as cors_middleware
    from .auth_server.routes import create_auth_routes as create_auth_routes
    from .auth_server.routes import create_protected_resource_routes as create_protected_resource_routes
    from .auth_server.routes import validate_issuer_url as validate_issuer_url
    from .context import OfficialRequestContext as OfficialRequestContext
    from .context import auth_context_var as auth_context_var
    from .context import get_access_token as get_access_token
    from .context import get_context as get_context
    from .context import get_http_request as get_http_request
    from .event_buses import EventBus as EventBus
    from .event_buses import InMemorySubscriptionBus as InMemorySubscriptionBus
    from .event_buses import PromptsListChanged as PromptsListChanged
    from .event_buses import ResourcesListChanged as ResourcesListChanged
    from .event_buses import ResourceUpdated as ResourceUpdated
    from .event_buses import ToolsListChanged as ToolsListChanged
    from .fastmcp import AppConfig as AppConfig
    from .fastmcp import ClaudeSkillsProvider as ClaudeSkillsProvider
    from .fastmcp import FastMCPProvider as FastMCPProvider
    from .fastmcp import LocalProvider as LocalProvider
    from .fastmcp import ResourceCSP as ResourceCSP
    from .fastmcp import ResourcePermissions as ResourcePermissions
    from .fastmcp import SkillsDirectoryProvider as SkillsDirectoryProvider
    from .fastmcp import Visibility as Visibility
    from .fastmcp import get_tracer as get_tracer
    from .forms.errors import McpError as McpError
    from .forms.errors import PromptError as PromptError
    from .forms.errors import ResourceError as ResourceError
    from .forms.errors import ResourceNotFoundError as ResourceNotFoundError
    from .forms.errors import UrlElicitationRequiredError as UrlElicitationRequiredError
    from .http import EventMessage as EventMessage
    from .http import StreamEventStore as StreamEventStore
    from .http import TransportSecuritySettings as TransportSecuritySettings
    from .names import InitializationOptions as InitializationOptions
    from .names import NotificationOptions as NotificationOptions
    from .names import ReadResourceContents as ReadResourceContents
    from .names import get_display_name as get_display_name
    from .names import sdk_version as sdk_version
    from .parts.resources import FunctionResource as FunctionResource
    from .registered import returned_values as returned_values
    from .session_manager import StreamableHTTPSessionManager as StreamableHTTPSessionManager
    from .sessions.fastmcp_client import FastMCPClient as FastMCPClient
    from .sessions.fastmcp_groups import ClientGroup as ClientGroup
    from .sessions.fastmcp_groups import MCPConfig as MCPConfig
    from .sessions.groups import ClientSessionGroup as ClientSessionGroup
    from .transports import SseServerTransport as SseServerTransport
    from .transports import StdioServerParameters as StdioServerParameters
    from .transports import create_mcp_http_client as create_mcp_http_client
    from .transports import sse_client as sse_client
    from .transports import stdio_client as stdio_client
    from .transports import stdio_server as stdio_server
    from .transports import streamable_http_client as streamable_http_client
    from .transports import streamablehttp_client as streamablehttp_client
    from .uri_templates import InvalidUriTemplate as InvalidUriTemplate
    from .uri_templates import UriTemplate as UriTemplate
    from .values import MillisecondCacheHint as MillisecondCacheHint
    from .values import PathEscapeError as PathEscapeError
    from .values import RequestStateSecurity as RequestStateSecurity
    from .values import contains_path_traversal as contains_path_traversal
    from .values import is_absolute_path as is_absolute_path
    from .values import safe_join as safe_join

# The names of each module.
_NAMES = {
    "app": "OfficialMiddleware RoleMessage",
    "auth": """AuthSettings AuthorizationCodeResult AuthorizationParams AuthorizeError ClientRegistrationOptions
IdentityAssertionParams InvalidRedirectUriError InvalidScopeError JWT_BEARER_GRANT_TYPE OAuthAuthorizationServerProvider
OAuthClientInformationFull OAuthClientMetadata OAuthMetadata OfficialAccessToken OfficialOAuthToken
OfficialTokenVerifier ProviderTokenVerifier RegistrationError RevocationOptions StaticTokenVerifier
StoredAuthorizationCode StoredRefreshToken TokenError check_resource_allowed construct_redirect_uri
resource_url_from_server_url""",
    "auth_clients": """ClientCredentialsOAuthProvider IdentityAssertionOAuthProvider OAuthFlowError
OAuthRegistrationError OAuthTokenError OfficialOAuthClientProvider OfficialTokenStorage""",
    "auth_server.clients": "AuthenticationError ClientAuthenticator",
    "auth_server.handlers": """AuthorizationHandler MetadataHandler RegistrationHandler RevocationHandler
TokenHandler""",
    "auth_server.middleware": "AuthContextMiddleware BearerAuthBackend RequireAuthMiddleware",
    "auth_server.routes": """build_metadata build_resource_metadata_url cors_middleware
create_auth_routes create_protected_resource_routes validate_issuer_url""",
    "context": "OfficialRequestContext auth_context_var get_access_token get_context get_http_request",
    "event_buses": """EventBus InMemorySubscriptionBus PromptsListChanged ResourceUpdated ResourcesListChanged
ToolsListChanged""",
    "fastmcp": """AppConfig ClaudeSkillsProvider FastMCPProvider LocalProvider ResourceCSP ResourcePermissions
SkillsDirectoryProvider Visibility get_tracer""",
    "forms.errors": "McpError PromptError ResourceError ResourceNotFoundError UrlElicitationRequiredError",
    "http": "EventMessage StreamEventStore TransportSecuritySettings",
    "names": "InitializationOptions NotificationOptions ReadResourceContents get_display_name sdk_version",
    "parts.resources": "FunctionResource",
    "registered": "returned_values",
    "session_manager": "StreamableHTTPSessionManager",
    "sessions.fastmcp_client": "FastMCPClient",
    "sessions.fastmcp_groups": "ClientGroup MCPConfig",
    "sessions.groups": "ClientSessionGroup",
    "transports": """SseServerTransport StdioServerParameters create_mcp_http_client sse_client stdio_client
stdio_server streamable_http_client streamablehttp_client""",
    "uri_templates": "InvalidUriTemplate UriTemplate",
    "values": """MillisecondCacheHint PathEscapeError RequestStateSecurity contains_path_traversal is_absolute_path
safe_join""",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
globals()["__all__"] = sorted(_MODULES)
