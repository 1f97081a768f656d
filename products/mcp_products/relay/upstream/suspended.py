"""Calls whose upstream sends requests, for clients that get them in a result, and call again with their answers."""

from __future__ import annotations

import asyncio
import secrets
from contextvars import Context
from functools import cached_property
from typing import Any, Final

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS

_SECONDS: Final = 1800.0  # Seconds that a client has to answer.
_MIN_SECONDS: Final = 60.0  # Seconds that it has in any case, even if others need its connection.
_MAX_CALLS: Final = 1000  # Calls that wait for their clients at the same time; the oldest is ended.


class InputNeeded:
    """A request of the upstream that waits for its client: its method and its params, and the answer to come."""

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self.method = method
        self.params = params
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class SuspendedCall:
    """A call that goes on at the upstream while its client answers requests of the upstream, in several rounds.

    Attributes:
        owner: Who may go on with it.
        needed: The requests of the upstream, by key, also those that are answered.
    """

    def __init__(self, owner: object) -> None:
        """Create a call of an owner; `task`, which waits for its result, has to be set."""
        self.owner = owner
        self.needed: dict[str, InputNeeded] = {}
        self.task: asyncio.Task[Any]
        self._number = 0
        self._changed = asyncio.Event()

    @cached_property
    def state(self) -> str:
        """What names the call to its client."""
        return secrets.token_urlsafe(24)

    async def request_input(self, method: str, params: dict[str, Any]) -> Any:
        """Return the answer of the client to a request of the upstream. Raises JSONRPCError if that is the answer."""
        self._number += 1
        key = f"request-{self._number}"
        needed = self.needed[key] = InputNeeded(method, params)
        self._changed.set()
        try:
            return await needed.answer
        except asyncio.CancelledError:  # The upstream needs no answer any more.
            del self.needed[key]
            raise

    @property
    def waiting(self) -> dict[str, InputNeeded]:
        """The requests that the client has not answered, by key."""
        return {key: needed for key, needed in self.needed.items() if not needed.answer.done()}

    async def progressed(self) -> bool:
        """Wait until the call has its result, and return True; or until the client has to answer, and return False."""
        while not self.task.done():
            if self.waiting:
                await asyncio.sleep(0)  # Requests that are sent at the same time go to the client together.
                return False
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([self.task, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        return True

    async def cancel(self, reason: str | None = None) -> None:
        """End the call at the upstream, and wait until it has ended."""
        self.task.cancel(reason)
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()  # Nobody waits for it.


class SuspendedCalls:
    """The calls that wait for the next round of their clients, by what names them."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._entries: dict[str, tuple[SuspendedCall, asyncio.TimerHandle]] = {}

    def add(self, call: SuspendedCall) -> None:
        """Let a call wait for the next round of its client."""
        timer = asyncio.get_running_loop().call_later(_SECONDS, self._expire, call.state, context=Context())
        self._entries[call.state] = call, timer
        if len(self._entries) > _MAX_CALLS:
            self._expire(next(iter(self._entries)))

    def take(self, state: object, owner: object) -> SuspendedCall | None:
        """Return the call of a state, and remove it; None if there is none.

        Raises JSONRPCError if it belongs to another owner.
        """
        entry = self._entries.get(state) if isinstance(state, str) else None
        if entry is None:
            return None
        call, timer = entry
        if call.owner != owner:
            raise JSONRPCError(INVALID_PARAMS, "requestState is not valid")
        del self._entries[call.state]
        timer.cancel()
        return call

    def _expire(self, state: str) -> None:
        if (entry := self._entries.pop(state, None)) is not None:
            entry[1].cancel()
            entry[0].task.cancel()

    def end_oldest(self) -> None:
        """End the call that has waited longest, because another one needs its connection."""
        for state, (_, timer) in self._entries.items():
            if asyncio.get_running_loop().time() - (timer.when() - _SECONDS) >= _MIN_SECONDS:
                self._expire(state)
            return

    def close(self) -> None:
        """End all calls that wait."""
        for state in list(self._entries):
            self._expire(state)
