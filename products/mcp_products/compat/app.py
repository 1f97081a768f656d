"""`FastMCP` and `MCPServer`: an App with the defaults and the keywords of the official SDK."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, Unpack, cast, overload

from mcp_products.app.components.kinds import ComponentKind
from mcp_products.app.context.current import get_context
from mcp_products.app.middleware.authorization import AuthMiddleware, AuthorizationCheck, selected_component
from mcp_products.app.middleware.hooks import Middleware, MiddlewareContext
from mcp_products.app.registry import Registry
from mcp_products.app.settings import ServerSettings, version_of
from mcp_products.app.tools import Tool as RegisteredTool
from mcp_runtime._lazy import LazyModule
from mcp_runtime.endpoint.base import to_async
from mcp_runtime.errors import LocalError

from .auth import ProviderTokenVerifier, protected_resource
from .auth_providers import OAuthProvider
from .context import OfficialRequestContext, with_user
from .event_buses import BridgedSubscriptions
from .fastmcp import FastMCPKeywords, with_view
from .forms.form import FORM, official
from .http import LOCAL, plain, translated
from .registered import MARK, RETURNED, OfficialTool, contents_with_meta, described, reports_errors, with_tags
from .values import named_by_handler
from .words import LISTS, OFFICIAL, WordedRegistry, Words, log

if TYPE_CHECKING:
    from mcp_runtime.bindings.arguments import StdioServerSettings
    from mcp_runtime.session.interfaces import RevisionChoice

    from .auth import AuthSettings, OAuthAuthorizationServerProvider, OfficialTokenVerifier
    from .http import TransportSecuritySettings


# Authorization checks of single tools, resources and prompts: `@mcp.tool(auth=require_scopes("read"))`.


class ComponentChecks(AuthMiddleware):
    """The checks of the components of one app, by the functions that they decorate."""

    def __init__(self) -> None:
        """Create the middleware without checks."""
        super().__init__([])
        self._checks_of: dict[tuple[str, str, str | None], list[AuthorizationCheck]] = {}

    def add(self, kind: str, name: str, version: str | None, auth: Any) -> None:
        """Add the checks of a component: a function, or a list of functions. Raises LocalError for another value."""
        self._checks_of[kind, name, version] = AuthMiddleware(auth)._checks

    async def _refusals(
        self, context: MiddlewareContext, kind: ComponentKind, name: str, item: Any
    ) -> list[AuthorizationCheck]:
        component = selected_component(context, kind, name, item)
        version, tags = (None, frozenset[str]()) if component is None else (component.version, component.tags)
        own_name = name
        if kind in ("resource", "template"):
            catalog = context.app.registry
            match = catalog.resource_at(name) or catalog.template_at(name)
            own_name = name if match is None else match[0]
        own_kind = "resource" if kind == "template" else kind
        checks = self._checks_of.get((own_kind, own_name, version), [])
        return [check for check in checks if not await self.allows(check, context, kind, name, tags)]


# How an app of the official SDK is protected: its token verifier, and the hosts and origins it accepts.


@dataclass(frozen=True)
class Protection:
    """The protection of one app.

    Args:
        auth: The settings of the protected resource; None without authentication.
        verifier: Verifies access tokens; None without authentication.
        provider: The authorization server that is served beside; None without one.
    """

    auth: AuthSettings | OAuthProvider | None
    verifier: OfficialTokenVerifier | None
    provider: OAuthAuthorizationServerProvider[Any, Any, Any] | None = None

    @classmethod
    def from_settings(cls, name: str, settings: dict[str, Any]) -> Self:
        """Remove the keywords of the protection from those of a constructor.

        Raises LocalError for `auth` without a verifier or a provider, for one of these without `auth`, and for both.
        """
        auth, verifier = settings.pop("auth", None), settings.pop("token_verifier", None)
        provider = settings.pop("auth_server_provider", None)
        if isinstance(auth, OAuthProvider) and verifier is None and provider is None:
            return cls(auth, auth)
        if provider is not None and verifier is not None:
            raise LocalError(f"{name}: auth_server_provider verifies its tokens itself: leave token_verifier out")
        if provider is not None:
            verifier = ProviderTokenVerifier(provider)
        if hasattr(auth, "verify_token"):
            raise LocalError(
                f"{name}: auth={type(auth).__name__}(…) verifies tokens only; write token_verifier=… for it, and"
                " auth=AuthSettings(issuer_url=…)"
            )
        if (auth is None) != (verifier is None):
            missing = "token_verifier" if verifier is None else "auth"
            raise LocalError(f"{name}: {missing} is missing; pass both auth=AuthSettings(…) and token_verifier=…")
        return cls(auth, verifier, provider)

    def keywords(self, settings: ServerSettings, path: str | None = None) -> dict[str, Any]:
        """Return the keywords of `asgi` for a server with these settings; `path` is that of a call."""
        if self.auth is None or self.verifier is None:
            return {}
        path = path or settings.path
        auth = self.auth.settings(path) if isinstance(self.auth, OAuthProvider) else self.auth
        return {"auth": protected_resource(auth, self.verifier, f"http://{settings.host}:{settings.port}{path}")}

    def routes(self, path: str) -> list[Any]:
        """Return the routes of the authorization server; none without a provider. Needs the extra `http` for them."""
        if isinstance(self.auth, OAuthProvider):
            return self.auth.get_routes(path)
        if self.provider is None or self.auth is None:
            return []
        asked = {name: value for name, value in self.auth if name not in _OF_RESOURCES}
        return [*auth_routes.create_auth_routes(self.provider, **asked)]


class OfficialSettings(ServerSettings):
    """The settings of a server, with those that the official SDK has besides.

    Attributes:
        auth: The settings of the protected resource.
        lifespan: The lifespan of the server, which tests of programs enter.
        transport_security: The Host and Origin headers to accept; None for the default.
    """

    auth: AuthSettings | OAuthProvider | None
    lifespan: Callable[[Any], Any] | None
    transport_security: TransportSecuritySettings | None

    @classmethod
    def of(cls, settings: ServerSettings, **further: Any) -> Self:
        """Return settings with further ones; those of a server of this machine say that it is one."""
        made = cls(**{item.name: getattr(settings, item.name) for item in fields(settings)})
        vars(made).update(further)
        if made.transport_security is None and made.host in _LOCAL_HOSTS:
            made.transport_security = LOCAL
        return made

    def security(self) -> dict[str, Any]:
        """Return the keywords of `asgi` for the headers to accept."""
        chosen = self.transport_security
        return {} if chosen is None or chosen == LOCAL else chosen.keywords()


if TYPE_CHECKING:
    from mcp_runtime.transports.http_server.app import MCPASGIApp

    from .keywords import OfficialASGIKeywords, OfficialMethods, OfficialResourceKeywords, OfficialToolKeywords
else:
    OfficialMethods = object

_OF_RESOURCES: Final = ("required_scopes", "resource_server_url", "validate_token_resource")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
auth_routes: Any = LazyModule("mcp_products.compat.auth_server.routes")  # It needs the extra `http`.
served: Any = LazyModule("mcp_products.compat.served")  # It imports this module by way of the low-level server.
standalone: Any = LazyModule("mcp_products.compat.standalone.components")  # Its types are those of the process.


_ONE_PAGE: Final = 10_000  # The official SDK and FastMCP list all at once, and hosts there are that read one page.


class OfficialAppMixin(FastMCPKeywords, OfficialMethods):
    """An App that converts arguments, declares all lists, and takes names as the official SDK does."""

    server_class: ClassVar[Any]
    settings: Any
    """How the app is served."""
    middleware: OfficialMiddleware
    """Functions of a request context and `call_next`; called with a function, it adds a middleware of `App`."""
    _checks: Any = None
    _adds_meta = False  # Whether contents get the `meta` of their resources.
    positional: ClassVar[tuple[str, ...]]
    """The parameters of the constructor that may be given by position, in their order."""
    shows_exceptions: ClassVar[bool] = True
    """Whether the result of a tool has the text of every exception, or only that of `ToolError`."""
    tool_class: ClassVar[type[RegisteredTool]] = OfficialTool
    registry_class: ClassVar[type[Registry]] = WordedRegistry
    words: ClassVar[Words] = OFFICIAL

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Create a server; the keywords are those of the official SDK and those of `App`.

        Raises TypeError for an unknown keyword, and LocalError for one without a counterpart.
        """
        named = dict(zip(self.positional, arguments, strict=False))
        if repeated := named.keys() & settings.keys():
            raise TypeError(f"{type(self).__name__}() got {', '.join(repeated)} by position and by keyword")
        settings = named | settings
        told = {kind for kind in LISTS if settings.pop(f"warn_on_duplicate_{kind}", None) is not False}
        self._told_duplicates = set[str]() if "on_duplicate" in settings else told
        settings = {"on_duplicate": "ignore", "declare": LISTS, **settings}
        self._masks_errors = bool(settings.pop("mask_error_details", False))
        added = {kind: settings.pop(kind, None) or () for kind in ("tools", "middleware", "providers", "transforms")}
        self._bus: Any = settings.pop("subscriptions", None)
        protection = Protection.from_settings(type(self).__name__, settings)
        further = {"auth": protection.auth, "transport_security": settings.pop("transport_security", None)}
        settings = translated(settings)
        if "cache_hints" in settings:
            settings["cache_hints"] = named_by_handler(settings["cache_hints"], self.server_class.revision)
        settings.setdefault("name", type(self).__name__)
        if not settings.get("version"):
            settings["version"] = "0"
        indent = {} if self.words.is_official else {"json_indent": None}
        super().__init__(**{"coerce": True, "page_size": _ONE_PAGE, **indent, **settings})
        own: Any = self
        own.registry.words = self.words
        own.registry.announces = self._bus is not False
        own.registry.shows_exceptions = self.shows_exceptions and not self._masks_errors
        self.settings = OfficialSettings.of(self.settings, lifespan=settings.get("lifespan"), **further)
        self.middleware = OfficialMiddleware(self._parent.middleware)
        self._protection = protection
        if protection.verifier is not None:
            self.middleware(with_user)
        for route in protection.routes(self.settings.path):
            own.custom_route(route.path, [*route.methods], include_in_schema=False)(route.app)
        adders = (self.add_tool, self._add_any_middleware, self._parent.add_provider, self._parent.add_transform)
        for items, add in zip(added.values(), adders, strict=True):
            for item in items:
                add(item)
        if type(self).get_context is not OfficialAppMixin.get_context:
            self._parent.middleware(self._with_own_context)

    def _add_any_middleware(self, function: Any) -> None:
        if isinstance(function, Middleware):
            self._parent.add_middleware(function)
        else:
            self.middleware.append(function)

    @property
    def _parent(self) -> Any:
        """The app below, with the methods of `App`."""
        return super()

    @functools.cached_property
    def server(self) -> Any:
        """The server of this app. Its capabilities are fixed when it is first accessed."""
        server = self._parent.server
        if self._bus:
            server.parts.bus = BridgedSubscriptions(self._bus, server.revision)
        return server

    @functools.cached_property
    def _lowlevel_server(self) -> Any:
        return served.ServedApp(self)

    _mcp_server = property(attrgetter("_lowlevel_server"))  # The name in the last 1.x.

    @property
    def _tool_manager(self) -> Any:
        return served.ServedItems(cast(Any, self).registry)

    _resource_manager = _prompt_manager = _tool_manager

    async def run_stdio_async(
        self, *, revisions: RevisionChoice = "all", **settings: Unpack[StdioServerSettings]
    ) -> None:
        """Serve over stdio; over the streams of what a test has put in the place of `compat.stdio_server`."""
        replaced = vars(FORM.compat).get("stdio_server")
        if replaced is None:
            await self._parent.run_stdio_async(revisions=revisions, **settings)
            return
        async with replaced() as (read, write):
            await FORM.compat.Server.run(self._lowlevel_server, read, write)  # A test may replace this one too.

    def get_context(self) -> Any:
        """Return the context of the request that is handled now. Raises LocalError outside of a request."""
        return get_context()

    async def _with_own_context(self, name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        """Handle a request with the context that the `get_context` of a subclass returns."""
        made = self.get_context()
        return await call_next(made if hasattr(made, "received") else ctx, params)

    async def _list_all(self, name: str) -> list[Any]:
        found: list[Any] = await self._parent._list_all(name)
        return official(found) if FORM.is_v1 else found

    async def _call_client(self, method: str, /, **arguments: Any) -> Any:
        result = await self._parent._call_client(method, **arguments)
        if method == "call_tool" and not self.words.is_official:
            return standalone.called(result)
        return RETURNED.get(method, official)(result)

    def _add(self, kind: Any, name: str, item: Any) -> None:
        own: Any = self
        if kind in self._told_duplicates and name in own.registry.registered(kind) and item.version is None:
            log.warning("%s already has %r among its %s: the first one stays", own.name, name, kind)
        if kind == "resources" and not self._adds_meta and item.definition.meta:
            self._adds_meta = True
            self._parent.middleware(contents_with_meta(own.registry))
        if kind != "tools" and self.words.is_official and not item.definition.description:
            item.definition.description = ""
        if kind != "tools" and not self.words.is_official:
            item.definition.meta = with_tags(item.definition.meta, item.tags)
        self._parent._add(kind, name, item)

    def add_tool(
        self, function: Any = None, name: str | None = None, *, fn: Any = None, **settings: Unpack[OfficialToolKeywords]
    ) -> None:
        """Add a tool, also at run time; `fn` is the name of the function's parameter in the official SDK."""
        if fn is not None:
            function = fn
        name, function, keywords = described(function, name, settings)
        name = name or getattr(function, "__name__", None)
        self._add_checks("tool", name, keywords)
        own = plain(with_view("tool", keywords))
        shows = self.shows_exceptions and not self._masks_errors
        self._parent.add_tool(reports_errors(function, name, shows, self.words), name, **own)

    def _add_resource_of(self, uri: Any, function: Any = None, **settings: Any) -> None:
        """Add a resource or a resource template, also at run time: an object, or a URI and a function."""
        if not isinstance(uri, str) and (hasattr(uri, "registered") or hasattr(uri, MARK)):
            uri, function, settings = described(uri, None, settings)
            uri = uri or settings.pop("uri", "")
        self._add_checks("resource", str(uri), settings)
        self._parent.add_resource(uri, function, **with_view("resource", plain(settings)))

    def _add_prompt_of(self, function: Any, name: str | None = None, **settings: Any) -> None:
        """Add a prompt, also at run time: an object, or a function."""
        name, function, settings = described(function, name, settings)
        self._add_checks("prompt", name or getattr(function, "__name__", None), settings)
        self._parent.add_prompt(function, name, **plain(settings))

    async def get_tool(self, name: str, version: str | None = None) -> Any:
        """Return a tool, as `App.get_tool` does; of FastMCP as its `Tool`."""
        found = await self._parent.get_tool(name, version)
        return found if self.words.is_official else standalone.MadeTool.of_made(found)

    def asgi(self, **settings: Unpack[OfficialASGIKeywords]) -> MCPASGIApp:
        """Return an ASGI application that serves this app."""
        return cast("MCPASGIApp", self._parent.asgi(**self._http_keywords(dict(settings))))

    def _http_application(self, revisions: Any, keywords: dict[str, Any], middleware: Any = ()) -> Any:
        return self._parent._http_application(revisions, self._http_keywords(keywords), middleware)

    def _http_keywords(self, keywords: dict[str, Any]) -> dict[str, Any]:
        given = translated(keywords)
        return {**self.settings.security(), **self._protection.keywords(self.settings, given.get("path")), **given}

    def _run_settings(self, transport: str, keywords: dict[str, Any]) -> dict[str, Any]:
        given = keywords if transport == "stdio" else self._http_keywords(keywords)
        return dict(self._parent._run_settings(transport, given))

    def resource(self, uri: Any, **settings: Unpack[OfficialResourceKeywords]) -> Callable[[FunctionT], FunctionT]:
        """Return a decorator that adds a function as a resource or as a resource template."""
        keywords = with_view("resource", plain(settings))
        self._add_checks("resource", str(uri), keywords)
        decorator: Callable[[FunctionT], FunctionT] = self._parent.resource(str(uri), **keywords)
        return decorator

    def _tool_with_checks(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a tool; `auth` are checks that a request must pass, such as `require_scopes("read")`."""
        if settings.keys().isdisjoint(("auth", "run_in_thread")):
            return self._parent.tool(function, name=name, **with_view("tool", settings))
        return self._decorated(self.add_tool, function, name, settings)

    def _prompt_with_checks(self, function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
        """Add a function as a prompt; `auth` are checks that a request must pass."""
        if "auth" not in settings:
            return self._parent.prompt(function, name=name, **settings)
        return self._decorated(self._add_prompt_of, function, name, settings)

    def _completion_of(self, function: Any = None) -> Any:
        """Add a function that completes arguments; it gets the types of the official SDK."""
        return self._decorated(self._add_completion_of, function, None, {})

    def _add_completion_of(self, function: Any, name: None) -> None:
        async def complete(ref: Any, argument: Any, context: Any) -> Any:
            return await to_async(function)(official(ref), official(argument), official(context))

        self._parent.completion(complete)

    if not TYPE_CHECKING:  # For type checkers they are those of `App`.
        tool, prompt, add_prompt, completion = _tool_with_checks, _prompt_with_checks, _add_prompt_of, _completion_of
        add_resource = _add_resource_of

    def _decorated(self, add: Any, function: Any, name: str | None, settings: dict[str, Any]) -> Any:
        """Add a function and return it; without one, return the decorator that does so."""
        if isinstance(function, str):
            function, name = None, function

        def decorate(function: Any) -> Any:
            add(function, name, **settings)
            return function

        return decorate if function is None else decorate(function)

    def _add_checks(self, kind: str, name: str | None, settings: Any) -> None:
        auth = settings.pop("auth", None)
        if auth is None or name is None:
            return
        if self._checks is None:
            self._checks = ComponentChecks()
            self._parent.add_middleware(self._checks)
        self._checks.add(kind, name, version_of(settings), auth)


class OfficialMiddleware:
    """The middleware of an `MCPServer`: functions of a request context and `call_next`, outermost first.

    Called with a function, it adds a middleware of `App`.
    """

    def __init__(self, add: Callable[[Any], Any]) -> None:
        """Create the list of an app, whose own decorator is `add`."""
        self._add = add

    @overload
    def __call__(self, function: FunctionT, /) -> FunctionT: ...
    @overload
    def __call__(self) -> Callable[[FunctionT], FunctionT]: ...
    def __call__(self, function: Any = None) -> Any:
        """Add a middleware of `App`; without a function, return the decorator that does so."""
        return self._add(function)

    def append(self, function: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
        """Add a middleware inside of the ones before."""

        async def handle(name: str, ctx: Any, params: Any, call_next: Callable[[Any, Any], Any]) -> Any:
            async def proceed(context: Any) -> Any:
                return await call_next(ctx, params)

            return await function(OfficialRequestContext(ctx), proceed)

        self._add(handle)

    def extend(self, functions: Iterable[Any]) -> None:
        """Add several middlewares, outermost first."""
        for function in functions:
            self.append(function)
