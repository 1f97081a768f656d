"""What every handler gets as its first argument."""

from __future__ import annotations

from typing import Any, Final

from ..aio.rate_limit import RateLimit, TokenBucket
from ..protocol.capabilities import Capabilities
from ..protocol.events import NotificationReceived, RequestReceived
from ..protocol.jsonrpc import Id
from ..protocol.meta import request_meta
from ..protocol.models import is_object
from ..protocol.revision import (
    META,
    Revision,
)
from ..session.interfaces import Channel
from .requests import Requester

_PROGRESS_RATE: Final = RateLimit(per_second=50, burst=200)
# Severities of log messages, least first (RFC 5424).
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Context(Requester):
    """What a handler knows of the message it handles, and how it reaches the other side while it does."""

    _progress = float("-inf")
    _progress_rate: TokenBucket | None = None

    def __init__(self, channel: Channel, message: RequestReceived | NotificationReceived, state: Any = None) -> None:
        self._channel = channel
        self._message = message
        self.state = state

    def _require_channel(self) -> Channel:
        return self._channel

    @property
    def request_id(self) -> Id | None:
        """The id of the request; None in the handler of a notification."""
        return self._message.id if isinstance(self._message, RequestReceived) else None

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the params, as it came."""
        return request_meta(self._message)

    @property
    def capabilities(self) -> Capabilities:
        """What the other side has declared."""
        own = self.meta.get(f"{META}clientCapabilities")
        return own if is_object(own) else self._require_channel().connection.remote_capabilities

    @property
    def revision(self) -> Revision:
        """The revision that the two sides have agreed on."""
        return self._require_channel().connection.revision

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the request is. Nothing is sent where the other side did not ask for it; what comes too often
        (more than 50 times a second, after the first 200) is left out, but for the last: where `progress` is `total`.
        """
        token = self.meta.get("progressToken")
        asked = self._message
        if type(token) not in (int, str) or not isinstance(asked, RequestReceived) or not asked.open:
            return
        if progress <= self._progress:
            return
        self._progress = progress
        self._progress_rate = self._progress_rate or TokenBucket(_PROGRESS_RATE)
        if self._progress_rate.acquire() and progress != total:
            return
        row = self._require_channel().connection.local_row(self.revision.lifecycle.progress)
        said = {"progressToken": token, "progress": progress, "total": total, "message": message}
        known = {field.alias or name for name, field in row.params.model_fields.items()}
        await self._send_notification(row, {wire: value for wire, value in said.items() if wire in known}, None)
