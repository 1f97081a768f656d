"""Commands of many tasks that are sent to a store together: one batch at a time, in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from .primitives import StoreClosedError

CommandT = TypeVar("CommandT")
_BATCH: Final = 512  # Commands of one batch.


class CommandBatches(Generic[CommandT]):
    """Commands that wait for the batch before them. `send` returns the result or the exception of each command."""

    def __init__(self, send: Callable[[Sequence[CommandT]], Awaitable[Sequence[Any]]]) -> None:
        self._send = send
        self._waiting: list[tuple[CommandT, asyncio.Future[Any]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, command: CommandT) -> asyncio.Future[Any]:
        """Return the future result of a command. Raises StoreClosedError after `close`."""
        if self._closed:
            raise StoreClosedError("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, future))
        if self._sending is None:
            self._sending = loop.create_task(self._send_all())
        return future

    async def close(self) -> None:
        """Send what waits, and refuse further commands."""
        self._closed = True
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                try:
                    results = await self._send([command for command, _ in batch])
                except Exception as error:
                    results = [error] * len(batch)
                for (_, future), result in zip(batch, results, strict=True):
                    if future.done():
                        continue
                    if isinstance(result, BaseException):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        finally:
            self._sending = None
