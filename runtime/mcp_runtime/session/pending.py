"""Requests that wait for their response, with deadlines and progress."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from ..aio.eager import ResultFuture, pending_future
from ..errors import ConnectionClosedError, MCPError, RequestTimeoutError
from ..protocol.jsonrpc import Id
from ..protocol.revision import Request
from .options import OnProgress, Progress, RequestOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

_log: Final = logging.getLogger(__name__)


class PendingRequest:
    """A request without a response yet. `timeout` is in seconds; deadlines and `sent` are times of the event loop."""

    __slots__ = (
        *("id", "row", "future", "on_progress", "timeout"),
        *("hard_deadline", "sent", "deadline", "progress", "callbacks"),
    )

    def __init__(
        self,
        id: Id,
        row: Request[Any],
        future: ResultFuture[BaseModel],
        options: RequestOptions,
        sent: float,
    ) -> None:
        self.id = id
        self.row = row
        self.future = future
        self.on_progress: OnProgress | None = options.on_progress
        self.timeout = options.timeout
        self.hard_deadline = None if options.max_timeout is None else sent + options.max_timeout
        self.sent = sent
        self.deadline: float | None = None
        self.progress = float("-inf")
        self.callbacks: asyncio.Task[None] | None = None  # The last progress callback that is a coroutine.


class PendingRequests:
    """The pending requests of one connection."""

    __slots__ = ("_open", "_timer")

    def __init__(self) -> None:
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
        loop = asyncio.get_running_loop()
        now = loop.time()
        pending = self._open[id] = PendingRequest(id, row, pending_future(loop), options, now)
        self._set_deadline(pending, now)
        return pending

    def close(self, pending: PendingRequest) -> None:
        """Remove a request, and cancel its progress callbacks."""
        self._open.pop(pending.id, None)
        if pending.callbacks is not None:
            pending.callbacks.cancel()

    def resolve(self, id: Id, result: BaseModel | MCPError) -> None:
        """Set the result or the error of a request, unless it has ended already; but after its progress callbacks."""
        pending = self._open.get(id)
        if pending is None or pending.future.done():
            return
        if pending.callbacks is not None and not pending.callbacks.done():
            pending.deadline = None  # The response came in time.
            pending.callbacks.add_done_callback(lambda _: self.resolve(id, result))
            return
        if isinstance(result, MCPError):
            pending.future.set_exception(result)
        else:
            pending.future.set_result_now(result)

    def handle_progress(self, params: Any) -> None:
        """Call the progress callback of a request if the progress has grown, and extend its deadline if it may be."""
        pending = self._open.get(params.progress_token)
        if pending is None or pending.future.done() or pending.on_progress is None:
            return
        if params.progress <= pending.progress:
            return
        pending.progress = params.progress
        if pending.hard_deadline is not None:
            self._set_deadline(pending, asyncio.get_running_loop().time())
        try:
            result = pending.on_progress(Progress(params.progress, params.total, getattr(params, "message", None)))
        except Exception:
            _log.exception("the progress callback of %r failed", pending.row.method)
        else:
            if inspect.isawaitable(result):
                pending.callbacks = asyncio.get_running_loop().create_task(
                    _run_callback(pending.row, pending.callbacks, result)
                )

    def fail(self, reason: str) -> None:
        """Fail all requests with ConnectionClosedError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pending in self._open.values():
            if not pending.future.done():
                pending.future.set_exception(ConnectionClosedError(f"{pending.row.method!r}: {reason}"))

    def _set_deadline(self, pending: PendingRequest, now: float) -> None:
        if pending.timeout is None:
            pending.deadline = pending.hard_deadline
        else:
            deadline = now + pending.timeout
            pending.deadline = deadline if pending.hard_deadline is None else min(deadline, pending.hard_deadline)
        if pending.deadline is not None:
            self._arm_timer(pending.deadline)

    def _arm_timer(self, deadline: float) -> None:
        """Set the timer to this time, unless it is due earlier."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        """Fail the requests that are due, and set the timer to the next deadline."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        deadlines: list[float] = []
        for pending in self._open.values():
            if pending.deadline is None or pending.future.done():
                continue
            if pending.deadline > now:
                deadlines.append(pending.deadline)
                continue
            seconds = round(pending.deadline - pending.sent, 3)
            pending.future.set_exception(
                RequestTimeoutError(f"{pending.row.method!r}: no response within {seconds:g} s")
            )
        if deadlines:
            self._arm_timer(min(deadlines))


NO_REQUESTS: Final = PendingRequests()  # One object, which is not changed, for sessions without a request so far.


async def _run_callback(row: Request[Any], previous: asyncio.Task[None] | None, callback: Awaitable[None]) -> None:
    """Run a progress callback after the previous one has ended."""
    try:
        if previous is not None:
            await previous
        await callback
    except Exception:
        _log.exception("the progress callback of %r failed", row.method)
