"""The state of one connection, and the tool call that a handler gets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

INVALID_PARAMS: Final = -32602
NOT_FOUND: Final = -32002  # Resource not found, up to 2025-11-25.
PAGE: Final = 5  # Items of one page of a list.

# One blue pixel, and half a millisecond of silence, both in base64.
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC"
WAV: Final = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"


@dataclass
class Work:
    """A tool that runs as a task: the fields of the protocol's task, and the asyncio task."""

    fields: dict[str, Any]
    running: asyncio.Task[Any]


@dataclass
class State:
    """The state of one connection."""

    subscribed: set[str] = field(default_factory=set[str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    extra: bool = False  # True if the tool and the prompt `extra` exist.
    cancelled: int = 0  # The number of cancelled calls of `long_running`.
    visited: bool = False  # True after the user has accepted `visit_page`.
    roots: list[str] = field(default_factory=list[str])
    tasks: dict[str, Work] = field(default_factory=dict[str, Work])


@dataclass(frozen=True)
class Call:
    """A tool call: `t` are the types of the connection's version, `ctx` is the request context."""

    t: Any
    ctx: Any
    arguments: Mapping[str, Any]

    @property
    def state(self) -> State:
        """Return the state of the connection."""
        state: State = self.ctx.state
        return state

    @property
    def revision(self) -> str:
        """Return the protocol version; versions are dates, so they can be compared."""
        return str(self.ctx.revision.id)


class ToolFailedError(Exception):
    """The error of a tool, for the model: it becomes a result with `isError`."""


def make(kind: Any, **values: Any) -> Any:
    """Return an object of a type, without the properties that its version does not have."""
    return kind(**{name: value for name, value in values.items() if name in kind.model_fields})


def starting_with(values: Sequence[str], prefix: str) -> list[str]:
    """Return the values that start with a prefix, in any case."""
    return [value for value in values if value.lower().startswith(prefix.lower())]
