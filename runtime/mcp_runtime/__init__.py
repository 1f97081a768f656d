"""The runtime under the generated bindings. What is public stands here and in the areas `auth`, `transports`,
`extensions.tasks`, `extensions.skills` and `testing`; `mcp_generated` exports the same names."""

from typing import TYPE_CHECKING

from ._lazy import lazy_module

if TYPE_CHECKING:
    from .aio.rate_limit import RateLimit as RateLimit
    from .app.components.argument_changes import ArgTransform as ArgTransform
    from .app.components.argument_changes import forward as forward
    from .app.components.argument_changes import forward_raw as forward_raw
    from .app.components.lifespans import Lifespan as Lifespan
    from .app.components.lifespans import lifespan as lifespan
    from .app.content import AssistantMessage as AssistantMessage
    from .app.content import Audio as Audio
    from .app.content import File as File
    from .app.content import Image as Image
    from .app.content import Message as Message
    from .app.content import UserMessage as UserMessage
    from .app.context.elicitation import AcceptedElicitation as AcceptedElicitation
    from .app.context.elicitation import AcceptedUrlElicitation as AcceptedUrlElicitation
    from .app.context.elicitation import CancelledElicitation as CancelledElicitation
    from .app.context.elicitation import DeclinedElicitation as DeclinedElicitation
    from .app.context.elicitation import ElicitationResult as ElicitationResult
    from .app.context.own_requests import ResourceContent as ResourceContent
    from .app.context.request_context import RequestContext as RequestContext
    from .app.context.sampling import SampleResult as SampleResult
    from .app.context.session_view import ServerSession as ServerSession
    from .app.context.sync_context import SyncContext as SyncContext
    from .app.dependencies.markers import Depends as Depends
    from .app.dependencies.markers import Elicit as Elicit
    from .app.dependencies.markers import ListRoots as ListRoots
    from .app.dependencies.markers import Resolve as Resolve
    from .app.dependencies.markers import Sample as Sample
    from .app.middleware.hooks import Middleware as Middleware
    from .app.middleware.hooks import MiddlewareContext as MiddlewareContext
    from .app.openapi.route_maps import MCPType as MCPType
    from .app.openapi.route_maps import RouteMap as RouteMap
    from .app.registrations import tool as tool
    from .app.resource_types import BinaryResource as BinaryResource
    from .app.resource_types import DirectoryResource as DirectoryResource
    from .app.resource_types import FileResource as FileResource
    from .app.resource_types import HttpResource as HttpResource
    from .app.resource_types import TextResource as TextResource
    from .app.tools import Tool as Tool
    from .bindings.client import negotiate as negotiate
    from .bindings.server import asgi_app as asgi_app
    from .bindings.server import run as run
    from .bindings.server import serve as serve
    from .client.cache import ClientResponseCache as ClientResponseCache
    from .client.cache import ResponseCache as ResponseCache
    from .client.completion import CompletionSession as CompletionSession
    from .client.model_preferences import choose_model as choose_model
    from .client.roots import FileRoots as FileRoots
    from .client.tools import ApprovedTools as ApprovedTools
    from .encryption import KeyRing as KeyRing
    from .endpoint.roots import is_within as is_within
    from .endpoint.roots import path_to_root as path_to_root
    from .endpoint.roots import readable_roots as readable_roots
    from .errors import AuthorizationError as AuthorizationError
    from .errors import AuthorizationServerUnavailableError as AuthorizationServerUnavailableError
    from .errors import ClientCapabilityError as ClientCapabilityError
    from .errors import ConnectionClosedError as ConnectionClosedError
    from .errors import ConversionError as ConversionError
    from .errors import HTTPStatusError as HTTPStatusError
    from .errors import InvalidMessageError as InvalidMessageError
    from .errors import InvalidResponseError as InvalidResponseError
    from .errors import InvalidSchemaError as InvalidSchemaError
    from .errors import JSONRPCError as JSONRPCError
    from .errors import LocalError as LocalError
    from .errors import MCPError as MCPError
    from .errors import ProtocolViolationError as ProtocolViolationError
    from .errors import RemoteError as RemoteError
    from .errors import RemoteJSONRPCError as RemoteJSONRPCError
    from .errors import RequestTimeoutError as RequestTimeoutError
    from .errors import SkillVerificationError as SkillVerificationError
    from .errors import ToolError as ToolError
    from .errors import ToolResultError as ToolResultError
    from .errors import UnwritableValueError as UnwritableValueError
    from .errors import printable as printable
    from .gateway.gateways import Gateway as Gateway
    from .http.urls import is_https_url as is_https_url
    from .json_schema.validator import compile_schema as compile_schema
    from .protocol.model_methods import ToolHints as ToolHints
    from .protocol.model_methods import to_anthropic as to_anthropic
    from .protocol.model_methods import to_openai as to_openai
    from .server.cache_hints import CacheHint as CacheHint
    from .server.completion import rank_completions as rank_completions
    from .server.lists import paginate as paginate
    from .server.logs.client_log_handler import ClientLogHandler as ClientLogHandler
    from .server.roots import RootsCache as RootsCache
    from .server.state_store import InMemoryStateStore as InMemoryStateStore
    from .server.state_store import StateStore as StateStore
    from .server.task_options import TaskOptions as TaskOptions
    from .session.interfaces import Transport as Transport
    from .session.metrics.json_log_formatter import JSONLogFormatter as JSONLogFormatter
    from .session.options import Progress as Progress
    from .session.options import RequestOptions as RequestOptions
    from .transports.http_client.connection import HTTPOptions as HTTPOptions
    from .versions.conversion.report import ConversionReport as ConversionReport

