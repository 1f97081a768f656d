"""What programs reach of an app by private names of the official SDK: its low-level server, and its tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, cast

from .context import CURRENT, OfficialRequestContext, get_context
from .forms.form import FORM, official, written
from .lowlevel import Handler, HandlerDecorators, as_method
from .transports import serve_stream

_PROCEED: Final[ContextVar[Callable[[Any], Awaitable[Any]]]] = ContextVar("what serves the request that is wrapped")


class ServedApp(HandlerDecorators):
    """The low-level server of an app, which serves it over two streams.

    With handlers it is a middleware of the app: they serve requests in the place of the app; levels and subscriptions
    the app serves as well.
    """

    name = property(attrgetter("_app.name"))
    version = property(attrgetter("_app.version"), lambda self, version: setattr(self._app, "version", version))

    def __init__(self, app: Any) -> None:
        """Create the view of an app."""
        super().__init__(app.registry.methods)
        self._app = app
        self._has_joined = False

    @property
    def icons(self) -> list[Any] | None:
        """The icons of the app."""
        return [FORM.types.Icon.model_validate(icon) for icon in self._app.icons or ()] or None

    @property
    def request_context(self) -> OfficialRequestContext[Any, Any, Any]:
        """The request that a handler or a function of the app serves. Raises LookupError outside of both."""
        return OfficialRequestContext(CURRENT.get(None) or get_context())

    @property
    def provided_lists(self) -> list[str]:
        """What the app declares because of the handlers."""
        handlers = {kind: f"list_{kind}" for kind in ("tools", "resources", "prompts")} | {"completions": "complete"}
        return [kind for kind, name in handlers.items() if name in self._handlers]

    @cached_property
    def request_handlers(self) -> dict[type, Callable[[Any], Awaitable[Any]]]:
        """What serves requests, by their types; programs put what wraps it into its place."""
        self._join()
        return dict.fromkeys(FORM.by_method["ClientRequest"].values(), _proceed)

    def get_capabilities(self, notification_options: Any = None, experimental_capabilities: Any = None) -> Any:
        """Return the capabilities of the app, as `ServerCapabilities`; it declares all changes by itself."""
        experimental = {"experimental": dict(experimental_capabilities)} if experimental_capabilities else {}
        return FORM.types.ServerCapabilities.model_validate({**self.bind().capabilities, **experimental})

    def create_initialization_options(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what `run` accepts: the app declares what it has by itself."""
        return None

    def bind(self) -> Any:
        """Return the server of the app."""
        return self._app.server

    async def run(
        self, read_stream: Any, write_stream: Any, initialization_options: Any = None, **accepted: Any
    ) -> None:
        """Serve the connection of two streams until it is closed."""
        await serve_stream(self.bind(), read_stream, write_stream)

    async def __call__(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Serve a request of the app through what wraps its handler, if there is any."""
        kind = FORM.by_method["ClientRequest"].get(context.method, object)
        wrapper = self.request_handlers.get(kind, _proceed)
        if wrapper is _proceed:
            return await self._serve(context, call_next)
        request = FORM.read("ClientRequest", context.method, context.message and written(context.message))

        async def proceed(passed: Any) -> Any:
            changed = context
            if passed.params is not None and context.message is not None:
                changed = context.copy(message=cast(Any, type(context.message)).model_validate(written(passed.params)))
            result = official(await self._serve(changed, call_next))
            if type(result) is FORM.types.Result:  # A protocol version has no type of its own for nothing.
                result = FORM.types.EmptyResult.model_validate(written(result))
            return FORM.wrapped("ServerResult", result)

        async def handle(ctx: Any, params: Any) -> Any:
            return await wrapper(request)

        token = _PROCEED.set(proceed)
        try:
            return await as_method(handle)(self, context.ctx, context.message)
        finally:
            _PROCEED.reset(token)

    async def _serve(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        handler = self._handlers.get(context.name)
        if context.name == "complete" and self._app.registry.completions:
            handler = None  # Functions of the app are more than what a framework answers by default.
        if handler is None:
            return await call_next(context)
        if context.name in ("set_level", "subscribe", "unsubscribe"):
            await call_next(context)
        return await as_method(handler)(self, context.ctx, context.message)

    def _register(self, name: str, handler: Handler) -> None:
        self._join()
        super()._register(name, handler)

    def _join(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            self._app.add_middleware(self)


async def _proceed(request: Any) -> Any:
    return await _PROCEED.get()(request)


class ServedItems:
    """The tools, resources and prompts that an app has: its `_tool_manager` and the like.

    The tables can only be read: what was written into them would be lost.
    """

    def __init__(self, registry: Any) -> None:
        """Create the view of a registry."""
        self._tools = MappingProxyType({name: ServedItem(tool) for name, tool in registry.tools.items()})
        self._prompts = MappingProxyType({name: ServedItem(prompt) for name, prompt in registry.prompts.items()})
        resources = {uri: resource for uri, resource in registry.resources.items() if not resource.is_template}
        self._resources = MappingProxyType({uri: ServedItem(resource) for uri, resource in resources.items()})

    def list_tools(self) -> list[ServedItem]:
        """Return the tools."""
        return [*self._tools.values()]

    def get_tool(self, name: str) -> ServedItem | None:
        """Return a tool; None without one of this name."""
        return self._tools.get(name)


class ServedItem:
    """A tool, a resource or a prompt that an app has, with what its definition has."""

    def __init__(self, item: Any) -> None:
        """Create the view of an item."""
        self._item = item

    @property
    def parameters(self) -> dict[str, Any]:
        """The input schema of a tool; another one that is set is what clients are shown."""
        return dict(self._item.as_json()["inputSchema"])

    @parameters.setter
    def parameters(self, schema: dict[str, Any]) -> None:
        self._item.show_input_schema(schema)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the definition."""
        return getattr(official(self._item.definition), name)
