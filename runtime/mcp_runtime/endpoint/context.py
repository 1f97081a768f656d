"""The context of a handler: its first argument."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from ..aio.rates import PROGRESS, TokenBucket
from ..protocol.connection import NotificationReceived, RequestReceived, request_meta
from ..protocol.jsonrpc import Id
from ..protocol.lifecycle import Capabilities
from ..protocol.models import is_object
from ..protocol.revision import META, Revision
from ..session.interfaces import Channel
from ..usage.keywords import NamesOfAttributes
from ..usage.rules import Rule, check_values, is_number
from .requests import Requester, wire_names

# Severities of log messages, from the lowest to the highest (RFC 5424).
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_NUMBER: Final = Rule(is_number, "a number")
_PROGRESS_RULES: Final = {"progress": _NUMBER, "total": _NUMBER.or_none()}


class Watched:
    """The base of objects whose asynchronous methods must be awaited: contexts, and what contexts return.

    Attributes:
        unawaited: The calls of a plain `def` function that were not awaited; None if no plain function has the object.
    """

    unawaited: list[Any] | None = None


class Context(Watched, NamesOfAttributes, Requester):
    """The context of a handler: the message, and requests to the peer.

    Attributes:
        state: On a server the value that its `lifespan` yielded, on a client the client.
        request_id: The id of the request; None for a notification.
        meta: The `_meta` of the params.
        capabilities: The capabilities that the peer has declared.
        revision: The negotiated protocol version.
    """

    _progress = float("-inf")
    _progress_rate: TokenBucket | None = None

    def __init__(self, channel: Channel, message: RequestReceived | NotificationReceived, state: Any = None) -> None:
        """Create the context of one message. The runtime does this.

        Args:
            channel: The channel for messages to the peer.
            message: The message that the handler gets.
            state: The value of the attribute `state`.
        """
        self.channel = channel
        self.received = message
        self.state = state

    def _require_channel(self) -> Channel:
        return self.channel

    @property
    def request_id(self) -> Id | None:
        """The id of the request; None for a notification."""
        return self.received.id if isinstance(self.received, RequestReceived) else None

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params, as JSON; empty if there is none."""
        return request_meta(self.received)

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the peer has declared, as JSON."""
        declared = self.meta.get(f"{META}clientCapabilities")
        # A copy: connections share what equal peers have declared.
        return declared if is_object(declared) else deepcopy(self._require_channel().connection.remote_capabilities)

    @property
    def revision(self) -> Revision:
        """The negotiated protocol version."""
        return self._require_channel().connection.revision

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the peer has requested progress for this request.

        Notifications above 50 a second (after the first 200) are dropped, except the final one, whose `progress` is
        `total`. Values that do not increase are dropped as well. See
        https://modelcontextprotocol.io/specification/draft/basic/utilities/progress

        Args:
            progress: The progress so far, in any unit; increases with each notification.
            total: The value of `progress` at the end, if it is known.
            message: A short text for the user, in protocol versions that have it.

        Raises LocalError for another value, also if the peer has not requested progress.
        """
        check_values("progress", {"progress": progress, "total": total}, _PROGRESS_RULES)
        token = self.meta.get("progressToken")
        request = self.received
        if type(token) not in (int, str) or not isinstance(request, RequestReceived) or not request.open:
            return
        if progress <= self._progress:
            return
        self._progress = progress
        self._progress_rate = self._progress_rate or TokenBucket(PROGRESS)
        if self._progress_rate.acquire() and progress != total:
            return
        connection = self._require_channel().connection
        row = connection.local_row(connection.revision.lifecycle.progress)
        fields = {"progressToken": token, "progress": progress, "total": total, "message": message}
        names = wire_names(row.params)
        await self._send_notification(row, {name: value for name, value in fields.items() if name in names}, None)


# The context of a client's handlers.


class ClientContext(Context):
    """The context of a client's handler: the message, and requests to the server.

    Attributes:
        state: The client.
        request_id: The id of the request; None for a notification.
        meta: The `_meta` of the params.
        capabilities: The capabilities that the server has declared.
        revision: The negotiated protocol version.
    """
