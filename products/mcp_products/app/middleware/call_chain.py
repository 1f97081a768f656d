"""The chain of the middleware of an app around the handler of a request."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from mcp_runtime.server.context import ServerContext

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]
Middleware = Callable[[str, ServerContext, Any, CallNext], Awaitable[Any]]


def chain(middleware: Sequence[Middleware], name: str, handler: CallNext) -> CallNext:
    """Return a function that calls the middleware in order, and the handler last; `name` is the handler's name."""
    call_next = handler
    for function in reversed(middleware):
        call_next = partial(_call, function, name, call_next)
    return call_next


def in_own_task(handler: CallNext) -> CallNext:
    """Return a handler that runs in a task of its own, so that who waits for it keeps the task it has."""

    async def handle(ctx: ServerContext, params: Any) -> Any:
        return await asyncio.ensure_future(handler(ctx, params))

    return handle


async def _call(function: Middleware, name: str, call_next: CallNext, ctx: ServerContext, params: Any) -> Any:
    result = function(name, ctx, params, call_next)
    return await result if inspect.isawaitable(result) else result
