"""Requests of ours that wait for an answer: each is an object of its own, with its deadline and its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from .eager import Instant
from .errors import McpError, NotConnected, TimedOut
from .jsonrpc import Id
from .spec import Request

log: Final = logging.getLogger("mcp_runtime")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a request is: `progress` grows, `total` is where it ends, as far as the other side knows."""

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress = Callable[[Progress], None]


@dataclass(slots=True)
class Call:
    """One of them. `timeout` is in seconds, `latest` and `due` are times of the event loop."""

    id: Id
    row: Request[Any]
    waiting: Instant[BaseModel]
    on_progress: OnProgress | None
    timeout: float | None
    latest: float | None
    due: float | None = None
    progress: float = float("-inf")


class Calls:
    """All of them, of one conversation."""

    __slots__ = ("_loop", "_open", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[Id, Call] = {}
        self._timer: asyncio.TimerHandle | None = None  # One for all calls: it never rings after the first is due.

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, id: Id, row: Request[Any], timeout: float | None, on_progress: OnProgress | None, longest: float | None
    ) -> Call:
        """A call that fails with TimedOut `timeout` seconds from now, or from its last progress, and at the latest
        `longest` seconds from now."""
        latest = None if longest is None else self._loop.time() + longest
        call = self._open[id] = Call(id, row, Instant(loop=self._loop), on_progress, timeout, latest)
        self._set_due(call)
        return call

    def close(self, call: Call) -> None:
        self._open.pop(call.id, None)

    def settle(self, id: Id, outcome: BaseModel | McpError) -> None:
        """Give a call its answer, or its error; one that has ended already takes neither."""
        call = self._open.get(id)
        if call is None or call.waiting.done():
            return
        if isinstance(outcome, BaseModel):
            call.waiting.settle(outcome)
        else:
            call.waiting.set_exception(outcome)

    def progressed(self, params: Any) -> None:
        """Progress goes to the call it is about, as long as it grows; it may give the call more time."""
        call = self._open.get(params.progress_token)
        if call is None or call.waiting.done() or call.on_progress is None or params.progress <= call.progress:
            return
        call.progress = params.progress
        if call.latest is not None:
            self._set_due(call)
        try:
            call.on_progress(Progress(params.progress, params.total, getattr(params, "message", None)))
        except Exception:
            log.exception("the progress callback of %r failed", call.row.method)

    def fail(self, why: str) -> None:
        """Fail all of them with NotConnected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in self._open.values():
            if not call.waiting.done():
                call.waiting.set_exception(NotConnected(f"{call.row.method!r}: {why}"))

    def _set_due(self, call: Call) -> None:
        if call.timeout is None:
            call.due = call.latest
        else:
            due = self._loop.time() + call.timeout
            call.due = due if call.latest is None else min(due, call.latest)
        if call.due is not None:
            self._ring_at(call.due)

    def _ring_at(self, due: float) -> None:
        """Ring at this time, or earlier where the timer does so already."""
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._rang)

    def _rang(self) -> None:
        """Fail the calls that are due, and wait for the next one."""
        self._timer = None
        now = self._loop.time()
        waiting = [call for call in self._open.values() if call.due is not None and not call.waiting.done()]
        for call in waiting:
            if call.due is not None and call.due <= now:
                within = "its time" if call.timeout is None else f"{call.timeout:g} s"
                call.waiting.set_exception(TimedOut(f"{call.row.method!r}: no answer within {within}"))
        if later := [call.due for call in waiting if call.due is not None and call.due > now]:
            self._ring_at(min(later))
