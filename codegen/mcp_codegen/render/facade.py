"""The front door of a generated package: `from mcp_generated import App, connect`, and its areas. This is the one place
that names all products."""

from __future__ import annotations

from typing import Any, Final

from ..model.ir import Revision
from ..paths import Templates
from .package import converter_module
from .source import GENERATOR, print_template
from .types import literal

# The public names of the package, by the module that defines them.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "mcp_products.app.app": (
        "Lifespan",
        "lifespan",
    ),
    "mcp_products.app.components.completion": ("rank_completions",),
    "mcp_products.app.components.uris": ("is_https_url",),
    "mcp_products.app.content": (
        "AssistantMessage",
        "Audio",
        "File",
        "Image",
        "Message",
        "UserMessage",
    ),
    "mcp_products.app.context.elicitation": (
        "AcceptedElicitation",
        "AcceptedUrlElicitation",
        "CancelledElicitation",
        "DeclinedElicitation",
        "ElicitationResult",
    ),
    "mcp_products.app.context.own_requests": ("ResourceContent",),
    "mcp_products.app.context.request_context": ("RequestContext",),
    "mcp_products.app.context.request_views": ("ServerSession",),
    "mcp_products.app.context.sampling": ("SampleResult",),
    "mcp_products.app.context.state": (
        "InMemoryStateStore",
        "StateStore",
    ),
    "mcp_products.app.context.sync_context": ("SyncContext",),
    "mcp_products.app.decorators": ("tool",),
    "mcp_products.app.dependencies.markers": (
        "Depends",
        "Elicit",
        "ListRoots",
        "Resolve",
        "Sample",
    ),
    "mcp_products.app.middleware.hooks": (
        "Middleware",
        "MiddlewareContext",
    ),
    "mcp_products.app.resources": (
        "BinaryResource",
        "DirectoryResource",
        "FileResource",
        "HttpResource",
        "TextResource",
    ),
    "mcp_products.app.tools": (
        "ArgTransform",
        "Tool",
        "forward",
        "forward_raw",
    ),
    "mcp_products.extensions.tasks.store": ("TaskOptions",),
    "mcp_products.host.cache": (
        "ClientResponseCache",
        "ResponseCache",
    ),
    "mcp_products.host.outputs": (
        "ToolData",
        "ToolOutput",
    ),
    "mcp_products.host.roots": (
        "RootsCache",
        "is_within",
        "path_to_root",
        "readable_roots",
    ),
    "mcp_products.host.sampling": ("choose_model",),
    "mcp_products.host.tools": (
        "ApprovedTools",
        "CompletionSession",
        "FileRoots",
    ),
    "mcp_products.models.tool_methods": (
        "ToolHints",
        "to_anthropic",
        "to_gemini",
        "to_openai",
    ),
    "mcp_products.openapi.apps": (
        "MCPType",
        "RouteMap",
    ),
    "mcp_products.relay.gateway.gateway": ("Gateway",),
    "mcp_products.telemetry.client_logs": ("ClientLogHandler",),
    "mcp_products.telemetry.json_logs": ("JSONLogFormatter",),
    "mcp_runtime.aio.rates": ("RateLimit",),
    "mcp_runtime.bindings.client": ("negotiate",),
    "mcp_runtime.bindings.server": (
        "asgi_app",
        "run",
        "serve",
    ),
    "mcp_runtime.errors": (
        "AuthorizationError",
        "AuthorizationServerUnavailableError",
        "ClientCapabilityError",
        "ConnectionClosedError",
        "ConversionError",
        "HTTPStatusError",
        "InvalidMessageError",
        "InvalidResponseError",
        "InvalidSchemaError",
        "JSONRPCError",
        "LocalError",
        "MCPError",
        "ProtocolViolationError",
        "RemoteError",
        "RemoteJSONRPCError",
        "RequestTimeoutError",
        "SkillVerificationError",
        "ToolError",
        "ToolResultError",
        "UnwritableValueError",
        "printable",
    ),
    "mcp_products.json_schema.validator": ("compile_schema",),
    "mcp_products.common.keys": ("KeyRing",),
    "mcp_runtime.server.lists": (
        "CacheHint",
        "paginate",
    ),
    "mcp_runtime.session.interfaces": ("Transport",),
    "mcp_runtime.session.requests": (
        "Progress",
        "RequestOptions",
    ),
    "mcp_runtime.transports.http_client.connection": ("HTTPOptions",),
    "mcp_products.versions.conversion.operations": ("ConversionReport",),
}

