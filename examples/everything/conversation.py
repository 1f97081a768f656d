"""What one conversation remembers, and what a handler of any revision is given to work with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

INVALID_PARAMS: Final = -32602
NOT_FOUND: Final = -32002  # What the handshake revisions answer where there is no such resource.
PAGE: Final = 5  # Items a page of a list has.

# One blue pixel, and half a millisecond of silence, both in base64.
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC"
WAV: Final = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"


@dataclass
class Work:
    """A tool that runs as a task: the task as the client is told of it, and what runs."""

    told: dict[str, Any]
    running: asyncio.Task[Any]


@dataclass
class State:
    """What one conversation remembers; none knows of another."""

    watched: set[str] = field(default_factory=set[str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    extra: bool = False  # Whether the tool and the prompt called `extra` are there.
    cancelled: int = 0  # Calls of `long_running` that were cancelled.
    visited: bool = False  # Whether the user has been where `visit_page` sent them.
    roots: list[str] = field(default_factory=list[str])
    tasks: dict[str, Work] = field(default_factory=dict[str, Work])


@dataclass(frozen=True)
class Call:
    """A tool call: `t` are the types of the conversation's revision, `ctx` its context."""

    t: Any
    ctx: Any
    arguments: Mapping[str, Any]

    @property
    def state(self) -> State:
        state: State = self.ctx.state
        return state

    @property
    def revision(self) -> str:
        """The id of the revision; ids are dates, so they can be compared."""
        return str(self.ctx.revision.id)


class Failed(Exception):
    """What a tool raises to tell the model, not the program, what went wrong."""


def make(kind: Any, **values: Any) -> Any:
    """An object of a revision's type, without the properties that this revision does not have yet."""
    return kind(**{name: value for name, value in values.items() if name in kind.model_fields})


def starting_with(values: Sequence[str], prefix: str) -> list[str]:
    return [value for value in values if value.lower().startswith(prefix.lower())]
