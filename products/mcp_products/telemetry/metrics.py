"""How many sessions, streams and requests the HTTP endpoints of a process have at present."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Observation, get_meter

from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived
from mcp_runtime.protocol.models import is_object
from mcp_runtime.session.interfaces import Channel, Dispatcher, channel_of_connection
from mcp_runtime.transports.http_server.streams import KeepAliveTimer

from .spans import NAME, ended_in, is_error_result, target_of

if TYPE_CHECKING:
    from pydantic import BaseModel

_COUNTS: Final[dict[str, tuple[str, Callable[[Endpoint], int]]]] = {
    "session": ("Sessions in the memory of this process.", lambda item: sum(one.session_count for one in item[0])),
    "stream": ("SSE streams that are open.", lambda item: item[1].waiting_count),
    "request": ("Requests that are being handled.", lambda item: sum(one.running_count for one in item[0])),
}
_endpoints: dict[object, Endpoint] = {}
# The boundaries that the conventions advise, in seconds.
_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_MAX_NAMES: Final = 1000  # Names of tools and prompts that are attributes; clients send names that nothing has.
_PIPE: Final = {"network.transport": "pipe"}
_HTTP: Final = {"network.transport": "tcp", "network.protocol.name": "http"}
LIMITS: Final = "rate_limits max_subscriptions calls cost bytes at_once sessions subscriptions tasks".split()
_names: set[str] = set()

_HAPPENS: Final = {
    "left_out": ("{part}", "Parts of received messages that were left out because they could not be read."),
    "refused": ("{request}", "Requests that were refused because they were above a limit."),
    "resumed": ("{stream}", "SSE streams that clients have gone on with, after a message that they had got."),
}


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
        attributes.update(_PIPE if channel.auth is None else _HTTP)  # Not each message over HTTP has a scope.
    name, own = target_of(method, params)
    is_refused = isinstance(error, (JSONRPCError, RemoteJSONRPCError))
    if name is not None and not is_refused and len(_names) < _MAX_NAMES:
        _names.add(name)
    if name in _names:
        attributes.update(own)
    if isinstance(error, (JSONRPCError, RemoteJSONRPCError)):
        attributes["rpc.response.status_code"] = attributes["error.type"] = str(error.code)
        if kind == "server":
            _count_refusal(error.data)
    elif error is not None:
        attributes["error.type"] = type(error).__qualname__
    elif is_error_result(outcome):
        attributes["error.type"] = "tool_error"
    # The span of a server has ended by now. The context has its trace, for an exemplar.
    _operations(kind).record(perf_counter() - began, attributes, ended_in.get() if kind == "server" else None)


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
        ended_in.set(None)
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


# What happens, as counters.


@cache
def _counter(what: str) -> Counter:
    unit, description = _HAPPENS[what]
    return get_meter(NAME).create_counter(f"{NAME}.{what}", unit=unit, description=description)


def count(what: str, attributes: Mapping[str, str], number: int = 1) -> None:
    """Count what has happened."""
    _counter(what).add(number, attributes)


def _count_refusal(data: Any) -> None:
    """Count a request that a limit has refused with the seconds to wait. Errors of tools and of other servers may look
    alike: what they name becomes no attribute."""
    is_ours = is_object(data) and {"retryAfter"} <= data.keys() <= {"limit", "retryAfter"}
    if is_ours and (limit := data.get("limit", "rate_limits")) in LIMITS:
        count("refused", {"limit": limit})
