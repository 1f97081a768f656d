"""The queue of repeatable tasks: docket, whose worker runs in the event loop of this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote

from pydantic import BaseModel
from pydantic_core import from_json, to_json
from redis.exceptions import RedisError

from mcp_products.extensions.tasks.execution import TaskExecution, reason_of_end
from mcp_products.extensions.tasks.server import ServerTasks
from mcp_products.extensions.tasks.store import TERMINAL_STATUSES, TaskOptions, TaskRecord
from mcp_runtime.errors import JSONRPCError, LocalError, ProtocolViolationError
from mcp_runtime.protocol.connection import Connection, RequestReceived
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.models import plain_of
from mcp_runtime.protocol.revision import InputRequest, Notification, Request
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.interfaces import AuthenticatedUser, RequestAuth
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.session.serving import ready_candidate
from mcp_runtime.session.session import ENDS_PROCESS
from mcp_runtime.stores import StoreUnavailableError

from ..stores.retries import retry
from .shared import SharedTasks, seconds_of

_log: Final = logging.getLogger("mcp_runtime.workers.tasks.repeatable")

_LEASE_SECONDS: Final = 10.0  # Seconds without a sign of life after which a task begins again at another worker.
_RECONNECT_SECONDS: Final = 1.0  # Seconds between two attempts to reach Redis.
_ANSWER_SECONDS: Final = 3.0  # Seconds for Redis to answer.
_END_SECONDS: Final = 3.0  # Seconds for the tasks of a worker that ends to be put back.
_MAX_RUNNING: Final = 100  # Tasks that run at the same time in one worker.
_RUN: Final = "mcp_run_task"  # The name of the function that docket calls.

Run = Callable[[str], Awaitable[float | None]]
_USER: Final = ("subject", "client_id", "issuer", "claims", "dpop_thumbprint", "expires_at")

_ADD_SECONDS: Final = 5.0  # Seconds for which a call waits for a queue that cannot be reached.
_AGAIN_SECONDS: Final = 1.0  # Seconds after which a task begins again whose store could not be reached.
_MAX_DELAY: Final = 64.0  # Seconds between two runs of a function that has failed.
_MAX_LOST_RUNS: Final = 10  # Runs without an end, after which a task has failed: it may be what ends its workers.
_LOST: Final = f"the workers that ran this task have ended {_MAX_LOST_RUNS} times"


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return False for a record of docket that a task begins again: why it does is logged here."""
    return f"{_RUN}(" not in record.getMessage()


