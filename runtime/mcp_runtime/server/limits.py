"""Wrap handlers with rate limits and with checks of OAuth scopes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ..aio.rates import COMPLETIONS, RateLimit, TokenBucket
from ..endpoint.checks import Handler
from ..errors import JSONRPCError, LocalError
from ..http.clients import ClientKey, address_of, client_key
from ..protocol.connection import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.records import records
from ..protocol.revision import Revision, Sent
from ..stores import Store, StoreUnavailableError, workers
from ..usage.keywords import nearest

if TYPE_CHECKING:
    from typing_extensions import TypeIs


# Which client a request is from, for limits of one client.

_MAX_CLIENTS: Final = 10_000  # Users and addresses whose use is stored; those that were silent longest are dropped.
_log: Final = logging.getLogger(__name__)
DEFAULT_RATES: Final[Mapping[str, RateLimit]] = {"complete": COMPLETIONS}


def client_of(ctx: Any) -> Any:
    """Return what identifies the client of a request, for its limits: the key of its user or else of its address, or
    else the state of its connection.

    A client cannot choose any of them: a new session of an address is not another client. Only over stdio and in memory
    there is no address; there a connection is one client.
    """
    channel = ctx.channel
    auth, scope = channel.auth, channel.scope
    owner = None if auth is None else auth.owner
    if owner is None and scope is None and not ctx.connection_state.is_shared:
        return ctx.connection_state
    return client_key(owner, address_of(scope))


def client_name(ctx: Any) -> str:
    """Return what identifies the client of a request as text, for what is stored."""
    client = client_of(ctx)
    return repr(client) if is_key(client) else f"session {client.session_id}"


def is_key(client: object) -> TypeIs[ClientKey]:
    """Return True for the key of a user or an address, False for the state of a connection."""
    return isinstance(client, tuple)


class ClientBuckets:
    """The token bucket of each client."""

    def __init__(self, rate: RateLimit) -> None:
        self._rate = rate
        self._by_connection: WeakKeyDictionary[Any, TokenBucket] = WeakKeyDictionary()
        self._by_name: OrderedDict[ClientKey, TokenBucket] = OrderedDict()  # The last one used is the last.

    def of_client(self, ctx: Any) -> TokenBucket:
        """Return the bucket of the client of a request."""
        name = client_of(ctx)
        if not is_key(name):
            if (bucket := self._by_connection.get(name)) is None:
                bucket = self._by_connection[name] = TokenBucket(self._rate)
            return bucket
        if (bucket := self._by_name.get(name)) is None:
            bucket = self._by_name[name] = TokenBucket(self._rate)
            if len(self._by_name) > _MAX_CLIENTS:
                self._by_name.popitem(last=False)
        else:
            self._by_name.move_to_end(name)
        return bucket


# A rate limit that holds for each client: for its user, else for its address.


class ClientRate:
    """The rate of each client, of all workers if they share a store."""

    def __init__(self, name: str, rate: RateLimit, *, is_shared: bool = True) -> None:
        """Create a rate of which nothing is used.

        Args:
            name: What is limited, for the keys of the store.
            rate: The limit of each client.
            is_shared: False counts for each worker, which costs nothing.
        """
        self._name = name
        self._rate = rate
        self._is_shared = is_shared
        self._buckets = ClientBuckets(rate)

    async def wait(self, ctx: Any) -> float:
        """Count a request and return 0.0; above the limit, return the seconds to wait."""
        store: Store | None = ctx.connection_state.origin.parts.store
        if store is None or not self._is_shared:
            return self._buckets.of_client(ctx).acquire()
        try:
            return await workers("store=").acquire(store, self._key(ctx), self._rate)
        except StoreUnavailableError as error:
            _log.warning("each worker counts the requests of a client for itself: %s", error)
            return self._buckets.of_client(ctx).acquire()

    def _key(self, ctx: Any) -> str:
        from hashlib import sha256

        client = sha256(client_name(ctx).encode()).hexdigest()[:32]
        return f"{ctx.connection_state.origin.name}:rate:{self._name}:{client}"


def check_handlers(function: str, revision: Revision, *settings: Mapping[str, object] | None) -> None:
    """Raise LocalError if a setting by handler names something that is not a handler of a protocol version.

    Args:
        function: The name of the function, as its user calls it.
        revision: The protocol version.
        settings: The settings: mappings by the names of handlers, such as "call_tool".
    """
    if not any(settings):
        return
    names = sorted(row.name for row in revision.rows if row.direction == "client_to_server")
    for name in (name for setting in settings for name in setting or ()):
        if name not in names and "/" not in name:  # A method of the vendor's own may be added later.
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
    ctx.require_scopes(*scopes(message.row.name, records().as_model(message.params)))


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
