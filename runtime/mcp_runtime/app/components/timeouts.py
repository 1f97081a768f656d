"""The time-outs of tools."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

from ...errors import LocalError, ToolError
from ...server.context import ServerContext

Call = Callable[[ServerContext, dict[str, Any]], Awaitable[Any]]


def with_timeout(call: Call, timeout: Any, description: str) -> Call:
    """Return a call of a function that is cancelled after `timeout` seconds, and raises ToolError then.

    A plain `def` function runs on in its thread; its value is dropped. Raises LocalError for a time-out that is no
    positive number.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise LocalError(f"{description}: timeout={timeout!r} is not a number of seconds above 0, such as timeout=30")

    async def call_in_time(ctx: ServerContext, arguments: dict[str, Any]) -> Any:
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                return await call(ctx, arguments)
        except TimeoutError:
            if not scope.expired():  # The function has raised it itself.
                raise
            raise ToolError(f"{description} timed out after {timeout:g} s") from None

    return call_in_time
