"""The server side of the tasks extension: create tasks for calls, and handle the requests about tasks."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from pydantic import BaseModel
from pydantic_core import from_json

from mcp_runtime._lazy import LazyModule, load
from mcp_runtime.aio import clock
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, serialize
from mcp_runtime.protocol.models import PreSerialized, is_object, plain_of, validator
from mcp_runtime.protocol.revision import InterimResult, Notification, Request
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.input_requests import require_client_capabilities
from mcp_runtime.server.limits import client_name
from mcp_runtime.stores import workers
from mcp_runtime.usage.texts import quoted

from .execution import DeferrableCall, TaskExecution
from .store import TERMINAL_STATUSES, InMemoryTaskStore, TaskOptions, TaskRecord, TaskStore

if TYPE_CHECKING:
    from mcp_products.workers.tasks.shared import RemoteExecution, SharedTasks
    from mcp_runtime.session.interfaces import TaskQueue
    from mcp_runtime.stores import Store

    from . import requested
else:  # Imported when they are used.
    requested = LazyModule("mcp_products.extensions.tasks.requested")

_log: Final = logging.getLogger("mcp_runtime.extensions.tasks.server")

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

    _bare_handlers: Mapping[str, Callable[..., Awaitable[Any]]]

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
        self._server_tasks = ServerTasks(self, tasks, max_result_bytes, self._bare_handlers)
        self.parts.tasks = self._server_tasks
        self._server_tasks.defer(self._handlers)

    def _wrap_handlers(self) -> None:
        self._bare_handlers = dict(self._handlers)
        super()._wrap_handlers()

    async def get_task(self, ctx: ServerContext, params: Any) -> Any:
        """Return the current state of a task."""
        record = await self._server_tasks.require_record(ctx, params.task_id)
        return self._server_tasks.result("get_task", record.to_wire())

    async def update_task(self, ctx: ServerContext, params: Any) -> Any:
        """Settle the input requests of a task; responses without a request are ignored."""
        execution = await self._server_tasks.running_execution(ctx, params.task_id)
        if execution is not None:
            responses = plain_of(params).get("inputResponses")
            await execution.resolve_inputs(responses if is_object(responses) else {})
        return self._server_tasks.result("update_task", {})

    async def cancel_task(self, ctx: ServerContext, params: Any) -> Any:
        """Cancel the handler of a task; the status shows whether it ended."""
        execution = await self._server_tasks.running_execution(ctx, params.task_id)
        if execution is not None:
            execution.cancel("cancelled")
        return self._server_tasks.result("cancel_task", {})

    async def filter_subscriptions(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Return the ids of a subscription filter whose tasks belong to the client."""
        records = [await self._server_tasks.find_record(ctx, id) for id in ids]
        return [record.id for record in records if record is not None and _has_scopes(ctx, record)]