# What the index defines itself.
FIXED: Final = ("CONVERSIONS", "DEFAULT_REVISION", "LIFECYCLES", "REVISIONS", "converter")
# What the modules of an app define.
_APP: Final = {
    "App": "app",
    "Context": "app",
    "Client": "client",
    "MultiClient": "multi",
    "SyncClient": "client",
    "connect": "client",
}

# The areas of the package beside its front door: the runtime's module, and what it is for.
AREAS: Final = {
    "auth": ("mcp_products.auth", "OAuth 2.1: authorization for clients, resource servers and authorization servers."),
    "code_mode": ("mcp_products.code_mode", "Code mode: clients search functions, and run programs that call them."),
    "dependencies": (
        "mcp_products.app.dependencies",
        "Dependencies: parameters whose values are computed on the server.",
    ),
    "middleware": ("mcp_products.app.middleware", "Middleware: what runs around the handlers of an app's messages."),
    "providers": ("mcp_products.app.providers", "Providers: sources of tools, resources and prompts of an app."),
    "sampling": ("mcp_products.host", "Sampling: handlers for clients that call the models of a provider."),
    "skills": ("mcp_products.skills", "The skills extension: publish and verify skills."),
    "tasks": ("mcp_products.extensions.tasks", "The tasks extension: requests whose result clients poll for."),
    "tenants": ("mcp_products.tenants", "Tenants: whom a request is for, and what each of them may use."),
    "transforms": ("mcp_products.app.transforms", "Transforms: what changes what the clients of an app see."),
    "testing": ("mcp_products.testing", "A scripted peer for tests of clients and servers."),
}

# The area that has names of several modules.
HTTP: Final[dict[str, tuple[str, ...]]] = {
    "mcp_products.cards.card": ("ServerCard",),
    "mcp_products.hosting.run": ("listen",),
    "mcp_products.workers.stores.memory": ("InMemoryStore",),
    "mcp_products.workers.stores.redis": ("RedisStore",),
    "mcp_products.workers.stores.sqlite": ("SQLiteStore",),
    "mcp_runtime.stores": (
        "Store",
        "StoreUnavailableError",
    ),
    "mcp_runtime.transports.http_client.connection": ("HTTPOptions",),
    "mcp_runtime.transports.http_server.app": (
        "HTTPLimits",
        "MCPASGIApp",
    ),
    "mcp_runtime.transports.http_server.events": (
        "EventStore",
        "InMemoryEventStore",
    ),
}

# The products that the runtime looks for, by the name that it has for the seam.
PRODUCTS: Final = {
    "awaiting": "mcp_products.common.awaiting",
    "cards": "mcp_products.cards.discovery",
    "error_output": "mcp_products.platforms.error_output",
    "fast": "mcp_products.fast",
    "foreign_loop": "mcp_products.platforms.trio_client",
    "forms": "mcp_products.json_schema.forms",
    "hosting": "mcp_products.hosting.run",
    "keys": "mcp_products.common.keys",
    "large": "mcp_products.large.messages",
    "legacy_sse_client": "mcp_products.legacy_sse.client",
    "legacy_sse_server": "mcp_products.legacy_sse.server",
    "lenient": "mcp_products.lenient.reading",
    "models": "mcp_products.models.described_fields",
    "other_names": "mcp_products.app.other_names",
    "pipe_io": "mcp_products.platforms.pipe_threads",
    "records": "mcp_products.fast.records",
    "resource_names": "mcp_products.host.resources",
    "task_polling": "mcp_products.extensions.tasks.polling",
    "result_cache": "mcp_products.host.cache",
    "telemetry": "mcp_products.telemetry",
    "versions": "mcp_products.versions.adapters",
    "workers": "mcp_products.workers",
}

