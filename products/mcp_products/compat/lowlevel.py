"""`Server` of the official SDK's low level: a server made of one handler for each kind of request.

Handlers are registered by decorators, as in the last 1.x, or passed to the constructor, as in 2.x.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Unpack, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel, to_pascal
from pydantic_core import from_json, to_json
from typing_extensions import TypeVar

from mcp_products.app.settings import ServerSettings, take_settings
from mcp_products.json_schema.validator import compile_schema
from mcp_runtime._lazy import LazyModule
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.endpoint.base import not_handled
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_runtime.protocol.models import is_model
from mcp_runtime.protocol.revision import Notification, Request, Sent
from mcp_runtime.server.context import ServerContext

from .context import CURRENT, OfficialRequestContext, request_ctx
from .forms.errors import McpError, UrlElicitationRequiredError
from .forms.form import FORM, params_type, written
from .http import translated
from .names import InitializationOptions, NotificationOptions
from .streams.trio_server import call_handler, enter_lifespan
from .transports import serve_stream
from .values import named_by_handler
from .words import LISTS, without_logging

if TYPE_CHECKING:
    from mcp_products.app import http_application
    from mcp_products.app.http_application import HTTPApplication
    from mcp_runtime.bindings.arguments import ASGISettings
    from mcp_runtime.session.interfaces import RevisionChoice
    from mcp_runtime.transports.http_server.app import MCPASGIApp

    from . import app as compat_app
    from .keywords import LowLevelHTTPKeywords
else:  # Imported when they are used.
    http_application = LazyModule("mcp_products.app.http_application")
    compat_app = LazyModule("mcp_products.compat.app")


# The decorators of the official SDK's low-level server, up to the last 1.x.

_BINARY: Final = (bytes, bytearray, memoryview)

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
Handler = Callable[[Any, Any], Awaitable[Any]]
StateT = TypeVar("StateT", default=Any)
RequestDataT = TypeVar("RequestDataT", default=Any)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')  # The words of jsonschema have texts as Python writes them.

# The handlers of the constructor's keywords.
_NAMED: Final = "list_tools call_tool list_resources list_resource_templates read_resource list_prompts get_prompt"
_KEYWORDS: Final = {
    **{f"on_{name}": f"{to_pascal(name)}Request" for name in _NAMED.split()},
    "on_subscribe_resource": "SubscribeRequest",
    "on_unsubscribe_resource": "UnsubscribeRequest",
    "on_completion": "CompleteRequest",
    "on_set_logging_level": "SetLevelRequest",
    "on_roots_list_changed": "RootsListChangedNotification",
    "on_progress": "ProgressNotification",
}
_ANSWERED: Final = ("InitializeRequest", "DiscoverRequest", "SubscriptionsListenRequest")


class Decorator(Protocol):
    """Registers an async function, and returns it."""

    def __call__(self, function: F, /) -> F: ...


@dataclass(frozen=True)
class HandlerEntry:
    """A handler, and the type of the params that it gets."""

    params_type: Any
    handler: Callable[[Any, Any], Any]

    async def __call__(self, ctx: Any, params: Any) -> Any:
        """Handle a message. Raises JSONRPCError for params that are not of the type."""
        try:
            read = self.params_type.model_validate(written(params or {}))
        except ValidationError as error:
            raise JSONRPCError(INVALID_PARAMS, "Invalid request parameters", "") from error
        return await self.handler(OfficialRequestContext(ctx), read)

    async def own(self, ctx: Any, params: Any) -> dict[str, Any]:
        """Handle a message that the protocol does not have, and return its result as JSON."""
        return written(await self(ctx, params) or {})


class HandlerDecorators:
    """The part of a low-level server that registers handlers, by decorators and by their methods."""

    middleware: Any = ()

    def __init__(self, own: dict[tuple[str, type[Sent]], Callable[..., Awaitable[Any]]] | None = None) -> None:
        """Create a server without handlers; `own` gets those of methods that the protocol does not have."""
        self._handlers: dict[str, Handler] = {}
        self._own = {} if own is None else own
        self._entries: dict[tuple[str, type[Sent]], HandlerEntry] = {}
        self._tools: dict[str, Any] = {}  # The tools of the last list, whose schemas validate arguments and results.

    @cached_property
    def request_handlers(self) -> MutableMapping[type, Callable[[Any], Awaitable[Any]]]:
        """The handlers of requests by their types: functions of a request that return a `ServerResult`."""
        own: dict[str, Handler] = {FORM.handler_names[FORM.method("PingRequest")]: _answer_ping}
        return HandlersOfTypes(ChainMap(self._handlers, own), "ClientRequest")

    @cached_property
    def notification_handlers(self) -> MutableMapping[type, Callable[[Any], Awaitable[Any]]]:
        """The handlers of notifications by their types."""
        return HandlersOfTypes(self._handlers, "ClientNotification")

    def add_request_handler(self, method: str, params_type: Any, handler: Callable[[Any, Any], Any]) -> None:
        """Add a handler, which gets a request context and the params, for a method of the protocol or of a vendor.

        Raises ValueError for a method that the runtime answers.
        """
        self._add(method, Request, HandlerEntry(params_type, handler))

    def add_notification_handler(self, method: str, params_type: Any, handler: Callable[[Any, Any], Any]) -> None:
        """Add a handler of a notification, as `add_request_handler` does of a request."""
        self._add(method, Notification, HandlerEntry(params_type, handler))

    def get_request_handler(self, method: str) -> HandlerEntry | None:
        """Return the handler of a method that was added, or passed to the constructor."""
        return self._entries.get((method, Request))

    def get_notification_handler(self, method: str) -> HandlerEntry | None:
        """Return the handler of a notification that was added, or passed to the constructor."""
        return self._entries.get((method, Notification))

    def _add(self, method: str, kind: type[Sent], entry: HandlerEntry) -> None:
        if method in map(FORM.method, _ANSWERED):
            raise ValueError(f"{method!r} is answered by the runtime, and takes no handler")
        self._entries[method, kind] = entry
        if method in FORM.handler_names:
            self._register(FORM.handler_names[method], entry)
        else:
            self._own[method, kind] = partial(as_method(_through(self.middleware, entry.own)), self)

    def _register(self, name: str, handler: Handler) -> None:
        self._handlers[name] = handler

    def list_tools(self) -> Decorator:
        """Return a decorator that registers a function that returns the tools, or a `ListToolsResult`."""
        return self._list_decorator("tools")

    def list_resources(self) -> Decorator:
        """Return a decorator that registers a function that returns the resources, or a `ListResourcesResult`."""
        return self._list_decorator("resources")

    def list_resource_templates(self) -> Decorator:
        """Return a decorator that registers a function that returns the resource templates."""
        return self._list_decorator("resource_templates")

    def list_prompts(self) -> Decorator:
        """Return a decorator that registers a function that returns the prompts, or a `ListPromptsResult`."""
        return self._list_decorator("prompts")

    def get_prompt(self) -> Decorator:
        """Return a decorator that registers a function of a name and arguments; it returns a `GetPromptResult`."""
        return self._decorator("get_prompt", lambda function, params: function(params.name, params.arguments))

    def read_resource(self) -> Decorator:
        """Return a decorator that registers a function of a URI; it returns text, bytes or `ReadResourceContents`."""

        async def read(function: Callable[..., Any], params: Any) -> Any:
            contents = await function(HandlerURI(params.uri))
            return self._resource_result(params.uri, contents)

        return self._decorator("read_resource", read)

    def call_tool(self, *, validate_input: bool = True) -> Decorator:
        """Return a decorator that registers a function of a name and arguments.

        It returns content blocks, a dict of structured content, both as a tuple, or a `CallToolResult`. Exceptions
        become results with `isError` and their text. `validate_input` validates the arguments against the tool's
        schema.
        """

        async def call(function: Callable[..., Any], params: Any) -> Any:
            arguments: dict[str, Any] = params.arguments or {}
            try:
                tool = await self._get_cached_tool_definition(params.name)
                if validate_input and tool is not None and (error := _schema_error(tool["inputSchema"], arguments)):
                    return self._error_result(f"Input validation error: {error}")
                value = await function(params.name, arguments)
                return self._tool_result(value, tool)
            except UrlElicitationRequiredError:
                raise
            except Exception as exception:
                return self._error_result(str(exception))

        return self._decorator("call_tool", call)

    def completion(self) -> Decorator:
        """Return a decorator that registers a function of a reference, an argument and a context."""

        async def complete(function: Callable[..., Any], params: Any) -> Any:
            t = FORM.types
            params = FORM.read("ClientRequest", FORM.method("CompleteRequest"), written(params)).params
            completion = await function(params.ref, params.argument, params.context)
            return t.CompleteResult(completion=t.Completion(values=[]) if completion is None else completion)

        return self._decorator("complete", complete)

    def set_logging_level(self) -> Decorator:
        """Return a decorator that registers a function of the level that a client has set."""
        return self._decorator("set_level", lambda function, params: self._emptied(function(params.level)))

    def subscribe_resource(self) -> Decorator:
        """Return a decorator that registers a function of the URI that a client has subscribed to."""
        return self._decorator("subscribe", lambda function, params: self._emptied(function(HandlerURI(params.uri))))

    def unsubscribe_resource(self) -> Decorator:
        """Return a decorator that registers a function of the URI that a client has unsubscribed from."""
        return self._decorator("unsubscribe", lambda function, params: self._emptied(function(HandlerURI(params.uri))))

    def progress_notification(self) -> Decorator:
        """Return a decorator that registers a function of a token, the progress, the total and a message."""
        names = ("progressToken", "progress", "total", "message")
        return self._decorator("on_progress", lambda function, params: function(*map(written(params).get, names)))

    async def _emptied(self, result: Awaitable[Any]) -> Any:
        await result
        return FORM.types.EmptyResult()

    def _list_decorator(self, kind: str) -> Decorator:
        async def list_items(function: Callable[..., Any], params: Any) -> Any:
            takes_request = bool(inspect.signature(function).parameters)
            result: Any = await (function(SimpleNamespace(params=params)) if takes_request else function())
            if not is_model(result):
                result = getattr(FORM.types, f"List{to_pascal(kind)}Result")(**{to_camel(kind): list(result)})
            if kind == "tools":
                self._tools = {tool.name: written(tool) for tool in getattr(result, kind)}
            return result

        return self._decorator(f"list_{kind}", list_items)

    def _decorator(self, name: str, call: Callable[[Callable[..., Any], Any], Awaitable[Any]]) -> Decorator:
        def register(function: F) -> F:
            async def answer(ctx: Any, params: Any) -> Any:
                return await call(function, params)

            @wraps(answer)
            async def handle(ctx: Any, params: Any) -> Any:
                try:
                    return await answer(ctx, params)
                except (JSONRPCError, McpError):
                    raise
                except Exception as error:
                    raise JSONRPCError(INTERNAL_ERROR, str(error)) from error

            self._register(name, handle)
            return function

        return register

    async def _get_cached_tool_definition(self, name: str) -> Any:
        """Return the definition of a tool; None if the server does not list it."""
        if name not in self._tools and (list_tools := self._handlers.get("list_tools")) is not None:
            await inspect.unwrap(list_tools)(None, None)
        return self._tools.get(name)

    def _tool_result(self, value: Any, tool: Any) -> Any:
        t = FORM.types
        structured: Any = None
        content: Any = value
        if isinstance(value, BaseModel):
            return value
        if isinstance(content, tuple) and len(content := list(cast(tuple[Any, ...], value))) == 2:
            content, structured = content
        elif isinstance(value, Mapping):
            structured = cast(Mapping[str, Any], value)
            content = [t.TextContent(type="text", text=json.dumps(structured, indent=2))]
        elif isinstance(value, str) or not isinstance(value, Iterable):
            return self._error_result(f"Unexpected return type from tool: {type(content).__name__}")
        if tool is not None and tool.get("outputSchema") is not None:
            if structured is None:
                problem = "outputSchema defined but no structured output returned"
                return self._error_result(f"Output validation error: {problem}")
            if error := _schema_error(tool["outputSchema"], structured):
                return self._error_result(f"Output validation error: {error}")
        return t.CallToolResult(content=list(content), structuredContent=structured, isError=False)

    def _error_result(self, message: str) -> Any:
        return FORM.types.CallToolResult(content=[FORM.types.TextContent(type="text", text=message)], isError=True)

    def _resource_result(self, uri: str, value: Any) -> Any:
        t = FORM.types
        if isinstance(value, BaseModel):
            return value
        contents: list[Any] = []
        items: Iterable[Any] = [value] if isinstance(value, (str, *_BINARY)) else value
        for item in items:
            data = getattr(item, "content", item)
            meta: dict[str, Any] = {} if getattr(item, "meta", None) is None else {"_meta": item.meta}
            mime_type = getattr(item, "mime_type", None)
            if isinstance(data, _BINARY):
                blob = base64.b64encode(bytes(cast(Any, data))).decode()
                mime_type = mime_type or "application/octet-stream"
                contents.append(t.BlobResourceContents(uri=uri, blob=blob, mimeType=mime_type, **meta))
            else:
                mime_type = mime_type or "text/plain"
                contents.append(t.TextResourceContents(uri=uri, text=data, mimeType=mime_type, **meta))
        return t.ReadResourceResult(contents=contents)


class HandlersOfTypes(MutableMapping[type, Callable[[Any], Awaitable[Any]]]):
    """The handlers of a low-level server by the types of their messages, as programs of 1.x read and write them."""

    def __init__(self, handlers: MutableMapping[str, Handler], union: str) -> None:
        """Create the view of a server's handlers for the messages of a union."""
        self._handlers = handlers
        names = FORM.handler_names
        self._names = {kind: names[method] for method, kind in FORM.by_method[union].items() if method in names}
        self._written: dict[Handler, Callable[[Any], Awaitable[Any]]] = {}

    def __getitem__(self, kind: type) -> Callable[[Any], Awaitable[Any]]:
        """Return a function of a message. Raises KeyError without a handler."""
        handler = inspect.unwrap(self._handlers[self._names[kind]])

        async def handle(message: Any) -> Any:
            result = await handler(CURRENT.get(None), message and message.params)
            return result and FORM.wrapped("ServerResult", result)

        return self._written.get(handler, handle)

    def __setitem__(self, kind: type, function: Callable[[Any], Awaitable[Any]]) -> None:
        """Register a function of a message."""

        async def handle(ctx: Any, params: Any) -> Any:
            fields = {} if params is None else {"params": written(params)}
            result = await function(cast("type[BaseModel]", kind).model_validate(fields))
            return getattr(result, "root", result)

        self._handlers[self._names[kind]] = handle
        self._written[handle] = function

    def __delitem__(self, kind: type) -> None:
        """Remove a handler."""
        del self._handlers[self._names[kind]]

    def __iter__(self) -> Iterator[type]:
        """Iterate over the types that have handlers."""
        return (kind for kind, name in self._names.items() if name in self._handlers)

    def __len__(self) -> int:
        """Return how many types have handlers."""
        return len(list(iter(self)))