class ServerTasks:
    """The tasks of one server: their executions in this process, and their records.

    Attributes:
        server: The server.
        executions: The executions of the tasks that run in this process, by the id of the task.
        bare_handlers: The handlers without limits and checks, which a call that begins again has passed already.
        options: Returns the `TaskOptions` that functions of the server declare; those of an app are its tools.
        options_of: Returns the options of the tool with a name; None if its calls become no tasks.
        admit: Called with a call and the id of the task that it becomes; it raises JSONRPCError to refuse that.
        queue: The `RepeatableTasks` of this worker, whose folder imports this one; None without a queue.
    """

    def __init__(
        self,
        server: BaseServer,
        store: TaskStore | None,
        max_result_bytes: int,
        bare_handlers: Mapping[str, Callable[..., Awaitable[Any]]],
    ) -> None:
        """Create the tasks of a server; the arguments are those of `TaskServerMixin`."""
        self.server = server
        self.executions: dict[str, TaskExecution] = {}
        self.bare_handlers = bare_handlers
        self.options: Callable[[], Iterable[Any]] = tuple
        self.options_of: Callable[[str], Any] = _no_task
        self.queue: Any = None
        self.admit: Callable[[ServerContext, str], Awaitable[None]] | None = None
        self._revision = server.revision
        self._tasks: TaskStore = InMemoryTaskStore() if store is None else store
        self._has_own_store = store is not None
        self._shared_tasks: SharedTasks | None = None
        self._max_result_bytes = max_result_bytes
        rows = {row.name: row for row in server.revision.rows}
        deferrable = [row for row in rows.values() if isinstance(row, Request) and _create_task_type(row) is not None]
        if not deferrable:
            raise LocalError(f"a server of {server.revision.id} needs the tasks extension: pass it in `extensions`")
        self._status_notification: Notification = rows["on_task_status"]  # type: ignore[assignment]
        self._rows = rows
        self._required_capability = next(gate.capability for gate in rows["get_task"].requirements)
        self._deferrable = deferrable

    def defer(self, handlers: dict[str, Callable[..., Awaitable[Any]]]) -> None:
        """Let calls of these handlers become tasks."""
        for row in self._deferrable:
            if row.method in handlers:
                handlers[row.method] = self._deferrable_handler(row, handlers[row.method])

    def of_clients(self, converter: Any) -> Any:
        """Return the handlers of tasks of a version in which clients request them; None if there are none."""
        tasks = requested.RequestedTasks(self, converter, self._deferrable[0])
        return tasks if tasks.is_possible else None

    # ---- repeatable tasks --------------------------------------------------------------------------------------------

    def _repeats_tasks(self) -> bool:
        return any(options.repeatable for options in self.options())

    def check_place(self, function: str, transport: str, settings: Mapping[str, Any]) -> None:
        """Raise LocalError if repeatable tasks need another transport or another store."""
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

    def open_queue(self, store: str | Store) -> TaskQueue | None:
        """Return the queue of repeatable tasks in a Redis; None if there are no such tasks."""
        if not self._repeats_tasks() or not _is_redis(store):
            return None
        return cast("TaskQueue", load("mcp_products.workers.tasks.repeatable").RepeatableTasks(self, store))

    # ---- records -----------------------------------------------------------------------------------------------------

    async def find_record(self, ctx: ServerContext, id: str) -> TaskRecord | None:
        """Return the record of a task of the requesting user; None if there is none, or it has expired."""
        execution = self.executions.get(id)
        record = await self.store_of().get(id) if execution is None else execution.record
        is_visible = record is not None and record.owner == self.server.principal(ctx) and record.expires > clock.wall()
        return record if is_visible else None

    async def require_record(self, ctx: ServerContext, id: str) -> TaskRecord:
        """Return the record of a task of the requesting user. Raises JSONRPCError if there is none."""
        record = await self.find_record(ctx, id)
        if record is None:  # The same error for tasks of other users, so that their ids are not revealed.
            raise JSONRPCError(INVALID_PARAMS, f"there is no task {quoted(id)}, or it has expired")
        ctx.require_scopes(*record.scopes)
        return record

    def store_of(self) -> TaskStore:
        """Return the store of the server, or else that of all workers, or else the one in memory."""
        shared = self.server.parts.origin.parts.store
        if self._has_own_store or shared is None:
            return self._tasks
        if self._shared_tasks is None or self._shared_tasks.source is not shared:
            shared_by: Any = workers("store=")
            tasks: SharedTasks = shared_by.SharedTasks(shared, self.server.name, self._revision, self.executions)
            self._shared_tasks = tasks
        return self._shared_tasks

    async def running_execution(self, ctx: ServerContext, id: str) -> TaskExecution | RemoteExecution | None:
        """Return the execution of a task, None if it has ended. Raises JSONRPCError if it runs in another process that
        shares no store with this one."""
        record = await self.require_record(ctx, id)
        execution = self.executions.get(id)
        if execution is None and record.status not in TERMINAL_STATUSES:
            if self.store_of() is self._shared_tasks and self._shared_tasks is not None:
                return await self._shared_tasks.elsewhere(id)
            raise JSONRPCError(INTERNAL_ERROR, f"the task {quoted(id)} runs in another process")
        return execution

    def result(self, name: str, fields: dict[str, Any]) -> BaseModel:
        """Return the result of a request about tasks; `name` is the name of its handler."""
        row = self._rows[name]
        assert isinstance(row, Request)
        return row.read_result({"resultType": "complete", **fields})

    # ---- creating tasks ----------------------------------------------------------------------------------------------

    def _deferrable_handler(
        self, row: Request[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        """Return a handler whose calls may become tasks."""

        async def answer(ctx: ServerContext, params: Any) -> Any:
            check = partial(require_client_capabilities, self._revision, ctx.capabilities, [self._required_capability])
            call = DeferrableCall(ctx, check, partial(self._create_task, ctx, row), partial(self._hand_over, ctx, row))
            result = await call.run(lambda: handler(ctx, params))
            if ctx.task_request is None:
                return result

            raise requested.TaskCreated(await self._requested_record(ctx, row, result))

        return answer

    async def _requested_record(self, ctx: ServerContext, row: Request[Any], result: Any) -> TaskRecord:
        """Return the record of a call that has become a task, or that has ended before, as after wrong arguments."""
        if (id := getattr(result, "task_id", None)) is not None:
            return await self.require_record(ctx, id)
        plain = from_json(serialize(result.value if type(result) is PreSerialized else result))
        record = replace(self._new_record(ctx, TaskOptions()), status="completed", detail={"result": plain})
        await _added(self.store_of().add(record))
        return record

    async def _create_task(
        self, ctx: ServerContext, row: Request[Any], options: TaskOptions, work: asyncio.Future[Any]
    ) -> tuple[TaskExecution, BaseModel]:
        """Create the task of a running handler; return its execution and the result that announces it to the client."""
        record = await self._admitted(ctx, options)
        await _added(self.store_of().add(record))
        execution = self.new_execution(ctx, row, record, work)
        ctx.connection_state.background_tasks.add(work)
        work.add_done_callback(partial(self._execution_done, execution))
        return execution, _create_task_result(row, record)

    async def _hand_over(self, ctx: ServerContext, row: Request[Any], options: TaskOptions) -> BaseModel | None:
        """Let a worker run the call as a repeatable task; return the result that announces the task to the client. None
        if this server has no other workers: in memory, and in tests."""
        if self.server.parts.origin.parts.store is None:
            return None
        if self.queue is None:
            _log.error(
                "a repeatable task needs its queue: add its tool before the app is served, or write store= as URL"
            )
            raise JSONRPCError(INTERNAL_ERROR, "the task cannot be stored")
        record = await self._admitted(ctx, options)
        await _added(self.queue.add(ctx, row, record, options))
        return _create_task_result(row, record)

    async def _admitted(self, ctx: ServerContext, options: TaskOptions) -> TaskRecord:
        record = self._new_record(ctx, options)
        if self.admit is not None:
            await self.admit(ctx, record.id)
        return record

    def _new_record(self, ctx: ServerContext, options: TaskOptions) -> TaskRecord:
        now, requested = clock.wall(), ctx.task_request
        ttl = options.ttl
        if requested is not None and requested.ttl is not None:
            ttl = requested.ttl / 1000 if ttl is None else min(ttl, requested.ttl / 1000)
        return TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=self.server.principal(ctx),
            scopes=_checked_scopes(ctx),
            client=client_name(ctx),
            status="working",
            created=now,
            updated=now,
            ttl=ttl,
            poll_interval=options.poll_interval,
        )

    def new_execution(
        self, ctx: ServerContext, row: Request[Any], record: TaskRecord, work: asyncio.Future[Any]
    ) -> TaskExecution:
        """Return the execution of a task, whose function runs as `work`."""
        save = partial(self._save, ctx)
        settings = record, row, self._revision, ctx.capabilities, self._max_result_bytes, save, work
        tasks = ctx.connection_state.background_tasks
        execution = self.executions[record.id] = TaskExecution(
            *settings, scopes=partial(_checked_scopes, ctx), is_ending=lambda: tasks.is_ended
        )
        return execution

    def _execution_done(self, execution: TaskExecution, work: asyncio.Future[Any]) -> None:
        """Forget the execution of a task that has ended, unless its record could not be saved."""
        if not execution.is_unsaved or execution.record.expires <= clock.wall():
            self.executions.pop(execution.record.id, None)

    async def _save(self, ctx: ServerContext, record: TaskRecord) -> None:
        """Save the record of a task, and notify its subscribers."""
        try:
            await self.store_of().update(record)
        except Exception:
            _log.exception("the task store failed to update a task")
            self.executions[record.id].is_unsaved = True
        params = record.to_wire()
        if self._shared_tasks is not None or self.server.parts.bus.has_subscriber(self._status_notification, params):
            ctx.connection_state.background_tasks.add(
                asyncio.ensure_future(self.server.parts.bus.publish(self._status_notification, params))
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
    auth = ctx.channel.auth
    return () if auth is None else tuple(sorted(auth.checked_scopes))


def _has_scopes(ctx: ServerContext, record: TaskRecord) -> bool:
    return not record.scopes or (ctx.user is not None and ctx.user.scopes.issuperset(record.scopes))
