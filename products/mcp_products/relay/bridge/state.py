"""What the relays of one bridge share: the upstream, its settings, its links and its losses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.aio.tasks import BackgroundTasks
from mcp_runtime.errors import ConnectionClosedError, JSONRPCError, MCPError, RemoteJSONRPCError
from mcp_runtime.http.clients import ClientKey, address_of, client_key
from mcp_runtime.protocol.connection import Connection, NotificationReceived, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, Id
from mcp_runtime.protocol.model_methods import implementation_of
from mcp_runtime.protocol.revision import META, Handshake, Revision, Stateless
from mcp_runtime.server.service import NO_CACHE
from mcp_runtime.session.interfaces import Channel
from mcp_runtime.session.requests import RequestOptions

from ..upstream.connection import Call, Downstream, UpstreamConnection
from ..upstream.opening import ClientDetails, Opener, OpenUpstream, UpstreamNames
from ..upstream.places import HTTP_CONNECTIONS, PROCESSES, SessionPlaces
from ..upstream.pool import MAX_CONNECTIONS, Pool, open_connection
from ..upstream.raw import FROM_CLIENT, FROM_SERVER, RawResult, raw_request
from ..upstream.target import Target, TargetConnector
from ..upstream.translation import LossCounter, Translation

_FAILED: Final = "the upstream of the bridge failed"
NAMES: Final = UpstreamNames(_FAILED, _FAILED, "the bridge", "--connections")
_SWEEPS: Final = 4  # How often links are looked at in the time that they may be idle.
_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.
_UNNAMED: Final = {"name": "", "version": ""}


@dataclass(slots=True)
class BridgeSettings:
    """The settings of a bridge.

    `timeout` is the seconds that a call may take, None without limit. `shared` is the number of connections that
    sessions share, 0 if each has its own. `idle` is the seconds after which an unused connection ends. `is_single` is
    True if there is one client. `connections` is the number of connections of requests without sessions.
    `session_connections` is the number of those that sessions have for themselves, None for the default of the target.
    """

    timeout: float | None = None
    shared: int = 0
    idle: float | None = None
    is_single: bool = False
    connections: int = MAX_CONNECTIONS
    session_connections: int | None = None


class BridgeState:
    """The upstream of a bridge, and its connections."""

    def __init__(self, target: Target, package: str, settings: BridgeSettings) -> None:
        """Create the state; `package` is the generated package with the revisions. Raises LocalError."""
        self.settings = settings
        self.losses = LossCounter()
        connector = TargetConnector(target)
        self.opener = Opener(connector, package, self.losses, NAMES)
        self.pool = Pool(settings.connections, self._open, self.close_later, NAMES, settings.is_single)
        default = PROCESSES if connector.is_process else HTTP_CONNECTIONS
        self.session_places = SessionPlaces(
            settings.session_connections or default, "the server of the bridge", "--session-connections"
        )
        self.links: set[UpstreamConnection] = set()
        self.fan_out = FanOut()
        self.shared: Any = None  # The `SharedLinks` of all sessions, if they share connections.
        self._closing: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to end idle connections."""
        if self.settings.idle is not None:
            self._sweeper = asyncio.create_task(self._sweep(self.settings.idle))

    async def _open(self, client: ClientDetails, events: Downstream, owner: str) -> UpstreamConnection:
        """Return a link that many clients use."""
        link = await open_connection(self.opener, client, events, owner)
        link.fan_out = None if self.settings.is_single else self.fan_out
        return link

    async def _sweep(self, idle: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(idle / _SWEEPS)
            since = loop.time() - idle
            self.pool.close_idle(since)
            for link in [link for link in self.links if link.last_used < since and not link.running]:
                if not link.users:
                    self.close_later(link)

    def close_later(self, link: UpstreamConnection) -> asyncio.Task[None]:
        """Close a link in a task of its own."""
        self.links.discard(link)
        return self.run_later(link.close())

    def run_later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what ends something in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def close(self) -> None:
        """Close all connections, and wait until all processes have ended."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
        await self.pool.close()
        if self.shared is not None:
            await self.shared.close()
        for link in list(self.links):
            self.close_later(link)
        if self._closing:
            await asyncio.wait(list(self._closing))


class ClientCall(Call):
    """A request of a client, with the channel that its messages go to."""

    __slots__ = ("channel",)

    passes_bytes = True

    def __init__(self, channel: Channel, id: Id, method: str, holds: bool = False) -> None:
        super().__init__(id, method, holds)
        self.channel = channel

    @property
    def client(self) -> ClientKey:
        """The user, or else the address."""
        return client_key(
            None if self.channel.auth is None else self.channel.auth.owner, address_of(self.channel.scope)
        )

    async def notify(self, connection: UpstreamConnection, method: str, params: dict[str, Any]) -> None:
        """Pass a notification of the upstream; it is dropped if the client has left."""
        with suppress(ConnectionClosedError):
            await connection.pass_notification(self.channel, method, params)

    def stream_closed(self) -> None:
        """Close the stream of the client too, if it can resume it."""
        if self.channel.connection.revision.http.priming_event:
            self.channel.close_sse_stream()


# The base of both relays: what transports call of the dispatcher of a connection.


class RelayBase:
    """A dispatcher that passes messages to an upstream."""

    def __init__(self, state: BridgeState, revision: Revision) -> None:
        """Create the dispatcher of a new connection, whose client has this revision until another is negotiated."""
        self.state = state
        self.revision = revision
        self.background_tasks = BackgroundTasks()
        self.session: Channel | None = None

    def initialize(self, connection: Connection, request: RequestReceived) -> None:
        """Return None: `handle` returns the result."""

    def identify(self, session_id: str | None) -> None:
        """Do nothing: the id of a session is not passed."""

    def attach(self, channel: Channel) -> None:
        """Set the session of the client."""
        self.session = channel

    def stamp_server_info(self, connection: Connection) -> None:
        """Do nothing: results are those of the upstream."""

    def handle(self, channel: Channel, message: RequestReceived | NotificationReceived) -> Coroutine[Any, Any, Any]:
        """Return an awaitable of the result of a message."""
        if isinstance(message, RequestReceived):
            return self.request(channel, message.id, message.row.method, message.params)
        return self.notification(message)

    async def request(self, channel: Channel, id: Id, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request of the client."""
        raise NotImplementedError

    async def notification(self, message: NotificationReceived) -> None:
        """Pass a notification of the client."""
        raise NotImplementedError

    async def send(self, link: UpstreamConnection, call: Call, params: dict[str, Any]) -> Any:
        """Send a call to the upstream, and return its result as it is."""
        return await link.send(call, params, self.state.settings.timeout)


# Messages that a bridge writes itself: the results of `initialize` and of discovery, and requests to a client.


def initialize_result(translation: Translation, upstream: OpenUpstream) -> dict[str, Any]:
    """Return the result of `initialize` for a client: what the upstream is, in the revision of the client."""
    lifecycle, details = translation.down.lifecycle, upstream.details
    assert isinstance(lifecycle, Handshake), "only a handshake has this result"
    names = lifecycle.fields
    own = {
        names.version: translation.down.id,
        names.server_capabilities: translation.server_capabilities(upstream.capabilities),
    }
    if isinstance(upstream.revision.lifecycle, Handshake):
        method = lifecycle.initialize_request.method
        return {**translation.result(FROM_CLIENT, method, details), **own}
    shared = {"instructions": details["instructions"]} if details.get("instructions") is not None else {}
    info = translation.server_info(implementation_of(details) or _UNNAMED)
    return {**own, names.server_info: info, **shared}


def discover_result(translation: Translation, upstream: OpenUpstream, served: Sequence[str]) -> dict[str, Any]:
    """Return the result of discovery for a client: what the upstream is, in the revision of the client.

    `served` are the ids of the revisions that the bridge serves without sessions.
    """
    details = upstream.details
    own: dict[str, Any] = {
        "supportedVersions": [*served],
        "capabilities": translation.server_capabilities(upstream.capabilities),
    }
    lifecycle = upstream.revision.lifecycle
    if isinstance(lifecycle, Stateless):
        return {**details, **own}
    shared = {"instructions": details["instructions"]} if details.get("instructions") is not None else {}
    info = translation.server_info(details.get(lifecycle.fields.server_info) or _UNNAMED)
    return {**NO_CACHE, **own, **shared, "_meta": {f"{META}serverInfo": info}}


async def request_of_upstream(
    translation: Translation, channel: Channel, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Send a request of an upstream to a client, and return its result, both converted. Raises JSONRPCError."""
    translation.require(FROM_SERVER, method)
    converted = translation.params(FROM_SERVER, method, params)
    try:
        result = await channel.send_request(
            raw_request(translation.method(FROM_SERVER, method), FROM_SERVER), converted, _NO_TIMEOUT
        )
    except RemoteJSONRPCError as error:
        raise translation.error(FROM_SERVER, method, error) from None
    except JSONRPCError:
        raise
    except MCPError as error:
        raise JSONRPCError(INTERNAL_ERROR, f"the client of the bridge did not answer: {error}") from None
    value: dict[str, Any] = result.value if isinstance(result, RawResult) else {}
    converted_result: dict[str, Any] = translation.result(FROM_SERVER, method, value)
    return converted_result
