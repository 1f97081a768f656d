"""The base class of transforms: objects that change what the clients of an app see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.result_types import FollowedPages
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.lists import paginate
from mcp_runtime.usage.rules import shown

from ..components.catalog import version_key
from ..components.kinds import BY_HANDLER, BY_LIST_HANDLER, PROMPT, RESOURCE, TEMPLATE, TOOL, Kind
from ..components.named_things import UnknownItemError
from ..context.context import AppContext
from ..context.own_requests import own_items, own_request

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]


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
        if name in BY_LIST_HANDLER:
            return await self._list(name, ctx, params, call_next)
        if name not in BY_HANDLER:
            return await call_next(ctx, params)
        if name == "call_tool" and (tool := self._tools.get(params.name)) is not None:
            registry = self._app.registry
            return await tool.call(ctx, params.arguments, registry.result_types(name), registry.shown_exceptions)

        async def checked_next(ctx: ServerContext, changed: Any) -> Any:
            ctx.require_scopes(*self._app.registry.required_scopes(name, changed))
            return await call_next(ctx, changed)

        return await getattr(self._transform, name)(ctx, params, checked_next)

    async def _list(self, name: str, ctx: Any, params: Any, call_next: CallNext) -> Any:
        """Return a page of what clients see."""
        items = BY_LIST_HANDLER[name].items
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
        shown, cursor = paginate(shown, params.cursor, self._app.registry.page_size)
        return page.model_copy(update={items: shown, "next_cursor": cursor})


# A transform that adds a prefix to all names.


class Namespace(Transform):
    """Name tools and prompts `prefix_name`, and resources `scheme://prefix/path`, as `mount` does."""

    def __init__(self, prefix: str) -> None:
        """Create the transform. Raises LocalError if the prefix is not an identifier."""
        if not _is_identifier(prefix):
            raise LocalError(f'Namespace() needs an identifier, such as "api"; {shown(prefix)} is not')
        self.prefix = prefix

    async def list_tools(self, tools: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the tools with the prefix."""
        return [TOOL.outside(self.prefix, tool) for tool in tools]

    async def list_prompts(self, prompts: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the prompts with the prefix."""
        return [PROMPT.outside(self.prefix, prompt) for prompt in prompts]

    async def list_resources(self, resources: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the resources with the prefix."""
        return [RESOURCE.outside(self.prefix, item) for item in resources]

    async def list_resource_templates(self, templates: Sequence[Any], ctx: ServerContext) -> Sequence[Any]:
        """Return the resource templates with the prefix."""
        return [TEMPLATE.outside(self.prefix, item) for item in templates]

    async def call_tool(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Call the tool without the prefix."""
        return await self._served(TOOL, ctx, params, call_next)

    async def get_prompt(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Get the prompt without the prefix."""
        return await self._served(PROMPT, ctx, params, call_next)

    async def read_resource(self, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        """Read the resource without the prefix."""
        return await self._served(RESOURCE, ctx, params, call_next)

    async def _served(self, kind: Kind, ctx: ServerContext, params: Any, call_next: CallNext) -> Any:
        id: str = getattr(params, kind.key)
        inside = kind.inside(self.prefix, id)
        if inside is None:
            raise UnknownItemError(kind.list, id)
        result = await call_next(ctx, params.model_copy(update={kind.key: inside}))
        return kind.result_outside(self.prefix, result, inside, id)


def _is_identifier(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


# A transform that restricts an app to a range of versions.


class VersionFilter(Transform):
    """List and serve only tools, resources and prompts whose version is in a range: the highest of them, unless a
    request names another one.

    It also holds for apps that are mounted in the app.
    """

    def __init__(
        self,
        *,
        version_gte: str | None = None,
        version_lt: str | None = None,
        include_unversioned: bool = True,
    ) -> None:
        """Create a filter. Raises LocalError without a limit, for one that is not text, and for an empty range.

        Args:
            version_gte: The lowest version.
            version_lt: The version above the highest.
            include_unversioned: False leaves out what has no version.
        """
        for name, limit in (("version_gte", version_gte), ("version_lt", version_lt)):
            if limit is not None and not _is_text(limit):
                raise LocalError(f'VersionFilter(): {name} must be a text such as "2.0"; {shown(limit)} is not')
        if version_gte is None and version_lt is None:
            raise LocalError('VersionFilter() needs a limit: write VersionFilter(version_lt="2.0") or version_gte=…')
        self._lowest = None if version_gte is None else version_key(version_gte)
        self._end = None if version_lt is None else version_key(version_lt)
        if self._lowest is not None and self._end is not None and self._lowest >= self._end:
            raise LocalError(
                f"VersionFilter(): no version is from {version_gte!r} and below {version_lt!r}: exchange the limits"
            )
        self._includes_unversioned = include_unversioned

    def accepts(self, version: str | None) -> bool:
        """Return True if a version is in the range, or something without a version is included."""
        if version is None:
            return self._includes_unversioned
        key = version_key(version)
        return (self._lowest is None or key >= self._lowest) and (self._end is None or key < self._end)

    def adapter(self, app: Any) -> TransformAdapter:
        """Add the range to the rules of an app, which select the version of a request."""
        app.registry.version_ranges.append(self)
        return super().adapter(app)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# Resources and prompts as tools, for clients that have only tools.


class _OfOneApp(Transform):
    def __init__(self, app: Any = None) -> None:
        """Create the transform; `app` may be the app that it is added to, as in FastMCP."""
        self._app = app

    def adapter(self, app: Any) -> TransformAdapter:
        """Return this transform as a middleware of an app. Raises LocalError for another app than the constructor's."""
        if self._app is not None and self._app is not app:
            name = type(self).__name__
            raise LocalError(f"add_transform(): {name}(…) was created for another app: write {name}()")
        return super().adapter(app)


class ResourcesAsTools(_OfOneApp):
    """Add the tools `list_resources` and `read_resource`, which return what clients can read."""

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the two functions."""
        return (list_resources, read_resource)


class PromptsAsTools(_OfOneApp):
    """Add the tools `list_prompts` and `get_prompt`, which return what clients can get."""

    def functions(self) -> Sequence[Callable[..., Any]]:
        """Return the two functions."""
        return (list_prompts, get_prompt)


async def list_resources(ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """List the resources with their URIs, and the resource templates with their URI templates."""
    definitions = [*await ctx.list_resources(), *await ctx.list_resource_templates()]
    return [definition.model_dump() for definition in definitions]


async def read_resource(uri: str, ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """Read a resource.

    Args:
        uri: Its URI; that of a resource template has values for the variables.
    """
    result = await own_request(ctx, "read_resource", {"uri": uri})
    return [content.model_dump() for content in result.contents]


async def list_prompts(ctx: AppContext[Any, Any, Any]) -> list[dict[str, Any]]:
    """List the prompts with their arguments."""
    return [definition.model_dump() for definition in await ctx.list_prompts()]


async def get_prompt(
    name: str, ctx: AppContext[Any, Any, Any], arguments: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Get the messages of a prompt.

    Args:
        name: Its name.
        arguments: Its arguments.
    """
    result = await ctx.get_prompt(name, arguments)
    return [message.model_dump() for message in result.messages]
