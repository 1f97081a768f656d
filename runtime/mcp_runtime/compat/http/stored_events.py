"""`EventStore` of the official SDK: asynchronous storage for the messages of SSE streams."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import RootModel

from ...transports.http_server.event_store import InMemoryEventStore, NumberedMessage

_log: Final = logging.getLogger(__name__)


@dataclass
class EventMessage:
    """A message of an SSE stream, and the id of its event."""

    message: Any
    event_id: str | None = None


class StreamEventStore(ABC):
    """`EventStore` of the official SDK: asynchronous storage for the messages of SSE streams."""

    @abstractmethod
    async def store_event(self, stream_id: str, message: Any) -> str:
        """Store a message, and return the id of its event."""

    @abstractmethod
    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        """Send the messages after an event, and return the id of the stream."""


class StoredMessage(RootModel[dict[str, Any]]):
    """A JSON-RPC message as an event store of the official SDK gets it."""


class ForwardingEventStore:
    """Passes the messages of streams to an event store of the official SDK, in order.

    Streams resume from memory: a session ends with its process, so a store has nothing that the memory has not.
    """

    def __init__(self, store: Any) -> None:
        """Create a store that passes all messages to `store`, which has `store_event`."""
        self._store = store
        self._memory = InMemoryEventStore()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._forwarding: asyncio.Task[None] | None = None

    def add(self, stream: str, number: int, message: bytes) -> None:
        """Store a message."""
        self._memory.add(stream, number, message)
        self._waiting.append((stream, message))
        if self._forwarding is None:
            self._forwarding = asyncio.get_running_loop().create_task(self._forward())

    def after(self, stream: str, number: int) -> Sequence[NumberedMessage]:
        """Return numbers and messages of a stream that follow this number, in order."""
        return self._memory.after(stream, number)

    def drop(self, stream: str) -> None:
        """Delete all messages of a stream from the memory."""
        self._memory.drop(stream)

    async def _forward(self) -> None:
        while self._waiting:
            stream, message = self._waiting.popleft()
            try:
                await self._store.store_event(stream, StoredMessage.model_validate_json(message))
            except Exception:
                _log.exception("%s.store_event failed", type(self._store).__name__)
        self._forwarding = None


def to_event_store(store: Any) -> Any:
    """Return an event store of this package for one of either kind."""
    return ForwardingEventStore(store) if hasattr(store, "store_event") else store
