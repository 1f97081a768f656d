"""Requests of ours that wait for an answer: each is an object of its own, with its deadline and its progress."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from ..aio.eager import ResultFuture, pending_future
from ..errors import ConnectionClosedError, MCPError, RequestTimeoutError
from ..protocol.jsonrpc import Id
from ..protocol.revision import Request
from .options import OnProgress, Progress, RequestOptions

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class PendingRequest:
    """One of them. `timeout` is in seconds, `latest` and `due` are times of the event loop."""

    id: Id
    row: Request[Any]
    future: ResultFuture[BaseModel]
    on_progress: OnProgress | None
    timeout: float | None
    hard_deadline: float | None
    deadline: float | None = None
    progress: float = float("-inf")


class PendingRequests:
    """All of them, of one conversation."""

    __slots__ = ("_loop", "_open", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[Id, PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None  # One for all calls: it never rings after the first is due.

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self,
        id: Id,
        row: Request[Any],
        options: RequestOptions,
    ) -> PendingRequest:
        """Return a pending request that fails with RequestTimeoutError `options.timeout` seconds from now, or from its
        last progress, but at the latest after `options.max_timeout` seconds."""
        latest = None if options.max_timeout is None else self._loop.time() + options.max_timeout
        pending = self._open[id] = PendingRequest(
            id, row, pending_future(self._loop), options.on_progress, options.timeout, latest
        )
        self._set_deadline(pending)
        return pending

    def close(self, call: PendingRequest) -> None:
        self._open.pop(call.id, None)

    def resolve(self, id: Id, outcome: BaseModel | MCPError) -> None:
        """Give a call its answer, or its error; one that has ended already takes neither."""
        call = self._open.get(id)
        if call is None or call.future.done():
            return
        if isinstance(outcome, BaseModel):
            call.future.set_result_now(outcome)
        else:
            call.future.set_exception(outcome)

    def handle_progress(self, params: Any) -> None:
        """Progress goes to the call it is about, as long as it grows; it may give the call more time."""
        call = self._open.get(params.progress_token)
        if call is None or call.future.done() or call.on_progress is None or params.progress <= call.progress:
            return
        call.progress = params.progress
        if call.hard_deadline is not None:
            self._set_deadline(call)
        try:
            call.on_progress(Progress(params.progress, params.total, getattr(params, "message", None)))
        except Exception:
            _log.exception("the progress callback of %r failed", call.row.method)

    def fail(self, reason: str) -> None:
        """Fail all of them with ConnectionClosedError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in self._open.values():
            if not call.future.done():
                call.future.set_exception(ConnectionClosedError(f"{call.row.method!r}: {reason}"))

    def _set_deadline(self, call: PendingRequest) -> None:
        if call.timeout is None:
            call.deadline = call.hard_deadline
        else:
            due = self._loop.time() + call.timeout
            call.deadline = due if call.hard_deadline is None else min(due, call.hard_deadline)
        if call.deadline is not None:
            self._arm_timer(call.deadline)

    def _arm_timer(self, deadline: float) -> None:
        """Ring at this time, or earlier where the timer does so already."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Fail the calls that are due, and wait for the next one."""
        self._timer = None
        now = self._loop.time()
        waiting = [call for call in self._open.values() if call.deadline is not None and not call.future.done()]
        for call in waiting:
            if call.deadline is not None and call.deadline <= now:
                within = "its time" if call.timeout is None else f"{call.timeout:g} s"
                call.future.set_exception(RequestTimeoutError(f"{call.row.method!r}: no answer within {within}"))
        if later := [call.deadline for call in waiting if call.deadline is not None and call.deadline > now]:
            self._arm_timer(min(later))
