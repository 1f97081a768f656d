"""A store whose commands wait where a test says so: before one of them is run, or before its answer is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.stores.homes import open_home

from mcp_products.workers.stores.retries import TrackingStore

COMMANDS = ("get", "put", "touch", "delete", "count", "append", "read", "last", "drop", "publish", "subscribe")
TURNS = 10  # Turns of the event loop without a command, after which none follows.


class HeldStore:
    """Another store. Of the points that its commands pass, two each, one holds the command until `go`."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.close = store.close
        for name in COMMANDS:
            setattr(self, name, self._held(getattr(store, name)))
        if isinstance(store, TrackingStore):
            self.tracked = store.tracked
            self.get_tracked = self._held(store.get_tracked)
            self.report = self._held(store.report)
        self.passed = 0
        self._at = -1
        self._running = 0
        self.go = asyncio.Event()
        self.reached = asyncio.Event()

    async def idle(self) -> None:
        """Wait until no command runs, and what has waited for one has gone on."""
        turns = 0
        while turns < TURNS:
            turns = 0 if self._running else turns + 1
            await asyncio.sleep(0)

    def hold(self, at: int) -> None:
        """Hold the command that passes this point, counted from now on."""
        self.passed = 0
        self._at = at
        self.go = asyncio.Event()
        self.reached = asyncio.Event()

    def _held(self, command: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*arguments: Any, **named: Any) -> Any:
            self._running += 1
            try:
                await self._pass()
                result = await command(*arguments, **named)
                await self._pass()
            finally:
                self._running -= 1
            return result

        return run

    async def _pass(self) -> None:
        point = self.passed
        self.passed = self.passed + 1
        if point == self._at:
            self.reached.set()
            await self.go.wait()


class HeldStores(list[HeldStore]):
    """The stores of several workers, in their order: what `workers` takes as `opened`."""

    def open(self, place: Any) -> HeldStore:
        self.append(HeldStore(open_home(place)))
        return self[-1]
