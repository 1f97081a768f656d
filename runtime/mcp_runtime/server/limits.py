"""Wrap handlers with rate limits and with checks of OAuth scopes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..aio.rate_limit import RateLimit, TokenBucket
from ..endpoint.checks import Handler
from ..errors import JSONRPCError, LocalError
from ..http.client_keys import ClientKey, address_of, client_key
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.revision import Revision, Sent
from ..protocol.wire.core_records import as_model
from ..stores.primitives import Store, StoreUnavailableError
from ..usage.keywords import nearest
from .context import ConnectionState, bucket_key

_log: Final = logging.getLogger(__name__)

DEFAULT_RATES: Final[Mapping[str, RateLimit]] = {"complete": RateLimit(per_second=100, burst=500)}
_MAX_CLIENTS: Final = 10_000  # Users and addresses whose use is stored; those that were silent longest are dropped.


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


def limit_rates(handlers: dict[str, Handler], rows: Iterable[Sent], rates: Mapping[str, RateLimit | None]) -> None:
    """Wrap the handlers that have a rate limit, which holds for each client.

    Args:
        handlers: The handlers by method; wrapped in place.
        rows: The rows of all messages that the server receives.
        rates: The rate limits by handler name, such as "call_tool"; None for no limit.
    """
    for row in rows:
        if (rate := rates.get(row.name)) is not None and row.method in handlers:
            handlers[row.method] = _with_rate_limit(row.method, handlers[row.method], rate)


def _with_rate_limit(method: str, handler: Handler, rate: RateLimit) -> Handler:
    """Return the handler with a rate limit. Requests above the limit get an error with the seconds to wait."""
    buckets, is_default = _ClientBuckets(rate), rate in DEFAULT_RATES.values()

    async def handle(ctx: Any, params: Any) -> Any:
        store: Store | None = ctx.connection_state.origin._shared_store
        if store is None or is_default:
            wait = buckets.of_client(ctx).acquire()
        else:
            wait = await _acquire_of_all(store, method, rate, ctx, buckets)
        if wait:
            raise JSONRPCError(INTERNAL_ERROR, f"too many {method!r} requests", {"retryAfter": round(wait, 3)})
        return await handler(ctx, params)

    return handle


async def _acquire_of_all(store: Store, method: str, rate: RateLimit, ctx: Any, buckets: _ClientBuckets) -> float:
    """Take a token of the client's bucket of all workers; of that of this one while the store cannot be reached."""
    from ..stores.shared_rates import acquire

    try:
        return await acquire(store, _rate_key(ctx, method), rate)
    except StoreUnavailableError as error:
        _log.warning("each worker counts the requests of a client for itself: %s", error)
        return buckets.of_client(ctx).acquire()


def _rate_key(ctx: Any, method: str) -> str:
    """Return the key of the rate of a client: of its user, else of its session, else of its address."""
    from hashlib import sha256

    channel, state = ctx._channel, ctx.connection_state
    auth = channel.auth
    if auth is not None and auth.owner is not None:
        client = f"user {auth.owner_key}"
    elif not state.is_shared:
        client = f"session {ctx.session_id}"
    else:
        client = f"address {client_key(None, address_of(channel.scope))!r}"
    return f"{state.origin.name}:rate:{method}:{sha256(client.encode()).hexdigest()[:32]}"


class _ClientBuckets:
    """The token bucket of each client: of its user, else of its session, else of its address."""

    def __init__(self, rate: RateLimit) -> None:
        self._rate = rate
        self._by_session: WeakKeyDictionary[ConnectionState, TokenBucket] = WeakKeyDictionary()
        self._by_name: OrderedDict[ClientKey, TokenBucket] = OrderedDict()  # The last one used is the last.

    def of_client(self, ctx: Any) -> TokenBucket:
        """Return the bucket of the client of a request."""
        name = bucket_key(ctx)
        if isinstance(name, ConnectionState):
            if (bucket := self._by_session.get(name)) is None:
                bucket = self._by_session[name] = TokenBucket(self._rate)
            return bucket
        if (bucket := self._by_name.get(name)) is None:
            bucket = self._by_name[name] = TokenBucket(self._rate)
            if len(self._by_name) > _MAX_CLIENTS:
                self._by_name.popitem(last=False)
        else:
            self._by_name.move_to_end(name)
        return bucket


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
