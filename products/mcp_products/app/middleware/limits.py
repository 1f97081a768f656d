"""Middleware that limits the rate of requests."""

from __future__ import annotations

import inspect
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from mcp_runtime.aio import clock as clocks
from mcp_runtime.aio.rates import RateLimit, TokenBucket
from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.server.limits import client_of, is_key

from ..components.visibility import text_set
from .hooks import CallNext, Middleware, MiddlewareContext

LimiterT = TypeVar("LimiterT")
ClientId = Callable[[MiddlewareContext], str | Awaitable[str]]

_MAX_CLIENTS: Final = 10_000  # Clients whose use is stored; the one that was silent for the longest time is dropped.
_log: Final = logging.getLogger("mcp_runtime.app.middleware.limits")
_FRAME: Final = 50  # Bytes of JSON around the text of a result.


class RateLimitingMiddleware(Middleware):
    """Limit the rate of requests with a token bucket; a request above the limit gets an error with the time to wait."""

    def __init__(
        self,
        max_requests_per_second: float = 10.0,
        burst_capacity: int | None = None,
        get_client_id: ClientId | None = None,
        global_limit: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a middleware. Raises LocalError for a rate or a capacity that lets nothing pass.

        Args:
            max_requests_per_second: Requests a second in the long run.
            burst_capacity: Requests at once after a pause; by default those of two seconds, at least 1.
            get_client_id: Returns the id of a request's client, which gets a limit of its own; by default that is its
                user, or else its address, or over stdio its connection.
            global_limit: True limits all clients together, whatever `get_client_id` returns.
            clock: Returns the time in seconds.
        """
        capacity = max(1, int(max_requests_per_second * 2)) if burst_capacity is None else burst_capacity
        if not 0 < max_requests_per_second < math.inf or capacity < 1:
            raise LocalError(
                f"RateLimitingMiddleware(): max_requests_per_second={max_requests_per_second!r} must be above 0, and "
                f"burst_capacity={burst_capacity!r} at least 1"
            )
        limit = RateLimit(max_requests_per_second, capacity)
        self._limiters = _Limiters(lambda: TokenBucket(limit, clock), _all_clients if global_limit else get_client_id)

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Refuse a request above the limit."""
        _refuse(context, (await self._limiters.get(context)).acquire())
        return await call_next(context)


class SlidingWindowRateLimitingMiddleware(Middleware):
    """Limit how many requests a sliding window of time has; a request above the limit gets an error."""

    def __init__(
        self,
        max_requests: int,
        window_minutes: float = 1,
        get_client_id: ClientId | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a middleware. Raises LocalError for a number that lets nothing pass.

        Args:
            max_requests: The maximum number of requests in the window.
            window_minutes: The length of the window in minutes.
            get_client_id: Returns the id of a request's client, which gets a limit of its own; by default that is its
                user, or else its address, or over stdio its connection.
            clock: Returns the time in seconds.
        """
        if max_requests < 1 or not 0 < window_minutes < math.inf:
            raise LocalError(
                f"SlidingWindowRateLimitingMiddleware(): max_requests={max_requests!r} must be at least 1, and "
                f"window_minutes={window_minutes!r} above 0"
            )
        self._limiters = _Limiters(lambda: SlidingWindow(max_requests, window_minutes * 60, clock), get_client_id)

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Refuse a request above the limit."""
        _refuse(context, (await self._limiters.get(context)).acquire())
        return await call_next(context)


class SlidingWindow:
    """The times of the uses in the last seconds."""

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float] | None = None) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock or clocks.monotonic
        self._uses: deque[float] = deque()

    def acquire(self) -> float:
        """Count a use and return 0.0; above the limit, return the seconds until one is allowed."""
        now = self._clock()
        while self._uses and self._uses[0] <= now - self._seconds:
            self._uses.popleft()
        if len(self._uses) >= self._limit:
            return self._uses[0] + self._seconds - now
        self._uses.append(now)
        return 0.0


class _Limiters(Generic[LimiterT]):
    """A limiter for each client."""

    def __init__(self, make: Callable[[], LimiterT], get_client_id: ClientId | None) -> None:
        self._make = make
        self._get_client_id = get_client_id
        self._limiters: OrderedDict[Hashable, LimiterT] = OrderedDict()
        self._by_connection: WeakKeyDictionary[Any, LimiterT] = WeakKeyDictionary()

    async def get(self, context: MiddlewareContext) -> LimiterT:
        """Return the limiter of the client of a message."""
        if self._get_client_id is None:
            key: Hashable = client_of(context.ctx)
            if not is_key(key):  # A connection over stdio, whose limiter ends with it.
                return self._by_connection.setdefault(key, self._make())
        else:
            client = self._get_client_id(context)
            key = await client if inspect.isawaitable(client) else client
        if key not in self._limiters:
            self._limiters[key] = self._make()
        self._limiters.move_to_end(key)
        if len(self._limiters) > _MAX_CLIENTS:
            self._limiters.popitem(last=False)
        return self._limiters[key]


def _all_clients(context: MiddlewareContext) -> str:
    return "all clients"


def _refuse(context: MiddlewareContext, wait: float) -> None:
    if wait:
        raise JSONRPCError(INTERNAL_ERROR, f"too many {context.method!r} requests", {"retryAfter": round(wait, 3)})


# Middleware that limits the size of the results of tools.


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
