"""The keyword arguments of the decorators, and what their values must be."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, cast, get_args

from pydantic_core import ValidationError, to_json

from mcp_products.common.keys import KeyRing
from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.errors import LocalError, UnwritableValueError
from mcp_runtime.http.authentication import check_scopes
from mcp_runtime.protocol.models import format_validation_error, is_model, is_model_type, is_object
from mcp_runtime.protocol.revision import Revision
from mcp_runtime.server.core import IdentityKeywords, TenantLimits
from mcp_runtime.server.limits import check_handlers
from mcp_runtime.server.lists import CacheHint, add_cache_hints
from mcp_runtime.session.interfaces import RevisionChoice
from mcp_runtime.stores import open_store
from mcp_runtime.usage.keywords import nearest
from mcp_runtime.usage.rules import (
    COUNT,
    FLAG,
    HOST,
    MAPPING,
    NAME,
    PORT,
    TEXT,
    Rule,
    are_texts,
    check_writable,
    is_items,
    is_number,
    like,
)

from .components.catalog import NAMESPACE
from .components.functions import check_lifespan
from .components.kinds import LISTS, ListKind
from .components.visibility import text_set
from .context.state import StateStore
from .middleware.hooks import CallNext, MiddlewareContext
from .results import ShownExceptions

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_products.cards.card import ServerCard
    from mcp_products.extensions.tasks import store as task_store
    from mcp_runtime.http.authentication import Protection
    from mcp_runtime.stores import Store
    from mcp_runtime.transports.http_server import app as http_server
    from mcp_runtime.transports.http_server.events import EventStore
else:
    task_store = LazyModule("mcp_products.extensions.tasks.store")
    http_server = LazyModule("mcp_runtime.transports.http_server.app")

ModelT = TypeVar("ModelT", bound="BaseModel")
_POLICIES: Final = ("error", "warn", "replace", "ignore")
OnDuplicate = Literal["error", "warn", "replace", "ignore"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Settings(TypedDict, total=False):
    """The common keywords: `title`, `description` (default: the docstring), `icons` (Icon objects or dicts), and `meta`
    (the `_meta` of the definition). `scopes` are OAuth scopes: over HTTP, requests without all of them are rejected.
    `tags` are names for `app.disable(tags=…)`; clients see them in the `_meta` as well. With `thread=False` a plain
    `def` runs in the event loop instead of a worker thread: write it only where the function never blocks. Several
    items of one name can have a `version`: clients see the highest, and a request can name another one in `_meta`."""

    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    meta: Mapping[str, Any] | None
    scopes: Sequence[str]
    tags: Collection[str]
    thread: bool
    version: str | int | float | None


class ToolSettings(Settings, total=False):
    """The keywords of a tool.

    `annotations` are ToolAnnotations or a dict. With `input_schema`, an explicit JSON Schema, the function gets the
    arguments as one dict; `output_schema` is an explicit schema of the structured content. `structured_output` says
    whether results have structured content: by default if the return type has a JSON Schema and is not content, never
    for False, and for True a return type that cannot have it is an error. `coerce=True` accepts "5" for an int.
    `task=True` or TaskOptions run calls as tasks for clients with the tasks extension. After
    `timeout` seconds the handler is cancelled, and the result is an error; a plain `def` runs on in its thread, and its
    value is dropped. `view` is HTML that hosts with the apps extension show with the result: the path of a file beside
    that of the function, read at each request, a text that begins with `<`, or a function that returns HTML.
    """

    annotations: Any
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    structured_output: bool | None
    coerce: bool
    task: bool | task_store.TaskOptions
    timeout: float | None
    view: str | os.PathLike[str] | Callable[..., Any] | None


class ResourceSettings(Settings, total=False):
    """The keywords of a resource: `name` (default: that of the function), `mime_type`, `annotations` (Annotations or a
    dict), and `size` in bytes. `public=True` confirms that clients can fetch its `https://` URI without this server."""

    name: str | None
    mime_type: str | None
    annotations: Any
    size: int | None
    public: bool


def _are_objects(value: Any) -> bool:
    return is_items(value) and all(_is_object(item) for item in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) or is_model(value)


def _is_version(value: Any) -> bool:
    return (isinstance(value, str) and bool(value.strip())) or is_number(value)


def _is_mime_type(value: Any) -> bool:
    return isinstance(value, str) and "/" in value.strip("/")


# What the values of keywords must be; a keyword without a rule takes any value.
RULES: Final[Mapping[str, Rule]] = {
    "name": NAME.or_none(),
    "title": TEXT.or_none(),
    "description": TEXT.or_none(),
    "icons": Rule(_are_objects, 'a list of icons, such as [{"src": "https://…"}]').or_none(),
    "meta": MAPPING.or_none(),
    "scopes": Rule(are_texts, 'a list of strings, such as ["admin"]'),
    "input_schema": Rule(_is_object, 'a JSON Schema, a dict such as {"type": "object"}').or_none(),
    "output_schema": Rule(_is_object, 'a JSON Schema, a dict such as {"type": "object"}').or_none(),
    "structured_output": Rule(lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "coerce": FLAG,
    "thread": FLAG,
    "version": Rule(_is_version, 'a version such as "1.0"').or_none(),
    "public": FLAG,
    "task": Rule(lambda value: isinstance(value, (bool, task_store.TaskOptions)), "True, False or TaskOptions(…)"),
    "mime_type": Rule(_is_mime_type, 'a MIME type, such as "text/plain"').or_none(),
    "size": Rule(lambda value: value is None or (type(value) is int and value >= 0), "a number of bytes, 0 or more"),
    "view": Rule(
        lambda value: bool(value) and (callable(value) or isinstance(value, (str, os.PathLike))),
        'a file such as "chart.html", HTML, or a function that returns HTML',
    ).or_none(),
    "annotations": Rule(_is_object, 'a dict, such as {"readOnlyHint": True}').or_none(),
}


def _are_exceptions(value: Any) -> bool:
    return is_items(value) and all(isinstance(item, type) and issubclass(item, Exception) for item in value)


def _are_handler_rates(value: Any) -> bool:
    return _are_values(value, lambda item: item is None or isinstance(item, RateLimit))


def _are_values(value: Any, accepts: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(map(accepts, cast("Mapping[str, Any]", value).values()))


# What the arguments of the constructor of an app must be.
APP_RULES: Final[Mapping[str, Rule]] = {
    "name": NAME,
    "host": HOST,
    "port": PORT,
    "instructions": TEXT.or_none(),
    "version": TEXT,
    "coerce": FLAG,
    "dereference_schemas": FLAG,
    "on_duplicate": Rule(
        lambda value: isinstance(value, str) and value in _POLICIES, 'one of "error", "warn", "replace" and "ignore"'
    ),
    "tool_errors": Rule(_are_exceptions, "a tuple of exception classes, such as (KeyError,)"),
    "page_size": COUNT,
    "declare": Rule(
        lambda value: are_texts(value) and {*value} <= {*LISTS}, 'a list of "tools", "resources" and "prompts"'
    ),
    "capabilities": Rule(MAPPING.accepts, 'a dict, such as {"logging": {}}').or_none(),
    "keys": like("a KeyRing", "lifetime").or_none(),
    "rate_limits": Rule(_are_handler_rates, 'a dict such as {"call_tool": RateLimit(10, burst=50)}').or_none(),
    "cache_hints": Rule(
        lambda value: _are_values(value, lambda item: isinstance(item, CacheHint)),
        'a dict such as {"list_tools": CacheHint(60, "public")}',
    ).or_none(),
    "tenant": like("Tenants(by=…, limits=Limits(…))", "around_dispatch").or_none(),
    "middleware": Rule(is_items, "a list of middleware objects"),
    "tasks": like("a TaskStore, with the methods add, get and update", "add", "get", "update").or_none(),
}


def check_app(
    function: str,
    revision: Revision,
    lifespan: object,
    rate_limits: Mapping[str, RateLimit | None] | None,
    cache_hints: Mapping[str, CacheHint] | None,
) -> dict[str, Any]:
    """Return the options of the server.

    Raises LocalError for a wrong lifespan, and for a rate limit or a cache hint of something that is not a handler.
    """
    check_lifespan(lifespan, function)
    check_handlers(function, revision, rate_limits)
    add_cache_hints({}, revision.table("client_to_server").values(), cache_hints or {})
    return {"rate_limits": rate_limits, "cache_hints": cache_hints}


def to_wire(settings: Settings, description: str | None) -> dict[str, Any]:
    """Return the properties that all definitions have."""
    own = settings.get("description")
    return {
        "title": settings.get("title"),
        "description": description if own is None else own,
        "icons": settings.get("icons"),
        "_meta": _meta(settings),
    }


def to_definition(model: type[ModelT], properties: Mapping[str, Any], description: str) -> ModelT:
    """Return the definition of a tool, resource or prompt. Raises LocalError for a property that does not fit."""
    annotations = properties.get("annotations")
    if is_model(annotations):  # Of any protocol version, and of `compat`.
        annotations = annotations.model_dump(by_alias=True, exclude_none=True)
        properties = {**properties, "annotations": annotations}
    if isinstance(annotations, Mapping):
        _check_annotations(model, cast("Mapping[str, Any]", annotations), description)
    check_definition(properties, description)
    try:
        return model.model_validate(properties)
    except ValidationError as error:
        raise LocalError(f"{description}: {format_validation_error(error)}") from None


def check_definition(properties: Mapping[str, Any], description: str) -> None:
    """Raise LocalError for a definition that JSON cannot express, such as a text of a docstring, or NaN in a schema."""
    try:
        text = to_json(properties)
    except ValueError as error:
        check_writable(description, properties)
        raise LocalError(f"{description} cannot be sent: {error}") from None
    if b"NaN" in text or b"Infinity" in text:
        check_writable(description, properties)


def _check_annotations(model: type[BaseModel], annotations: Mapping[str, Any], description: str) -> None:
    """Raise LocalError for an annotation that differs little from one of the specification, which clients would ignore;
    other annotations are allowed."""
    kinds = get_args(model.__pydantic_fields__["annotations"].annotation)
    fields = next(kind for kind in kinds if is_model_type(kind)).__pydantic_fields__
    names = [field.alias or name for name, field in fields.items()]
    for name in annotations:
        if name in names or name in fields:
            continue
        closest = nearest(name, names, "annotations")
        if "did you mean" in closest:
            raise LocalError(f"{description}: there is no annotation {name!r}; {closest}")


def tags_of(settings: Settings, description: str) -> frozenset[str]:
    """Return the tags. Raises TypeError for a string, and for what is not a collection of strings."""
    tags = settings.get("tags")
    return frozenset() if not tags else text_set(description, "tags", tags)


def version_of(settings: Settings) -> str | None:
    """Return the version as text."""
    version = settings.get("version")
    return None if version is None else str(version)


class Item:
    """What tools, prompts and resources have in common: a description for errors, and what their settings say.

    Attributes:
        indent: The spaces of indentation in the JSON text of results; None writes it in one line.
        scopes: The OAuth scopes that requests for it need.
        tags: Names for rules.
        version: Its version; None without one.
    """

    def __init__(self, description: str, settings: Settings, t: ModuleType, indent: int | None) -> None:
        """Read the settings that all of them have; `t` are the types of the protocol version of the app."""
        self._description = description
        self._t = t
        self.indent = indent
        self.scopes = check_scopes(settings.get("scopes", ()))
        self.tags = tags_of(settings, description)
        self.version = version_of(settings)

    def _unsendable(self, reason: object) -> UnwritableValueError:
        return UnwritableValueError(f"{self._description} returned a value that cannot be sent: {reason}")


def _meta(settings: Settings) -> Mapping[str, Any] | None:
    """Return the `_meta` of a definition, with the tags in alphabetical order and the version."""
    meta, tags, version = settings.get("meta"), settings.get("tags"), version_of(settings)
    own: dict[str, Any] = {"tags": sorted(tags)} if tags else {}
    if version is not None:
        own["version"] = version
    if not own:
        return meta
    namespace = (meta or {}).get(NAMESPACE)
    return {**(meta or {}), NAMESPACE: {**(namespace if is_object(namespace) else {}), **own}}


# The settings with which an app is served; their names are those of the official SDK.


class EndpointKeywords(TypedDict, total=False):
    """The keywords of an endpoint that a low-level server of the official SDK has too."""

    debug: bool
    streamable_http_path: str
    max_request_body_size: int | None
    session_idle_timeout: float | None
    max_sessions: int | None
    retry_interval: int | None


class ProcessKeywords(EndpointKeywords, total=False):
    """Those, and the keywords of the process that serves it."""

    log_level: LogLevel | None
    host: str
    port: int
    sse_path: str
    message_path: str
    dependencies: Sequence[str]


class ServedKeywords(ProcessKeywords, total=False):
    """The keywords of `ServerKeywords` besides `mount_path`."""

    json_response: bool
    stateless_http: bool
    event_store: EventStore | None
    store: str | Store
    card: bool | ServerCard


class ServerKeywords(ServedKeywords, total=False):
    """The keywords of `App(…)` that set how it is served; `ServerSettings` describes them."""

    mount_path: str


class ListKeywords(TypedDict, total=False):
    """The keywords of `App(…)` for what it adds to its lists.

    `on_duplicate` is what happens with a name or URI that is in use: "error" refuses it (the default), "replace" takes
    the new one, "warn" does so and logs a warning, and "ignore" leaves the old one. `dereference_schemas=True` lists
    JSON Schemas without `$ref`, for clients that do not resolve it.
    """

    on_duplicate: OnDuplicate
    dereference_schemas: bool


class AppKeywords(IdentityKeywords, ServerKeywords, ListKeywords, total=False):
    """The further keywords of `App(…)`: what users see of the server, its lists, how it is served, and `tenant`, which
    is what each tenant may use: `Tenants(by=…, limits=Limits(…))`."""

    tenant: TenantLimits | None


@dataclass(kw_only=True, slots=True)
class ServerSettings:
    """The settings of an app. They can be changed until it runs; keywords of `run` and `asgi` take precedence.

    Args:
        debug: Whether responses to failed custom routes have tracebacks.
        log_level: The level of the process's log, set when `run` starts. Default None: it is left as it is.
        host: The address that `run("http")` listens on.
        port: The port that `run("http")` listens on; 0 takes a free one.
        mount_path: The path that all others begin with.
        sse_path: The path of the SSE stream of HTTP+SSE; only "/sse".
        message_path: The path to POST to of HTTP+SSE; only "/messages/".
        streamable_http_path: The path of the MCP endpoint.
        json_response: Whether each POST is answered with JSON, never with an SSE stream; only a subscription is one.
            Messages before the response go to the stream that the client opens with a GET, if there is one.
        stateless_http: Whether to serve clients of versions with a handshake without sessions.
        max_request_body_size: Bytes of the body of a request. Default None: that of `HTTPLimits`.
        session_idle_timeout: Seconds after its last use at which a session ends. Default None: that of `HTTPLimits`.
        max_sessions: Sessions that are open at the same time. Default None: that of `HTTPLimits`.
        retry_interval: Milliseconds after which a client reconnects to an SSE stream whose connection was closed.
            Default None: that of `HTTPLimits`.
        event_store: Stores the messages of SSE streams, to resume them. Default None: in memory.
        store: What all workers of an HTTP endpoint share: "memory" (the default, for one worker), "sqlite:///path",
            "redis://host" or a Store.
        card: Whether to serve a card by which clients find the endpoint, or a ServerCard.
        dependencies: The packages that the program needs, for commands that install it.

    Raises LocalError for a value that cannot be served.
    """

    debug: bool = False
    log_level: LogLevel | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int | None = None
    session_idle_timeout: float | None = None
    max_sessions: int | None = None
    retry_interval: int | None = None
    event_store: EventStore | None = None
    store: str | Store = "memory"
    card: bool | ServerCard = False
    dependencies: Sequence[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise LocalError for the first setting that cannot be served, with the line to write."""
        if self.log_level is not None and self.log_level not in _LEVELS:
            raise LocalError(f"log_level={self.log_level!r} is not a level; use one of {', '.join(_LEVELS)}")
        for name in ("mount_path", "streamable_http_path"):
            if not getattr(self, name).startswith("/"):
                raise LocalError(f'{name}={getattr(self, name)!r} must begin with "/", as in {name}="/mcp"')
        if self.sse_path != "/sse" or self.message_path not in ("/messages", "/messages/"):
            raise LocalError(
                'sse_path and message_path are fixed: HTTP+SSE is served at /sse and /messages; write run("sse"), and '
                'mount_path="/x" for a path before both'
            )
        if self.store != "memory":
            open_store("App", self.store)
        if isinstance(self.dependencies, str):
            raise LocalError(
                f"dependencies={self.dependencies!r} must be a list of requirements: write [{self.dependencies!r}]"
            )

    @property
    def path(self) -> str:
        """The path of the MCP endpoint."""
        return self.mount_path.rstrip("/") + self.streamable_http_path

    def asgi_settings(self) -> dict[str, Any]:
        """Return the keywords of `MCPASGIApp` that differ from its defaults."""
        self.check()
        sizes = {
            "max_body": self.max_request_body_size,
            "max_sessions": self.max_sessions,
            "session_idle_timeout": self.session_idle_timeout,
            "retry_interval": self.retry_interval,
        }
        limits: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
        settings: dict[str, Any] = {}
        if limits:
            settings["limits"] = http_server.HTTPLimits(**limits)
        if self.event_store is not None:
            settings["event_store"] = self.event_store
        if self.store != "memory":
            settings["store"] = self.store
        flags = {name: True for name in ("json_response", "stateless_http") if getattr(self, name)}
        return settings | flags

    def configure_logging(self) -> None:
        """Log to standard error at `log_level`, if it is set and the program has not configured logging itself."""
        if self.log_level is not None:
            logging.basicConfig(stream=sys.stderr)
            logging.getLogger().setLevel(self.log_level)


def take_settings(keywords: dict[str, Any]) -> dict[str, Any]:
    """Remove the keywords of `ServerSettings` from a dict, and return them."""
    names = [item.name for item in fields(ServerSettings)]
    return {name: keywords.pop(name) for name in names if name in keywords}


# The keywords of methods that make an app or serve it, for type checkers: `**settings` of these methods.


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
    tasks: task_store.TaskStore | None
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
    owner: http_server.Owner
    auth: Protection | None
    limits: http_server.HTTPLimits
    legacy_sse: bool
    routes: Sequence[Any]


class HTTPAppKeywords(_EndpointKeywords, ServerKeywords, total=False):
    """The keywords of `app.http_app(…)` besides its path, middleware and transport."""


class SSEAppKeywords(_EndpointKeywords, ServedKeywords, total=False):
    """The keywords of `app.sse_app(…)` besides its path."""

    path: str | None
