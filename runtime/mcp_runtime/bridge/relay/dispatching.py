"""The base of both relays: what transports call of the dispatcher of a connection."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ...aio.background import BackgroundTasks
from ...protocol.connection import Connection
from ...protocol.events import NotificationReceived, RequestReceived
from ...protocol.jsonrpc import Id
from ...protocol.revision import Revision
from ...session.interfaces import Channel
from ..upstream.link import Call, Link
from .bridge_state import BridgeState


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

    async def send(self, link: Link, call: Call, params: dict[str, Any]) -> Any:
        """Send a call to the upstream, and return its result as it is."""
        return await link.send(call, params, self.state.settings.timeout)
