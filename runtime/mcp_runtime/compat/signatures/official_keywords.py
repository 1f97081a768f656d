"""The keywords of `FastMCP`, `MCPServer` and the low-level `Server`, for type checkers.

They are those of `App` with the values of the official SDK besides, and the names of the official SDK and FastMCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from ...app.middleware.authorization import AuthorizationCheck
from ...app.middleware.hooks import Middleware
from ...app.providers.provider import Provider
from ...app.serving.server_settings import LogLevel, OnDuplicate
from ...app.serving.typed_keywords import AccessKeywords, CommonKeywords
from ...app.settings import ResourceSettings, Settings, ToolSettings
from ...app.transforms.transform import Transform
from ...auth.resource_server.protection import ResourceServer
from ...stores.primitives import Store
from ...transports.http_server.app import HTTPLimits, Owner
from ...transports.http_server.event_store import EventStore
from ..auth.oauth_models import AuthSettings
from ..auth.token_verification import OfficialTokenVerifier
from ..fastmcp.app_configuration import AppConfig
from ..http.accepted_hosts import TransportSecuritySettings
from ..http.stored_events import StreamEventStore
from ..values.event_buses import EventBus
from ..values.request_states import RequestStateSecurity

Checks = AuthorizationCheck | Sequence[AuthorizationCheck]
View = AppConfig | Mapping[str, Any] | bool


class SharedHTTPKeywords(TypedDict, total=False):
    """What both an HTTP application and a constructor take."""

    debug: bool
    log_level: LogLevel | None
    host: str
    port: int
    mount_path: str
    sse_path: str
    message_path: str
    streamable_http_path: str
    json_response: bool | None
    stateless_http: bool | None
    max_request_body_size: int | None
    session_idle_timeout: float | None
    max_sessions: int | None
    retry_interval: int | None
    event_store: EventStore | StreamEventStore | None
    store: str | Store
    dependencies: Sequence[str]
    transport_security: TransportSecuritySettings | None


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
    auth: AuthSettings | None
    token_verifier: OfficialTokenVerifier | None
    request_state_security: RequestStateSecurity | None
    subscriptions: EventBus | None


class OfficialEndpointKeywords(AccessKeywords, total=False):
    """The keywords of HTTP applications besides the path."""

    owner: Owner | None
    auth: ResourceServer | None
    event_store: EventStore | StreamEventStore | None
    limits: HTTPLimits | None
    legacy_sse: bool | None
    routes: Sequence[Any] | None
    json_response: bool | None
    stateless_http: bool | None
    store: str | Store
    health_path: str | None
    ready_path: str | None
    transport_security: TransportSecuritySettings | None
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


class LowLevelHTTPKeywords(AccessKeywords, total=False):
    """The keywords of `Server.streamable_http_app` besides those that it names itself."""

    path: str | None
    owner: Owner
    limits: HTTPLimits
    legacy_sse: bool
    routes: Sequence[Any]
    store: str | Store
    health_path: str | None
    ready_path: str | None
    debug: bool
    mount_path: str
    streamable_http_path: str
    json_response: bool
    stateless_http: bool
    event_store: EventStore | StreamEventStore | None
    retry_interval: int | None
    max_request_body_size: int | None
    session_idle_timeout: float | None
    max_sessions: int | None
    transport_security: TransportSecuritySettings | None


class OfficialToolKeywords(ToolSettings, total=False):
    """The keywords of a tool: those of `App.tool`, `auth`, its checks, and `app`, its view."""

    auth: Checks | None
    app: View | None


class OfficialResourceKeywords(ResourceSettings, total=False):
    """The keywords of a resource: those of `App.resource`, `auth`, its checks, and `app`, its view."""

    auth: Checks | None
    app: View | None


class OfficialPromptKeywords(Settings, total=False):
    """The keywords of a prompt: those of `App.prompt`, and `auth`, its checks."""

    auth: Checks | None


class SessionKeywords(TypedDict, total=False):
    """The keywords of `ClientSession` besides its streams."""

    read_timeout_seconds: Any
    sampling_callback: Callable[..., Awaitable[Any]] | None
    elicitation_callback: Callable[..., Awaitable[Any]] | None
    list_roots_callback: Callable[..., Awaitable[Any]] | None
    logging_callback: Callable[..., Awaitable[Any]] | None
    message_handler: Callable[..., Awaitable[Any]] | None
    client_info: Any
    sampling_capabilities: Any
