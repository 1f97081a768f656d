"""A store in memory that can fail: before a command, or after it, so that nobody knows whether it was run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_generated.http import InMemoryStore, StoreUnavailableError


class Outage:
    """What several openings of one store do: nothing goes wrong until a test says so."""

    def __init__(self) -> None:
        self.is_down = False
        self.refused = 0  # Commands that have failed because it is down.
        self.falls_at: int | None = None  # Commands after which the store goes down.
        self.lost_answers: set[str] = set()  # The commands that are run, and fail the next time.
        self.drops_messages = False

    def before(self) -> None:
        if self.falls_at is not None:
            self.falls_at -= 1
            if self.falls_at < 0:
                self.is_down = True
                self.falls_at = None
        if self.is_down:
            self.refused += 1
            raise StoreUnavailableError("the store is down")

    def after(self, command: str) -> None:
        if command in self.lost_answers:
            self.lost_answers.discard(command)
            raise StoreUnavailableError(f"the answer to {command} was lost")


class FailingStore(InMemoryStore):
    """A store whose commands fail while there is an outage."""

    def __init__(self) -> None:
        super().__init__()
        self.outage = Outage()

    async def get(self, key: str) -> bytes | None:
        self.outage.before()
        return await super().get(key)

    async def put(self, *arguments: Any, **named: Any) -> bool:
        self.outage.before()
        is_stored = await super().put(*arguments, **named)
        self.outage.after("put")
        return is_stored

    async def touch(self, key: str, ttl: float) -> bytes | None:
        self.outage.before()
        return await super().touch(key, ttl)

    async def append(self, stream: str, entries: Sequence[bytes], ttl: float, *arguments: Any, **named: Any) -> int:
        self.outage.before()
        number = await super().append(stream, entries, ttl, *arguments, **named)
        self.outage.after("append")
        return number

    async def read(self, *arguments: Any, **named: Any) -> Any:
        self.outage.before()
        return await super().read(*arguments, **named)

    async def publish(self, channel: str, message: bytes) -> None:
        self.outage.before()
        if not self.outage.drops_messages:
            await super().publish(channel, message)
