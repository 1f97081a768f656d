"""`Server` of the official SDK's low level: a server made of one handler for each kind of request.

Handlers are registered by decorators, as in the last 1.x, or passed to the constructor, as in 2.x.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Unpack

from pydantic import BaseModel
from pydantic_core import from_json, to_json
from typing_extensions import TypeVar

from ..bindings.server import BaseServer
from ..errors import LocalError
from ..protocol.revision import Request
from ..server.context import ServerContext
from .decorators import HandlerDecorators
from .initialization import InitializationOptions, NotificationOptions
from .request import CURRENT, OfficialRequestContext
from .stream_ends import serve_stream
from .values.cache_times import named_by_handler

if TYPE_CHECKING:
    from ..app.serving.http_application import HTTPApplication
    from ..bindings.settings import ASGISettings
    from ..session.interfaces import RevisionChoice
    from ..transports.http_server.app import MCPASGIApp
    from .signatures.official_keywords import LowLevelHTTPKeywords

StateT = TypeVar("StateT", default=Any)
RequestDataT = TypeVar("RequestDataT", default=Any)

# The handlers of the constructor's keywords.
_KEYWORDS: Final = {
    "on_list_tools": "list_tools",
    "on_call_tool": "call_tool",
    "on_list_resources": "list_resources",
    "on_list_resource_templates": "list_resource_templates",
    "on_read_resource": "read_resource",
    "on_subscribe_resource": "subscribe",
    "on_unsubscribe_resource": "unsubscribe",
    "on_list_prompts": "list_prompts",
    "on_get_prompt": "get_prompt",
    "on_completion": "complete",
    "on_set_logging_level": "set_level",
    "on_roots_list_changed": "on_roots_list_changed",
    "on_progress": "on_progress",
}
_LISTS: Final = {"tools": "list_tools", "resources": "list_resources", "prompts": "list_prompts"}


class LowLevelServer(HandlerDecorators, Generic[StateT, RequestDataT]):
    """A server made of one handler for each kind of request."""

    newest: ClassVar[type[BaseServer]]
    handshake: ClassVar[type[BaseServer]]
    capabilities_type: ClassVar[type[BaseModel]]

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
                self._handlers[_KEYWORDS[keyword]] = _with_request_context(handler)

    @property
    def request_context(self) -> OfficialRequestContext[Any, StateT, RequestDataT]:
        """The request that the running handler serves. Raises LookupError outside of handlers."""
        return OfficialRequestContext(CURRENT.get())

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Any:
        """Return the capabilities of the registered handlers, as `ServerCapabilities`."""
        changes = notification_options or NotificationOptions()
        declared: dict[str, Any] = {
            kind: {"listChanged": True} for kind in _LISTS if getattr(changes, f"{kind}_changed")
        }
        if experimental_capabilities:
            declared["experimental"] = dict(experimental_capabilities)
        server = self._create({"capabilities": declared})
        return self.capabilities_type.model_validate(server.capabilities)

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
            title=self.title,
            description=self.description,
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    async def run(
        self,
        read_stream: object,
        write_stream: object,
        initialization_options: InitializationOptions | None = None,
        raise_exceptions: bool = False,
        stateless: bool = False,
    ) -> None:
        """Serve the connection of two streams until it is closed, in every protocol version.

        Args:
            read_stream: A stream of `stdio_server`.
            write_stream: The other stream.
            initialization_options: What the server declares about itself; by default `create_initialization_options()`.
            raise_exceptions: Must be False: an exception of a handler ends its request, not the server.
            stateless: Accepted: the protocol version decides whether a connection has a state.

        Raises LocalError for streams of another library.
        """
        if raise_exceptions:
            raise LocalError("Server.run: raise_exceptions=True has no counterpart; the log has the exceptions")
        options = initialization_options or self.create_initialization_options()
        await serve_stream(self._create(_declarations(options)), read_stream)

    def bind(self) -> BaseServer:
        """Return a server object of this package with the registered handlers."""
        return self._create(_declarations(self.create_initialization_options()))

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Unpack[ASGISettings]) -> MCPASGIApp:
        """Return an ASGI application that serves this server; the keywords are those of `Server.asgi`."""
        return self.bind().asgi(revisions=revisions, **settings)

    def streamable_http_app(
        self,
        *,
        host: str = "127.0.0.1",
        auth: Any = None,
        token_verifier: Any = None,
        custom_starlette_routes: Sequence[Any] = (),
        **settings: Unpack[LowLevelHTTPKeywords],
    ) -> HTTPApplication:
        """Return a Starlette application that serves this server. Needs the extra `http`.

        Args:
            host: Accepted: the address is that of the program that runs the application.
            auth: The settings of the protected resource, `AuthSettings`; by default there is no authentication.
            token_verifier: Verifies access tokens; it is needed with `auth`.
            custom_starlette_routes: Routes to serve besides.
            settings: `streamable_http_path`, `json_response`, `stateless_http`, `event_store`, `retry_interval`,
                `transport_security`, `debug` and the limits of the official SDK, and the keywords of `asgi`.

        Raises TypeError for an unknown keyword, and LocalError for `auth` without a verifier.
        """
        from ..app.serving.http_application import HTTPApplication
        from ..app.serving.server_settings import ServerSettings, take_settings
        from .app_protection import Protection
        from .http.translation import translated

        keywords = translated(dict(settings))
        served = ServerSettings(**take_settings(keywords))
        protection = Protection.from_settings("streamable_http_app", {"auth": auth, "token_verifier": token_verifier})
        merged: dict[str, Any] = {
            "path": served.path,
            **protection.keywords(served),
            **served.asgi_settings(),
            **keywords,
        }
        return HTTPApplication(self.asgi(**merged), custom_starlette_routes, (), served.debug)

    def _create(self, options: Mapping[str, Any]) -> BaseServer:
        base = self._server_class(self._handlers.keys())
        members: dict[str, Any] = {
            name: _method(_through(self.middleware, handler))
            for name, handler in self._handlers.items()
            if hasattr(base, name)
        }
        unknown = self._handlers.keys() - members.keys()
        if unknown:
            raise LocalError(f"Server: no protocol version has handlers of {', '.join(sorted(unknown))}")
        if self._lifespan is not None:
            lifespan = self._lifespan

            def enter(server: BaseServer) -> AbstractAsyncContextManager[Any]:
                return lifespan(self)

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

    def _server_class(self, names: Collection[str]) -> type[BaseServer]:
        """Return the newest server class; that of the last handshake if only this one has one of the handlers."""
        return self.newest if all(hasattr(self.newest, name) for name in names) else self.handshake


def _method(handler: Callable[..., Any]) -> Callable[..., Any]:
    async def handle(self: BaseServer, ctx: ServerContext, params: Any) -> Any:
        token = CURRENT.set(ctx)
        try:
            return _result_of(ctx, await handler(ctx, params))
        finally:
            CURRENT.reset(token)

    return handle


def _result_of(ctx: ServerContext, result: Any) -> Any:
    """Return a result in the server's own protocol version, if the handler has created it with types of another."""
    row = ctx._message.row  # pyright: ignore[reportPrivateUsage]
    if not isinstance(row, Request) or not isinstance(result, BaseModel) or isinstance(result, row.result_types):
        return result
    fields = result.model_dump(mode="json", by_alias=True)
    aliases = {field.alias for field in row.result.__pydantic_fields__.values()}
    newer = {"resultType", "ttlMs", "cacheScope"} - aliases  # Defaults of the newest revision's results.
    return row.result.model_validate({name: value for name, value in fields.items() if name not in newer})


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


def _with_request_context(handler: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    async def handle(ctx: ServerContext, params: Any) -> Any:
        return await handler(OfficialRequestContext(ctx), params)

    return handle


def _declarations(options: InitializationOptions) -> dict[str, Any]:
    fields: dict[str, Any] = from_json(to_json(options.capabilities, by_alias=True, exclude_none=True))
    # In the official SDK handlers can send these messages whatever is declared.
    fields.setdefault("logging", {})
    for kind in _LISTS:
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
