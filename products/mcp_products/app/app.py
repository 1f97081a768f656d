"""The app: a server of the newest revision, made from decorated functions."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack, cast

from mcp_products.common.keys import KeyRing
from mcp_products.fast.app_answers import ResultTypes, answer, read_params, runs_in_thread
from mcp_runtime._lazy import load
from mcp_runtime.aio.rates import RateLimit
from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.aio.threads import call_soon_in_loop
from mcp_runtime.bindings.server import BaseServer, Servable
from mcp_runtime.endpoint.base import Extension
from mcp_runtime.errors import ClientCapabilityError, LocalError, ProtocolViolationError, ToolError
from mcp_runtime.protocol.lifecycle import merge
from mcp_runtime.protocol.revision import Request
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.limits import check_rate
from mcp_runtime.server.lists import CacheHint
from mcp_runtime.usage.keywords import NamesOfAttributes, checked
from mcp_runtime.usage.rules import shown

from .components.functions import check_accepts_one, check_lifespan, opened_lifespan
from .components.kinds import BY_HANDLER, BY_LIST_HANDLER, LISTS, ListKind
from .components.visibility import SessionVisibility
from .constructors import Constructors
from .context.state import StateStore
from .decorators import Registrations
from .registry import LifespanStates, OwnMethods, Registry
from .results import ShownExceptions
from .serving import IDENTITY, Serving
from .settings import APP_RULES, AppKeywords, check_app

if TYPE_CHECKING:
    from mcp_products.extensions.tasks.store import TaskStore
    from mcp_runtime.bindings.client import BaseClient
    from mcp_runtime.protocol.revision import Revision

    from .middleware.hooks import CallNext, MiddlewareContext

ServerT = TypeVar("ServerT", bound=BaseServer)

_HANDLERS: Final = (*BY_LIST_HANDLER, *BY_HANDLER, "complete")
# Programs that import this module use the context of the current request; all others do not pay for it.
_CURRENT: Final = f"{__package__}.context.current"
LifespanFunction = Callable[[Any], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]


class BaseApp(Registrations, Servable, Serving[ServerT], Constructors, NamesOfAttributes):
    """The base class of `App`: a server made from functions."""

    server_class: ClassVar[type[BaseServer]]
    context_class: ClassVar[type[ServerContext]]
    types: ClassVar[ModuleType]
    on_change: list[Callable[[ListKind], None]]
    """Callbacks that are called with the kind of a list that has changed at run time."""
    registry_class: ClassVar[type[Registry]] = Registry
    proxied: Sequence[BaseApp[Any]] = ()
    """The apps that this one is a proxy of."""

    @checked(AppKeywords, rules=APP_RULES, example='App("name", "instructions")')
    def __init__(
        self,
        name: str = "app",
        instructions: str | None = None,
        *,
        version: str = "0.1.0",
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        coerce: bool = False,
        json_indent: int | None = 2,
        tool_errors: ShownExceptions = (),
        page_size: int = 50,
        declare: Collection[ListKind] = (),
        capabilities: Mapping[str, Any] | None = None,
        keys: KeyRing | None = None,
        rate_limits: Mapping[str, RateLimit | None] | None = None,
        cache_hints: Mapping[str, CacheHint] | None = None,
        tasks: TaskStore | None = None,
        session_state_store: StateStore | None = None,
        middleware: Sequence[Callable[[MiddlewareContext, CallNext], Awaitable[Any]]] = (),
        **settings: Unpack[AppKeywords],
    ) -> None:
        """Create an app. Raises TypeError for an unknown keyword, and LocalError for a wrong value.

        Args:
            name: The name of the server (`serverInfo.name`).
            instructions: Instructions for the model on how to use the server.
            version: The version of the server (`serverInfo.version`).
            lifespan: Called with the app; the value that its async context manager yields is `ctx.state` of functions.
            coerce: True converts arguments, such as "5" to 5; by default they are validated strictly.
            json_indent: The spaces of indentation in the JSON text of results; None writes it in one line.
            tool_errors: Exceptions whose text a tool result shows to the model, besides ToolError. Others are logged.
            page_size: The maximum number of items in one page of a list result.
            declare: The lists to declare although they are empty: "tools", "resources" or "prompts".
            capabilities: Capabilities to merge into the declared ones: the JSON object of `ServerCapabilities`.
            keys: The keys that encrypt `requestState`, to be shared by processes; by default each creates its own.
            rate_limits: Limits of each client by handler: `{"call_tool": RateLimit(10, burst=50)}`; None: no limit.
            cache_hints: How long clients may cache results: `{"list_tools": CacheHint(60, "public")}` (seconds).
            tasks: The store of the tasks of tools; by default they are stored in memory.
            session_state_store: The store of `ctx.set_state`; by default in memory.
            middleware: Middleware objects for `add_middleware`, the outermost first.
            settings: `title`, `description`, `icons`, `website_url`, `tenant`, `ListKeywords`, and `ServerSettings`.
        """
        checked_options = check_app(type(self).__name__, self.server_class.revision, lifespan, rate_limits, cache_hints)
        self._server_options = {**checked_options, "keys": keys, "tenant": settings.get("tenant")}
        self._set_up_serving(name, version, instructions, settings)
        self.on_change = []
        self._mounted: list[BaseApp[Any]] = []
        self._extensions: dict[Any, tuple[str, ...]] = {}  # The handler names of each extension package.
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}  # Those that serve it: their open lifespans.
        self._notifying = BackgroundTasks()
        self._undeclared: dict[str, Any] = {}  # Capabilities of what it does not have yet, since its server exists.
        self._coerce = coerce
        self._json_indent = json_indent
        self._tasks = tasks
        self.session_state_store = session_state_store
        self.registry = self._new_registry((ToolError, ClientCapabilityError, *tool_errors), page_size)
        self.registry.lifespan = lifespan
        self.registry.declared = declare
        self.registry.capabilities = capabilities
        self.add_middleware(*middleware)

    @classmethod
    def client_class(cls) -> type[BaseClient]:
        """Return the class of the clients that call the app in the same process."""
        raise NotImplementedError

    def _new_registry(self, shown_exceptions: ShownExceptions, page_size: int) -> Registry:
        result_types = ResultTypes(row for row in self.server_class.revision.rows if isinstance(row, Request))
        registry = self.registry_class(self.types, result_types, shown_exceptions, page_size)
        registry.changed = self._changed
        registry.mount = self._mount
        return registry

    @checked(example='app.mount(other, "prefix")')
    def mount(self, app: BaseApp[Any], prefix: str = "") -> None:
        """Add all tools, resources and prompts of another app, including those that it adds later.

        Tools and prompts are named `prefix_name`, resource URIs become `scheme://prefix/path`; without a prefix they
        are unchanged, and what this app has already takes precedence. Raises LocalError if the prefix is in use or not
        an identifier, if the app would contain itself, and for limits of the other app, which only its own server has.
        """
        _check_mounted(app, prefix)
        in_use = bool(prefix) and prefix in [other for other, _ in self.registry.mounted]
        if in_use or (prefix and not prefix.isidentifier()):
            reason = "in use already" if in_use else "not an identifier such as 'sub'"
            raise LocalError(f"mount(): {prefix!r} cannot be the prefix of {app.name!r}: it is {reason}")
        if app._reaches(self):
            raise LocalError(f"mount(): the app {app.name!r} cannot be mounted inside of itself: mount another one")
        if app.registry.transforms:
            raise LocalError(
                f"mount(): {app.name!r} has transforms, which only its own clients see: mount App.proxy(app)"
            )
        for limits in ("rate_limits", "tenant"):
            if app._server_options[limits]:
                raise LocalError(f"mount(): {limits}= of {app.name!r} would not hold here: give it to {self.name!r}")
        self._mount(app, prefix)

    def _mount(self, app: BaseApp[Any], prefix: str) -> None:
        self.registry.mounted.append((prefix, app.registry))
        app.registry.is_mounted = True
        self._mounted.append(app)
        app.on_change.append(self._changed)
        for kind in LISTS:
            self._changed(kind)

    def skills(self, folder: str | os.PathLike[str], *, under: str = "") -> None:
        """Publish the skills in a folder (SEP-2640): each directory with a SKILL.md is a skill.

        `under` is a path to insert after `skill://` in their URIs. Raises LocalError if the folder has no skills or an
        invalid one, and if the server was created already. This reads files and blocks.
        """
        if "server" in vars(self):
            raise LocalError(
                f"the server of the app {self.name!r} exists already: call `skills` before `server` or `run`"
            )
        provider, server = (load(f"mcp_products.skills.{name}") for name in ("directory", "server"))
        directory = provider.SkillDirectory(folder, under=under)
        handlers = self.registry.skills
        if handlers is None:
            package: Any = _extension(self.server_class.revision, "skills")
            handlers = server.SkillHandlers(package.methods.REVISION, [], self.registry.page_size)
            self.registry.skills = handlers
            self._extensions[package] = server.METHOD_NAMES
        handlers.add(directory)

    # ---- serving ----------------------------------------------------------------------------------------------------

    @cached_property
    def server(self) -> ServerT:
        """The server of this app. Its capabilities are fixed when it is first accessed.

        Raises LocalError if a mounted app has skills.
        """
        members: dict[str, Any] = {
            "app": self,
            "context": self.context_class,
            "lifespan": self._enter_lifespans,
            "scopes": _scopes_of(self.registry),
        }
        # Of all kinds: which are declared, the first connection decides.
        members |= {name: _handler(self.registry, name) for name in _HANDLERS}
        if any(app.registry.skills is not None for app in self._all_apps()[1:]):
            raise LocalError("a mounted app cannot publish skills: add them to the outermost app, with `under`")
        members |= {name: _handler(self.registry, name) for names in self._extensions.values() for name in names}
        options: dict[str, Any] = {**self._server_options, "extensions": [*self._extensions]}
        kinds: tuple[type[BaseServer], ...] = (self.server_class,)
        if self._tasks is not None or self.registry.task_options():
            from mcp_products.extensions.tasks.server import TaskServerMixin

            kinds = (TaskServerMixin, *kinds)
            options["extensions"].append(_extension(self.server_class.revision, "tasks"))
            options["tasks"] = self._tasks
        else:
            self.registry.answers_as_json = not self._extensions and not self._server_options["cache_hints"]
        server = cast(type[ServerT], type("Served", kinds, members))
        declared: dict[str, Any] = {kind: {"listChanged": True} for kind in LISTS}
        declared["logging"] = {}
        declared["resources"]["subscribe"] = True
        merge(declared, self.registry.capabilities or {})
        identity: dict[str, Any] = {"name": self.name, "version": self.version, "instructions": self.instructions}
        identity |= {name: getattr(self, name) for name in IDENTITY}
        made = server(**identity, capabilities=declared, **options)
        made.parts.around = self.registry.handle_lifecycle
        made.parts.own = OwnMethods(self.registry)
        made.parts.hides_change = self.registry.hides_change
        made.parts.runs_in_thread = partial(runs_in_thread, self.registry)
        made.parts.read_params = read_params
        made.parts.new_session_state = SessionVisibility
        if made.parts.tasks is not None:
            made.parts.tasks.options = self.registry.task_options
            made.parts.tasks.options_of = self.registry.task_of
        self._undeclared = {
            kind: made.capabilities.pop(kind)
            for kind in (*LISTS, "completions")
            if kind in made.capabilities and kind not in (self.registry.capabilities or {}) and not self._declares(kind)
        }
        return made

    def _has_clients(self) -> bool:
        return "server" in vars(self) and self.server.has_connected

    def _declare_more(self) -> None:
        """Declare the kinds of which the app has got the first item since its server was created, if no client knows
        the capabilities yet."""
        if not self._undeclared or self.server.has_connected:
            return
        for kind in [*self._undeclared]:
            if self._declares(kind):
                self.server.capabilities[kind] = self._undeclared.pop(kind)

    def as_server(self) -> ServerT:
        """Return the server of this app, as `server` does."""
        return self.server

    async def handle_nested(self, name: str, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a request that a function of this app makes to the app itself.

        The request passes the middleware, needs the scopes that a client's request needs, and counts for its rate.

        Args:
            name: The name of the handler, such as "read_resource".
            ctx: A context of its own for the request.
            params: The params of the request.
        """
        ctx.require_scopes(*self.registry.required_scopes(name, params))
        connection: Any = ctx.connection_state
        rate = connection.origin.client_rates.get(name)
        requested: str = ctx.received.row.name
        if rate is not None and name != requested:  # What the client requests is counted already.
            await check_rate(rate, name, ctx)
        return await self.registry.handle(name, ctx, params, ctx.state or {})

    async def _call_client(self, method: str, /, **arguments: Any) -> Any:
        """Call a method of a client in the same process, and return its result."""
        with self._own_connection():
            async with self.client_class().memory(self.server) as client:
                return await getattr(client, method)(**arguments)

    @contextmanager
    def _own_connection(self) -> Generator[None]:
        """Connect to the app itself: no client knows its capabilities afterwards."""
        before = self.server.has_connected
        try:
            yield
        finally:
            self.server.has_connected = before or bool(self._loops)

    async def _list_all(self, name: str) -> list[Any]:
        with self._own_connection():
            async with self.client_class().memory(self.server) as client:
                try:
                    return [item async for item in getattr(client, name)()]
                except ProtocolViolationError:  # It declares no such list.
                    return []

    @asynccontextmanager
    async def _enter_lifespans(self) -> AsyncGenerator[LifespanStates]:
        """Enter the lifespans of the app and of all mounted apps."""
        async with AsyncExitStack() as stack:
            states: dict[Any, Any] = {}
            for app in self._all_apps():
                if app.registry.lifespan is not None and app.registry not in states:
                    states[app.registry] = await stack.enter_async_context(opened_lifespan(app.registry.lifespan, app))
                for provider in app.registry.providers:
                    if provider not in states:
                        states[provider] = await stack.enter_async_context(provider.lifespan(self))
            loop = asyncio.get_running_loop()
            self._loops[loop] = self._loops.get(loop, 0) + 1
            try:
                yield states
            finally:
                if (shared := cast("dict[str, Any]", states).pop("shared values", None)) is not None:
                    await shared.close()
                self._loops[loop] -= 1
                if not self._loops[loop]:
                    del self._loops[loop]

    def _declares(self, kind: str) -> bool:
        return kind in self.registry.declared or any(app.registry.has_any(kind) for app in self._all_apps())

    def _all_apps(self) -> list[BaseApp[Any]]:
        return [self, *(inner for app in self._mounted for inner in app._all_apps())]

    def _reaches(self, other: object) -> bool:
        """Return True if requests of this app can get to another: a circle of proxies would never end."""
        return self is other or any(inner._reaches(other) for inner in [*self._mounted, *self.proxied])

    def _add(self, kind: ListKind, name: str, item: Any) -> None:
        if "server" in vars(self):
            self._check_late(kind, item)
        super()._add(kind, name, item)
        self._declare_more()

    def _check_late(self, kind: ListKind, item: Any) -> None:
        """Raise LocalError for what cannot be added when the server exists, or its clients know its capabilities."""
        if kind not in self.server.capabilities and self.server.has_connected:
            raise LocalError(
                f"the app {self.name!r} has declared no {kind} to its clients: to add the first one at run time, create"
                f" it with App(…, declare=[{kind!r}])"
            )
        if getattr(item, "task", None) is not None and self.server.parts.tasks is None:
            raise LocalError(
                f"the server of the app {self.name!r} exists already, and has no tasks: add the first tool with `task` "
                "before it, or write App(…, tasks=InMemoryTaskStore())"
            )

    def _changed(self, kind: ListKind) -> None:
        self._declare_more()
        for callback in self.on_change:
            callback(kind)
        for loop in list(self._loops):
            call_soon_in_loop(loop, self._notify, kind)

    def _notify(self, kind: ListKind) -> None:
        """Notify the clients of a list change, if the list was declared."""
        if kind in self.server.capabilities:
            notify = getattr(self.server, f"notify_{kind[:-1]}_list_changed")
            self._notifying.add(asyncio.ensure_future(notify()))


