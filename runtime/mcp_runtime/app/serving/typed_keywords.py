"""The keywords of methods that make an app or serve it, for type checkers: `**settings` of these methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypedDict

from ...aio.rate_limit import RateLimit
from ...encryption import KeyRing
from ...extensions.tasks import TaskStore
from ...server.cache_hints import CacheHint
from ...server.state_store import StateStore
from ...session.interfaces import RevisionChoice
from ...transports.http_server.app import HTTPLimits, Owner
from ..components.catalog import ListKind
from ..components.failures import ShownExceptions
from ..middleware.hooks import CallNext, MiddlewareContext
from .server_settings import AppKeywords, ServedKeywords, ServerKeywords

if TYPE_CHECKING:
    from ...auth.resource_server.protection import ResourceServer  # Of another distribution.


class CommonKeywords(TypedDict, total=False):
    """The keywords that `App(…)`, `FastMCP(…)`, `MCPServer(…)` and the low-level `Server(…)` have in common."""

    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None
    coerce: bool
    json_indent: int | None
    tool_errors: ShownExceptions
    page_size: int
    declare: Collection[ListKind]
    capabilities: Mapping[str, Any] | None
    keys: KeyRing | None
    rate_limits: Mapping[str, RateLimit | None] | None
    tasks: TaskStore | None
    session_state_store: StateStore | None


class ConstructorKeywords(AppKeywords, CommonKeywords, total=False):
    """The keywords of `App(…)` besides the name and the instructions."""

    version: str
    cache_hints: Mapping[str, CacheHint] | None
    middleware: Sequence[Callable[[MiddlewareContext, CallNext], Awaitable[Any]]]


class NamedKeywords(ConstructorKeywords, total=False):
    """The keywords of `App(…)` besides the name."""

    instructions: str | None


class AccessKeywords(TypedDict, total=False):
    """The keywords that all HTTP applications have in common: who may send requests, in which versions."""

    revisions: RevisionChoice
    hosts: Iterable[str] | None
    origins: Iterable[str] | None


class _EndpointKeywords(AccessKeywords, total=False):
    owner: Owner
    auth: ResourceServer | None
    limits: HTTPLimits
    legacy_sse: bool
    routes: Sequence[Any]


class HTTPAppKeywords(_EndpointKeywords, ServerKeywords, total=False):
    """The keywords of `app.http_app(…)` besides its path, middleware and transport."""


class SSEAppKeywords(_EndpointKeywords, ServedKeywords, total=False):
    """The keywords of `app.sse_app(…)` besides its path."""

    path: str | None
