"""The middleware of an app: functions around the handler of a request, and objects with a hook for each message."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, Literal

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.connection import RequestReceived
from mcp_runtime.server.context import ServerContext

from ..components.kinds import BY_LIST_HANDLER

Handler = Callable[[ServerContext, Any], Awaitable[Any]]
MiddlewareFunction = Callable[[str, ServerContext, Any, Handler], Awaitable[Any]]
# The property of a list result that its hook gets and returns.
_ITEMS: Final = {f"on_{name}": kind.items for name, kind in BY_LIST_HANDLER.items()}


@dataclass(frozen=True, kw_only=True)
class MiddlewareContext:
    """The message that a hook gets.

    Attributes:
        message: The params of the message; None if it has none.
        ctx: The context of the request; the context of an app's functions, where the message is for one.
        method: The method of the message.
        name: The name of its handler, such as "call_tool".
        type: Whether it is a request or a notification.
        source: Always "client": the side that has sent the message.
        timestamp: When it was received.
        app: The app that the middleware belongs to.
    """

    message: Any
    ctx: Any = None
    method: str | None = None
    name: str = ""
    type: Literal["request", "notification"] = "request"
    source: Literal["client", "server"] = "client"
    timestamp: datetime = field(default_factory=lambda: datetime.fromtimestamp(clocks.wall(), UTC))
    app: Any = None

    @property
    def fastmcp_context(self) -> Any:
        """The context of the request; another name of `ctx`."""
        return self.ctx

    def copy(self, **changes: Any) -> MiddlewareContext:
        """Return a copy with other values: `context.copy(message=params)`."""
        return replace(self, **changes)


CallNext = Callable[[MiddlewareContext], Awaitable[Any]]


class Middleware:
    """The base class of middleware: override the hooks that you need, and add an object with `app.add_middleware`.

    A hook is `async def on_…(self, context, call_next)`. It returns the result of `call_next(context)`, a changed one,
    or another one, and can raise JSONRPCError or ToolError. A message passes `on_message`, then `on_request` or
    `on_notification`, then the hook of its kind. `call_next` raises what a tool raises. The hooks of lists get and
    return the items of one page; the other hooks get and return whole results.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raise LocalError for a method whose name begins with `on_` and is not a hook: it would never be called."""
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            if name.startswith("on_") and name not in _HOOKS:
                nearest = get_close_matches(name, _HOOKS, 1, 0.4)
                hint = f"did you mean {nearest[0]!r}?" if nearest else f"the hooks are {', '.join(_HOOKS)}"
                raise LocalError(f"the middleware {cls.__name__} has the method {name!r}, which is not a hook; {hint}")

    async def __call__(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Call the hooks of a message, the outermost first."""
        kind = type(self)
        handler = call_next
        for name in (f"on_{context.name}", f"on_{context.type}", "on_message"):
            if name in _HOOKS and getattr(kind, name) is not getattr(Middleware, name):
                handler = _call_list_hook(self, name, handler) if name in _ITEMS else _call_hook(self, name, handler)
        return await handler(context)

    async def on_message(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request or a notification."""
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request."""
        return await call_next(context)

    async def on_notification(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a notification; the result is None."""
        return await call_next(context)

    async def on_initialize(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle `initialize`: the version is negotiated already, and an exception refuses the client."""
        return await call_next(context)

    async def on_discover(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle the request of a stateless client for the server's versions and capabilities."""
        return await call_next(context)

    async def on_complete(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for completions; the result is a CompleteResult."""
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a tool call; the result is a CallToolResult."""
        return await call_next(context)

    async def on_read_resource(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle the read of a resource; the result is a ReadResourceResult."""
        return await call_next(context)

    async def on_get_prompt(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for a prompt; the result is a GetPromptResult."""
        return await call_next(context)

    async def on_list_tools(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for tools; the result is a list of tools, those of one page."""
        return await call_next(context)

    async def on_list_resources(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for resources; the result is a list of resources, those of one page."""
        return await call_next(context)

    async def on_list_resource_templates(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for resource templates; the result is a list of these, those of one page."""
        return await call_next(context)

    async def on_list_prompts(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Handle a request for prompts; the result is a list of prompts, those of one page."""
        return await call_next(context)


_HOOKS: Final = tuple(name for name in vars(Middleware) if name.startswith("on_"))


class MiddlewareAdapter:
    """A middleware object among the middleware functions of an app."""

    def __init__(self, middleware: Callable[[MiddlewareContext, CallNext], Awaitable[Any]], app: Any) -> None:
        """Adapt a middleware object, or another callable with the parameters `context` and `call_next`."""
        self._middleware = middleware
        self._app = app

    def provides(self, kind: str) -> bool:
        """Return True if the middleware adds something of a kind, such as "tools"."""
        return kind in getattr(self._middleware, "provided_lists", ())

    async def __call__(
        self, name: str, ctx: ServerContext, params: Any, call_next: Callable[[Any, Any], Awaitable[Any]]
    ) -> Any:
        """Call the middleware object with the message as one object."""
        message = ctx.received
        context = MiddlewareContext(
            message=params,
            ctx=ctx,
            method=message.row.method,
            name=name,
            type="request" if isinstance(message, RequestReceived) else "notification",
            app=self._app,
        )

        def handler(context: MiddlewareContext) -> Awaitable[Any]:
            return call_next(context.ctx, context.message)

        return await self._middleware(context, handler)


def _call_hook(middleware: Middleware, name: str, call_next: CallNext) -> CallNext:
    def handler(context: MiddlewareContext) -> Awaitable[Any]:
        result: Awaitable[Any] = getattr(middleware, name)(context, call_next)
        return result

    return handler


def _call_list_hook(middleware: Middleware, name: str, call_next: CallNext) -> CallNext:
    """Return a handler that calls a hook with the items of a list result, and puts the items of the hook into it."""
    items = _ITEMS[name]

    async def handler(context: MiddlewareContext) -> Any:
        page: Any = None

        async def list_items(context: MiddlewareContext) -> list[Any]:
            nonlocal page
            page = await call_next(context)
            return list(getattr(page, items))

        result = await getattr(middleware, name)(context, list_items)
        if hasattr(result, items):  # The hook has returned a whole result.
            return result
        if page is None:
            row = context.ctx.received.row
            return row.result(**{items: list(result)})
        return page.model_copy(update={items: list(result)})

    return handler


# The chain of the middleware of an app around the handler of a request.


def chain(middleware: Sequence[MiddlewareFunction], name: str, handler: Handler) -> Handler:
    """Return a function that calls the middleware in order, and the handler last; `name` is the handler's name."""
    call_next = handler
    for function in reversed(middleware):
        call_next = partial(_call, function, name, call_next)
    return call_next


def in_own_task(handler: Handler) -> Handler:
    """Return a handler that runs in a task of its own, so that who waits for it keeps the task it has."""

    async def handle(ctx: ServerContext, params: Any) -> Any:
        return await asyncio.ensure_future(handler(ctx, params))

    return handle


async def _call(function: MiddlewareFunction, name: str, call_next: Handler, ctx: ServerContext, params: Any) -> Any:
    result = function(name, ctx, params, call_next)
    return await result if inspect.isawaitable(result) else result
