"""The keywords of `FastMCP`, `MCPServer` and the low-level `Server`, for type checkers.

They are those of `App` with the values of the official SDK besides, and the names of the official SDK and FastMCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from mcp_products.app.http_application import HTTPApplication
from mcp_products.app.middleware.authorization import AuthorizationCheck
from mcp_products.app.middleware.hooks import Middleware
from mcp_products.app.providers.provider import Provider
from mcp_products.app.settings import (
    AccessKeywords,
    CommonKeywords,
    EndpointKeywords,
    OnDuplicate,
    ProcessKeywords,
    ResourceSettings,
    Settings,
    ToolSettings,
)
from mcp_products.app.transforms.transform import Transform
from mcp_products.cards.card import ServerCard
from mcp_runtime.bindings.arguments import StdioServerSettings
from mcp_runtime.bindings.server import HTTPTransport
from mcp_runtime.http.authentication import Protection
from mcp_runtime.stores import Store
from mcp_runtime.transports.http_server.app import HTTPLimits, Owner
from mcp_runtime.transports.http_server.events import EventStore

from .auth import AuthSettings, OAuthAuthorizationServerProvider, OfficialTokenVerifier
from .auth_providers import OAuthProvider
from .event_buses import EventBus
from .fastmcp import AppConfig
from .http import StreamEventStore, TransportSecuritySettings
from .values import RequestStateSecurity

Checks = AuthorizationCheck | Sequence[AuthorizationCheck]
View = AppConfig | Mapping[str, Any] | bool
Transports = Literal["stdio"] | HTTPTransport
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class _AnswerKeywords(TypedDict, total=False):
    """How every endpoint answers."""

    json_response: bool | None
    stateless_http: bool | None
    event_store: EventStore | StreamEventStore | None
    store: str | Store
    transport_security: TransportSecuritySettings | None


class _OwnEndpoint(AccessKeywords, _AnswerKeywords, total=False):
    """What this package has for one."""

    owner: Owner | None
    limits: HTTPLimits | None
    legacy_sse: bool | None
    routes: Sequence[Any] | None
    health_path: str | None
    ready_path: str | None
    metrics_path: str | None


class SharedHTTPKeywords(_AnswerKeywords, ProcessKeywords, total=False):
    """What both an HTTP application and a constructor take."""

    mount_path: str


class OfficialServerKeywords(SharedHTTPKeywords, CommonKeywords, total=False):
    """The keywords of a constructor besides those that describe the server to its users."""

    cache_hints: Mapping[str, Any] | None
    on_duplicate: OnDuplicate | None
    dereference_schemas: bool | None
    middleware: Sequence[Middleware | Callable[..., Awaitable[Any]]] | None
    tools: Sequence[Any] | None
    providers: Sequence[Provider] | None
    transforms: Sequence[Transform] | None
    mask_error_details: bool | None
    strict_input_validation: bool | None
    list_page_size: int | None
    warn_on_duplicate_tools: bool
    warn_on_duplicate_resources: bool
    warn_on_duplicate_prompts: bool
    auth: AuthSettings | OAuthProvider | None
    token_verifier: OfficialTokenVerifier | None
    auth_server_provider: OAuthAuthorizationServerProvider[Any, Any, Any] | None
    request_state_security: RequestStateSecurity | None
    subscriptions: EventBus | Literal[False] | None


class OfficialEndpointKeywords(_OwnEndpoint, total=False):
    """The keywords of HTTP applications besides the path."""

    auth: Protection | None
    card: bool | ServerCard
    host_origin_protection: bool | None
    allowed_hosts: Sequence[str] | None
    allowed_origins: Sequence[str] | None


class OfficialASGIKeywords(OfficialEndpointKeywords, total=False):
    """The keywords of `asgi`."""

    path: str | None


class OfficialHTTPKeywords(OfficialEndpointKeywords, SharedHTTPKeywords, total=False):
    """The keywords of `http_app` besides those that it names itself."""


class OfficialRunKeywords(OfficialHTTPKeywords, total=False):
    """The keywords of `run("http")` and `streamable_http_app`."""

    path: str | None
    uvicorn: dict[str, Any] | None
    server: Literal["uvicorn", "hypercorn", "granian"]
    workers: int


class OfficialTransportKeywords(OfficialRunKeywords, StdioServerSettings, total=False):
    """The keywords of `run`: those of its transport."""


class LowLevelHTTPKeywords(_OwnEndpoint, EndpointKeywords, total=False):
    """The keywords of `Server.streamable_http_app` besides those that it names itself."""

    mount_path: str
    path: str | None


class OfficialPromptKeywords(Settings, total=False):
    """The keywords of a prompt: those of `App.prompt`, and `auth`, its checks."""

    auth: Checks | None


class _ViewKeywords(OfficialPromptKeywords, total=False):
    app: View | None


class OfficialToolKeywords(ToolSettings, _ViewKeywords, total=False):
    """The keywords of a tool: those of `App.tool`, `auth`, its checks, and `app`, its view."""


class OfficialResourceKeywords(ResourceSettings, _ViewKeywords, total=False):
    """The keywords of a resource: those of `App.resource`, `auth`, its checks, and `app`, its view."""


# The methods of `FastMCP` and `MCPServer` that take more than those of `App`, for type checkers.


class OfficialMethods:
    """The methods whose keywords are those of `App` and those of the official SDK; `App` runs them."""

    @overload
    def tool(
        self, function: FunctionT, /, *, name: str | None = None, **settings: Unpack[OfficialToolKeywords]
    ) -> FunctionT: ...
    @overload
    def tool(
        self, name: str | None = None, **settings: Unpack[OfficialToolKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    def tool(self, *arguments: Any, **settings: Any) -> Any:
        """Add a function as a tool, as `App.tool` does.

        `auth` are checks that a request must pass, such as `require_scopes("read")`; `app` is the view of the tool.
        """

    @overload
    def prompt(
        self, function: FunctionT, /, *, name: str | None = None, **settings: Unpack[OfficialPromptKeywords]
    ) -> FunctionT: ...
    @overload
    def prompt(
        self, name: str | None = None, **settings: Unpack[OfficialPromptKeywords]
    ) -> Callable[[FunctionT], FunctionT]: ...
    def prompt(self, *arguments: Any, **settings: Any) -> Any:
        """Add a function as a prompt, as `App.prompt` does; `auth` are checks that a request must pass."""

    def run(self, transport: Transports = "stdio", **settings: Unpack[OfficialTransportKeywords]) -> None:
        """Serve until the client disconnects (stdio), or until the process gets SIGINT or SIGTERM."""

    async def run_async(self, transport: Transports = "stdio", **settings: Unpack[OfficialTransportKeywords]) -> None:
        """Serve as `run` does, in the running event loop."""

    async def run_http_async(self, transport: HTTPTransport = "http", **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over HTTP in the running event loop."""

    async def run_streamable_http_async(self, **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over Streamable HTTP in the running event loop."""

    async def run_sse_async(self, **settings: Unpack[OfficialRunKeywords]) -> None:
        """Serve over HTTP+SSE of 2024 besides Streamable HTTP in the running event loop."""

    def streamable_http_app(self, **settings: Unpack[OfficialRunKeywords]) -> HTTPApplication:
        """Return a Starlette application with the MCP endpoint and the custom routes. Needs the extra `http`."""
        raise NotImplementedError

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Any] = (),
        transport: HTTPTransport = "http",
        **settings: Unpack[OfficialHTTPKeywords],
    ) -> HTTPApplication:
        """Return the application of `streamable_http_app`, with this path, wrapped in ASGI middleware."""
        raise NotImplementedError