class DocketQueue:
    """The queue of the tasks of one server. docket gets no more than their ids."""

    def __init__(self, url: str, name: str, run: Run, leave: Callable[[], None]) -> None:
        """Create the queue.

        Args:
            url: The URL of Redis.
            name: The name of the server, which it has in all workers.
            run: Runs the task with an id. It returns None when the task has ended, or else the seconds after which it
                has to begin again.
            leave: Called at the end, when this worker gets no more tasks: those that run here have to return at once.
        """
        self._docket: Any = import_module("docket")
        name = f"mcp-tasks:{quote(name, safe='')}"  # docket uses it in a pattern, too.
        self._queue: Any = self._docket.Docket(name=name, url=url, execution_ttl=timedelta(0))
        logging.getLogger("docket.dependencies").addFilter(_is_of_others)  # A second time changes nothing.
        self._run = run
        self._leave = leave
        self._ending = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect to Redis, and run tasks from now on. Raises StoreUnavailableError."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(opened))
        await opened

    async def add(self, id: str) -> None:
        """Add a task, once for an id. Raises StoreUnavailableError."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):  # The connections of docket wait for ever.
                await self._queue.add(_RUN, key=id)(id)
        except (RedisError, OSError) as error:  # A TimeoutError is an OSError.
            raise StoreUnavailableError(f"the queue of tasks cannot be reached: {error}") from error

    async def close(self) -> None:
        """Run no more tasks, and leave Redis."""
        self._ending.set()
        if self._serving is not None:
            await asyncio.wait([self._serving], timeout=_END_SECONDS)
            self._serving.cancel()  # Redis cannot be reached: others take its tasks after their leases.
            await asyncio.wait([self._serving], timeout=_END_SECONDS)

    def _job(self) -> Callable[..., Awaitable[None]]:
        """Return the function that docket calls, which is repeated as often as it requests that."""
        repeated: Any = self._docket.Retry(attempts=None, delay=timedelta(seconds=_RECONNECT_SECONDS))

        async def mcp_run_task(id: str, retry: Any = repeated) -> None:
            seconds = await self._run(id)
            if seconds is not None:
                retry.after(timedelta(seconds=seconds))

        return mcp_run_task

    async def _serve(self, opened: asyncio.Future[None]) -> None:
        """Run the worker of docket, whose context variables have to be set and reset in one asyncio task."""
        settings = {
            "concurrency": _MAX_RUNNING,
            "redelivery_timeout": timedelta(seconds=_LEASE_SECONDS),
            "reconnection_delay": timedelta(seconds=_RECONNECT_SECONDS),
            "schedule_automatic_tasks": False,
        }
        try:
            async with self._queue:
                self._queue.register(self._job(), names=[_RUN])
                async with self._docket.Worker(self._queue, **settings) as worker:
                    opened.set_result(None)
                    await self._work(worker)
                    # When the worker is to end, and before it waits for its tasks.
                    asyncio.get_running_loop().call_soon(self._leave)
        except (RedisError, OSError) as error:
            if opened.done():
                _log.warning("the queue of tasks could not be left in order: %s", error)
            else:
                opened.set_exception(StoreUnavailableError(f"the queue of tasks cannot be reached: {error}"))
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(LocalError(f"the queue of tasks cannot be opened: {error}"))

    async def _work(self, worker: Any) -> None:
        """Let the worker run until the end."""
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            while not ending.done():
                working = asyncio.ensure_future(worker.run_forever())
                await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    error = None if working.cancelled() else working.exception()
                    _log.error("the worker of the queue of tasks has ended, and begins again", exc_info=error)
                    await asyncio.wait([ending], timeout=_RECONNECT_SECONDS)
        finally:
            ending.cancel()


# What the function of a repeatable task has of its call: its user, its params, and the task for its requests.


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableCall:
    """A call as it is stored, from which its context is made wherever it runs. `failures` counts the runs that have
    raised an exception."""

    method: str
    params: dict[str, Any]
    capabilities: dict[str, Any]
    client_info: dict[str, Any]
    user: dict[str, Any] | None
    retries: int
    failures: int = 0

    @classmethod
    def of(cls, ctx: ServerContext, row: Request[Any], options: TaskOptions) -> RepeatableCall:
        """Return the call of a context."""
        user = ctx.user
        fields = None if user is None else {name: getattr(user, name) for name in _USER}
        return cls(
            method=row.method,
            params=plain_of(ctx.received.params),
            capabilities=dict(ctx.capabilities),
            client_info=ctx.client_info,
            user=None if user is None or fields is None else {**fields, "scopes": sorted(user.scopes)},
            retries=options.retries,
        )

    @classmethod
    def read(cls, value: bytes) -> RepeatableCall:
        """Return a stored call."""
        return cls(**from_json(value))

    def written(self) -> bytes:
        """Return the call as it is stored."""
        return to_json({name: getattr(self, name) for name in self.__slots__})

    def auth(self, record: TaskRecord) -> RequestAuth:
        """Return the authentication of the request."""
        user = None
        if self.user is not None:
            fields: dict[str, Any] = {**self.user, "scopes": frozenset(self.user["scopes"])}
            user = AuthenticatedUser(**fields)
        auth = _StoredAuth(user)
        auth.stored_key = record.owner
        auth.checked_scopes = frozenset(record.scopes)
        return auth


class _StoredAuth(RequestAuth):
    """The authentication of a request that was answered long ago."""

    __slots__ = ("stored_key",)
    stored_key: str

    @property
    def owner_key(self) -> str:
        return self.stored_key


class JobChannel:
    """The channel of the function of a repeatable task: input requests are those of its task."""

    scope: Mapping[str, Any] | None = None

    def __init__(self, connection: Connection, auth: RequestAuth) -> None:
        """Create the channel of one run; `execution` is set before the function begins."""
        self.connection = connection
        self.auth = auth
        self.execution: TaskExecution | None = None

    def _running(self) -> TaskExecution:
        assert self.execution is not None, "the execution is set before the function begins"
        return self.execution

    async def begin(self, options: TaskOptions) -> bool:
        """Return True: the call is a task."""
        return True

    async def set_status_message(self, message: str) -> None:
        """Set the status message of the task."""
        await self._running().set_status_message(message)

    async def send_request(
        self, row: Request[Any] | InputRequest[Any], params: dict[str, Any] | BaseModel, options: RequestOptions
    ) -> BaseModel:
        """Send an input request of the task. Raises ProtocolViolationError for another request."""
        if not isinstance(row, InputRequest):
            raise ProtocolViolationError(f"a repeatable task cannot send {row.method!r}: it has no connection")
        return await self._running().request_input(row, params)

    async def send_notification(self, row: Notification, params: Any) -> None:
        """Drop a notification: tasks have none from their functions."""

    def close_sse_stream(self, standalone: bool = False) -> None:
        """Do nothing: there is no stream."""


# Run repeatable tasks: store the call of one, and run its function at the worker that the queue gives it to.

# The other half of the server with tasks.
# pyright: reportPrivateUsage=false


class RepeatableTasks:
    """The repeatable tasks of one server at one worker."""

    def __init__(self, tasks: ServerTasks, url: str) -> None:
        """Create the repeatable ones of the tasks of a server, with a queue in a Redis."""
        server = tasks.server
        self._server_tasks = tasks
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
        self._server_tasks.queue = self

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
        tasks = self._server_tasks.store_of()
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
        request = RequestReceived(record.id, row, server.parts.read_params(row)(call.params))
        ctx = server.context(dispatcher, channel, request)
        ctx.deferral = channel
        ctx.raises_failures = call.failures < call.retries
        handler = self._server_tasks.bare_handlers[call.method]
        handling = _lost_too_often() if lost >= _MAX_LOST_RUNS else handler(ctx, request.params)
        work = asyncio.ensure_future(_within_process(handling))
        execution = channel.execution = self._server_tasks.new_execution(ctx, row, record, work)
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
            self._server_tasks.executions.pop(record.id, None)
            await dispatcher.background_tasks.end()
        if seconds is not None:
            await tasks.release(record.id)
        return seconds

    async def _end(
        self, execution: TaskExecution, record: TaskRecord, call: RepeatableCall, work: asyncio.Future[Any]
    ) -> float | None:
        """Store the end of a run; return the seconds after which the task begins again, None if it has ended."""
        if work.cancelled():
            if self._is_leaving and execution.cancel_reason is None:
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
