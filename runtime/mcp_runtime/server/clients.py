"""Which client a request is from, for limits of one client."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ..aio.rate_limit import RateLimit, TokenBucket
from ..http.client_keys import ClientKey, address_of, client_key

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_MAX_CLIENTS: Final = 10_000  # Users and addresses whose use is stored; those that were silent longest are dropped.


def client_of(ctx: Any) -> Any:
    """Return what identifies the client of a request, for its limits: the key of its user or else of its address, or
    else the state of its connection.

    A client cannot choose any of them: a new session of an address is not another client. Only over stdio and in memory
    there is no address; there a connection is one client.
    """
    channel = ctx._channel
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
