"""The app: decorators take functions in, and a server of the newest revision comes out."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from ..aio.rate_limit import RateLimit
from ..aio.threads import WORKER_THREADS
from ..bindings.client import BaseClient
from ..bindings.server import BaseServer
from ..bindings.settings import ASGISettings, HTTPServerSettings
from ..encryption import KeyRing
from ..endpoint.extensions import load_extension
from ..errors import LocalError
from ..extensions.tasks import TaskServerMixin, TaskStore
from ..protocol.capabilities import merge
from ..protocol.revision import Request
from ..server.cache_hints import CacheHint
from ..server.context import ServerContext
from ..session.interfaces import RevisionChoice
from .prompts import Prompt
from .registry import CompletionFunction, LifespanStates, ListKind, Middleware, Registry
from .resources import Resource
from .settings import ResourceSettings, Settings, ToolSettings
from .tools import ShownExceptions, Tool, ToolError

if TYPE_CHECKING:
    from ..transports.http_server.app import MCPASGIApp

F = TypeVar("F", bound=Callable[..., Any])
ServerT = TypeVar("ServerT", bound=BaseServer)

_HANDLERS_BY_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("list_tools", "call_tool"),
    "resources": ("list_resources", "list_resource_templates", "read_resource"),
    "prompts": ("list_prompts", "get_prompt"),
    "completions": ("complete",),
}
_LISTS: Final[tuple[ListKind, ...]] = ("tools", "resources", "prompts")
_MARK: Final = "__mcp_tool__"


class BaseApp(Generic[ServerT]):
    """A server made of functions.

    `lifespan` is called with the app and gives an async context manager; what that yields is the `state` of the
    contexts. `coerce` takes "5" for 5 in the arguments of tools. The text of exceptions of `tool_errors` is shown
    to the model, as that of a ToolError; of others nobody but the log learns more than that there was one. `offers`
    names what is declared although nothing of it is there at the start: tools, resources or prompts that are added at
    run time. `rates` say how often each client may ask, such as `{"call_tool": RateLimit(10, burst=50)}`, `hints` how long
    clients may keep results, such as `{"list_tools": CacheHint(60, "public")}`. `tasks` is where
    the tasks of its tools are kept, if not in memory.
    """

    server_class: ClassVar[type[BaseServer]]
    client_class: ClassVar[type[BaseClient]]
    types: ClassVar[ModuleType]

    def __init__(
        self,
        name: str = "app",
        instructions: str | None = None,
        *,
        version: str = "0.1.0",
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        coerce: bool = False,
        tool_errors: ShownExceptions = (),
        page_size: int = 50,
        declare: Collection[ListKind] = (),
        capabilities: Mapping[str, Any] | None = None,
        keys: KeyRing | None = None,
        rate_limits: Mapping[str, RateLimit | None] | None = None,
        cache_hints: Mapping[str, CacheHint] | None = None,
        tasks: TaskStore | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self.on_change: list[Callable[[ListKind], None]] = []
        """Called with the kind of list that has changed at run time."""
        self._lifespan = lifespan
        self._coerce = coerce
        self._declared = declare
        self._capabilities = capabilities
        self._keys = keys
        self._rate_limits = rate_limits
        self._cache_hints = cache_hints
        self._tasks = tasks
        self._mounted: list[BaseApp[Any]] = []
        self._extensions: dict[Any, tuple[str, ...]] = {}  # The handlers of each package.
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}  # Where it is served now, and in how many lifespans.
        self._notifying: set[asyncio.Future[None]] = set()
        rows = (row for row in self.server_class.revision.rows if isinstance(row, Request))
        self._registry = Registry(
            self.types, {row.name: row.result_types for row in rows}, (ToolError, *tool_errors), page_size
        )

    # ---- what it offers ---------------------------------------------------------------------------------------------

    def tool(self, name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]:
        """Make a tool of the function below. Type hints, docstring and return type become its schemas."""

        def add(function: F) -> F:
            self.add_tool(function, name, **settings)
            return function

        return add

    def add_tool(self, function: Callable[..., Any], name: str | None = None, **settings: Unpack[ToolSettings]) -> None:
        """Add a tool, also at run time. Raises LocalError where there is one of that name, or it cannot be one."""
        tool = Tool(function, name, settings, self.types, self._coerce)
        self._add("tools", self._registry.tools, tool.name, tool)

    def add_tools(self, holder: object) -> None:
        """Add the methods of an object that are marked with `tool`; if none is, all public ones."""
        methods = dict(inspect.getmembers(holder, inspect.isroutine))
        marked = {name: method for name, method in methods.items() if hasattr(method, _MARK)}
        chosen = marked or {name: method for name, method in methods.items() if not name.startswith("_")}
        if not chosen:
            raise LocalError(f"{holder!r} has no public method to make a tool of")
        for method in chosen.values():
            settings: dict[str, Any] = getattr(method, _MARK, {})
            self.add_tool(method, **settings)

    def resource(self, uri: str, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
        """Make a resource of the function below; with variables in the URI (RFC 6570), a template of resources."""

        def add(function: F) -> F:
            self.add_resource(uri, function, **settings)
            return function

        return add

    def add_resource(self, uri: str, function: Callable[..., Any], **settings: Unpack[ResourceSettings]) -> None:
        """Add a resource, also at run time. Raises LocalError where there is one at that URI."""
        resource = Resource(uri, function, settings, self.types)
        self._add("resources", self._registry.resources, uri, resource)

    def prompt(self, name: str | None = None, **settings: Unpack[Settings]) -> Callable[[F], F]:
        """Make a prompt of the function below: it returns text, messages, or a list of these."""

        def add(function: F) -> F:
            self.add_prompt(function, name, **settings)
            return function

        return add

    def add_prompt(self, function: Callable[..., Any], name: str | None = None, **settings: Unpack[Settings]) -> None:
        """Add a prompt, also at run time. Raises LocalError where there is one of that name."""
        prompt = Prompt(function, name, settings, self.types)
        self._add("prompts", self._registry.prompts, prompt.name, prompt)

    def completion(self) -> Callable[[F], F]:
        """Let the function below suggest values: it gets the reference, the argument and the context, and returns a
        list of strings, a Completion, or None for what it knows nothing of; then the next one is asked."""

        def add(function: F) -> F:
            self._registry.completions.append(_to_async(function))
            return function

        return add

    def remove_tool(self, name: str) -> None:
        """Remove a tool at run time. Raises LocalError where there is none of that name."""
        self._remove("tools", self._registry.tools, name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template. Raises LocalError where there is none."""
        self._remove("resources", self._registry.resources, uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Raises LocalError where there is none of that name."""
        self._remove("prompts", self._registry.prompts, name)

    def middleware(self, function: Middleware) -> Middleware:
        """Let the function below handle every request: it gets the name of the handler, the context, the params, and
        what goes on with these two; the first one added is the outermost."""
        self._registry.middleware.append(function)
        return function

    def mount(self, app: BaseApp[Any], prefix: str) -> None:
        """Offer all that another app does, now or later: tools and prompts as `prefix_name`, resources as
        `scheme://prefix/path`. Raises LocalError for a prefix in use, and for an app inside of itself."""
        if not prefix.isidentifier() or prefix in self._registry.mounted:
            raise LocalError(f"{prefix!r} cannot be a prefix: it is in use, or not a name")
        if self in app._all_apps():
            raise LocalError(f"the app {app.name!r} cannot be mounted inside of itself")
        self._registry.mounted[prefix] = app._registry
        self._mounted.append(app)
        app.on_change.append(self._changed)
        for kind in _LISTS:
            self._changed(kind)

    def skills(self, folder: str | os.PathLike[str], *, under: str = "") -> None:
        """Publish the skills in a folder (SEP-2640): each folder with a SKILL.md in it is one. Their URIs begin with
        `skill://`, and `under` where it is given. Raises LocalError for a folder without skills, for what is none, and
        where the app is served already. Reads files: to be called before that."""
        from ..extensions.skills.server import (
            METHOD_NAMES,
            SkillHandlers,
            skills_extension,
        )

        if "server" in vars(self):
            raise LocalError(f"the app {self.name!r} is served already: what it declares is settled")
        from ..extensions.skills.provider import SkillDirectory

        shelf = SkillDirectory(folder, under=under)
        if self._registry.skills is None:
            package = skills_extension(self.server_class.revision)
            self._registry.skills = SkillHandlers(package.methods.REVISION, [], self._registry.page_size)
            self._extensions[package] = METHOD_NAMES
        self._registry.skills.add(shelf)

    # ---- serving ----------------------------------------------------------------------------------------------------

    @cached_property
    def server(self) -> ServerT:
        """The server of this app; what it declares is settled when it is first asked for."""
        members: dict[str, Any] = {"lifespan": _lifespan_of(self), "scopes": _scopes_of(self._registry)}
        for kind, names in _HANDLERS_BY_KIND.items():
            if self._declares(kind):
                members |= {name: _handler(self._registry, name) for name in names}
        if any(app._registry.skills is not None for app in self._all_apps()[1:]):
            raise LocalError("skills of a mounted app are not published: add them to the outermost one, `under` a path")
        members |= {name: _handler(self._registry, name) for names in self._extensions.values() for name in names}
        more: dict[str, Any] = {"rate_limits": self._rate_limits, "keys": self._keys, "extensions": [*self._extensions]}
        kinds: tuple[type[BaseServer], ...] = (self.server_class,)
        if self._has_tasks():
            kinds = (TaskServerMixin, *kinds)
            more["extensions"].append(load_extension(self.server_class.revision, "tasks"))
            more["tasks"] = self._tasks
        served = cast(type[ServerT], type("Served", kinds, members))
        declared: dict[str, Any] = {kind: {"listChanged": True} for kind in _LISTS if self._declares(kind)}
        merge(declared, self._capabilities or {})
        said: dict[str, Any] = {"name": self.name, "version": self.version, "instructions": self.instructions}
        return served(**said, capabilities=declared, cache_hints=self._cache_hints, **more)

    @overload
    def run(self, transport: Literal["stdio"] = "stdio", *, revisions: RevisionChoice = "all") -> None: ...
    @overload
    def run(
        self,
        transport: Literal["http", "streamable-http"],
        *,
        revisions: RevisionChoice = "all",
        **settings: Unpack[HTTPServerSettings],
    ) -> None: ...
    def run(self, transport: str = "stdio", **settings: Any) -> None:
        """Serve until the client disconnects (stdio), or until the process gets SIGINT or SIGTERM. The keywords are those
        of `Server.run`: `revisions`, `host`, `port`, `path`, `uvicorn` and those of `asgi`."""
        server: Any = self.server
        server.run(transport, **settings)

    def asgi(self, *, revisions: RevisionChoice = "all", **settings: Unpack[ASGISettings]) -> MCPASGIApp:
        """Return an ASGI application that serves this app over Streamable HTTP. The keywords are those of
        `Server.asgi`."""
        return self.server.asgi(revisions=revisions, **settings)

    async def _call_client(self, method: str, /, **arguments: Any) -> Any:
        """What a client in the same process gets that calls this method of its own."""
        async with self.client_class.memory(self.server) as client:
            return await getattr(client, method)(**arguments)

    async def _list_all(self, name: str) -> list[Any]:
        async with self.client_class.memory(self.server) as client:
            return [each async for each in getattr(client, name)()]

    @asynccontextmanager
    async def _enter_lifespans(self) -> AsyncGenerator[LifespanStates]:
        """Enter the lifespan of the app and of each mounted one."""
        async with AsyncExitStack() as stack:
            states: dict[Registry, Any] = {}
            for each in self._all_apps():
                if each._lifespan is not None and each._registry not in states:
                    states[each._registry] = await stack.enter_async_context(each._lifespan(each))
            loop = asyncio.get_running_loop()
            self._loops[loop] = self._loops.get(loop, 0) + 1
            try:
                yield states
            finally:
                self._loops[loop] -= 1
                if not self._loops[loop]:
                    del self._loops[loop]

    def _declares(self, kind: str) -> bool:
        return kind in self._declared or any(app._registry.has_any(kind) for app in self._all_apps())

    def _has_tasks(self) -> bool:
        tools = (each for app in self._all_apps() for each in app._registry.tools.values())
        return self._tasks is not None or any(each.task is not None for each in tools)

    def _all_apps(self) -> list[BaseApp[Any]]:
        return [self, *(each for app in self._mounted for each in app._all_apps())]

    def _add(self, kind: ListKind, registered: dict[str, Any], name: str, item: Any) -> None:
        if name in registered:
            raise LocalError(f"the app {self.name!r} has {name!r} among its {kind} already")
        registered[name] = item
        self._changed(kind)

    def _remove(self, kind: ListKind, registered: dict[str, Any], name: str) -> None:
        if name not in registered:
            raise LocalError(f"the app {self.name!r} has no {name!r} among its {kind}")
        del registered[name]
        self._changed(kind)

    def _changed(self, kind: ListKind) -> None:
        for each in self.on_change:
            each(kind)
        for loop in list(self._loops):
            loop.call_soon_threadsafe(self._notify, kind)

    def _notify(self, kind: ListKind) -> None:
        """Let the clients know, as far as the list was declared."""
        if self._declares(kind):
            telling = asyncio.ensure_future(getattr(self.server, f"notify_{kind[:-1]}_list_changed")())
            self._notifying.add(telling)
            telling.add_done_callback(self._notifying.discard)


def tool(name: str | None = None, **settings: Unpack[ToolSettings]) -> Callable[[F], F]:
    """Mark a method for `App.add_tools`."""

    def mark(function: F) -> F:
        setattr(function, _MARK, {"name": name, **settings})
        return function

    return mark


def _handler(registry: Registry, name: str) -> Callable[..., Any]:
    async def handle(self: BaseServer, ctx: ServerContext, params: Any) -> Any:
        states: LifespanStates = ctx.state or {}
        return await registry.handle(name, ctx, params, states)

    return handle


def _scopes_of(registry: Registry) -> Callable[[BaseServer, str, Any], Sequence[str]]:
    def scopes(self: BaseServer, name: str, params: Any) -> Sequence[str]:
        return registry.required_scopes(name, params)

    return scopes


def _lifespan_of(app: BaseApp[Any]) -> Callable[[BaseServer], AbstractAsyncContextManager[LifespanStates]]:
    def lifespan(self: BaseServer) -> AbstractAsyncContextManager[LifespanStates]:
        return app._enter_lifespans()  # pyright: ignore[reportPrivateUsage]

    return lifespan


def _to_async(function: Callable[..., Any]) -> CompletionFunction:
    wanted = len(inspect.signature(function).parameters)

    async def complete(*given: Any) -> Sequence[str] | Any:
        if inspect.iscoroutinefunction(function):
            return await function(*given[:wanted])
        return await WORKER_THREADS.run(function, *given[:wanted])

    return complete
