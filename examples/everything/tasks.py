"""Tools that run as tasks: a call is answered at once, and its result is fetched later; for revisions that have tasks."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from conversation import INVALID_PARAMS, PAGE, Call, State, Work
from mcp_runtime.errors import MCPError, JSONRPCError
from mcp_runtime.server.lists import paginate
from tools import called, offered

_RELATED: Final = "io.modelcontextprotocol/related-task"
_METHOD_NOT_FOUND: Final = -32601
_KEPT: Final = 60_000  # Milliseconds; the conversation keeps them to its end in any case.
_POLL: Final = 100  # Milliseconds between two looks that clients are told to take.


def started(call: Call, name: str) -> Any:
    """Run a tool as a task. Raises JSONRPCError for a tool that cannot be one."""
    tool = offered(call.t, call.state).get(name)
    if tool is None or not tool.as_task:
        raise JSONRPCError(_METHOD_NOT_FOUND, f"{name!r} is no tool that can run as a task")
    now, task_id = _now(), secrets.token_hex(8)
    told: dict[str, Any] = {
        "task_id": task_id,
        "status": "working",
        "created_at": now,
        "last_updated_at": now,
        "ttl": _KEPT,
        "poll_interval": _POLL,
    }
    call.state.tasks[task_id] = Work(told, asyncio.create_task(_run(call, name, told)))
    return call.t.CreateTaskResult(task=call.t.Task(**told))


def found(state: State, task_id: str) -> Work:
    """A task of this conversation. Raises JSONRPCError where there is none."""
    if task_id not in state.tasks:
        raise JSONRPCError(INVALID_PARAMS, "there is no such task")
    return state.tasks[task_id]


async def payload(t: Any, state: State, task_id: str) -> Any:
    """What the task's tool gave, once it has ended."""
    work = found(state, task_id)
    await asyncio.wait([work.running])
    if work.running.cancelled():
        raise JSONRPCError(INVALID_PARAMS, "the task was cancelled")
    result = work.running.result().model_dump()
    return t.GetTaskPayloadResult.model_validate({**result, "_meta": {_RELATED: {"taskId": task_id}}})


async def cancelled(t: Any, state: State, task_id: str) -> Any:
    """Stop a task. Raises JSONRPCError for one that has ended."""
    work = found(state, task_id)
    if work.running.done():
        raise JSONRPCError(INVALID_PARAMS, "the task has ended already")
    work.running.cancel()
    await asyncio.wait([work.running])
    work.told.update(status="cancelled", last_updated_at=_now())
    return t.CancelTaskResult(**work.told)


def listed(t: Any, state: State, cursor: str | None) -> Any:
    tasks, following = paginate([t.Task(**work.told) for work in state.tasks.values()], cursor, PAGE)
    return t.ListTasksResult(tasks=tasks, next_cursor=following)


async def end(state: State) -> None:
    """Stop all tasks of a conversation that is over."""
    running = [work.running for work in state.tasks.values() if not work.running.done()]
    for each in running:
        each.cancel()
    if running:
        await asyncio.wait(running)


async def _run(call: Call, name: str, told: dict[str, Any]) -> Any:
    """The tool's result; how the task ended is written down, and told."""
    status = "failed"
    try:
        result = await called(call, name)
        status = "failed" if result.is_error else "completed"
    except asyncio.CancelledError:
        status = "cancelled"
        raise
    finally:
        told.update(status=status, last_updated_at=_now())
        with suppress(MCPError):  # The client may be gone.
            await call.ctx.notify_task_status(**told)
    return result


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
