"""A rate limit that holds for each client: for its user, else for its address."""

from __future__ import annotations

import logging
from typing import Any, Final

from ..aio.rate_limit import RateLimit
from ..stores.primitives import Store, StoreUnavailableError
from .clients import ClientBuckets, client_name

_log: Final = logging.getLogger(__name__)


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
        store: Store | None = ctx.connection_state.origin._shared_store
        if store is None or not self._is_shared:
            return self._buckets.of_client(ctx).acquire()
        from ..stores.shared_rates import acquire

        try:
            return await acquire(store, self._key(ctx), self._rate)
        except StoreUnavailableError as error:
            _log.warning("each worker counts the requests of a client for itself: %s", error)
            return self._buckets.of_client(ctx).acquire()

    def _key(self, ctx: Any) -> str:
        from hashlib import sha256

        client = sha256(client_name(ctx).encode()).hexdigest()[:32]
        return f"{ctx.connection_state.origin.name}:rate:{self._name}:{client}"
