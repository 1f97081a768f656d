"""The middleware of the app with all features: the ready ones, and one with all hooks."""

from __future__ import annotations

import logging
from itertools import count
from typing import Any

from mcp_generated import Context, Middleware, MiddlewareContext, ToolError
from mcp_generated.middleware import (
    AuthMiddleware,
    DetailedTimingMiddleware,
    ErrorHandlingMiddleware,
    LoggingMiddleware,
    RateLimitingMiddleware,
    ResponseCachingMiddleware,
    ResponseLimitingMiddleware,
    RetryMiddleware,
    SlidingWindowRateLimitingMiddleware,
    StructuredLoggingMiddleware,
    TimingMiddleware,
    restrict_tag,
)


class Recorder(logging.Handler):
    """Stores what the ready middleware logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store a line."""
        self.lines.append(record.getMessage())


recorder = Recorder()
journal = logging.getLogger("journal")
journal.addHandler(recorder)
journal.setLevel(logging.INFO)
journal.propagate = False


class Hooks(Middleware):
    """Stores the names of the hooks that a request passes, and leaves what is hidden out of the lists."""

    def __init__(self) -> None:
        self.starts: set[str] = set()

    async def on_message(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Store the name of the hook of all messages."""
        await self._add(context, "on_message")
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Store the name of the hook of requests."""
        await self._add(context, "on_request")
        return await call_next(context)

    async def on_notification(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Store that a notification has come."""
        self.starts.add("on_notification")
        return await call_next(context)

    async def on_initialize(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Store that a session begins."""
        self.starts.add("on_initialize")
        return await call_next(context)

    async def on_discover(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Store that a client without sessions begins."""
        self.starts.add("on_discover")
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Refuse a call, or let it pass."""
        await self._add(context, "on_call_tool")
        if context.message.name == "hidden_tool":
            raise ToolError("a middleware refuses this")
        return await call_next(context)

    async def on_read_resource(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Let the read of a resource pass."""
        await self._add(context, "on_read_resource")
        return await call_next(context)

    async def on_get_prompt(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Let a prompt pass."""
        await self._add(context, "on_get_prompt")
        return await call_next(context)

    async def on_complete(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Add a value to the completions."""
        result = await call_next(context)
        result.completion.values.append("from a middleware")
        return result

    async def on_list_tools(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Leave out what is hidden."""
        return [tool for tool in await call_next(context) if not tool.name.startswith("hidden")]

    async def on_list_resources(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Leave out what is hidden."""
        return [resource for resource in await call_next(context) if not resource.uri.startswith("hidden")]

    async def on_list_resource_templates(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Leave out what is hidden."""
        return [item for item in await call_next(context) if not item.uri_template.startswith("hidden")]

    async def on_list_prompts(self, context: MiddlewareContext, call_next: Any) -> Any:
        """Leave out what is hidden."""
        return [prompt for prompt in await call_next(context) if not prompt.name.startswith("hidden")]

    async def _add(self, context: MiddlewareContext, name: str) -> None:
        if isinstance(context.ctx, Context):
            seen = await context.ctx.get_state("hooks", [])
            await context.ctx.set_state("hooks", [*seen, name], serializable=False)
        else:  # A message without a function of the app, such as `initialize`.
            self.starts.add(f"{name} {context.name}")


numbers = count()


def caller(context: MiddlewareContext) -> str:
    """Return who calls a limited tool; all other requests have no limit, since no two have the same id."""
    message = context.message
    is_limited = str(getattr(message, "name", "")).startswith("limited")
    return f"{message.name} {message.arguments['caller']}" if is_limited else str(next(numbers))


hooks = Hooks()
MIDDLEWARE: list[Any] = [
    LoggingMiddleware(logger=journal, methods=["tools/call"]),
    StructuredLoggingMiddleware(logger=journal, methods=["prompts/get"]),
    TimingMiddleware(logger=journal),
    DetailedTimingMiddleware(logger=journal),
    ErrorHandlingMiddleware(logger=journal),
    RetryMiddleware(max_retries=2, base_delay=0, logger=journal),
    RateLimitingMiddleware(0.001, 2, caller),
    SlidingWindowRateLimitingMiddleware(2, 60, caller),
    ResponseLimitingMiddleware(max_size=400, tools=["large"]),
    ResponseCachingMiddleware(
        list_tools_settings={"enabled": False}, call_tool_settings={"included_tools": ["number"]}
    ),
    AuthMiddleware(restrict_tag("admin", scopes=["admin"])),
    hooks,
]
