"""The names of the official Python SDK, for programs that were written for it: thin adapters of what this package has.

`mcp_generated.compat` exports them, bound to the types of the revisions.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy_module

if TYPE_CHECKING:
    from .app import RoleMessage as RoleMessage
    from .initialization import InitializationOptions as InitializationOptions
    from .initialization import NotificationOptions as NotificationOptions
    from .initialization import ReadResourceContents as ReadResourceContents
    from .initialization import get_display_name as get_display_name
    from .mcp_errors import McpError as McpError
    from .mcp_errors import PromptError as PromptError
    from .mcp_errors import ResourceError as ResourceError
    from .mcp_errors import UrlElicitationRequiredError as UrlElicitationRequiredError
    from .request import OfficialRequestContext as OfficialRequestContext
    from .request import SessionView as SessionView
    from .session_manager import EventMessage as EventMessage
    from .session_manager import StreamableHTTPSessionManager as StreamableHTTPSessionManager
    from .session_manager import StreamEventStore as StreamEventStore
    from .session_manager import TransportSecuritySettings as TransportSecuritySettings
    from .stream_ends import StdioServerParameters as StdioServerParameters
    from .stream_ends import create_mcp_http_client as create_mcp_http_client
    from .stream_ends import sse_client as sse_client
    from .stream_ends import stdio_client as stdio_client
    from .stream_ends import stdio_server as stdio_server
    from .stream_ends import streamable_http_client as streamable_http_client
    from .stream_ends import streamablehttp_client as streamablehttp_client

__all__ = [
    "EventMessage",
    "InitializationOptions",
    "McpError",
    "NotificationOptions",
    "OfficialRequestContext",
    "PromptError",
    "ReadResourceContents",
    "ResourceError",
    "RoleMessage",
    "SessionView",
    "StdioServerParameters",
    "StreamEventStore",
    "StreamableHTTPSessionManager",
    "TransportSecuritySettings",
    "UrlElicitationRequiredError",
    "create_mcp_http_client",
    "get_display_name",
    "sse_client",
    "stdio_client",
    "stdio_server",
    "streamable_http_client",
    "streamablehttp_client",
]

_MODULES = {
    "RoleMessage": "app",
    "McpError": "mcp_errors",
    "PromptError": "mcp_errors",
    "ResourceError": "mcp_errors",
    "UrlElicitationRequiredError": "mcp_errors",
    "InitializationOptions": "initialization",
    "NotificationOptions": "initialization",
    "ReadResourceContents": "initialization",
    "get_display_name": "initialization",
    "OfficialRequestContext": "request",
    "SessionView": "request",
    "EventMessage": "session_manager",
    "StreamEventStore": "session_manager",
    "StreamableHTTPSessionManager": "session_manager",
    "TransportSecuritySettings": "session_manager",
    "StdioServerParameters": "stream_ends",
    "create_mcp_http_client": "stream_ends",
    "sse_client": "stream_ends",
    "stdio_client": "stream_ends",
    "stdio_server": "stream_ends",
    "streamable_http_client": "stream_ends",
    "streamablehttp_client": "stream_ends",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
