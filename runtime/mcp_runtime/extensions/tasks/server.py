"""The server side of the tasks extension: create tasks for calls, and handle the requests about tasks."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from pydantic import BaseModel
from pydantic_core import from_json

from ..._lazy import load
from ...aio import clock
from ...bindings.server import BaseServer
from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize
from ...protocol.models import PreSerialized, is_object, plain_of, validator
from ...protocol.revision import InterimResult, Notification, Request
from ...server.clients import client_name
from ...server.context import ServerContext
from ...server.input_requests import require_client_capabilities
from ...server.task_options import TaskOptions
from ...usage.shortened import quoted
from .deferral import DeferrableCall
from .execution import TaskExecution
from .store import TERMINAL_STATUSES, InMemoryTaskStore, TaskRecord, TaskStore

if TYPE_CHECKING:
    from ...session.interfaces import TaskQueue
    from ...stores.primitives import Store
    from .shared_tasks import RemoteExecution, SharedTasks

_log: Final = logging.getLogger(__name__)

_MAX_RESULT_BYTES: Final = 1024 * 1024


def _no_task(name: str) -> TaskOptions | None:
    return None


class TaskServerMixin(BaseServer):
    """A mixin for a generated server with the tasks extension: `await ctx.as_task()` in a handler responds with a task
    while the handler continues.

    Only the user who created a task (`principal`) can access it, with a token that has the scopes which the call of the
    task required. The handler ends with the connection that created the
    task; over HTTP, with the server.
    """

    _task_options: Callable[[], Iterable[TaskOptions]] = staticmethod(tuple)
    """Returns the options that functions of the server declare; those of an app are its tools."""
    _task_of: Callable[[str], TaskOptions | None] = staticmethod(_no_task)
    """Returns the options of the tool with a name; None if its calls become no tasks."""
    _queue: Any = None
    """The `RepeatableTasks` of this worker, whose folder imports this one; None without a queue."""

    def __init__(
        self, *, tasks: TaskStore | None = None, max_result_bytes: int = _MAX_RESULT_BYTES, **settings: Any
    ) -> None:
        """Create a server with tasks.

        Args:
            tasks: The store of the tasks, by default that which the workers of an endpoint share, or else in memory.
            max_result_bytes: The limit of a serialized task result, in bytes; larger results fail the task.
            settings: The arguments of the server class.

        Raises LocalError if the server has no tasks extension.
        """
        super().__init__(**settings)
        self._tasks: TaskStore = InMemoryTaskStore() if tasks is None else tasks
        self._has_own_store = tasks is not None
        self._shared_tasks: SharedTasks | None = None
        self._max_result_bytes = max_result_bytes
        self._executions: dict[str, TaskExecution] = {}
        rows = {row.name: row for row in self.revision.rows}
        deferrable = [row for row in rows.values() if isinstance(row, Request) and _create_task_type(row) is not None]
        if not deferrable:
            raise LocalError(f"a server of {self.revision.id} needs the tasks extension: pass it in `extensions`")
        self._status_notification: Notification = rows["on_task_status"]  # type: ignore[assignment]
        self._rows = rows
        self._required_capability = next(gate.capability for gate in rows["get_task"].requirements)
        self._deferrable = deferrable
        for row in deferrable:
            if row.method in self._handlers:
                self._handlers[row.method] = self._deferrable_handler(row, self._handlers[row.method])

    def _wrap_handlers(self) -> None:
        self._bare_handlers = dict(self._handlers)  # A call that begins again has passed limits and checks already.
        super()._wrap_handlers()

    def _tasks_of_clients(self, converter: Any) -> Any:
        if find_spec(f"{__package__}.requested_tasks") is None:  # It is in mcp-generated-extras.
            return None
        from .requested_tasks import RequestedTasks

        tasks = RequestedTasks(self, converter, self._deferrable[0])
        return tasks if tasks.is_possible else None

    # ---- repeatable tasks --------------------------------------------------------------------------------------------

    def _repeats_tasks(self) -> bool:
        return any(options.repeatable for options in self._task_options())

    def _check_place(self, function: str, transport: str, settings: Mapping[str, Any]) -> None:
        if not self._repeats_tasks():
            return
        place = f'write {function}("http", store="redis://localhost")'
        if function in ("asgi", "asgi_app"):
            place = f'write {function}(…, store="redis://localhost")'
        if transport == "stdio":
            raise LocalError(f"{function}(): a repeatable task goes on at another worker, which stdio has not: {place}")
        if not _is_redis(settings.get("store")):
            raise LocalError(f"{function}(): a repeatable task needs a Redis that all workers share: {place}")
        if self._has_own_store:
            raise LocalError(f"{function}(): the store of repeatable tasks is store=: leave out tasks=")

    def _open_queue(self, store: str | Store) -> TaskQueue | None:
        if not self._repeats_tasks() or not _is_redis(store):
            return None
        return cast("TaskQueue", load(f"{__package__}.repeatable.task_queue").RepeatableTasks(self, store))

    # ---- requests about tasks ----------------------------------------------------------------------------------------

    async def get_task(self, ctx: ServerContext, params: Any) -> Any:
        """Return the current state of a task."""
        record = await self._require_record(ctx, params.task_id)
        return self._result("get_task", record.to_wire())

    async def update_task(self, ctx: ServerContext, params: Any) -> Any:
        """Settle the input requests of a task; responses without a request are ignored."""
        execution = await self._get_running_execution(ctx, params.task_id)
        if execution is not None:
            responses = plain_of(params).get("inputResponses")
            await execution.resolve_inputs(responses if is_object(responses) else {})
        return self._result("update_task", {})

    async def cancel_task(self, ctx: ServerContext, params: Any) -> Any:
        """Cancel the handler of a task; the status shows whether it ended."""
        execution = await self._get_running_execution(ctx, params.task_id)
        if execution is not None:
            execution.cancel("cancelled")
        return self._result("cancel_task", {})

    async def filter_subscriptions(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Return the ids of a subscription filter whose tasks belong to the client."""
        records = [await self._find_record(ctx, id) for id in ids]
        return [record.id for record in records if record is not None and _has_scopes(ctx, record)]

    async def _find_record(self, ctx: ServerContext, id: str) -> TaskRecord | None:
        execution = self._executions.get(id)
        record = await self._store_of().get(id) if execution is None else execution.record
        is_visible = record is not None and record.owner == self.principal(ctx) and record.expires > clock.wall()
        return record if is_visible else None

    async def _require_record(self, ctx: ServerContext, id: str) -> TaskRecord:
        record = await self._find_record(ctx, id)
        if record is None:  # The same error for tasks of other users, so that their ids are not revealed.
            raise JSONRPCError(INVALID_PARAMS, f"there is no task {quoted(id)}, or it has expired")
        ctx.require_scopes(*record.scopes)
        return record

    def _store_of(self) -> TaskStore:
        """Return the store of the server, or else that of all workers, or else the one in memory."""
        shared = self._origin._shared_store
        if self._has_own_store or shared is None:
            return self._tasks
        if self._shared_tasks is None or self._shared_tasks.source is not shared:
            from .shared_tasks import SharedTasks

            self._shared_tasks = SharedTasks(shared, self.name, self.revision, self._executions)
        return self._shared_tasks

    async def _get_running_execution(self, ctx: ServerContext, id: str) -> TaskExecution | RemoteExecution | None:
        """Return the execution of a task, None if it has ended. Raises JSONRPCError if it runs in another process that
        shares no store with this one."""
        record = await self._require_record(ctx, id)
        execution = self._executions.get(id)
        if execution is None and record.status not in TERMINAL_STATUSES:
            if self._store_of() is self._shared_tasks and self._shared_tasks is not None:
                return await self._shared_tasks.elsewhere(id)
            raise JSONRPCError(INTERNAL_ERROR, f"the task {quoted(id)} runs in another process")
        return execution

    def _result(self, name: str, fields: dict[str, Any]) -> BaseModel:
        row = self._rows[name]
        assert isinstance(row, Request)
        return row.read_result({"resultType": "complete", **fields})

    # ---- creating tasks ----------------------------------------------------------------------------------------------

    def _deferrable_handler(
        self, row: Request[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        """Return a handler whose calls may become tasks."""

        async def answer(ctx: ServerContext, params: Any) -> Any:
            check = partial(require_client_capabilities, self.revision, ctx.capabilities, [self._required_capability])
            call = DeferrableCall(ctx, check, partial(self._create_task, ctx, row), partial(self._hand_over, ctx, row))
            result = await call.run(lambda: handler(ctx, params))
            if ctx._task_request is None:  # pyright: ignore[reportPrivateUsage]
                return result
            from .requested_tasks import TaskCreated

            raise TaskCreated(await self._requested_record(ctx, row, result))

        return answer

    async def _requested_record(self, ctx: ServerContext, row: Request[Any], result: Any) -> TaskRecord:
        """Return the record of a call that has become a task, or that has ended before, as after wrong arguments."""
        if (id := getattr(result, "task_id", None)) is not None:
            return await self._require_record(ctx, id)
        plain = from_json(serialize(result.value if type(result) is PreSerialized else result))
        record = replace(self._new_record(ctx, TaskOptions()), status="completed", detail={"result": plain})
        await _added(self._store_of().add(record))
        return record

    async def _create_task(
        self, ctx: ServerContext, row: Request[Any], options: TaskOptions, work: asyncio.Future[Any]
    ) -> tuple[TaskExecution, BaseModel]:
        """Create the task of a running handler; return its execution and the result that announces it to the client."""
        record = self._new_record(ctx, options)
        await _added(self._store_of().add(record))
        execution = self._new_execution(ctx, row, record, work)
        ctx.connection_state.background_tasks.add(work)
        work.add_done_callback(partial(self._execution_done, execution))
        return execution, _create_task_result(row, record)

    async def _hand_over(self, ctx: ServerContext, row: Request[Any], options: TaskOptions) -> BaseModel | None:
        """Let a worker run the call as a repeatable task; return the result that announces the task to the client. None
        if this server has no other workers: in memory, and in tests."""
        if self._origin._shared_store is None:
            return None
        if self._queue is None:
            _log.error(
                "a repeatable task needs its queue: add its tool before the app is served, or write store= as URL"
            )
            raise JSONRPCError(INTERNAL_ERROR, "the task cannot be stored")
        record = self._new_record(ctx, options)
        await _added(self._queue.add(ctx, row, record, options))
        return _create_task_result(row, record)

    def _new_record(self, ctx: ServerContext, options: TaskOptions) -> TaskRecord:
        now, requested = clock.wall(), ctx._task_request  # pyright: ignore[reportPrivateUsage]
        ttl = options.ttl
        if requested is not None and requested.ttl is not None:
            ttl = requested.ttl / 1000 if ttl is None else min(ttl, requested.ttl / 1000)
        return TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=self.principal(ctx),
            scopes=_checked_scopes(ctx),
            client=client_name(ctx),
            status="working",
            created=now,
            updated=now,
            ttl=ttl,
            poll_interval=options.poll_interval,
        )

    def _new_execution(
        self, ctx: ServerContext, row: Request[Any], record: TaskRecord, work: asyncio.Future[Any]
    ) -> TaskExecution:
        save = partial(self._save, ctx)
        settings = record, row, self.revision, ctx.capabilities, self._max_result_bytes, save, work
        tasks = ctx.connection_state.background_tasks
        execution = self._executions[record.id] = TaskExecution(
            *settings, scopes=partial(_checked_scopes, ctx), is_ending=lambda: tasks.is_ended
        )
        return execution

    def _execution_done(self, execution: TaskExecution, work: asyncio.Future[Any]) -> None:
        """Forget the execution of a task that has ended, unless its record could not be saved."""
        if not execution.is_unsaved or execution.record.expires <= clock.wall():
            self._executions.pop(execution.record.id, None)

    async def _save(self, ctx: ServerContext, record: TaskRecord) -> None:
        """Save the record of a task, and notify its subscribers."""
        try:
            await self._store_of().update(record)
        except Exception:
            _log.exception("the task store failed to update a task")
            self._executions[record.id].is_unsaved = True
        params = record.to_wire()
        if self._shared_tasks is not None or self._subscription_bus.has_subscriber(self._status_notification, params):
            ctx.connection_state.background_tasks.add(
                asyncio.ensure_future(self._subscription_bus.publish(self._status_notification, params))
            )


async def _added(adding: Awaitable[None]) -> None:
    """Add a task to a store. Raises JSONRPCError if that fails."""
    try:
        await adding
    except LocalError as error:
        raise JSONRPCError(INTERNAL_ERROR, str(error)) from None
    except Exception:
        _log.exception("the task store failed to add a task")
        raise JSONRPCError(INTERNAL_ERROR, "the task cannot be stored") from None


def _create_task_result(row: Request[Any], record: TaskRecord) -> BaseModel:
    interim = _create_task_type(row)
    assert interim is not None
    created: BaseModel = validator(interim.result)({**record.to_wire(), interim.property: interim.value})
    return created


def _is_redis(store: object) -> TypeGuard[str]:
    return isinstance(store, str) and store.startswith(("redis://", "rediss://", "unix://"))


def _create_task_type(row: Request[Any]) -> InterimResult | None:
    """Return the interim result of a request that announces a task, None if it has none."""
    return next((interim for interim in row.interim if "task_id" in interim.result.__pydantic_fields__), None)


def _checked_scopes(ctx: ServerContext) -> tuple[str, ...]:
    """Return the scopes that a request has required so far."""
    auth = ctx._channel.auth  # pyright: ignore[reportPrivateUsage]
    return () if auth is None else tuple(sorted(auth.checked_scopes))


def _has_scopes(ctx: ServerContext, record: TaskRecord) -> bool:
    return not record.scopes or (ctx.user is not None and ctx.user.scopes.issuperset(record.scopes))
