"""The rows of the method tables of a protocol."""

from __future__ import annotations

from typing import Any

from ..usage.records import Record


class RequestRow(Record):
    """A request: its method, and the types of its params and of its result; None for none.

    `positions` are the names of params that may come in a list, in their order; with `sends_list` they are sent in one.
    """

    __slots__ = ("method", "params", "result", "positions", "sends_list")

    def __init__(
        self, method: str, params: Any, result: Any, positions: tuple[str, ...] = (), sends_list: bool = False
    ) -> None:
        self.method = method
        self.params = params
        self.result = result
        self.positions = positions
        self.sends_list = sends_list


class NotificationRow(Record):
    """A notification: its method, and the type of its params; None for none. The rest is as in requests."""

    __slots__ = ("method", "params", "positions", "sends_list")

    def __init__(self, method: str, params: Any, positions: tuple[str, ...] = (), sends_list: bool = False) -> None:
        self.method = method
        self.params = params
        self.positions = positions
        self.sends_list = sends_list


Row = RequestRow | NotificationRow
