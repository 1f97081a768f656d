"""The base class of transforms: objects that change what the clients of an app see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from ...errors import LocalError
from ...protocol.followed_pages import FollowedPages
from ...server.context import ServerContext
from ...server.lists import paginate
from ..context.own_requests import own_items

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]

_ITEMS: Final[Mapping[str, str]] = {
    "list_tools": "tools",
    "list_prompts": "prompts",
    "list_resources": "resources",
    "list_resource_templates": "resource_templates",
}
_CALLS: Final = ("call_tool", "get_prompt", "read_resource")

# The transforms whose functions list what the app has besides them.
_suspended: ContextVar[frozenset[Any]] = ContextVar("suspended transforms", default=frozenset())


class Transform:
    """An object that changes what the clients of an app see: override what you need, and pass it to
    `App.add_transform`.

    A method that lists gets all items, and returns those that clients see. The other methods get a request, and return
    the result of `call_next(ctx, params)` or another one.
    """

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return functions to add as tools; they replace tools of the same name."""
        return ()

    async def list_tools(self, tools: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of tools that clients see."""
        return tools

    async def list_prompts(self, prompts: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of prompts that clients see."""
        return prompts

    async def list_resources(self, resources: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of resources that clients see."""
        return resources

    async def list_resource_templates(self, templates: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the definitions of resource templates that clients see."""
        return templates

    async def call_tool(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Return the result of a tool call."""
        return await call_next(ctx, params)

    async def get_prompt(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Return a prompt."""
        return await call_next(ctx, params)

    async def read_resource(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Return the contents of a resource."""
        return await call_next(ctx, params)

    async def hidden_tools(self, ctx: Any) -> list[Any]:
        """Return the tools that the client could call without this transform; for functions of the transform."""
        token = _suspended.set(_suspended.get() | {self})
        try:
            return await own_items(ctx, "list_tools", "tools")
        finally:
            _suspended.reset(token)

    def adapter(self, app: Any) -> TransformAdapter:
        """Return this transform as a middleware of an app."""
        return TransformAdapter(self, app)


class TransformAdapter:
    """A transform among the middleware of an app."""

    def __init__(self, transform: Transform, app: Any) -> None:
        """Adapt a transform to an app. Raises LocalError for a function that cannot be a tool."""
        self._transform = transform
        self._app = app
        self._tools: dict[str, Any] = {}
        for function in transform.functions():
            tool = app.make_tool(function)
            if tool.name in self._tools:
                raise LocalError(f"add_transform(): {type(transform).__name__} has two tools {tool.name!r}")
            self._tools[tool.name] = tool

    def provides(self, kind: str) -> bool:
        """Return True if the transform adds something of a kind."""
        return kind == "tools" and bool(self._tools)

    async def __call__(self, name: str, ctx: Any, params: Any, call_next: CallNext) -> Any:
        """Return the result of a request; `name` is that of its handler."""
        if self._transform in _suspended.get():
            return await call_next(ctx, params)
        if name in _ITEMS:
            return await self._list(name, ctx, params, call_next)
        if name not in _CALLS:
            return await call_next(ctx, params)
        if name == "call_tool" and (tool := self._tools.get(params.name)) is not None:
            registry = self._app._registry
            return await tool.call(ctx, params.arguments, registry.result_types(name), registry.shown_exceptions)

        async def checked_next(ctx: ServerContext, changed: Any) -> Any:
            ctx.require_scopes(*self._app._registry.required_scopes(name, changed))
            return await call_next(ctx, changed)

        return await getattr(self._transform, name)(ctx, params, checked_next)

    async def _list(self, name: str, ctx: Any, params: Any, call_next: CallNext) -> Any:
        """Return a page of what clients see."""
        items = _ITEMS[name]
        page: Any = await call_next(ctx, params.model_copy(update={"cursor": None}))
        listed, last = list(getattr(page, items)), page
        followed = FollowedPages(name)
        while (cursor := followed.add(len(getattr(last, items)), last.next_cursor)) is not None:
            last = await call_next(ctx, params.model_copy(update={"cursor": cursor}))
            listed += getattr(last, items)
        shown = [*await getattr(self._transform, name)(listed, ctx)]
        if name == "list_tools":
            shown = [item for item in shown if item.name not in self._tools]
            shown += [tool.definition for tool in self._tools.values()]
        shown, cursor = paginate(shown, params.cursor, self._app._registry.page_size)
        return page.model_copy(update={items: shown, "next_cursor": cursor})
