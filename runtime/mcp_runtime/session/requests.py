"""Requests that wait for their response, with deadlines and progress."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ..errors import ConnectionClosedError, MCPError, RequestTimeoutError
from ..protocol.jsonrpc import Id
from ..protocol.revision import Request
from ..usage.keywords import checked_fields
from ..usage.rules import COUNT, FLAG, MAPPING, Rule, is_number

if TYPE_CHECKING:
    from pydantic import BaseModel


# The options of one request: timeout, progress callback, metadata.

Params: TypeAlias = "BaseModel | Mapping[str, object]"
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a request: `progress` grows, up to `total` if the peer knows it; `message` is for humans."""

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress: TypeAlias = Callable[[Progress], None] | Callable[[Progress], Awaitable[None]]


class _UnsetTimeout(float):
    """The timeout of options that set none: that of the client, or else its own value."""


_UNSET: Final = _UnsetTimeout(60.0)
_LIMIT: Final = Rule(lambda value: is_number(value) and value > 0, "a number of seconds above 0").or_none()


@checked_fields(
    rules={
        "timeout": _LIMIT,
        "max_timeout": _LIMIT,
        "on_progress": Rule(callable, "a function of a Progress").or_none(),
        "meta": Rule(MAPPING.accepts, "a dict"),
        "bypass_cache": FLAG,
        "max_pages": COUNT,
        "max_items": COUNT,
    }
)
@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of one request.

    Args:
        timeout: Seconds to wait for the result; None waits without limit. Default: that of the client, which is 60
            unless it has another one.
        max_timeout: With this, progress restarts the timeout, but the request fails after this many seconds in any
            case. Default None: progress does not extend the timeout.
        on_progress: A function that is called with each `Progress` that the peer reports. Those of an `async def` run
            one after another, and end before the request does. Default None.
        meta: Keys to send in the `_meta` of the params. Default: none.
        bypass_cache: Send the request although a cached result is still fresh. Default False.
        max_pages: The pages of a list that an iterator such as `iter_tools` reads; more are an error. Default 1000.
        max_items: The items that it reads; more are an error. Default 100,000.
    """

    timeout: float | None = _UNSET
    max_timeout: float | None = None
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bypass_cache: bool = False
    max_pages: int = 1000
    max_items: int = 100_000


def with_timeout_of(options: RequestOptions | None, defaults: RequestOptions) -> RequestOptions:
    """Return options with the timeout of other ones, unless they have their own; the other ones instead of None."""
    if options is None:
        return defaults
    return replace(options, timeout=defaults.timeout) if options.timeout is _UNSET else options


class RequestKeywords(TypedDict, total=False):
    """The options of one request as keywords: `client.call_tool("add", {"a": 1}, timeout=5)`."""

    timeout: float | None
    max_timeout: float | None
    on_progress: OnProgress | None
    meta: Mapping[str, Any]
    bypass_cache: bool
    max_pages: int
    max_items: int


DEFAULT_OPTIONS: Final = RequestOptions()


class PendingRequest:
    """A request without a response yet. `timeout` is in seconds; deadlines and `sent` are times of the event loop."""

    __slots__ = (
        *("id", "row", "future", "on_progress", "timeout"),
        *("hard_deadline", "sent", "deadline", "progress", "callbacks"),
    )

    def __init__(
        self, id: Id, row: Request[Any], future: asyncio.Future[BaseModel], options: RequestOptions, sent: float
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

    __slots__ = ("_loop", "_open", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop  # To ask for the running one costs a system call before Python 3.12, 5 of 49 µs of a call.
        self._open: dict[Id, PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None  # One for all requests, due no later than the first deadline.

    def __len__(self) -> int:
        return len(self._open)

    def open(self, id: Id, row: Request[Any], options: RequestOptions) -> PendingRequest:
        """Return a pending request that fails with RequestTimeoutError `options.timeout` seconds from now, or from its
        last progress, but at the latest after `options.max_timeout` seconds."""
        now = self._loop.time()
        pending = self._open[id] = PendingRequest(id, row, self._loop.create_future(), options, now)
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
            pending.future.set_result(result)

    def handle_progress(self, params: Any) -> None:
        """Call the progress callback of a request if the progress has grown, and extend its deadline if it may be."""
        pending = self._open.get(params.progress_token)
        if pending is None or pending.future.done() or pending.on_progress is None:
            return
        if params.progress <= pending.progress:
            return
        pending.progress = params.progress
        if pending.hard_deadline is not None:
            self._set_deadline(pending, self._loop.time())
        try:
            result = pending.on_progress(Progress(params.progress, params.total, getattr(params, "message", None)))
        except Exception:
            _log.exception("the progress callback of %r failed", pending.row.method)
        else:
            if inspect.isawaitable(result):
                pending.callbacks = self._loop.create_task(_run_callback(pending.row, pending.callbacks, result))

    def fail(self, error: ConnectionClosedError) -> None:
        """Fail all requests with this error, in which each is named."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for pending in self._open.values():
            if not pending.future.done():
                pending.future.set_exception(
                    ConnectionClosedError(f"{pending.row.method!r}: {error.reason}", error.output)
                )

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
            seconds = round(pending.deadline - pending.sent, 3)
            pending.future.set_exception(
                RequestTimeoutError(f"{pending.row.method!r}: no response within {seconds:g} s")
            )
        if deadlines:
            self._arm_timer(min(deadlines))


async def _run_callback(row: Request[Any], previous: asyncio.Task[None] | None, callback: Awaitable[None]) -> None:
    """Run a progress callback after the previous one has ended."""
    try:
        if previous is not None:
            await previous
        await callback
    except Exception:
        _log.exception("the progress callback of %r failed", row.method)