async def _answer_ping(ctx: Any, params: Any) -> Any:
    return FORM.types.EmptyResult()


def _part(name: str, doc: str) -> Any:
    """Return a property with a part of a URL; None without it."""
    return property(lambda uri: getattr(urlsplit(str(uri)), name) or None, doc=doc)


class HandlerURI(str):
    """A URI as handlers of the last 1.x get it: a text with the parts of a URL, equal to a URL of pydantic."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    __hash__ = str.__hash__

    scheme = _part("scheme", "The part before the colon.")
    host = _part("netloc", "The part after the slashes.")
    path = _part("path", "The part after the host.")
    query = _part("query", "The part after the question mark.")


def _schema_error(schema: Any, value: Any) -> str | None:
    try:
        error = compile_schema(schema).first_error(dict(value))
    except InvalidMessageError as invalid:
        return str(invalid)
    return error and _QUOTED.sub(lambda text: repr(json.loads(text[0])), error)


class LowLevelServer(HandlerDecorators, Generic[StateT, RequestDataT]):
    """A server made of one handler for each kind of request."""

    session_manager: Any
    """The sessions of the last HTTP application: `async with server.session_manager.run()` ends them."""
    newest: ClassVar[type[BaseServer]]
    handshake: ClassVar[type[BaseServer]]

    def __init__(
        self,
        name: str,
        version: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[Any] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        cache_hints: Mapping[str, Any] | None = None,
        **handlers: Callable[[Any, Any], Any] | None,
    ) -> None:
        """Create a server.

        Args:
            name: The name of the server.
            version: The version of the server; by default "0".
            instructions: Instructions for the model on how to use the server.
            website_url: The website of the server.
            icons: The icons of the server.
            lifespan: Called with the server; the value that its async context manager yields is `lifespan_context`.
            title: The title of the server.
            description: The description of the server.
            cache_hints: How long clients may cache results, by method: as `CacheHint(ttl_ms=60_000)`.
            handlers: `on_list_tools`, `on_call_tool` and the like: async functions of a request context and params.

        Raises TypeError for an unknown handler.
        """
        super().__init__()
        self.middleware: list[Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]] = []
        """Functions of a request context and `call_next`, the outermost first, for all requests that have handlers."""
        self.name = name
        self.version = version
        self.instructions = instructions
        self.website_url = website_url
        self.icons = icons
        self.title = title
        self.description = description
        self._lifespan = lifespan
        self._cache_hints = dict(cache_hints or {})
        for keyword, handler in handlers.items():
            if keyword not in _KEYWORDS:
                raise TypeError(f"Server() has no keyword argument {keyword!r}; handlers: {', '.join(_KEYWORDS)}")
            if handler is not None:
                kind = getattr(FORM.types, _KEYWORDS[keyword])
                add = self.add_request_handler if kind.__name__.endswith("Request") else self.add_notification_handler
                add(FORM.method(kind.__name__), params_type(kind), handler)

    @property
    def request_context(self) -> OfficialRequestContext[Any, StateT, RequestDataT]:
        """The request that the running handler serves. Raises LookupError outside of handlers."""
        return cast("OfficialRequestContext[Any, StateT, RequestDataT]", request_ctx.get())

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Any:
        """Return the capabilities of the registered handlers, as `ServerCapabilities`."""
        changes = notification_options or NotificationOptions()
        declared: dict[str, Any] = {
            kind: {"listChanged": True} for kind in LISTS if getattr(changes, f"{kind}_changed")
        }
        if experimental_capabilities:
            declared["experimental"] = dict(experimental_capabilities)
        return FORM.types.ServerCapabilities.model_validate(self._create({"capabilities": declared}).capabilities)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what the server declares about itself, for `run`."""
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version or "0",
            capabilities=self.get_capabilities(notification_options, experimental_capabilities),
            **{name: getattr(self, name) for name in ("title", "description", "instructions", "website_url", "icons")},
        )

    async def run(
        self,
        read_stream: Any,
        write_stream: Any,
        initialization_options: InitializationOptions | None = None,
        raise_exceptions: bool = False,
        stateless: bool = False,
    ) -> None:
        """Serve the connection of two streams until it is closed, in every protocol version.

        Args:
            read_stream: A stream of `stdio_server`, or one of `SessionMessage`.
            write_stream: The other stream.
            initialization_options: What the server declares about itself; by default `create_initialization_options()`.
            raise_exceptions: Accepted: an exception of a handler ends its request, not the server.
            stateless: Accepted: the protocol version decides whether a connection has a state.

        """
        options = initialization_options or self.create_initialization_options()
        await serve_stream(self._declaring(options), read_stream, write_stream)

    def bind(self) -> BaseServer:
        """Return a server object of this package with the registered handlers."""
        return self._declaring(self.create_initialization_options())

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Unpack[ASGISettings]) -> MCPASGIApp:
        """Return an ASGI application that serves this server; the keywords are those of `Server.asgi`."""
        return self.bind().asgi(revisions=revisions, **settings)

    def streamable_http_app(
        self,
        *,
        host: str = "127.0.0.1",
        auth: Any = None,
        token_verifier: Any = None,
        auth_server_provider: Any = None,
        custom_starlette_routes: Sequence[Any] = (),
        **settings: Unpack[LowLevelHTTPKeywords],
    ) -> HTTPApplication:
        """Return a Starlette application that serves this server. Needs the extra `http`.

        Args:
            host: Accepted: the address is that of the program that runs the application.
            auth: The settings of the protected resource, `AuthSettings`; by default there is no authentication.
            token_verifier: Verifies access tokens; it, or a provider, is needed with `auth`.
            auth_server_provider: The authorization server to serve beside, whose tokens are accepted.
            custom_starlette_routes: Routes to serve besides.
            settings: `streamable_http_path`, `json_response`, `stateless_http`, `event_store`, `retry_interval`,
                `transport_security`, `debug` and the limits of the official SDK, and the keywords of `asgi`.

        Raises TypeError for an unknown keyword, and LocalError for `auth` without a verifier.
        """
        keywords = translated(dict(settings))
        served = ServerSettings(**take_settings(keywords))
        given = {"auth": auth, "token_verifier": token_verifier, "auth_server_provider": auth_server_provider}
        protection = compat_app.Protection.from_settings("streamable_http_app", given)
        merged: dict[str, Any] = {"path": served.path, **protection.keywords(served), **served.asgi_settings()}
        merged |= keywords
        routes = [*protection.routes(served.path), *custom_starlette_routes]
        made = http_application.HTTPApplication(self.asgi(**merged), merged["path"], routes, (), served.debug)
        self.session_manager = made.sessions
        return made

    def _declaring(self, options: InitializationOptions) -> BaseServer:
        """Return a server that declares this. As in the official SDK, handlers send log messages whatever it is."""
        declarations = _declarations(options)
        is_told = "logging" in declarations["capabilities"]
        declarations["capabilities"].setdefault("logging", {})
        server = self._create(declarations)
        if not is_told:
            server.parts.around = _without_logging
        server.parts.own = self._own
        return server

    def _create(self, options: Mapping[str, Any]) -> BaseServer:
        # The newest version, or the last one with a handshake if only this one has one of the handlers.
        base = self.newest if _received_by(self.newest).issuperset(self._handlers) else self.handshake
        members: dict[str, Any] = {
            name: as_method(_through(self.middleware, handler))
            for name, handler in self._handlers.items()
            if name in _received_by(base)
        }
        unknown = self._handlers.keys() - members.keys()
        if unknown:
            raise LocalError(f"Server: no protocol version has handlers of {', '.join(sorted(unknown))}")
        if self._lifespan is not None:
            made = partial(self._lifespan, self)

            def enter(server: BaseServer) -> AbstractAsyncContextManager[Any]:
                return enter_lifespan(made())

            members["lifespan"] = enter
        settings: dict[str, Any] = {
            "name": self.name,
            "version": self.version or "0",
            "instructions": self.instructions,
        }
        if self._cache_hints:
            settings["cache_hints"] = named_by_handler(self._cache_hints, base.revision)
        server: BaseServer = type("ServedHandlers", (base,), members)(**settings | dict(options))
        return server


