"""Middleware that limits the size of the results of tools."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Final

from pydantic_core import to_json

from ...errors import LocalError
from ...server.visibility import text_set
from .hooks import CallNext, Middleware, MiddlewareContext

_log: Final = logging.getLogger(__name__)

_FRAME: Final = 50  # Bytes of JSON around the text of a result.


class ResponseLimitingMiddleware(Middleware):
    """Truncate the results of tools that are larger than a limit: what is left is the beginning of their text.

    A truncated result has no structured content, so the tools are listed without their output schema.
    """

    def __init__(
        self,
        *,
        max_size: int = 1_000_000,
        truncation_suffix: str = "\n\n[Response truncated due to size limit]",
        tools: Collection[str] | None = None,
    ) -> None:
        """Create a middleware. Raises LocalError for a size that has no room for the suffix.

        Args:
            max_size: The maximum size of a result as JSON, in bytes.
            truncation_suffix: The text at the end of a truncated result.
            tools: The names of the tools to limit; by default all.
        """
        self._room = max_size - _FRAME - len(to_json(truncation_suffix))
        if self._room < 0:
            raise LocalError(f"ResponseLimitingMiddleware(): max_size={max_size!r} has no room for the suffix")
        self.max_size = max_size
        self.truncation_suffix = truncation_suffix
        self.tools = None if tools is None else text_set("ResponseLimitingMiddleware()", "tools", tools)

    async def on_list_tools(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Remove the output schemas of the tools."""
        return [
            tool.model_copy(update={"output_schema": None}) if self._limits(tool.name) else tool
            for tool in await call_next(context)
        ]

    async def on_call_tool(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Truncate a result that is too large."""
        result = await call_next(context)
        content: list[Any] | None = getattr(result, "content", None)
        if content is None or not self._limits(context.message.name):
            return result
        size = len(result.model_dump_json().encode())
        if size <= self.max_size:
            return result
        _log.warning("the result of the tool %r has %d bytes and is truncated", context.message.name, size)
        texts = [text for block in content if isinstance(text := getattr(block, "text", None), str)]
        text = "\n\n".join(texts) if texts else result.model_dump_json()
        block = context.app.types.TextContent(text=_cut(text, self._room) + self.truncation_suffix)
        return type(result)(content=[block], is_error=result.is_error)

    def _limits(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


def _cut(text: str, size: int) -> str:
    """Return the longest beginning of a text that has at most `size` bytes as JSON."""
    low, high = 0, min(len(text), size)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(to_json(text[:middle])) <= size else (low, middle - 1)
    return text[:low]
