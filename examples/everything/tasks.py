"""Tools that run as tasks, for versions with tasks: the call returns a task, and the client gets the result later."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from connection_state import INVALID_PARAMS, PAGE, Call, State, Work
from tools import available, run

from mcp_generated import JSONRPCError, MCPError, paginate

_RELATED: Final = "io.modelcontextprotocol/related-task"
_METHOD_NOT_FOUND: Final = -32601
_INTERNAL_ERROR: Final = -32603
_TTL: Final = 60_000  # Milliseconds; a task exists at least until its connection ends.
_POLL_INTERVAL: Final = 100  # Milliseconds.
_MAX_TASKS: Final = 100  # Tasks of one connection; the results of the oldest that have ended are dropped first.


def start(call: Call, name: str) -> Any:
    """Run a tool as a task. Raises JSONRPCError for a tool that cannot run as one."""
    tool = available(call.t, call.state).get(name)
    if tool is None or not tool.as_task:
        raise JSONRPCError(_METHOD_NOT_FOUND, f"{name!r} is not a tool that can run as a task")
    _make_room(call.state)
    now, task_id = _now(), secrets.token_hex(8)
    fields: dict[str, Any] = {
        "task_id": task_id,
        "status": "working",
        "created_at": now,
        "last_updated_at": now,
        "ttl": _TTL,
        "poll_interval": _POLL_INTERVAL,
    }
    call.state.tasks[task_id] = Work(fields, asyncio.create_task(_run(call, name, fields)))
    return call.t.CreateTaskResult(task=call.t.Task(**fields))


def _make_room(state: State) -> None:
    """Drop the oldest task that has ended if there are too many. Raises JSONRPCError if all of them run."""
    if len(state.tasks) < _MAX_TASKS:
        return
    ended = next((task_id for task_id, work in state.tasks.items() if work.running.done()), None)
    if ended is None:
        raise JSONRPCError(_INTERNAL_ERROR, f"{_MAX_TASKS} tasks of this client run: wait for results first")
    del state.tasks[ended]


def find(state: State, task_id: str) -> Work:
    """Return a task of this connection. Raises JSONRPCError if it does not exist."""
    if task_id not in state.tasks:
        raise JSONRPCError(INVALID_PARAMS, "there is no such task")
    return state.tasks[task_id]


async def payload(t: Any, state: State, task_id: str) -> Any:
    """Wait for a task, and return the result of its tool."""
    work = find(state, task_id)
    await asyncio.wait([work.running])
    if work.running.cancelled():
        raise JSONRPCError(INVALID_PARAMS, "the task was cancelled")
    result = work.running.result().model_dump()
    return t.GetTaskPayloadResult.model_validate({**result, "_meta": {_RELATED: {"taskId": task_id}}})


async def cancel(t: Any, state: State, task_id: str) -> Any:
    """Cancel a task. Raises JSONRPCError if it has ended."""
    work = find(state, task_id)
    if work.running.done():
        raise JSONRPCError(INVALID_PARAMS, "the task has ended already")
    work.running.cancel()
    await asyncio.wait([work.running])
    work.fields.update(status="cancelled", last_updated_at=_now())
    return t.CancelTaskResult(**work.fields)


def page(t: Any, state: State, cursor: str | None) -> Any:
    """Return one page of the list of tasks."""
    tasks, next_cursor = paginate([t.Task(**work.fields) for work in state.tasks.values()], cursor, PAGE)
    return t.ListTasksResult(tasks=tasks, next_cursor=next_cursor)


async def end(state: State) -> None:
    """Cancel all tasks of a closed connection."""
    running = [work.running for work in state.tasks.values() if not work.running.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


async def _run(call: Call, name: str, fields: dict[str, Any]) -> Any:
    """Return the result of the tool. Store the status of the task, and notify the client."""
    status = "failed"
    try:
        result = await run(call, name)
        status = "failed" if result.is_error else "completed"
    except asyncio.CancelledError:
        status = "cancelled"
        raise
    finally:
        fields.update(status=status, last_updated_at=_now())
        with suppress(MCPError):  # The client may have disconnected.
            await call.ctx.notify_task_status(**fields)
    return result


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