# The modules of other distributions: who needs one, and the extra that installs it.
EXTRAS: Final = {
    "mcp_products.auth": ("OAuth", "http,auth"),
    "mcp_products.auth.authorization_server": ("an authorization server", "auth"),
    "mcp_products.auth.client": ("an OAuth client", "http,auth"),
    "mcp_products.auth.discovery": ("an OAuth client", "http,auth"),
    "mcp_products.auth.resource_server": ("a protected server", "http,auth"),
    "mcp_products.cards": ("card=", "http"),
    "mcp_products.code_mode": ("code mode", "code"),
    "mcp_products.compat": ("mcp_generated.compat", "compat"),
    "mcp_products.hosting": ("a server over HTTP", "http"),
    "mcp_products.hosting.other_servers": ("server= of run()", "hypercorn"),
    "mcp_products.json_rpc": ("a peer of another protocol", "protocols"),
    "mcp_products.legacy_sse": ("HTTP+SSE of 2024", "http"),
    "mcp_products.openapi": ("an app of an API", "openapi"),
    "mcp_products.relay": ("App.proxy", "proxy"),
    "mcp_products.relay.bridge": ("a bridge", "cli"),
    "mcp_products.relay.gateway": ("a gateway", "cli"),
    "mcp_products.skills": ("skills", "skills"),
    "mcp_products.tenants": ("tenant=", "http"),
    "mcp_products.views": ("a view", "views"),
    "mcp_products.workers": ("a store that workers share", "http"),
    "mcp_runtime.transports.http_client": ("a client over HTTP", "http"),
    "mcp_products.workers.stores.redis": ("a store in Redis", "redis"),
    "mcp_products.workers.tasks.repeatable": ("a repeatable task", "docket"),
    "mcp_generated.extensions.apps": ("a view", "views"),
    "mcp_generated.extensions.server_card": ("a server card", "http"),
    "mcp_generated.extensions.skills": ("skills", "skills"),
}


def render_index(
    revisions: list[Revision], neighbours: list[tuple[Revision, Revision]], templates: Templates, app: Revision | None
) -> str:
    """Return the `__init__.py` of the package that holds the revisions, with the names of the app in one of them, or
    without them. `connect` returns a client of that revision, or of the newest."""
    default = app or revisions[-1]
    context: dict[str, Any] = {
        "revisions": [
            (literal(revision.id), revision.module, literal(revision.lifecycle.style)) for revision in revisions
        ],
        "default": default,
        "default_id": literal(default.id),
        "conversions": [
            (literal(older.id), literal(newer.id), converter_module(older, newer)) for older, newer in neighbours
        ],
        "generator": GENERATOR,
        "app": _APP if app is not None else {},
        "names": NAMES,
        "products": PRODUCTS,
        "extras": EXTRAS,
        "public": sorted(
            [
                *FIXED,
                *(_APP if app is not None else ("connect",)),
                *(name for names in NAMES.values() for name in names),
            ]
        ),
    }
    return print_template("index.py.jinja2", context, templates)


def render_areas(templates: Templates) -> dict[str, str]:
    """Return the modules that export an area of the runtime, by name."""
    texts = {
        f"{name}.py": {"module": module, "doc": doc, "generator": GENERATOR} for name, (module, doc) in AREAS.items()
    }
    http = {
        "names": HTTP,
        "public": sorted(name for names in HTTP.values() for name in names),
        "doc": "HTTP: the ASGI application of a server, its limits, and the options of clients.",
        "generator": GENERATOR,
    }
    return {
        **{name: print_template("area.py.jinja2", context, templates) for name, context in texts.items()},
        "http.py": print_template("names_area.py.jinja2", http, templates),
    }


def render_compat(newest: Revision, handshake: Revision, templates: Templates) -> dict[str, str]:
    """Return the modules with the names of the official SDK, by name.

    `handshake` is the newest revision with a handshake, which has requests that the newest revision has not.
    """
    context = {"newest": newest.module, "handshake": handshake.module, "generator": GENERATOR, "names": NAMES}
    texts = {"compat/__init__.py": "compat.py.jinja2", "compat/types.py": "compat_types.py.jinja2"}
    return {name: print_template(template, context, templates) for name, template in texts.items()}
