"""Cache the roots of each client until it notifies that they have changed."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary


class RootsCache:
    """The roots of each client, asked for once: a server keeps one of these, and calls `forget` when it is told that
    they have changed."""

    def __init__(self) -> None:
        self._roots: WeakKeyDictionary[object, list[Any]] = WeakKeyDictionary()
        self._changes = 0  # What was asked for before a change, and comes after it, is not kept.

    async def get(self, ctx: Any) -> list[Any]:
        """The roots of the client that a handler's context belongs to."""
        whose = ctx.connection_state
        if (known := self._roots.get(whose)) is not None:
            return known
        change = self._changes
        found: list[Any] = list((await ctx.list_roots()).roots)
        if change == self._changes:
            self._roots[whose] = found
        return found

    def forget(self, ctx: Any) -> None:
        """Ask again next time."""
        self._changes += 1
        self._roots.pop(ctx.connection_state, None)
