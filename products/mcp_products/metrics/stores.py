"""What workers measure of the store that they share, by OpenTelemetry's semantic conventions for databases."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import cache
from time import perf_counter
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from opentelemetry.metrics import Counter, Observation, get_meter

from mcp_runtime.stores import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint, Store

NAME: Final = "mcp_runtime"  # The instrumentation scope.

_METERED_STORE_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_SYSTEMS: Final = {"RedisStore": "redis", "SQLiteStore": "sqlite"}
_ResultT = TypeVar("_ResultT")
observed_workers: Final[WeakSet[ObservedWorker]] = WeakSet()


class MeteredStore:
    """Another store, and how long its commands take."""

    def __init__(self, store: Store) -> None:
        """Measure the commands of a store."""
        self._store = store
        self._system = _SYSTEMS.get(type(store).__name__, "other_sql")
        self._durations = get_meter(NAME).create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Seconds of a command to the store.",
            explicit_bucket_boundaries_advisory=_METERED_STORE_SECONDS,
        )

    @property
    def parts(self) -> Sequence[str]:
        """A name for each part of the store, if it has several."""
        parts: Sequence[str] = getattr(self._store, "parts", ())
        return parts

    async def _timed(self, command: str, work: Awaitable[_ResultT]) -> _ResultT:
        began, attributes = perf_counter(), {"db.system.name": self._system, "db.operation.name": command}
        try:
            return await work
        except BaseException as error:
            attributes["error.type"] = type(error).__qualname__
            raise
        finally:
            self._durations.record(perf_counter() - began, attributes)

    async def get(self, key: str) -> bytes | None:
        """Return the value of a record."""
        return await self._timed("get", self._store.get(key))

    async def put(self, key: str, value: bytes, ttl: float, expected: Expected = ANYTHING) -> bool:
        """Store a record if its value is the expected one."""
        return await self._timed("put", self._store.put(key, value, ttl, expected))

    async def touch(self, key: str, ttl: float) -> bytes | None:
        """Let the time to live of a record begin anew; return its value."""
        return await self._timed("touch", self._store.touch(key, ttl))

    async def delete(self, key: str) -> bool:
        """Delete a record."""
        return await self._timed("delete", self._store.delete(key))

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter."""
        return await self._timed("count", self._store.count(key, amount, ttl))

    async def append(
        self, stream: str, entries: Sequence[bytes], ttl: float, after: int | None = None, token: str = ""
    ) -> int:
        """Append entries to a stream."""
        return await self._timed("append", self._store.append(stream, entries, ttl, after, token))

    async def read(self, stream: str, after: int, limit: int = STREAM_LIMIT) -> list[NumberedEntry]:
        """Return the stored entries of a stream that follow a number."""
        return await self._timed("read", self._store.read(stream, after, limit))

    async def last(self, stream: str) -> int:
        """Return the number of the last entry of a stream."""
        return await self._timed("last", self._store.last(stream))

    async def drop(self, *streams: str) -> None:
        """Delete streams."""
        await self._timed("drop", self._store.drop(*streams))

    async def publish(self, channel: str, message: bytes) -> None:
        """Pass a message to the processes that are subscribed to a channel."""
        await self._timed("publish", self._store.publish(channel, message))

    async def subscribe(self, channel: str, receive: ReceiveHint) -> None:
        """Call a function with the messages of a channel."""
        await self._timed("subscribe", self._store.subscribe(channel, receive))

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()


# The workers of this process: their mail, and their store.


class ObservedWorker(Protocol):
    """One of the processes that serve an endpoint."""

    @property
    def undelivered(self) -> int:
        """Messages to other workers that they have not read yet."""
        ...

    @property
    def store_lag(self) -> float:
        """Seconds since the store has last answered."""
        ...


def observe(worker: ObservedWorker) -> None:
    """Measure a worker until `forget`."""
    observed_workers.add(worker)
    create_gauges()


def forget(worker: ObservedWorker) -> None:
    """Measure a worker no more: it has ended."""
    observed_workers.discard(worker)


@cache
def create_gauges() -> None:
    """Create the instruments that are read when somebody asks for the metrics."""
    meter = get_meter(NAME)
    meter.create_observable_up_down_counter(
        f"{NAME}.messages.undelivered",
        [lambda _: [Observation(sum(worker.undelivered for worker in list(observed_workers)))]],
        unit="{message}",
        description="Messages to other workers that they have not read yet.",
    )
    meter.create_observable_gauge(
        f"{NAME}.store.lag",
        [lambda _: [Observation(max((worker.store_lag for worker in list(observed_workers)), default=0.0))]],
        unit="s",
        description="Seconds since the store of the workers has last answered this process.",
    )


def count_loss() -> None:
    """Count a loss that this process has noticed."""
    counter("store.losses", "{loss}", "Losses of the past of the store that the process has noticed.").add(1)


def count_lost_messages(count: int) -> None:
    """Count messages that their worker has not read, because it has ended."""
    counter("messages.lost", "{message}", "Messages to other workers that have ended without reading them.").add(count)


@cache
def counter(name: str, unit: str, description: str) -> Counter:
    """Return the counter of a name."""
    return get_meter(NAME).create_counter(f"{NAME}.{name}", unit=unit, description=description)
