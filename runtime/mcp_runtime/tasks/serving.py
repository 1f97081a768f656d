"""A server with handlers goes in; it can answer their calls with tasks, and then serves what clients ask of these."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from ..errors import LocalError, Refusal
from ..exchange import log
from ..faces.questions import check_declared
from ..faces.server import BaseServer, ServerContext
from ..faces.tasking import Task
from ..jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..spec import Interim, Notification, Request
from ..wire import is_object, reader
from .becoming import Becoming
from .kept import ENDED, MemoryTasks, TaskRecord, TaskStore
from .running import Running

_LARGEST: Final = 1024 * 1024


class Tasked(BaseServer):
    """To be inherited from beside a generated server that has the tasks extension: `await ctx.as_task()` in a handler
    answers its request with a task, and the handler goes on.

    `tasks` is where they are kept: in memory if nothing else is said. A result is at most `largest` bytes of JSON. A
    task is found by whom it was made for (`principal`) alone, and its handler ends with the conversation that began it,
    over HTTP with the server.
    """

    def __init__(self, *, tasks: TaskStore | None = None, largest: int = _LARGEST, **settings: Any) -> None:
        super().__init__(**settings)
        self._tasks: TaskStore = MemoryTasks() if tasks is None else tasks
        self._largest = largest
        self._running: dict[str, Running] = {}
        rows = {row.name: row for row in self.revision.rows}
        calls = [row for row in rows.values() if isinstance(row, Request) and _created(row) is not None]
        if not calls:
            raise LocalError(f"a server of {self.revision.id} has tasks with the tasks extension alone")
        self._told: Notification = rows["on_task_status"]  # type: ignore[assignment]
        self._rows = rows
        self._needs = next(gate.capability for gate in rows["get_task"].gates)
        for row in calls:
            if row.method in self._handlers:
                self._handlers[row.method] = self._answering(row, self._handlers[row.method])

    # ---- what clients ask of tasks ------------------------------------------------------------------------------------

    async def get_task(self, ctx: ServerContext, params: Any) -> Any:
        """How a task stands."""
        record = await self._found(ctx, params.task_id)
        return self._result("get_task", record.said())

    async def update_task(self, ctx: ServerContext, params: Any) -> Any:
        """Take answers to what a task asks; those it does not ask are left alone."""
        running = await self._own(ctx, params.task_id)
        if running is not None:
            said = params.model_dump().get("inputResponses")
            await running.answer(said if is_object(said) else {})
        return self._result("update_task", {})

    async def cancel_task(self, ctx: ServerContext, params: Any) -> Any:
        """Wish that a task ends; whether it does, its status tells."""
        running = await self._own(ctx, params.task_id)
        if running is not None:
            running.stop("cancelled")
        return self._result("cancel_task", {})

    async def followed(self, ctx: ServerContext, row: Notification, ids: list[str]) -> list[str]:
        """Of the tasks that a client wants to hear of, those that are its own."""
        return [id for id in ids if await self._find(ctx, id) is not None]

    async def _find(self, ctx: ServerContext, id: str) -> TaskRecord | None:
        running = self._running.get(id)
        record = await self._tasks.find(id) if running is None else running.record
        mine = record is not None and record.owner == self.principal(ctx) and record.expires > time.time()
        return record if mine else None

    async def _found(self, ctx: ServerContext, id: str) -> TaskRecord:
        record = await self._find(ctx, id)
        if record is None:  # Whose it is, if it is somebody else's, is nobody's business.
            raise Refusal(INVALID_PARAMS, f"there is no task {id[:100]!r}, or not any more")
        return record

    async def _own(self, ctx: ServerContext, id: str) -> Running | None:
        """The task, if it still runs. Raises Refusal for one that runs in another process."""
        record = await self._found(ctx, id)
        running = self._running.get(id)
        if running is None and record.status not in ENDED:
            raise Refusal(INTERNAL_ERROR, f"the task {id!r} runs in another process")
        return running

    def _result(self, name: str, said: dict[str, Any]) -> BaseModel:
        row = self._rows[name]
        assert isinstance(row, Request)
        return row.read_result({"resultType": "complete", **said})

    # ---- calls that become tasks --------------------------------------------------------------------------------------

    def _answering(self, row: Request[Any], handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The handler, whose calls may become tasks."""

        async def answer(ctx: ServerContext, params: Any) -> Any:
            knows = partial(check_declared, self.revision, ctx.capabilities, [self._needs])
            call = Becoming(ctx, knows, partial(self._begin, ctx, row))
            return await call.answer(lambda: handler(ctx, params))

        return answer

    async def _begin(
        self, ctx: ServerContext, row: Request[Any], how: Task, work: asyncio.Future[Any]
    ) -> tuple[Running, BaseModel]:
        """A task for the handler that `work` runs, and what the client is told of it."""
        now = time.time()
        record = TaskRecord(
            id=secrets.token_urlsafe(24),
            owner=self.principal(ctx),
            status="working",
            created=now,
            updated=now,
            ttl=how.ttl,
            poll=how.poll,
        )
        try:
            await self._tasks.add(record)
        except LocalError as fault:
            raise Refusal(INTERNAL_ERROR, str(fault)) from None
        except Exception:
            log.exception("a task cannot be kept")
            raise Refusal(INTERNAL_ERROR, "the task cannot be kept") from None
        keep = partial(self._keep, ctx)
        running = Running(record, row, self.revision, ctx.capabilities, self._largest, keep, work)
        self._running[record.id] = running
        ctx.conversation.behind.add(work)
        work.add_done_callback(partial(self._over, running))
        created = _created(row)
        assert created is not None
        return running, reader(created.result)({**record.said(), created.property: created.value})

    def _over(self, running: Running, work: asyncio.Future[Any]) -> None:
        """Forget a task that has ended, unless nobody else knows what became of it."""
        if not running.is_lost or running.record.expires <= time.time():
            self._running.pop(running.record.id, None)

    async def _keep(self, ctx: ServerContext, record: TaskRecord) -> None:
        """Keep what has become of a task, and tell who wants to hear of it."""
        try:
            await self._tasks.put(record)
        except Exception:
            log.exception("what became of a task cannot be kept")
            self._running[record.id].is_lost = True
        said = record.said()
        if self.audience.is_heard(self._told, said):
            ctx.conversation.behind.add(asyncio.ensure_future(self.audience.tell(self._told, said)))


def _created(row: Request[Any]) -> Interim | None:
    """The answer of a request that is a task, if it has one."""
    return next((each for each in row.interim if "task_id" in each.result.model_fields), None)