__all__ = [
    "AcceptedElicitation",
    "AcceptedUrlElicitation",
    "ApprovedTools",
    "ArgTransform",
    "AssistantMessage",
    "Audio",
    "AuthorizationError",
    "AuthorizationServerUnavailableError",
    "BinaryResource",
    "CacheHint",
    "CancelledElicitation",
    "ClientCapabilityError",
    "ClientLogHandler",
    "ClientResponseCache",
    "CompletionSession",
    "ConnectionClosedError",
    "ConversionError",
    "ConversionReport",
    "DeclinedElicitation",
    "Depends",
    "DirectoryResource",
    "Elicit",
    "ElicitationResult",
    "File",
    "FileResource",
    "FileRoots",
    "Gateway",
    "HTTPOptions",
    "HTTPStatusError",
    "HttpResource",
    "Image",
    "InMemoryStateStore",
    "InvalidMessageError",
    "InvalidResponseError",
    "InvalidSchemaError",
    "JSONLogFormatter",
    "JSONRPCError",
    "KeyRing",
    "Lifespan",
    "ListRoots",
    "LocalError",
    "MCPError",
    "MCPType",
    "Message",
    "Middleware",
    "MiddlewareContext",
    "Progress",
    "ProtocolViolationError",
    "RateLimit",
    "RemoteError",
    "RemoteJSONRPCError",
    "RequestContext",
    "RequestOptions",
    "RequestTimeoutError",
    "Resolve",
    "ResourceContent",
    "ResponseCache",
    "RootsCache",
    "RouteMap",
    "Sample",
    "SampleResult",
    "ServerSession",
    "SkillVerificationError",
    "StateStore",
    "SyncContext",
    "TaskOptions",
    "TextResource",
    "Tool",
    "ToolError",
    "ToolHints",
    "ToolResultError",
    "Transport",
    "UnwritableValueError",
    "UserMessage",
    "asgi_app",
    "choose_model",
    "compile_schema",
    "forward",
    "forward_raw",
    "is_https_url",
    "is_within",
    "lifespan",
    "negotiate",
    "paginate",
    "path_to_root",
    "printable",
    "rank_completions",
    "readable_roots",
    "run",
    "serve",
    "to_anthropic",
    "to_openai",
    "tool",
]

