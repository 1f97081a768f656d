"""Wrap handlers with rate limits and with checks of OAuth scopes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from ..aio.rate_limit import RateLimit
from ..endpoint.checks import Handler
from ..errors import JSONRPCError, LocalError
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.revision import Revision, Sent
from ..protocol.wire.core_records import as_model
from ..usage.keywords import nearest
from .client_rates import ClientRate

DEFAULT_RATES: Final[Mapping[str, RateLimit]] = {"complete": RateLimit(per_second=100, burst=500)}


def check_handlers(function: str, revision: Revision, *settings: Mapping[str, object] | None) -> None:
    """Raise LocalError if a setting by handler names something that is no handler of a protocol version.

    Args:
        function: The name of the function, as its user calls it.
        revision: The protocol version.
        settings: The settings: mappings by the names of handlers, such as "call_tool".
    """
    if not any(settings):
        return
    names = sorted(row.name for row in revision.rows if row.direction == "client_to_server")
    for name in (name for setting in settings for name in setting or ()):
        if name not in names:
            raise LocalError(f"{function}(): there is no handler {name!r}; {nearest(name, names, 'handlers')}")


def client_rates(rates: Mapping[str, RateLimit | None]) -> dict[str, ClientRate]:
    """Return the rates of clients by handler name, such as "call_tool"; None stands for no limit."""
    return {
        name: ClientRate(name, rate, is_shared=rate not in DEFAULT_RATES.values())
        for name, rate in rates.items()
        if rate is not None
    }


def limit_rates(handlers: dict[str, Handler], rows: Iterable[Sent], rates: Mapping[str, ClientRate]) -> None:
    """Wrap the handlers that have a rate limit, which holds for each client.

    Args:
        handlers: The handlers by method; wrapped in place.
        rows: The rows of all messages that the server receives.
        rates: The rates by handler name.
    """
    for row in rows:
        if (rate := rates.get(row.name)) is not None and row.method in handlers:
            handlers[row.method] = with_rate(row.method, handlers[row.method], rate)


def with_rate(method: str, handler: Handler, rate: ClientRate) -> Handler:
    """Return the handler with a rate limit. Requests above the limit get an error with the seconds to wait."""

    async def handle(ctx: Any, params: Any) -> Any:
        await check_rate(rate, method, ctx)
        return await handler(ctx, params)

    return handle


async def check_rate(rate: ClientRate, what: str, ctx: Any) -> None:
    """Count a request. Raises JSONRPCError with the seconds to wait if it is above the limit of its client."""
    if wait := await rate.wait(ctx):
        raise JSONRPCError(INTERNAL_ERROR, f"too many {what!r} requests", {"retryAfter": round(wait, 3)})


def check_scopes(
    ctx: Any, scopes: Callable[[str, Any], Iterable[str]], message: RequestReceived | NotificationReceived
) -> None:
    """Raise JSONRPCError if the user lacks scopes that `scopes` requires for this message."""
    ctx.require_scopes(*scopes(message.row.name, as_model(message.params)))


def require_scopes(
    handlers: dict[str, Handler], rows: Iterable[Sent], scopes: Callable[[str, Any], Iterable[str]]
) -> None:
    """Wrap handlers so that they run only for users whose token has the required scopes.

    Args:
        handlers: The handlers by method; wrapped in place.
        rows: The rows of all messages that the server receives.
        scopes: A function from the handler's name and the params to the required scopes.
    """
    for row in rows:
        if row.method in handlers:
            handlers[row.method] = _with_scopes(row.name, handlers[row.method], scopes)


def _with_scopes(name: str, handler: Handler, scopes: Callable[[str, Any], Iterable[str]]) -> Handler:
    def handle(ctx: Any, params: Any) -> Awaitable[Any]:
        if required := scopes(name, params):
            ctx.require_scopes(*required)
        return handler(ctx, params)

    return handle
