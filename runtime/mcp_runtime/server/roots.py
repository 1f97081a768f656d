"""Cache the roots of each client until it notifies that they have changed."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary


class RootsCache:
    """The cached roots of each client.

    Create one for a server, and call `forget` in its handler of the notification that the roots have changed. See
    https://modelcontextprotocol.io/specification/draft/client/roots
    """

    def __init__(self) -> None:
        """Create an empty cache."""
        self._roots: WeakKeyDictionary[object, list[Any]] = WeakKeyDictionary()
        self._changes = 0  # Counts changes: a result of a request sent before a change is not cached.

    async def get(self, ctx: Any) -> list[Any]:
        """Return the roots of a client; request them if they are not cached.

        Args:
            ctx: The context of a handler that runs for this client.
        """
        state = ctx.connection_state
        if (cached := self._roots.get(state)) is not None:
            return cached
        changes = self._changes
        roots: list[Any] = list((await ctx.list_roots()).roots)
        if changes == self._changes:
            self._roots[state] = roots
        return roots

    def forget(self, ctx: Any) -> None:
        """Remove the cached roots of the client that a handler's context belongs to."""
        self._changes += 1
        self._roots.pop(ctx.connection_state, None)
