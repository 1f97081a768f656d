"""Wrap handlers with rate limits and with checks of OAuth scopes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ..aio.rate_limit import RateLimit, TokenBucket
from ..endpoint.checks import Handler
from ..errors import JSONRPCError
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.revision import Sent


def limit_rates(
    handlers: dict[str, Handler], rows: Iterable[Sent], rates: Mapping[str, RateLimit | None], shared_key: object | None
) -> None:
    """Put a limit on the handlers that have a rate: for each conversation, or for all of `together` where there are no
    conversations."""
    for row in rows:
        if (rate := rates.get(row.name)) is not None and row.method in handlers:
            handlers[row.method] = _with_rate_limit(row.method, handlers[row.method], rate, shared_key)


def _with_rate_limit(method: str, handler: Handler, rate: RateLimit, shared_key: object | None) -> Handler:
    """The handler, for as many requests as the rate allows to each conversation, or to all together.

    What comes beyond raises JSONRPCError, with the seconds to wait.
    """
    left: WeakKeyDictionary[object, TokenBucket] = WeakKeyDictionary()

    async def within(ctx: Any, params: Any) -> Any:
        allowance = left.get(whose := shared_key or ctx.connection_state)
        if allowance is None:
            allowance = left[whose] = TokenBucket(rate)
        if wait := allowance.acquire():
            raise JSONRPCError(INTERNAL_ERROR, f"too many {method!r} requests", {"retryAfter": round(wait, 3)})
        return await handler(ctx, params)

    return within


def check_scopes(
    ctx: Any, scopes: Callable[[str, Any], Iterable[str]], message: RequestReceived | NotificationReceived
) -> None:
    """Raise JSONRPCError where the user has not the scopes that a request needs."""
    ctx.require_scopes(*scopes(message.row.name, message.params))


def require_scopes(
    handlers: dict[str, Handler], rows: Iterable[Sent], scopes: Callable[[str, Any], Iterable[str]]
) -> None:
    """Let the handlers run only for users whose tokens have the scopes that a request needs, by its name here and its
    params."""
    for row in rows:
        if row.method in handlers:
            handlers[row.method] = _with_scopes(row.name, handlers[row.method], scopes)


def _with_scopes(name: str, handler: Handler, scopes: Callable[[str, Any], Iterable[str]]) -> Handler:
    def within(ctx: Any, params: Any) -> Awaitable[Any]:
        ctx.require_scopes(*scopes(name, params))
        return handler(ctx, params)

    return within
