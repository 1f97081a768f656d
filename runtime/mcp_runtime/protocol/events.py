"""The events that a connection returns for the bytes it receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ..errors import (
    MCPError,
)
from .jsonrpc import (
    Id,
)
from .revision import (
    Notification,
    Request,
)


@dataclass(slots=True)
class RequestReceived:
    """The peer wants an answer to this request."""

    id: Id
    row: Request[Any]
    params: Any
    open: bool = True  # Until it is answered, refused or cancelled.


@dataclass(slots=True)
class NotificationReceived:
    """The peer sent a notification."""

    row: Notification
    params: Any


@dataclass(slots=True)
class ResponseReceived:
    """The answer to a request of ours: a result, or why there is none."""

    id: Id
    outcome: BaseModel | MCPError


@dataclass(slots=True)
class MessageRejected:
    """What came is not acted upon; `reply` is to be sent back, where an answer is due, with the error `code`."""

    reason: str
    reply: bytes | None = None
    code: int = 0


@dataclass(slots=True)
class Batch:
    """What came together; the answers are to be sent together."""

    events: list[Event]


Event = RequestReceived | NotificationReceived | ResponseReceived | MessageRejected | Batch
