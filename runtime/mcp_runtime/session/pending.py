"""Requests that wait for their response, with deadlines and progress."""

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
    """A request without a response yet. `timeout` is in seconds; the deadlines are times of the event loop."""

    id: Id
    row: Request[Any]
    future: ResultFuture[BaseModel]
    on_progress: OnProgress | None
    timeout: float | None
    hard_deadline: float | None
    deadline: float | None = None
    progress: float = float("-inf")


class PendingRequests:
    """The pending requests of one connection."""

    __slots__ = ("_loop", "_open", "_timer")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[Id, PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None  # One for all requests, due no later than the first deadline.

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
        hard_deadline = None if options.max_timeout is None else self._loop.time() + options.max_timeout
        pending = self._open[id] = PendingRequest(
            id, row, pending_future(self._loop), options.on_progress, options.timeout, hard_deadline
        )
        self._set_deadline(pending)
        return pending

    def close(self, pending: PendingRequest) -> None:
        """Remove a request."""
        self._open.pop(pending.id, None)

    def resolve(self, id: Id, result: BaseModel | MCPError) -> None:
        """Set the result or the error of a request, unless it has ended already."""
        pending = self._open.get(id)
        if pending is None or pending.future.done():
            return
        if isinstance(result, BaseModel):
            pending.future.set_result_now(result)
        else:
            pending.future.set_exception(result)

    def handle_progress(self, params: Any) -> None:
        """Call the progress callback of a request if the progress has grown, and extend its deadline if it may be."""
        pending = self._open.get(params.progress_token)
        if pending is None or pending.future.done() or pending.on_progress is None:
            return
        if params.progress <= pending.progress:
            return
        pending.progress = params.progress
        if pending.hard_deadline is not None:
            self._set_deadline(pending)
        try:
            pending.on_progress(Progress(params.progress, params.total, getattr(params, "message", None)))
        except Exception:
            _log.exception("the progress callback of %r failed", pending.row.method)

    def fail(self, reason: str) -> None:
        """Fail all requests with ConnectionClosedError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pending in self._open.values():
            if not pending.future.done():
                pending.future.set_exception(ConnectionClosedError(f"{pending.row.method!r}: {reason}"))

    def _set_deadline(self, pending: PendingRequest) -> None:
        if pending.timeout is None:
            pending.deadline = pending.hard_deadline
        else:
            deadline = self._loop.time() + pending.timeout
            pending.deadline = deadline if pending.hard_deadline is None else min(deadline, pending.hard_deadline)
        if pending.deadline is not None:
            self._arm_timer(pending.deadline)

    def _arm_timer(self, deadline: float) -> None:
        """Set the timer to this time, unless it is due earlier."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Fail the requests that are due, and set the timer to the next deadline."""
        self._timer = None
        now = self._loop.time()
        deadlines: list[float] = []
        for pending in self._open.values():
            if pending.deadline is None or pending.future.done():
                continue
            if pending.deadline > now:
                deadlines.append(pending.deadline)
                continue
            limit = "its max_timeout" if pending.timeout is None else f"{pending.timeout:g} s"
            pending.future.set_exception(RequestTimeoutError(f"{pending.row.method!r}: no response within {limit}"))
        if deadlines:
            self._arm_timer(min(deadlines))
