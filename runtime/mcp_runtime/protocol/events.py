"""The events that a connection returns for the bytes it receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import MCPError
from ..usage.records import Record
from .jsonrpc import Id
from .revision import Notification, Request

if TYPE_CHECKING:
    from pydantic import BaseModel


class RequestReceived(Record):
    """The peer sent a request. It needs exactly one response unless it is cancelled.

    `open` is False once it is answered or cancelled.
    """

    __slots__ = ("id", "row", "params", "open")

    def __init__(self, id: Id, row: Request[Any], params: Any, open: bool = True) -> None:
        self.id = id
        self.row = row
        self.params = params
        self.open = open


class NotificationReceived(Record):
    """The peer sent a notification."""

    __slots__ = ("row", "params")

    def __init__(self, row: Notification, params: Any) -> None:
        self.row = row
        self.params = params


class ResponseReceived(Record):
    """The peer responded to a request of this side: `outcome` is the result or the error."""

    __slots__ = ("id", "outcome")

    def __init__(self, id: Id, outcome: BaseModel | MCPError) -> None:
        self.id = id
        self.outcome = outcome


class MessageRejected(Record):
    """A received message is rejected. Send `reply` if it is not None: the error response with the error `code`.
    `is_late` is True for a response to a request that has ended, such as a cancelled one."""

    __slots__ = ("reason", "reply", "code", "is_late")

    def __init__(self, reason: str, reply: bytes | None = None, code: int = 0, is_late: bool = False) -> None:
        self.reason = reason
        self.reply = reply
        self.code = code
        self.is_late = is_late


class Batch(Record):
    """The peer sent a JSON-RPC batch; send the responses as one batch."""

    __slots__ = ("events",)

    def __init__(self, events: list[Event]) -> None:
        self.events = events


class Redirected(Record):
    """The peer sent a message of another protocol version, which has a session of its own. `handle` lets that handle
    the message: it gets what sends the response, and returns True if there is or will be one."""

    __slots__ = ("handle",)

    def __init__(self, handle: Callable[[Callable[[bytes | None, int], None]], object]) -> None:
        self.handle = handle


Event = RequestReceived | NotificationReceived | ResponseReceived | MessageRejected | Batch | Redirected
