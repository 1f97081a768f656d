"""A middleware that adds tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import LocalError
from .hooks import CallNext, Middleware, MiddlewareContext


class ToolInjectionMiddleware(Middleware):
    """Add tools to the first page of the list, and call them; tools of the app with the same names are replaced."""

    provided_lists = ("tools",)

    def __init__(self, tools: Sequence[Callable[..., Any]]) -> None:
        """Create the middleware of functions. Raises LocalError if there are none."""
        listed: Any = tools
        self._functions: list[Any] = [*listed] if isinstance(listed, (list, tuple)) else []
        if not self._functions or not all(map(callable, self._functions)):
            raise LocalError(f"ToolInjectionMiddleware() needs a list of functions, not {tools!r}: write [function]")
        self._tools: dict[str, Any] | None = None

    async def on_list_tools(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Return the tools of a page, and on the first page those of this middleware."""
        own = self._of_app(context.app)
        items = [tool for tool in await call_next(context) if tool.name not in own]
        if context.message.cursor is not None:
            return items
        return [*(tool.definition for tool in own.values()), *items]

    async def on_call_tool(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Call a tool of this middleware, or pass the call on."""
        tool = self._of_app(context.app).get(context.message.name)
        if tool is None:
            return await call_next(context)
        registry = context.app._registry
        types, shown = registry.result_types(context.name), registry.shown_exceptions
        return await tool.call(context.ctx, context.message.arguments, types, shown)

    def _of_app(self, app: Any) -> dict[str, Any]:
        if self._tools is None:
            self._tools = {tool.name: tool for tool in map(app.make_tool, self._functions)}
        return self._tools
