"""A server with handlers goes in; it can answer their calls with tasks, and then serves what clients ask of these."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from ...bindings.server import BaseServer
from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ...protocol.models import is_object, validator
from ...protocol.revision import InterimResult, Notification, Request
from ...server.context import ServerContext
from ...server.input_requests import require_client_capabilities
from ...server.task_options import TaskOptions
from ...session.pending import log
from .deferral import DeferrableCall
from .execution import TaskExecution
from .store import TERMINAL_STATUSES, InMemoryTaskStore, TaskRecord, TaskStore

_MAX_RESULT_BYTES: Final = 1024 * 1024


class TaskServerMixin(BaseServer):
    """To be inherited from beside a generated server that has the tasks extension: `await ctx.as_task()` in a handler
    answers its request with a task, and the handler goes on.

    `tasks` is where they are kept: in memory if nothing else is said. A result is at most `largest` bytes of JSON. A
    task is found by whom it was made for (`principal`) alone, and its handler ends with the conversation that began it,
    over HTTP with the server.
    """

    def __init__(
        self, *, tasks: TaskStore | None = None, max_result_bytes: int = _MAX_RESULT_BYTES, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self._tasks: TaskStore = InMemoryTaskStore() if tasks is None else tasks
        self._max_result_bytes = max_result_bytes
        self._running: dict[str, TaskExecution] = {}
        rows = {row.name: row for row in self.revision.rows}
        calls = [row for row in rows.values() if isinstance(row, Request) and _create_task_type(row) is not None]
        if not calls:
            raise LocalError(f"a server of {self.revision.id} has tasks with the tasks extension alone")
        self._status_notification: Notification = rows["on_task_status"]  # type: ignore[assignment]
        self._rows = rows
        self._required_capability = next(gate.capability for gate in rows["get_task"].requirements)
        for row in calls:
            if row.method in self._handlers:
                self._handlers[row.method] = self._deferrable_handler(row, self._handlers[row.method])

    # ---- what clients ask of tasks ------------------------------------------------------------------------------------

    async def get_task(self, ctx: ServerContext, params: Any) -> Any:
        """How a task stands."""
        record = await self._get_record(ctx, params.task_id)
        return self._result("get_task", record.to_wire())

    async def update_task(self, ctx: ServerContext, params: Any) -> Any:
        """Take answers to what a task asks; those it does not ask are left alone."""
        running = await self._get_own_record(ctx, params.task_id)
        if running is not None:
            said = params.model_dump().get("inputResponses")
            await running.resolve_inputs(said if is_object(said) else {})
        return self._result("update_task", {})

    async def cancel_task(self, ctx: ServerContext, params: Any) -> Any:
        """Wish that a task ends; whether it does, its status tells."""
        running = await self._get_own_record(ctx, params.task_id)
        if running is not None:
            running.cancel("cancelled")
        return self._result("cancel_task", {})

    async def filter_subscriptions(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Of the tasks that a client wants to hear of, those that are its own."""
        return [id for id in ids if await self._require_execution(ctx, id) is not None]

    async def _require_execution(self, ctx: ServerContext, id: str) -> TaskRecord | None:
        running = self._running.get(id)
        record = await self._tasks.get(id) if running is None else running.record
        mine = record is not None and record.owner == self.principal(ctx) and record.expires > time.time()
        return record if mine else None

    async def _get_record(self, ctx: ServerContext, id: str) -> TaskRecord:
        record = await self._require_execution(ctx, id)
        if record is None:  # Whose it is, if it is somebody else's, is nobody's business.
            raise JSONRPCError(INVALID_PARAMS, f"there is no task {id[:100]!r}, or not any more")
        return record

    async def _get_own_record(self, ctx: ServerContext, id: str) -> TaskExecution | None:
        """The task, if it still runs. Raises JSONRPCError for one that runs in another process."""
        record = await self._get_record(ctx, id)
        running = self._running.get(id)
        if running is None and record.status not in TERMINAL_STATUSES:
            raise JSONRPCError(INTERNAL_ERROR, f"the task {id!r} runs in another process")
        return running

    def _result(self, name: str, fields: dict[str, Any]) -> BaseModel:
        row = self._rows[name]
        assert isinstance(row, Request)
        return row.read_result({"resultType": "complete", **fields})

    # ---- calls that become tasks --------------------------------------------------------------------------------------

    def _deferrable_handler(
        self, row: Request[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        """The handler, whose calls may become tasks."""

        async def answer(ctx: ServerContext, params: Any) -> Any:
            knows = partial(require_client_capabilities, self.revision, ctx.capabilities, [self._required_capability])
            call = DeferrableCall(ctx, knows, partial(self._create_task, ctx, row))
            return await call.run(lambda: handler(ctx, params))

        return answer

    async def _create_task(
        self, ctx: ServerContext, row: Request[Any], options: TaskOptions, work: asyncio.Future[Any]
    ) -> tuple[TaskExecution, BaseModel]:
        """A task for the handler that `work` runs, and what the client is told of it."""
        now = time.time()
        record = TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=self.principal(ctx),
            status="working",
            created=now,
            updated=now,
            ttl=options.ttl,
            poll_interval=options.poll_interval,
        )
        try:
            await self._tasks.add(record)
        except LocalError as fault:
            raise JSONRPCError(INTERNAL_ERROR, str(fault)) from None
        except Exception:
            log.exception("a task cannot be kept")
            raise JSONRPCError(INTERNAL_ERROR, "the task cannot be kept") from None
        keep = partial(self._save, ctx)
        running = TaskExecution(record, row, self.revision, ctx.capabilities, self._max_result_bytes, keep, work)
        self._running[record.id] = running
        ctx.connection_state.background_tasks.add(work)
        work.add_done_callback(partial(self._execution_done, running))
        created = _create_task_type(row)
        assert created is not None
        return running, validator(created.result)({**record.to_wire(), created.property: created.value})

    def _execution_done(self, execution: TaskExecution, work: asyncio.Future[Any]) -> None:
        """Forget a task that has ended, unless nobody else knows what became of it."""
        if not execution.is_expired or execution.record.expires <= time.time():
            self._running.pop(execution.record.id, None)

    async def _save(self, ctx: ServerContext, record: TaskRecord) -> None:
        """Keep what has become of a task, and tell who wants to hear of it."""
        try:
            await self._tasks.update(record)
        except Exception:
            log.exception("what became of a task cannot be kept")
            self._running[record.id].is_expired = True
        said = record.to_wire()
        if self.subscription_bus.has_subscriber(self._status_notification, said):
            ctx.connection_state.background_tasks.add(
                asyncio.ensure_future(self.subscription_bus.publish(self._status_notification, said))
            )


def _create_task_type(row: Request[Any]) -> InterimResult | None:
    """The answer of a request that is a task, if it has one."""
    return next((each for each in row.interim if "task_id" in each.result.model_fields), None)