def _received_by(kind: type[BaseServer]) -> set[str]:
    return {row.name for row in kind.revision.rows if row.direction == "client_to_server"}


def as_method(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler as a method of a server: `request_context` is that of its request."""

    async def handle(self: Any, ctx: ServerContext, params: Any) -> Any:
        token = CURRENT.set(ctx)
        try:
            return _result_of(ctx, await call_handler(handler, ctx, params))
        finally:
            CURRENT.reset(token)

    return handle


def _result_of(ctx: ServerContext, result: Any) -> Any:
    """Return a result in the server's own protocol version, if the handler has created it with types of another."""
    row = ctx.received.row
    if not isinstance(row, Request) or not isinstance(result, BaseModel) or isinstance(result, row.result_types):
        return result
    fields = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = next((kind for kind in row.result_types if kind.__name__ == type(result).__name__), row.result)
    aliases = {field.alias for field in made.__pydantic_fields__.values()}
    hints = {"ttlMs": "ttl_ms", "cacheScope": "cache_scope"}  # Those of the server hold where the result has none.
    unset = {name for name, attribute in hints.items() if attribute not in result.model_fields_set}
    newer = {"resultType", *hints} - aliases  # Defaults of the newest revision's results.
    return made(**{name: value for name, value in fields.items() if name not in unset | newer})


def _through(middleware: Sequence[Callable[..., Any]], handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler with the middleware around it that the server has at the time of the request."""

    async def handle(ctx: ServerContext, params: Any) -> Any:
        if not middleware:
            return await handler(ctx, params)

        async def proceed(position: int, _: Any) -> Any:
            if position == len(middleware):
                return await handler(ctx, params)
            return await middleware[position](OfficialRequestContext(ctx), partial(proceed, position + 1))

        return await proceed(0, None)

    return handle


async def _without_logging(name: str, ctx: ServerContext, params: Any, handler: Handler) -> Any:
    """Handle a message of the lifecycle for clients that are not told of logging, and that cannot set its level."""
    if name == "set_level":
        raise not_handled(ctx.received.row, ctx.revision)
    return without_logging(await handler(ctx, params))


def _declarations(options: InitializationOptions) -> dict[str, Any]:
    fields: dict[str, Any] = from_json(to_json(options.capabilities, by_alias=True, exclude_none=True))
    # In the official SDK handlers can send these messages whatever is declared.
    for kind in LISTS:
        if fields.get(kind) is not None:
            fields[kind]["listChanged"] = True
    if fields.get("resources") is not None:
        fields["resources"]["subscribe"] = True
    return {
        "name": options.server_name,
        "version": options.server_version,
        "instructions": options.instructions,
        "capabilities": fields,
    }
