"""The tools of the everything server that take long: their calls become tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from asking import form

from mcp_generated import App, Context, TaskOptions, ToolError
from mcp_runtime.errors import JSONRPCError

SOON: Final = TaskOptions(ttl=60, poll_interval=0.1)


async def greet(name: str) -> str:
    """Greet, at once."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float = 1.0, label: str = "it") -> str:
    """Take some seconds."""
    await asyncio.sleep(seconds)
    return f"Computed {label}."


async def failing_job() -> str:
    """Fail as a tool does."""
    raise ToolError("The job has failed.")


async def protocol_error_job() -> str:
    """Fail as a request does."""
    raise JSONRPCError(-32603, "The job cannot be done.")


async def confirm_delete(ctx: Context, filename: str = "a file") -> str:
    """Ask before something is deleted."""
    answer = await ctx.elicit(form(f"Delete {filename}?", {"confirm": {"type": "boolean"}}, "confirm"))
    return f"Deleted {filename}." if answer.action == "accept" else f"Kept {filename}."


async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    forms = (
        form("What is your name?", {"name": {"type": "string"}}, "name"),
        form("Sure?", {"confirm": {"type": "boolean"}}, "confirm"),
    )
    answers = await asyncio.gather(*(ctx.elicit(form) for form in forms))
    return f"Answered: {', '.join(answer.action for answer in answers)}."


async def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name before the call becomes a task."""
    answer = await ctx.elicit(form("What is your name?", {"name": {"type": "string"}}, "name"))
    await ctx.as_task()
    return f"Hello, {(answer.content or {}).get('name')}!"


def offer(app: App) -> None:
    """Add them to an app."""
    app.add_tool(greet)
    app.add_tool(failing_job, task=TaskOptions(ttl=60, poll_interval=0.1, required=True))
    app.add_tool(test_tool_with_task, task=TaskOptions(ttl=60, poll_interval=0.1, immediately=False))
    lasting: list[Callable[..., Awaitable[str]]] = [slow_compute, protocol_error_job, confirm_delete, multi_input]
    for tool in lasting:
        app.add_tool(tool, task=SOON)
