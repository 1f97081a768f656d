"""The large messages of a session: handled in pieces, in the order in which they arrived."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...aio.turns import turn
from ...protocol import jsonrpc
from ...protocol.connection import Connection
from ...protocol.events import Event
from ...protocol.framing import OversizedMessage
from ...protocol.jsonrpc import Message
from ...protocol.large.pieces import LARGE, release_in_pieces, validate_in_pieces
from ...protocol.parts import MAX_PARTS, counts_of_parts

_END: Final = object()


class PausedDelivery(Protocol):
    """A transport whose delivery of messages can be paused."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class LargeMessages:
    """The messages of one session that wait: large ones, and all that arrive before those are handled."""

    def __init__(
        self, connection: Connection, push: PausedDelivery | None, handle: Callable[[Event | None, int], None]
    ) -> None:
        """Create a queue for one use.

        Args:
            connection: The connection of the session.
            push: The transport that delivers the messages, if it can be paused.
            handle: Handles the event of a message of so many bytes; called with None when no message waits any more.
        """
        self._connection = connection
        self._push = push
        self._handle = handle
        self._waiting: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, data: bytes) -> None:
        """Add a message."""
        self._waiting.append(data)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            if self._push is not None:
                self._push.pause()

    async def finish(self) -> None:
        """Wait until all messages are handled."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Drop the messages."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                data = self._waiting.popleft()
                if type(data) is OversizedMessage:
                    self._handle(self._connection.oversized(data), len(data))
                elif len(data) <= LARGE:
                    self._handle(self._connection.receive_message(jsonrpc.decode(data)), len(data))
                else:
                    await self._receive_large(data)
        finally:
            self._handle(None, 0)
            if self._push is not None:
                self._push.resume()

    async def _receive_large(self, data: bytes) -> None:
        async with turn(self):
            message = await decode_in_pieces(data)
            validated = await validate(self._connection, message)
            event = self._connection.receive_message(message)
            del message
            await asyncio.sleep(0)
            self._handle(event, len(data))
            release_soon(validated)


async def decode_in_pieces(
    data: bytes, max_parts: int = MAX_PARTS, max_batch: int = jsonrpc.MAX_BATCH
) -> Message | list[Message]:
    """Decode a large message; the event loop does other work while its parts are counted, and after it is parsed."""
    for count in counts_of_parts(data, max_parts):
        await asyncio.sleep(0)
        if count > max_parts:
            return jsonrpc.reject_parts(data, max_parts)
    message = jsonrpc.decode(data, len(data), max_batch)  # It cannot have more parts than bytes.
    await asyncio.sleep(0)
    return message


async def validate(connection: Connection, message: Message | list[Message]) -> list[list[Any]]:
    """Validate what is long in a message, and do other work of the event loop between the pieces; return the results,
    for `release_soon`."""
    validated: list[list[Any]] = []
    for _ in validate_in_pieces(connection, message, validated):
        await asyncio.sleep(0)
    return validated


def release_soon(validated: list[list[Any]]) -> None:
    """Release what `validate` returned, a piece in an iteration of the event loop, from the next one on."""
    loop, pieces = asyncio.get_running_loop(), release_in_pieces(validated)

    def release() -> None:
        if next(pieces, _END) is None:
            loop.call_soon(release)

    if validated:
        loop.call_soon(release)
