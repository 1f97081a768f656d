"""The events that a connection returns for the bytes it receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import MCPError
from .jsonrpc import Id
from .revision import Notification, Request

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(slots=True)
class RequestReceived:
    """The peer sent a request. It needs exactly one response unless it is cancelled.

    `open` is False once it is answered or cancelled.
    """

    id: Id
    row: Request[Any]
    params: Any
    open: bool = True


@dataclass(slots=True)
class NotificationReceived:
    """The peer sent a notification."""

    row: Notification
    params: Any


@dataclass(slots=True)
class ResponseReceived:
    """The peer responded to a request of this side: `outcome` is the result or the error."""

    id: Id
    outcome: BaseModel | MCPError


@dataclass(slots=True)
class MessageRejected:
    """A received message is rejected. Send `reply` if it is not None: the error response with the error `code`.
    `is_late` is True for a response to a request that has ended, such as a cancelled one."""

    reason: str
    reply: bytes | None = None
    code: int = 0
    is_late: bool = False


@dataclass(slots=True)
class Batch:
    """The peer sent a JSON-RPC batch; send the responses as one batch."""

    events: list[Event]


@dataclass(slots=True)
class Redirected:
    """The peer sent a message of another protocol version, which has a session of its own. `handle` lets that handle
    the message: it gets what sends the response, and returns True if there is or will be one."""

    handle: Callable[[Callable[[bytes | None, int], None]], object]


Event = RequestReceived | NotificationReceived | ResponseReceived | MessageRejected | Batch | Redirected
