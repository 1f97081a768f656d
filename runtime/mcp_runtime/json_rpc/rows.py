"""The rows of the method tables of a protocol."""

from __future__ import annotations

from typing import Any

from ..usage.records import Record


class RequestRow(Record):
    """A request: its method, and the types of its params and of its result; None for none."""

    __slots__ = ("method", "params", "result")

    def __init__(self, method: str, params: Any, result: Any) -> None:
        self.method = method
        self.params = params
        self.result = result


class NotificationRow(Record):
    """A notification: its method, and the type of its params; None for none."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Any) -> None:
        self.method = method
        self.params = params


Row = RequestRow | NotificationRow
