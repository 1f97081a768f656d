"""Run repeatable tasks: store the call of one, and run its function at the worker that the queue gives it to."""

# The other half of the server with tasks.
# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from ....errors import JSONRPCError
from ....protocol.connection import Connection
from ....protocol.events import RequestReceived
from ....protocol.jsonrpc import INTERNAL_ERROR
from ....protocol.revision import Request
from ....server.context import ServerContext
from ....server.dispatcher import ServerDispatcher
from ....server.task_options import TaskOptions
from ....session.negotiation import ready_candidate
from ....session.replies import ENDS_PROCESS
from ....stores.primitives import StoreUnavailableError
from ....stores.retrying_store import retry
from ..execution import TaskExecution, reason_of_end
from ..shared_tasks import SharedTasks, seconds_of
from ..store import TERMINAL_STATUSES, TaskRecord
from .docket_queue import DocketQueue
from .job_channel import JobChannel, RepeatableCall

_log: Final = logging.getLogger(__name__)

_ADD_SECONDS: Final = 5.0  # Seconds for which a call waits for a queue that cannot be reached.
_AGAIN_SECONDS: Final = 1.0  # Seconds after which a task begins again whose store could not be reached.
_MAX_DELAY: Final = 64.0  # Seconds between two runs of a function that has failed.
_MAX_LOST_RUNS: Final = 10  # Runs without an end, after which a task has failed: it may be what ends its workers.
_LOST: Final = f"the workers that ran this task have ended {_MAX_LOST_RUNS} times"


class RepeatableTasks:
    """The repeatable tasks of one server at one worker."""

    def __init__(self, server: Any, url: str) -> None:
        """Create the tasks of a server, a `TaskServerMixin`, whose queue is in a Redis."""
        self._server = server
        self._queue = DocketQueue(url, server.name, self.run, self.leave)
        self._state: Callable[[], Awaitable[Any]]
        self._runs: set[asyncio.Future[Any]] = set()
        self._is_leaving = False

    async def open(self, state: Callable[[], Awaitable[Any]]) -> None:
        """Run tasks from now on. Raises StoreUnavailableError.

        Args:
            state: Returns what the lifespan of the server yields.
        """
        self._state = state
        await self._tasks().worker.subscribe()  # To cancellations and input responses.
        await self._queue.open()
        self._server._queue = self

    async def close(self) -> None:
        """Run no more tasks: those that run here begin again at another worker."""
        await self._queue.close()

    def leave(self) -> None:
        """Cancel the tasks that run here, so that the queue gets them again."""
        self._is_leaving = True
        for work in self._runs:
            work.cancel()

    # ---- adding a task -----------------------------------------------------------------------------------------------

    async def add(self, ctx: ServerContext, row: Request[Any], record: TaskRecord, options: TaskOptions) -> None:
        """Store a task and its call, and let a worker run it. Raises LocalError and StoreUnavailableError."""
        tasks = self._tasks()
        await self._store_call(record, RepeatableCall.of(ctx, row, options))
        await tasks.add(record, is_repeatable=True)
        await retry(lambda: self._queue.add(record.id), _ADD_SECONDS)

    async def _store_call(self, record: TaskRecord, call: RepeatableCall) -> None:
        tasks = self._tasks()
        await tasks.worker.store.put(tasks.worker.key("call", record.id), call.written(), seconds_of(record))

    def _tasks(self) -> SharedTasks:
        tasks = self._server._store_of()
        if not isinstance(tasks, SharedTasks):
            raise StoreUnavailableError("the store of the workers was closed")
        return tasks

    # ---- running a task ----------------------------------------------------------------------------------------------

    async def run(self, id: str) -> float | None:
        """Run a task that the queue has given to this worker. Return None when it has ended, or else the seconds after
        which it has to begin again."""
        try:
            if self._is_leaving:
                return 0.0
            tasks = self._tasks()
            value = await tasks.worker.store.get(tasks.worker.key("call", id))
            record = None if value is None else await tasks.claim(id)
            if value is None or record is None:  # It has expired, or was cancelled.
                return None
            call = RepeatableCall.read(value)
            lost = await tasks.worker.store.count(tasks.worker.key("lost", id), 1, seconds_of(record)) - 1
            seconds = await self._run_call(tasks, record, call, lost)
            await tasks.worker.store.count(tasks.worker.key("lost", id), -1, seconds_of(record))
            return seconds
        except StoreUnavailableError as error:
            _log.warning("a task begins again, since the store could not be reached: %s", error)
            return _AGAIN_SECONDS

    async def _run_call(self, tasks: SharedTasks, record: TaskRecord, call: RepeatableCall, lost: int) -> float | None:
        """Run the function of a task, and store how it has ended; return what `run` does."""
        server = self._server
        row: Any = server.revision.table("client_to_server")[call.method]
        connection = Connection(server.revision, "server", local_capabilities=server.capabilities)
        connection.remote_capabilities = call.capabilities
        channel = JobChannel(connection, call.auth(record))
        dispatcher = ServerDispatcher([ready_candidate(server.revision, server)], server, await self._state())
        dispatcher.identify(None)
        dispatcher.client_info = call.client_info
        request = RequestReceived(record.id, row, server._read_params(row)(call.params))
        ctx = server.context(dispatcher, channel, request)
        ctx._deferral = channel
        ctx._raises_failures = call.failures < call.retries
        handler = server._bare_handlers[call.method]
        handling = _lost_too_often() if lost >= _MAX_LOST_RUNS else handler(ctx, request.params)
        work = asyncio.ensure_future(_within_process(handling))
        execution = channel.execution = server._new_execution(ctx, row, record, work)
        self._runs.add(work)
        try:
            current = await tasks.get(record.id)
            if current is None or current.status in TERMINAL_STATUSES:  # It was cancelled before it was known here.
                execution.cancel("cancelled")
            await asyncio.wait([work])
            seconds = await self._end(execution, record, call, work)
        finally:
            work.cancel()
            self._runs.discard(work)
            server._executions.pop(record.id, None)
            await dispatcher.background_tasks.end()
        if seconds is not None:
            await tasks.release(record.id)
        return seconds

    async def _end(
        self, execution: TaskExecution, record: TaskRecord, call: RepeatableCall, work: asyncio.Future[Any]
    ) -> float | None:
        """Store the end of a run; return the seconds after which the task begins again, None if it has ended."""
        if work.cancelled():
            if self._is_leaving and execution._cancel_reason is None:
                return 0.0
            await execution.fail(asyncio.CancelledError())
        elif (error := work.exception()) is None:
            await execution.complete(work.result())
        elif isinstance(error, Exception) and not isinstance(error, JSONRPCError) and call.failures < call.retries:
            _log.warning("a task of %r failed, and begins again", call.method, exc_info=error)
            await self._store_call(record, replace(call, failures=call.failures + 1))
            return min(2.0**call.failures, _MAX_DELAY)
        else:
            await execution.fail(error)
        return _AGAIN_SECONDS if execution.is_unsaved else None


async def _lost_too_often() -> None:
    raise JSONRPCError(INTERNAL_ERROR, _LOST)


async def _within_process(handling: Awaitable[Any]) -> Any:
    """Return the result of a function. One that ends the process would end that of each worker which begins again."""
    try:
        return await handling
    except ENDS_PROCESS as error:
        _log.exception("the function of a task has raised what ends a process")
        raise JSONRPCError(INTERNAL_ERROR, reason_of_end(error)) from error
