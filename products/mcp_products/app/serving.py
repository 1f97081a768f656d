"""The part of an app that runs it: over stdio, over HTTP, or inside of another application."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, Unpack, cast, overload

from mcp_runtime._lazy import load
from mcp_runtime.bindings.arguments import ASGISettings, HTTPServerSettings, StdioServerSettings
from mcp_runtime.bindings.server import BaseServer, HTTPTransport
from mcp_runtime.errors import LocalError
from mcp_runtime.session.interfaces import RevisionChoice
from mcp_runtime.stores import open_store
from mcp_runtime.usage.rules import is_items, shown

from .settings import AppKeywords, OnDuplicate, ServerKeywords, ServerSettings, take_settings

if TYPE_CHECKING:
    from mcp_products.cards.card import ServerCard
    from mcp_runtime.transports.http_server.app import MCPASGIApp

    from .http_application import HTTPApplication, SessionManager
    from .settings import HTTPAppKeywords, SSEAppKeywords

ServerT = TypeVar("ServerT", bound=BaseServer)
_CARDS: Final = "mcp_products.cards.routes"
IDENTITY: Final = ("title", "description", "icons", "website_url")

RouteT = TypeVar("RouteT", bound=Callable[..., Any])


class AppASGISettings(ASGISettings, total=False):
    """The keywords of `asgi` of an app."""

    card: bool | ServerCard


class AppHTTPSettings(HTTPServerSettings, ServerKeywords, total=False):
    """The keywords of `run("http")` of an app."""


class Serving(Generic[ServerT]):
    """The part of an app that serves it."""

    name: str
    version: str
    instructions: str | None
    settings: ServerSettings
    """How the app is served; it can be changed until the app runs."""
    title: str | None
    description: str | None
    icons: Sequence[Any] | None
    website_url: str | None
    _routes: list[Any]
    _names_memory: bool  # Whether the constructor has got `store="memory"`, which is the store of one process.
    _on_duplicate: OnDuplicate
    _dereferences: bool
    _session_manager: SessionManager | None = None

    if TYPE_CHECKING:

        @cached_property
        def server(self) -> ServerT: ...

    @property
    def dependencies(self) -> Sequence[str]:
        """The packages that the program needs, for commands that install it."""
        return self.settings.dependencies

    def _set_up_serving(self, name: str, version: str, instructions: str | None, keywords: AppKeywords) -> None:
        """Set the identity and the settings of the app."""
        self.name = name
        self.version = version
        self.instructions = instructions
        values: dict[str, Any] = dict(keywords)
        self._names_memory = values.get("store") == "memory"
        self.settings = ServerSettings(**take_settings(values))
        self._routes = []
        self._on_duplicate = values.get("on_duplicate", "error")
        self._dereferences = values.get("dereference_schemas", False)
        for attribute in IDENTITY:
            setattr(self, attribute, values.get(attribute))

    @overload
    def run(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    def run(
        self, transport: HTTPTransport, *, revisions: RevisionChoice = "all", **settings: Unpack[AppHTTPSettings]
    ) -> None: ...
    def run(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve until the client disconnects (stdio), or until the process gets SIGINT or SIGTERM.

        The keywords are those of `Server.run`: `revisions`, `max_bytes`, `host`, `port`, `path`, `uvicorn`, `server`,
        `workers` and those of `asgi`, and those of `ServerSettings`, which set them for this run. Raises TypeError for
        an unknown keyword.
        """
        server: Any = self.server
        server.run(transport, **self._run_settings(transport, settings))

    @overload
    async def run_async(
        self,
        transport: Literal["stdio"] = "stdio",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[StdioServerSettings],
    ) -> None: ...
    @overload
    async def run_async(
        self, transport: HTTPTransport, *, revisions: RevisionChoice = "all", **settings: Unpack[AppHTTPSettings]
    ) -> None: ...
    async def run_async(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve as `run` does, in the running event loop. SIGINT raises KeyboardInterrupt at the end."""
        server: Any = self.server
        await server.run_async(transport, **self._run_settings(transport, settings))

    async def run_stdio_async(
        self, *, revisions: RevisionChoice = "all", **settings: Unpack[StdioServerSettings]
    ) -> None:
        """Serve over stdio in the running event loop, until the client disconnects."""
        await self.run_async("stdio", revisions=revisions, **settings)

    async def run_http_async(
        self,
        transport: HTTPTransport = "http",
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[AppHTTPSettings],
    ) -> None:
        """Serve over HTTP in the running event loop, as `run_async("http")`."""
        await self.run_async(transport, revisions=revisions, **settings)

    async def run_streamable_http_async(
        self, *, revisions: RevisionChoice = "all", **settings: Unpack[AppHTTPSettings]
    ) -> None:
        """Serve over Streamable HTTP in the running event loop, as `run_async("http")`."""
        await self.run_async("http", revisions=revisions, **settings)

    async def run_sse_async(self, *, revisions: RevisionChoice = "all", **settings: Unpack[AppHTTPSettings]) -> None:
        """Serve over HTTP+SSE of 2024 besides Streamable HTTP in the running event loop."""
        await self.run_async("sse", revisions=revisions, **settings)

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Unpack[AppASGISettings]) -> MCPASGIApp:
        """Return an ASGI application that serves this app over Streamable HTTP.

        The keywords are those of `Server.asgi`, and `card`. Raises TypeError for an unknown keyword.
        """
        card = settings.pop("card", self.settings.card)
        named = {"store": "memory"} if self._names_memory and self.settings.store == "memory" else {}
        merged: Any = {**named, **self.settings.asgi_settings(), **settings, "routes": self._all_routes(settings)}
        return self.server.asgi(revisions=revisions, **self._with_card(card, merged, revisions))

    def _with_card(self, card: Any, keywords: dict[str, Any], revisions: RevisionChoice) -> dict[str, Any]:
        if card:
            made = load(_CARDS).card_routes(self, card, keywords.get("path"), revisions, keywords.get("hosts"))
            keywords["routes"] = [*keywords["routes"], *made]
        return keywords

    # ---- the names of the official SDK and of FastMCP ---------------------------------------------------------------

    def streamable_http_app(
        self, *, revisions: RevisionChoice = "all", **settings: Unpack[AppHTTPSettings]
    ) -> HTTPApplication:
        """Return a Starlette application with the MCP endpoint and the custom routes.

        It needs the extra `http`. The keywords are those of `asgi` and of `ServerSettings`. Its `lifespan` can be
        passed to the application that mounts it.
        """
        return self._http_application(revisions, dict(settings))

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Any] = (),
        transport: HTTPTransport = "http",
        **settings: Unpack[HTTPAppKeywords],
    ) -> HTTPApplication:
        """Return the application of `streamable_http_app`, with this path, wrapped in ASGI middleware."""
        keywords: dict[str, Any] = dict(settings)
        if path is not None:
            keywords["path"] = path
        if transport == "sse":
            keywords["legacy_sse"] = True
        return self._http_application(keywords.pop("revisions", "all"), keywords, middleware)

    def sse_app(self, mount_path: str | None = None, **settings: Unpack[SSEAppKeywords]) -> HTTPApplication:
        """Return the application of `streamable_http_app` that serves HTTP+SSE of 2024 as well."""
        if mount_path not in (None, "/"):
            raise LocalError(
                f"sse_app(): mount_path={mount_path!r} is not needed; write web.mount({mount_path!r}, app.sse_app())"
            )
        keywords: dict[str, Any] = {"legacy_sse": True, **settings}
        return self._http_application(keywords.pop("revisions", "all"), keywords)

    @property
    def session_manager(self) -> SessionManager:
        """The sessions of the last HTTP application: `async with app.session_manager.run()` ends them.

        Raises LocalError before `streamable_http_app`, `http_app` or `sse_app` is called.
        """
        if self._session_manager is None:
            raise LocalError("session_manager: call app.streamable_http_app() first, which creates the sessions")
        return self._session_manager

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Callable[[RouteT], RouteT]:
        """Return a decorator that serves an HTTP route beside the MCP endpoint, without authentication.

        The function gets a Starlette `Request` and returns a `Response`. It needs the extra `http`. Raises LocalError
        without Starlette, and for an invalid path or methods.
        """
        try:
            from starlette.routing import Route
        except ModuleNotFoundError:
            raise LocalError("custom_route() needs Starlette: pip install 'mcp-generated[http]'") from None
        if not path.startswith("/"):
            raise LocalError(f'custom_route(): path={path!r} must begin with "/"; write custom_route("/{path}", …)')
        if path == self.settings.path:
            raise LocalError(
                f'custom_route(): {path!r} is the path of the MCP endpoint; choose another, such as "/about"'
            )
        if isinstance(cast(Any, methods), str):
            raise LocalError(f"custom_route(): methods={methods!r} must be a list; write methods=[{methods!r}]")

        def add(function: RouteT) -> RouteT:
            if not callable(function):
                raise LocalError(f"custom_route(): {path!r} needs a function, not {shown(function)}")
            self._routes.append(Route(path, function, methods=methods, name=name, include_in_schema=include_in_schema))
            return function

        return add

    def _all_routes(self, keywords: Mapping[str, Any]) -> Any:
        """Return the custom routes and those of a call; what is not a list is refused later."""
        more = keywords.get("routes", ())
        return [*self._routes, *more] if is_items(more) else more

    def _http_application(
        self, revisions: RevisionChoice, keywords: dict[str, Any], middleware: Sequence[Any] = ()
    ) -> HTTPApplication:
        try:
            from .http_application import HTTPApplication
        except ModuleNotFoundError:
            raise LocalError(
                "an HTTP application needs Starlette: pip install 'mcp-generated[http]'; or use asgi()"
            ) from None
        settings = self._with(keywords)
        merged: Any = {"path": settings.path, **settings.asgi_settings(), **keywords, "routes": ()}
        endpoint = self.server.asgi(revisions=revisions, **merged)
        routes = self._with_card(settings.card, {**merged, "routes": self._all_routes(keywords)}, revisions)["routes"]
        application = HTTPApplication(endpoint, merged["path"], routes, middleware, settings.debug)
        self._session_manager = application.sessions
        return application

    def _with(self, keywords: dict[str, Any]) -> ServerSettings:
        """Return the settings of this app changed by keywords, which are removed from the dict."""
        return replace(self.settings, **take_settings(keywords))

    def _run_settings(self, transport: str, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords of `Server.run`: those of this app, and those of a call."""
        if transport == "stdio":
            replaced = replace(self.settings, log_level=keywords.pop("log_level", self.settings.log_level))
            replaced.configure_logging()
            return keywords
        if "store" in keywords:
            open_store("run", keywords["store"])  # It connects with its first command.
        given = {"store": keywords["store"]} if "store" in keywords else {}
        settings = self._with(keywords)
        settings.configure_logging()
        address = {"host": settings.host, "port": settings.port, "path": settings.path}
        named = {"store": "memory"} if self._names_memory and settings.store == "memory" else {}
        merged = {
            **address,
            **named,
            **settings.asgi_settings(),
            **given,
            **keywords,
            "routes": self._all_routes(keywords),
        }
        return self._with_card(settings.card, merged, keywords.get("revisions", "all"))
