"""What stores have in common: commands that are sent together, the receivers of channels, and forked processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from mcp_runtime.aio import forks
from mcp_runtime.stores import ReceiveHint, StoreClosedError

CommandT = TypeVar("CommandT")
_log: Final = logging.getLogger("mcp_runtime.workers.stores")
_BATCH: Final = 512  # Commands of one batch.


class CommandBatches(Generic[CommandT]):
    """Commands that wait for the batch before them. `send` returns the result or the exception of each command.

    Where `send_at_once` is given, it is tried first, without a task; it returns None if a batch has to wait.
    """

    def __init__(
        self,
        send: Callable[[Sequence[CommandT]], Awaitable[Sequence[Any]]],
        send_at_once: Callable[[Sequence[CommandT]], Sequence[Any] | None] | None = None,
    ) -> None:
        self._send = send
        self._send_at_once = send_at_once
        self._waiting: list[tuple[CommandT, asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._is_scheduled = self._closed = False

    def add(self, command: CommandT) -> asyncio.Future[Any]:
        """Return the future result of a command. Raises StoreClosedError after `close`."""
        if self._closed:
            raise StoreClosedError("the store is closed")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if self._sending is None and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)
        return future

    async def close(self) -> None:
        """Send what waits, and refuse further commands."""
        self._closed = True
        self._begin()
        while self._sending is not None:
            await asyncio.wait([self._sending])

    def _begin(self) -> None:
        """Send the commands of this turn of the event loop."""
        self._is_scheduled = False
        if self._sending is None and self._waiting:
            self._send_waiting()

    def _send_waiting(self) -> None:
        batch = self._waiting
        if self._send_at_once is not None and len(batch) <= _BATCH:
            try:
                results = self._send_at_once([command for command, _ in batch])
            except Exception as error:
                results = [error] * len(batch)
            if results is not None:
                self._waiting = []
                return _set_results(batch, results)
        self._sending = asyncio.get_running_loop().create_task(self._send_later())

    async def _send_later(self) -> None:
        batch = self._waiting[:_BATCH]
        self._waiting = self._waiting[_BATCH:]
        try:
            results = await self._send([command for command, _ in batch])
        except Exception as error:
            results = [error] * len(batch)
        finally:
            self._sending = None
        _set_results(batch, results)
        if self._waiting:
            self._send_waiting()  # At once, if that is possible again.


def _set_results(batch: Sequence[tuple[Any, asyncio.Future[Any]]], results: Sequence[Any]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


# The channels of a store: short messages to the processes that are subscribed.


class Receivers:
    """The functions that are called with the messages of channels."""

    def __init__(self) -> None:
        """Receive nothing."""
        self._receivers: dict[str, list[ReceiveHint]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._receivers))

    def add(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel; a second time changes nothing."""
        receivers = self._receivers.setdefault(channel, [])
        if receive not in receivers:
            receivers.append(receive)

    def clear(self) -> None:
        """Receive nothing any more."""
        self._receivers.clear()

    def receive(self, channel: str, message: bytes) -> bool:
        """Call the functions of a channel; return True if there are any. An empty message says that others may have
        been lost."""
        receivers = self._receivers.get(channel, [])
        for receive in receivers:
            try:
                receive(message)
            except Exception:
                _log.exception("a message of the store was not handled")
        return bool(receivers)

    def note_gap(self) -> None:
        """Tell all functions that messages may have been lost."""
        for channel in self:
            self.receive(channel, b"")


# The process that uses a store.


class OneProcess:
    """The process that first uses something: a child of it, forked later, must not."""

    def __init__(self, place: str = "") -> None:
        """Begin without a process; `place` is what errors name."""
        self._place = place
        self._forks: int | None = None  # `forks.count` with the first use.

    @property
    def is_parent(self) -> bool:
        """Whether this process was forked after the first use: its parent would get the answers."""
        return self._forks not in (None, forks.count)

    def require(self) -> None:
        """Raise StoreClosedError in a process that was forked after the first use."""
        if self._forks != forks.count:
            if self._forks is not None:
                raise StoreClosedError(f"{self._place}{forks.OTHER_STORE}")
            self._forks = forks.count