def _check_mounted(app: object, prefix: object) -> None:
    for what, value, kind in (("an App", app, BaseApp), ("a prefix", prefix, str)):
        if not isinstance(value, kind):
            raise LocalError(f'mount() needs {what}, not {shown(value)}: write app.mount(other, "prefix")')


def _handler(registry: Registry, name: str) -> Callable[..., Any]:
    async def handle(self: BaseServer, ctx: ServerContext, params: Any) -> Any:
        states: LifespanStates = ctx.state or {}
        current = sys.modules.get(_CURRENT)
        if current is not None:
            return await current.handle_current(answer, registry, name, ctx, params, states)
        return await answer(registry, name, ctx, params, states)

    return handle


def _scopes_of(registry: Registry) -> Callable[[BaseServer, str, Any], Sequence[str]]:
    def scopes(self: BaseServer, name: str, params: Any) -> Sequence[str]:
        tool = registry.tools.get(params.name) if name == "call_tool" else None
        if tool is None or registry.versions or registry.version_ranges:
            return registry.required_scopes(name, params)
        return tool.scopes  # With fewer calls for most requests.

    return scopes


# Lifespans that are composed of others with the operator `|`.


class Lifespan:
    """One or more functions that run around the life of an app: `App(lifespan=first | second)`.

    They start from left to right, and end in the opposite order. Those of a composed one yield dicts, which are merged;
    the value of the last one takes precedence.
    """

    def __init__(self, function: LifespanFunction) -> None:
        """Wrap an async generator function with one `yield`, or a function that returns an async context manager.

        Raises LocalError for another function.
        """
        start: Any = function
        if inspect.isasyncgenfunction(function):
            check_accepts_one(function, f"lifespan(): {function.__name__!r}", "app")
            start = asynccontextmanager(cast("Callable[[Any], AsyncGenerator[Any]]", function))
        elif not isinstance(function, Lifespan):
            check_lifespan(function, "lifespan")
        self._functions: list[Callable[[Any], AbstractAsyncContextManager[Any]]] = [start]
        self.__name__ = getattr(function, "__name__", "lifespan")

    @asynccontextmanager
    async def __call__(self, app: Any) -> AsyncGenerator[Any]:
        """Enter the functions. Raises LocalError if one of several yields no dict."""
        async with AsyncExitStack() as stack:
            values = [await stack.enter_async_context(function(app)) for function in self._functions]
            if len(values) == 1:
                yield values[0]
                return
            merged: dict[str, Any] = {}
            for function, value in zip(self._functions, values, strict=True):
                if value is not None and not isinstance(value, Mapping):
                    name = getattr(function, "__name__", "function")
                    raise LocalError(
                        f"lifespan {name!r}: one of several must yield a dict or nothing, not {shown(value)}"
                    )
                merged |= dict(cast("Mapping[str, Any]", value or {}))
            yield merged

    def __or__(self, other: object) -> Lifespan:
        """Return a lifespan that enters this one, then the other one. Raises TypeError for another object."""
        if not isinstance(other, Lifespan):
            raise TypeError(f"{shown(other)} is not a Lifespan: write first | lifespan(second)")
        composed = Lifespan(self._functions[0])
        composed._functions = [*self._functions, *other._functions]
        composed.__name__ = f"{self.__name__} | {other.__name__}"
        return composed


def lifespan(function: LifespanFunction) -> Lifespan:
    """Make a function with one `yield` a lifespan: decorate an `async def f(app)` with `@lifespan`.

    A function that returns an async context manager is wrapped as well. Raises LocalError for another one.
    """
    return Lifespan(function)


def _extension(revision: Revision, name: str) -> Extension:
    """Return the generated package of an extension.

    Args:
        revision: A protocol version of the package that contains the extension.
        name: The name of the extension, such as "tasks".

    Raises LocalError if the package has no such extension.
    """
    try:
        package: Any = import_module(f"{revision.package}.extensions.{name}")
    except ModuleNotFoundError:
        raise LocalError(f"{revision.package} has no extension {name!r}") from None
    return cast("Extension", package)
