"""Rate limits of what a server requests of a client, and the order of its log messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ...aio.rate_limit import RateLimit, TokenBucket
from ...endpoint.checks import Handler
from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.revision import InputRequest, Request, Revision
from ...usage.keywords import nearest

_SERVER_REQUESTS: Final = RateLimit(per_second=1, burst=60)
# Both show something to the user or cost money.
DEFAULT_RATE_LIMITS: Final[Mapping[str, RateLimit]] = {
    "on_create_message": _SERVER_REQUESTS,
    "on_elicit": _SERVER_REQUESTS,
}


def prepare_handlers(
    handlers: dict[str, Handler], revision: Revision, rate_limits: Mapping[str, RateLimit | None] | None, name: str
) -> None:
    """Wrap the handlers of a client: those with a rate limit, and that of log messages, which runs in order.

    Args:
        handlers: The handlers by method; wrapped in place.
        revision: The protocol version of the client.
        rate_limits: The rate limits by handler, such as "on_elicit", besides the default ones; None for no limit.
        name: The name of the client's class, for messages.

    Raises LocalError for a rate limit of something that is no handler of a request.
    """
    rows = [row for row in revision.rows if row.name.startswith("on_") and isinstance(row, (Request, InputRequest))]
    names = sorted({row.name for row in rows} | {*DEFAULT_RATE_LIMITS})
    for handler in rate_limits or ():
        if handler not in names:
            raise LocalError(f"{name}(): there is no handler {handler!r}; {nearest(handler, names, 'handlers')}")
    rates = {**DEFAULT_RATE_LIMITS, **(rate_limits or {})}
    for row in rows:
        if (rate := rates.get(row.name)) is not None and row.method in handlers:
            handlers[row.method] = _with_rate_limit(row.method, handlers[row.method], rate)
    log = revision.lifecycle.log
    if log is not None and log.method in handlers:
        handlers[log.method] = _in_order(handlers[log.method])


def _with_rate_limit(method: str, handler: Handler, rate: RateLimit) -> Handler:
    """Return the handler with a rate limit. Requests above the limit get an error with the seconds to wait."""
    bucket = TokenBucket(rate)

    async def handle(ctx: Any, params: Any) -> Any:
        if wait := bucket.acquire():
            text = (
                f"the client refuses {method!r}: more than {rate.per_second:g} a second after the first {rate.burst:g}"
            )
            raise JSONRPCError(INTERNAL_ERROR, text, {"retryAfter": round(wait, 3)})
        return await handler(ctx, params)

    return handle


def _in_order(handler: Handler) -> Handler:
    """Return the handler that begins when the one of the previous message has ended."""
    lock = asyncio.Lock()

    async def handle(ctx: Any, params: Any) -> Any:
        async with lock:
            return await handler(ctx, params)

    return handle
