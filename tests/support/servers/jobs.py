"""A server with tools whose calls become tasks. Run it for stdio, or take what `jobs` gives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_generated import App, Context, TaskOptions, ToolError
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.errors import JSONRPCError

SOON: Final = TaskOptions(ttl=600, poll_interval=0.01)


@dataclass
class Seen:
    """What the handlers have come to."""

    going: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    answers: list[Any] = field(default_factory=list[Any])


def jobs(seen: Seen, task: TaskOptions = SOON, **settings: Any) -> App:
    """An app whose tools tell what they see."""
    app = App("jobs", **settings)

    @app.tool(task=task)
    async def wait(ctx: Context, stubborn: bool = False) -> str:
        """Wait until it is let go."""
        await ctx.status("waiting")
        seen.going.set()
        try:
            await seen.let.wait()
        except asyncio.CancelledError:
            if not stubborn:
                raise
        finally:
            seen.ended.set()
        return "done"

    @app.tool(task=task)
    async def fail(kind: str) -> str:
        """Fail in one way or another."""
        match kind:
            case "tool":
                raise ToolError("the tool failed")
            case "refusal":
                raise JSONRPCError(-32050, "no", {"why": "because"})
            case _:
                raise RuntimeError("secret")

    @app.tool(task=task)
    async def say(length: int = 4) -> str:
        """Say something of this length."""
        return "x" * length

    @app.tool(task=TaskOptions(required=True))
    async def only() -> str:
        """Run as a task, or not at all."""
        return "done"

    _offer_questions(app, seen, task)
    return app


def _offer_questions(app: App, seen: Seen, task: TaskOptions) -> None:
    @app.tool(task=task)
    async def confirm(ctx: Context, times: int = 1) -> str:
        """Ask, one thing at a time."""
        for _ in range(times):
            answer = await ctx.elicit(form())
            seen.answers.append(answer.action)
        return ", ".join(seen.answers)

    @app.tool(task=task)
    async def confirm_two(ctx: Context) -> str:
        """Ask two things at once."""
        one, two = await asyncio.gather(ctx.elicit(form("One?")), ctx.elicit(form("Two?")))
        return f"{one.action}, {two.action}"

    @app.tool(task=TaskOptions(poll_interval=0.01, immediately=False))
    async def first(ctx: Context) -> str:
        """Ask, and be a task from then on."""
        answer = await ctx.elicit(form("First?"))
        assert await ctx.as_task() is True
        return f"{answer.action}, then {(await ctx.elicit(form('Then?'))).action}"


def form(message: str = "Sure?") -> t.ElicitRequestFormParams:
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
    return t.ElicitRequestFormParams(message=message, requested_schema=t.RequestedSchema.model_validate(schema))


if __name__ == "__main__":
    jobs(Seen()).run("stdio")