_MODULES = {
    "StateStore": "server.state_store",
    "InMemoryStateStore": "server.state_store",
    "ClientCapabilityError": "errors",
    "ServerSession": "app.context.session_view",
    "RequestContext": "app.context.request_context",
    "SampleResult": "app.context.sampling",
    "SyncContext": "app.context.sync_context",
    "ResourceContent": "app.context.own_requests",
    "ElicitationResult": "app.context.elicitation",
    "DeclinedElicitation": "app.context.elicitation",
    "CancelledElicitation": "app.context.elicitation",
    "AcceptedUrlElicitation": "app.context.elicitation",
    "AcceptedElicitation": "app.context.elicitation",
    "ArgTransform": "app.components.argument_changes",
    "forward": "app.components.argument_changes",
    "forward_raw": "app.components.argument_changes",
    "Depends": "app.dependencies.markers",
    "Elicit": "app.dependencies.markers",
    "ListRoots": "app.dependencies.markers",
    "Resolve": "app.dependencies.markers",
    "Sample": "app.dependencies.markers",
    "Middleware": "app.middleware.hooks",
    "MiddlewareContext": "app.middleware.hooks",
    "Tool": "app.tools",
    "RateLimit": "aio.rate_limit",
    "tool": "app.registrations",
    "AssistantMessage": "app.content",
    "Audio": "app.content",
    "File": "app.content",
    "Lifespan": "app.components.lifespans",
    "lifespan": "app.components.lifespans",
    "Image": "app.content",
    "Message": "app.content",
    "UserMessage": "app.content",
    "ToolError": "errors",
    "MCPType": "app.openapi.route_maps",
    "RouteMap": "app.openapi.route_maps",
    "BinaryResource": "app.resource_types",
    "DirectoryResource": "app.resource_types",
    "FileResource": "app.resource_types",
    "HttpResource": "app.resource_types",
    "TextResource": "app.resource_types",
    "negotiate": "bindings.client",
    "asgi_app": "bindings.server",
    "run": "bindings.server",
    "serve": "bindings.server",
    "ClientResponseCache": "client.cache",
    "ResponseCache": "client.cache",
    "CompletionSession": "client.completion",
    "choose_model": "client.model_preferences",
    "FileRoots": "client.roots",
    "ApprovedTools": "client.tools",
    "KeyRing": "encryption",
    "is_within": "endpoint.roots",
    "path_to_root": "endpoint.roots",
    "readable_roots": "endpoint.roots",
    "AuthorizationError": "errors",
    "AuthorizationServerUnavailableError": "errors",
    "ConnectionClosedError": "errors",
    "ConversionError": "errors",
    "HTTPStatusError": "errors",
    "InvalidMessageError": "errors",
    "UnwritableValueError": "errors",
    "InvalidResponseError": "errors",
    "InvalidSchemaError": "errors",
    "JSONRPCError": "errors",
    "LocalError": "errors",
    "MCPError": "errors",
    "ProtocolViolationError": "errors",
    "RemoteError": "errors",
    "RemoteJSONRPCError": "errors",
    "RequestTimeoutError": "errors",
    "SkillVerificationError": "errors",
    "ToolResultError": "errors",
    "printable": "errors",
    "Gateway": "gateway.gateways",
    "is_https_url": "http.urls",
    "compile_schema": "json_schema.validator",
    "ToolHints": "protocol.model_methods",
    "to_anthropic": "protocol.model_methods",
    "to_openai": "protocol.model_methods",
    "CacheHint": "server.cache_hints",
    "rank_completions": "server.completion",
    "paginate": "server.lists",
    "ClientLogHandler": "server.logs.client_log_handler",
    "RootsCache": "server.roots",
    "TaskOptions": "server.task_options",
    "Transport": "session.interfaces",
    "JSONLogFormatter": "session.metrics.json_log_formatter",
    "Progress": "session.options",
    "RequestOptions": "session.options",
    "HTTPOptions": "transports.http_client.connection",
    "ConversionReport": "versions.conversion.report",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
