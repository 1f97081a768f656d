"""The rows of the method tables of a protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class RequestRow:
    """A request: its method, and the types of its params and of its result; None for none.

    `positions` are the names of params that may come in a list, in their order; with `sends_list` they are sent in one.
    """

    method: str
    params: Any
    result: Any
    positions: tuple[str, ...] = ()
    sends_list: bool = False


@dataclass(slots=True)
class NotificationRow:
    """A notification: its method, and the type of its params; None for none. The rest is as in requests."""

    method: str
    params: Any
    positions: tuple[str, ...] = ()
    sends_list: bool = False


Row = RequestRow | NotificationRow
