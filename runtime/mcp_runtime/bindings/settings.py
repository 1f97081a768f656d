"""The keywords of the methods that run a server or connect a client, as type checkers see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from ..aio.rate_limit import RateLimit
    from ..auth.resource_server.protection import ResourceServer
    from ..client.cache import ClientResponseCache
    from ..client.observation.observer import OnClose, OnError
    from ..client.roots import FileRoots
    from ..endpoint.extensions import Extension
    from ..session.interfaces import RevisionChoice
    from ..session.options import RequestOptions
    from ..stores.primitives import Store
    from ..transports.http_client.connection import HTTPOptions
    from ..transports.http_server.app import HTTPLimits, Owner
    from ..transports.http_server.event_store import EventStore


class ASGISettings(TypedDict, total=False):
    """The keywords of `asgi`."""

    path: str | None
    hosts: Iterable[str] | None
    origins: Iterable[str] | None
    owner: Owner
    auth: ResourceServer | None
    event_store: EventStore | None
    limits: HTTPLimits
    legacy_sse: bool
    routes: Sequence[Any]
    json_response: bool
    stateless_http: bool
    store: str | Store
    health_path: str | None
    ready_path: str | None


class StdioServerSettings(TypedDict, total=False):
    """The keywords of `run("stdio")`."""

    max_bytes: int


class HTTPServerSettings(ASGISettings, total=False):
    """The keywords of `run("http")`."""

    host: str
    port: int
    uvicorn: dict[str, Any] | None
    server: Literal["uvicorn", "hypercorn", "granian"]
    workers: int


class _ClientSettings(TypedDict, total=False):
    name: str
    version: str
    capabilities: Mapping[str, Any] | None
    connect_options: RequestOptions
    ping_interval: float | None
    extensions: Sequence[Extension]
    cache: ClientResponseCache | bool
    roots: FileRoots | None
    timeout: float | None
    rate_limits: Mapping[str, RateLimit | None] | None
    strict: bool


class _CallbackSettings(TypedDict, total=False):
    on_close: OnClose | None
    on_error: OnError | None


class _StdioSettings(TypedDict, total=False):
    env: Mapping[str, str] | None
    cwd: str | None
    stderr: Callable[[str], None] | None
    max_bytes: int


class _HTTPSettings(TypedDict, total=False):
    http: HTTPOptions | None


class MultiClientSettings(_ClientSettings, total=False):
    """The keywords of `MultiClient` besides its callbacks."""

    revisions: RevisionChoice


class ClientSettings(_ClientSettings, _CallbackSettings, total=False):
    """The keywords of a client's constructor."""

    revisions: RevisionChoice


class StdioClientSettings(ClientSettings, _StdioSettings, total=False):
    """The keywords of `Client.stdio`."""


class HTTPClientSettings(ClientSettings, _HTTPSettings, total=False):
    """The keywords of `Client.http`."""


class ConnectSettings(_ClientSettings, _CallbackSettings, _StdioSettings, _HTTPSettings, total=False):
    """The keywords of `connect` besides `client` and `revisions`, for any kind of target."""
