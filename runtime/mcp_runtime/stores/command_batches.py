"""Commands of many tasks that are sent to a store together: one batch at a time, in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from ..aio import fast_paths
from ..aio.eager import ResultFuture, pending_future
from .primitives import StoreClosedError

CommandT = TypeVar("CommandT")
_BATCH: Final = 512  # Commands of one batch.
SINGLES: Final = 4  # Turns of the event loop with one command, after which the next ones do not wait for others.
_UNWATCHED: Final = 63  # The number of commands that do not.


class SingleCommands:
    """Says which commands do not wait for others of their turn of the event loop: 63 of 64 while there is one in each.

    To collect the commands of a turn costs an iteration of the event loop.
    """

    def __init__(self) -> None:
        self._turns = 0  # Turns in a row with one command.
        self._unwatched = 0  # Commands that do not wait.

    def count(self, is_single: bool) -> None:
        """Count a turn whose commands were collected."""
        self._turns = self._turns + 1 if is_single else 0
        if self._turns >= SINGLES and fast_paths.ENABLED:
            self._unwatched = _UNWATCHED

    def take(self) -> bool:
        """Return True if the next command does not wait."""
        if self._unwatched:
            self._unwatched -= 1
            return True
        return False


class CommandBatches(Generic[CommandT]):
    """Commands that wait for the batch before them. `send` returns the result or the exception of each command.

    Where `send_at_once` is given, it is tried first, without a task; it returns None if a batch has to wait. Single
    commands do not wait for their turn then, see `SingleCommands`.
    """

    def __init__(
        self,
        send: Callable[[Sequence[CommandT]], Awaitable[Sequence[Any]]],
        send_at_once: Callable[[Sequence[CommandT]], Sequence[Any] | None] | None = None,
    ) -> None:
        self._send = send
        self._send_at_once = send_at_once
        self._waiting: list[tuple[CommandT, ResultFuture[Any]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._is_scheduled = self._closed = False
        self._singles = SingleCommands()

    def add(self, command: CommandT) -> asyncio.Future[Any]:
        """Return the future result of a command. Raises StoreClosedError after `close`."""
        if self._closed:
            raise StoreClosedError("the store is closed")
        future = self._queue(command)
        if self._sending is None and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)
        return future

    async def run(self, command: CommandT) -> Any:
        """Return the result of a command, without a future if it is sent at once. Raises what the command raises, and
        StoreClosedError after `close`."""
        if self._send_at_once is None or not self.take_single():
            return await self.add(command)
        if (results := self._send_at_once([command])) is not None:
            return results[0]
        future = self._queue(command)
        self._sending = asyncio.get_running_loop().create_task(self._send_later())
        return await future

    def take_single(self) -> bool:
        """Return True if a command may be sent at once, and not wait for others."""
        return self._sending is None and not self._waiting and not self._closed and self._singles.take()

    def _queue(self, command: CommandT) -> ResultFuture[Any]:
        future = pending_future(asyncio.get_running_loop())
        self._waiting.append((command, future))
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
            self._singles.count(len(self._waiting) == 1)
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


def _set_results(batch: Sequence[tuple[Any, ResultFuture[Any]]], results: Sequence[Any]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result_now(result)
