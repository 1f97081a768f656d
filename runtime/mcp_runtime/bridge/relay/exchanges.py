"""Calls whose upstream sends requests, for clients without sessions: the requests are in results of the call."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.models import is_object
from ..upstream.link import Call

_SECONDS: Final = 300.0  # Seconds that a client has to answer.
_MIN_SECONDS: Final = 60.0  # Seconds that it has in any case, even if others need its connection.
_MAX_SUSPENDED: Final = 1000  # Calls that wait for input at the same time; the oldest is cancelled.


class Exchange:
    """A call of an upstream that goes on while its client answers requests of the upstream."""

    def __init__(self, owner: object, call: Call) -> None:
        """Create an exchange of a client; only requests of `owner`, its user, go on with it."""
        self.owner = owner
        self.call = call
        self.state = ""
        self.task: asyncio.Task[Any]
        self._requests: dict[str, tuple[dict[str, Any], asyncio.Future[Any]]] = {}
        self._number = 0
        self._changed = asyncio.Event()

    async def request_input(self, method: str, params: dict[str, Any]) -> Any:
        """Return the response of the client to a request."""
        self._number += 1
        key = f"request-{self._number}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._requests[key] = {"method": method, **({"params": params} if params else {})}, future
        self._changed.set()
        try:
            return await future
        finally:
            self._requests.pop(key, None)

    def answer(self, responses: object) -> None:
        """Give the responses of a client to the requests they are for; others are ignored."""
        for key, response in responses.items() if is_object(responses) else ():
            entry = self._requests.get(key)
            if entry is not None and not entry[1].done():
                entry[1].set_result(response)

    async def next_result(self, fields: dict[str, Any]) -> Any:
        """Return the result of the call, or the requests of the upstream in a result with these fields."""
        self._changed.clear()
        while not self.task.done():
            if any(not future.done() for _, future in self._requests.values()):
                await asyncio.sleep(0)  # Requests that are sent at the same time are in one result.
                self.state = self.state or secrets.token_urlsafe(24)
                requests = {key: item for key, (item, future) in self._requests.items() if not future.done()}
                return {**fields, "inputRequests": requests, "requestState": self.state}
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([self.task, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            self._changed.clear()
        return self.task.result()


class SuspendedExchanges:
    """The calls that wait for a client, by the `requestState` of their results."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._entries: dict[str, tuple[Exchange, asyncio.TimerHandle]] = {}

    def add(self, exchange: Exchange) -> None:
        """Let an exchange wait for the next request of its client."""
        timer = asyncio.get_running_loop().call_later(_SECONDS, self._expire, exchange.state)
        self._entries[exchange.state] = exchange, timer
        if len(self._entries) > _MAX_SUSPENDED:
            self._expire(next(iter(self._entries)))

    def _expire(self, state: str) -> None:
        entry = self._entries.pop(state, None)
        if entry is not None:
            entry[1].cancel()
            entry[0].task.cancel()

    def end_oldest(self) -> None:
        """End the call that has waited longest, because another one needs its connection."""
        for state, (_, timer) in self._entries.items():
            if asyncio.get_running_loop().time() - (timer.when() - _SECONDS) >= _MIN_SECONDS:
                self._expire(state)
            return

    def take(self, state: object, owner: object) -> Exchange | None:
        """Return the exchange of a state, and remove it; None for a state of the upstream itself.

        Raises JSONRPCError if it belongs to another owner.
        """
        entry = self._entries.get(state) if isinstance(state, str) else None
        if entry is None:
            return None
        if entry[0].owner != owner:
            raise JSONRPCError(INVALID_PARAMS, "requestState is not valid")
        del self._entries[entry[0].state]
        entry[1].cancel()
        return entry[0]

    def close(self) -> None:
        """Cancel all calls that wait."""
        for state in list(self._entries):
            self._expire(state)
