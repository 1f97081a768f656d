"""How many sessions, streams and requests the HTTP endpoints of a process have at present."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation, get_meter

from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived
from mcp_runtime.session.interfaces import Channel, Dispatcher, channel_of_connection
from mcp_runtime.stores import ANYTHING, STREAM_LIMIT, Expected, NumberedEntry, ReceiveHint, Store
from mcp_runtime.transports.http_server.streams import KeepAliveTimer

from .spans import NAME, is_error_result, target_of

if TYPE_CHECKING:
    from pydantic import BaseModel


class ObservedHandler(Protocol):
    """A handler of an endpoint."""

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this process."""
        ...

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        ...


Endpoint = tuple[Sequence[ObservedHandler], KeepAliveTimer]

_COUNTS: Final[dict[str, tuple[str, Callable[[Endpoint], int]]]] = {
    "session": ("Sessions in the memory of this process.", lambda item: sum(one.session_count for one in item[0])),
    "stream": ("SSE streams that are open.", lambda item: item[1].waiting_count),
    "request": ("Requests that are being handled.", lambda item: sum(one.running_count for one in item[0])),
}
_endpoints: dict[object, Endpoint] = {}


def observe(endpoint: object, handlers: Sequence[ObservedHandler] = (), streams: KeepAliveTimer | None = None) -> None:
    """Count the sessions, streams and requests of an endpoint; without its parts, count them no more."""
    if streams is None:
        _endpoints.pop(endpoint, None)
    else:
        _endpoints[endpoint] = (handlers, streams)
        _create_counters()


@cache
def _create_counters() -> None:
    for unit, (description, count) in _COUNTS.items():
        get_meter(NAME).create_observable_up_down_counter(
            f"{NAME}.{unit}s", [partial(_sum, count)], unit=f"{{{unit}}}", description=description
        )


def _sum(count: Callable[[Endpoint], int], options: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(map(count, _endpoints.values())))]


# How long requests and sessions take, by OpenTelemetry's semantic conventions for MCP.
#
# https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md

# The boundaries that the conventions advise, in seconds.
_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_MAX_NAMES: Final = 1000  # Names of tools and prompts that are attributes; clients send names that nothing has.

_PIPE: Final = {"network.transport": "pipe"}
_HTTP: Final = {"network.transport": "tcp", "network.protocol.name": "http"}

_names: set[str] = set()


@cache
def _histogram(name: str, description: str) -> Histogram:
    meter = get_meter(NAME)
    return meter.create_histogram(name, unit="s", description=description, explicit_bucket_boundaries_advisory=_SECONDS)


def _operations(kind: str) -> Histogram:
    return _histogram(f"mcp.{kind}.operation.duration", f"Seconds of a request or notification, as the {kind} sees it.")


def _record(
    kind: str, began: float, method: str, params: Any, channel: Channel, outcome: Any = None, error: object = None
) -> None:
    """Record an operation that has ended with a result, or with an error."""
    attributes: dict[str, Any] = {"mcp.method.name": method, "mcp.protocol.version": channel.connection.revision.id}
    if kind == "server":
        attributes.update(_PIPE if channel.scope is None else _HTTP)
    name, own = target_of(method, params)
    is_refused = isinstance(error, (JSONRPCError, RemoteJSONRPCError))
    if name is not None and not is_refused and len(_names) < _MAX_NAMES:
        _names.add(name)
    if name in _names:
        attributes.update(own)
    if isinstance(error, (JSONRPCError, RemoteJSONRPCError)):
        attributes["rpc.response.status_code"] = attributes["error.type"] = str(error.code)
    elif error is not None:
        attributes["error.type"] = type(error).__qualname__
    elif is_error_result(outcome):
        attributes["error.type"] = "tool_error"
    _operations(kind).record(perf_counter() - began, attributes)


def timed(
    method: str, params: Any, channel: Channel, send: Callable[[], Awaitable[Any]]
) -> Callable[[], Awaitable[Any]]:
    """Return a function that sends a request as another one does, and records how long it takes.

    A request that is converted for another version is recorded where it is sent in that version.
    """
    if channel_of_connection(channel).connection.revision is not channel.connection.revision:
        return send

    async def send_timed() -> Any:
        began = perf_counter()
        try:
            result = await send()
        except BaseException as error:
            _record("client", began, method, params, channel, error=error)
            raise
        _record("client", began, method, params, channel, result)
        return result

    return send_timed


class MeteredDispatcher:
    """The dispatcher of a server in an application with a provider of metrics."""

    def __init__(self, dispatcher: Dispatcher, has_sessions: bool) -> None:
        """Measure what another dispatcher does; `has_sessions` is False where sessions go on in other processes."""
        self._dispatcher = self.wrapped = dispatcher
        self._has_session = has_sessions
        self._began = perf_counter()
        self._revision = ""
        self.stamp_server_info = dispatcher.stamp_server_info
        self.attach = dispatcher.attach

    @property
    def background_tasks(self) -> BackgroundTasks:
        """The asyncio tasks that outlive the request that started them."""
        return self._dispatcher.background_tasks

    async def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Any:
        """Return the result of a message, and record how long it took."""
        began, method, params = perf_counter(), message.row.method, message.params
        self._revision = channel.connection.revision.id
        try:
            result = await self._dispatcher.handle(channel, message)
        except BaseException as error:
            _record("server", began, method, params, channel, error=error)
            raise
        _record("server", began, method, params, channel, result)
        return result

    def initialize(self, connection: Connection, request: RequestReceived) -> BaseModel | None:
        """Negotiate the protocol version."""
        result = self._dispatcher.initialize(connection, request)
        self._revision = connection.revision.id
        return result

    def identify(self, session_id: str | None) -> None:
        """Set the id of the client's session; without one, no session is recorded."""
        self._has_session = self._has_session and session_id is not None
        self._dispatcher.identify(session_id)

    def detach(self) -> None:
        """End the client's subscriptions, and record how long the session lasted."""
        self._dispatcher.detach()
        if self._has_session and self._revision:
            self._has_session = False
            histogram = _histogram("mcp.server.session.duration", "Seconds of a session, as the server sees it.")
            histogram.record(perf_counter() - self._began, {"mcp.protocol.version": self._revision})


# A store whose commands are measured, by OpenTelemetry's semantic conventions for databases.

_METERED_STORE_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_SYSTEMS: Final = {"RedisStore": "redis", "SQLiteStore": "sqlite"}
_ResultT = TypeVar("_ResultT")


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


# How many parts of messages were left out because they could not be read.


@cache
def _counter() -> Counter:
    description = "Parts of received messages that were left out because they could not be read."
    return get_meter(NAME).create_counter(f"{NAME}.left_out", unit="{part}", description=description)


def count(revision: str, method: str, number: int) -> None:
    """Count the parts of one message."""
    _counter().add(number, {"mcp.method.name": method, "mcp.protocol.version": revision})


# How often the store of the workers has lost what it had.

_NAME: Final = f"{NAME}.store.losses"


def count_loss() -> None:
    """Count a loss that this process has noticed."""
    _store_losses_counter().add(1)


@cache
def _store_losses_counter() -> Counter:
    return get_meter(NAME).create_counter(
        _NAME, unit="{loss}", description="Losses of the past of the store that the process has noticed."
    )
