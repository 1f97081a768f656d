"""The handlers of a session that have not ended yet."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, NamedTuple

from ..aio.tasks import TaskStarter, task_starter
from ..errors import MCPError
from ..protocol.connection import Connection, NotificationReceived, RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR, Id
from ..protocol.lifecycle import is_control_request
from .interfaces import PushTransport, Reply

_log: Final = logging.getLogger(__name__)

_MAX_RUNNING: Final = 1024  # Running handlers above which further messages wait.
_TURN: Final = 64  # Further running handlers after which the event loop gets a turn.
_MAX_WAITING: Final = 32_768  # Waiting messages above which further ones are refused.
_MAX_WAITING_BYTES: Final = 16 * 1024 * 1024  # The same in bytes.
_AT_ONCE: Final = 16  # Waiting messages that begin before the next look at the output.
_CANCEL_SECONDS: Final = 0.4  # Seconds for cancelled handlers to end.


class RunningRequest:
    """A request of the peer whose handler waits for something."""

    __slots__ = ("request", "reply", "task")

    def __init__(self, request: RequestReceived, reply: Reply, task: asyncio.Task[None]) -> None:
        self.request = request
        self.reply = reply
        self.task = task


class _WaitingMessage(NamedTuple):
    message: RequestReceived | NotificationReceived
    reply: Reply
    begin: Callable[[], object]
    size: int


class RunningHandlers:
    """The handlers of one session that run, at most 1,024 besides those of pings, and the messages that wait for them.

    Messages are read however many handlers run, so that cancellations, responses and the end of the input arrive.
    """

    __slots__ = (
        "push",
        "drain",
        "is_full",
        "_beginning",
        "_tasks",
        "_waiting",
        "_waiting_bytes",
        "loop",
        "_starter",
        "_owns_starter",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, starter: TaskStarter | None = None) -> None:
        """Create the handlers of a session; `starter` is what the sessions of an endpoint share, or None."""
        self.push: PushTransport | None = None  # The transport that delivers the messages, if it can be paused.
        # Waits until few messages are unsent. Without it, messages above the limit are refused instead of waiting.
        self.drain: Callable[[], Awaitable[None]] | None = None
        self.is_full = False  # True if the next message has to wait.
        self._beginning: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiting: OrderedDict[object, _WaitingMessage] | None = None
        self._waiting_bytes = 0
        self.loop = loop
        self._starter: TaskStarter = starter or task_starter(loop)
        self._owns_starter = starter is None

    @property
    def defers(self) -> bool:
        """True if handlers begin in the next iteration of the event loop."""
        return self._starter.defers

    def start(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Start a coroutine at once, up to its first wait; return its task, or None if it has ended."""
        if (task := self._starter.start(coro)) is None or task.done():
            return None
        self.add(task)
        if (self._starter.defers or not len(self._tasks) % _TURN) and (push := self.push) is not None:
            push.pause()
            # The next message is delivered when this handler has begun. While handlers that wait shortly get their
            # turns like this, few of them run at the same time, and there are few objects to collect.
            self.loop.call_soon(push.resume)
        return task

    def add(self, task: asyncio.Task[None]) -> None:
        """Add the task of a handler, unless it is here."""
        self._tasks[task] = None
        if len(self._tasks) >= _MAX_RUNNING:
            self.is_full = True

    def remove(self, task: asyncio.Task[None]) -> None:
        """Remove the task of a handler. Handlers call this themselves, which saves an iteration of the event loop; it
        is a callback of tasks that are cancelled before they start."""
        if task not in self._tasks:
            return
        del self._tasks[task]
        if not self._tasks:
            self._tasks.clear()  # Frees the memory of the entries: very many sessions are idle.
        if self.is_full and len(self._tasks) < _MAX_RUNNING:
            self.is_full = False
            if self._waiting and self.drain is not None and self._beginning is None:
                self._beginning = self.loop.create_task(self._begin_waiting(self.drain), context=Context())

    def postpone(
        self,
        connection: Connection,
        message: RequestReceived | NotificationReceived,
        reply: Reply,
        begin: Callable[[], object],
        size: int,
    ) -> bool:
        """Let a message of `size` bytes wait until a handler has ended; refuse it if too many wait.

        Return False for a request that is served however many handlers run.
        """
        if is_control_request(connection.revision, message.row) and len(self._tasks) < 2 * _MAX_RUNNING:
            return False
        waiting = self._waiting = OrderedDict() if self._waiting is None else self._waiting
        if self.drain is not None and len(waiting) < _MAX_WAITING and self._waiting_bytes + size <= _MAX_WAITING_BYTES:
            key = message.id if isinstance(message, RequestReceived) else object()
            waiting[key] = _WaitingMessage(message, reply, partial(copy_context().run, begin), size)
            self._waiting_bytes += size
            return True
        _log.warning("too many messages at once: %r is refused", message.row.method)
        if isinstance(message, RequestReceived):
            text = f"too many requests wait for others: wait for results before the next {message.row.method!r}"
            reply(connection.send_error(message, INTERNAL_ERROR, text), INTERNAL_ERROR)
        return True

    def pop_waiting(self, id: Id) -> tuple[RequestReceived, Reply] | None:
        """Remove the request with this id from those that wait, and return it with its reply; None if it does not."""
        if self._waiting is None or (entry := self._waiting.pop(id, None)) is None:
            return None
        self._waiting_bytes -= entry.size
        return (entry.message, entry.reply) if isinstance(entry.message, RequestReceived) else None

    async def _begin_waiting(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Begin the handlers that have waited, as fast as their results are sent, until too many run again."""
        try:
            while self._waiting and not self.is_full:
                await drain()
                for _ in range(_AT_ONCE):
                    if not self._waiting or self.is_full:
                        break
                    entry = self._waiting.popitem(last=False)[1]
                    self._waiting_bytes -= entry.size
                    entry.begin()
                await asyncio.sleep(0)
        except MCPError as error:  # The connection has ended, and the session finishes its handlers.
            _log.debug("no more messages begin: %s", error)
        finally:
            self._beginning = None

    async def finish(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the handlers to end, also for those that wait; then cancel them."""
        deadline = self.loop.time() + timeout
        while self._waiting and (remaining := deadline - self.loop.time()) > 0:
            tasks = [*self._tasks] if self._beginning is None else [self._beginning]
            if not tasks:
                break
            await asyncio.wait(tasks, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # The task that begins others starts.
        dropped = [] if self._waiting is None else [*self._waiting.values()]
        self._waiting = None
        self._waiting_bytes = 0
        if self._beginning is not None:
            self._beginning.cancel()
        for entry in dropped:
            entry.reply(None, 0)
        await finish_tasks(self._tasks, max(deadline - self.loop.time(), 0))
        if self._owns_starter:
            await self._starter.close()


def ignore_response(response: bytes | None, code: int) -> None:
    """Do nothing: a notification gets no response."""


async def finish_tasks(tasks: Collection[asyncio.Task[Any]], timeout: float) -> None:
    """Wait up to `timeout` seconds for tasks to end, then cancel them; `tasks` loses the tasks that have ended."""
    if tasks and timeout:
        await asyncio.wait(tasks, timeout=timeout)
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
