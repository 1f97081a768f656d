"""A server that shows every feature of the protocol, for clients of all revisions that begin with a handshake.

Run it: `python examples/everything/server.py stdio`, or `… http --port 8000` with the endpoints /mcp and, for clients
that know no other, /sse. Each class is one revision's, with all that its revision has.
"""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

import asking
import prompts
import resources
import tasks
import tools
from conversation import PAGE, Call, State
from mcp_generated import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25
from mcp_runtime.server.lists import paginate
from mcp_runtime.aio.rate_limit import RateLimit
from mcp_runtime.bindings.server import run

INSTRUCTIONS: Final = "Call `echo` first. Notes that `write_note` writes are resources, and can be watched."
CAPABILITIES: Final[Mapping[str, Any]] = {
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
    "tools": {"listChanged": True},
}
RATES: Final = {"call_tool": RateLimit(per_second=20, burst=500), "complete": RateLimit(per_second=20, burst=100)}


class Everything:
    """The handlers, for any revision: `t` are its types, and its own server class comes after this one."""

    t: Any

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[State]:
        state = State()
        try:
            yield state
        finally:
            await tasks.end(state)

    async def list_tools(self, ctx: Any, params: Any) -> Any:
        offered = tools.offered(self.t, ctx.state).values()
        found, following = paginate([tools.listed(self.t, tool) for tool in offered], params.cursor, PAGE)
        return self.t.ListToolsResult(tools=found, next_cursor=following)

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        call = Call(self.t, ctx, params.arguments or {})
        if getattr(params, "task", None) is not None:
            return tasks.started(call, params.name)
        return await tools.called(call, params.name)

    async def list_resources(self, ctx: Any, params: Any) -> Any:
        found, following = paginate(resources.listed(self.t, ctx.state), params.cursor, PAGE)
        return self.t.ListResourcesResult(resources=found, next_cursor=following)

    async def list_resource_templates(self, ctx: Any, params: Any) -> Any:
        found, following = paginate(resources.templates(self.t), params.cursor, PAGE)
        return self.t.ListResourceTemplatesResult(resource_templates=found, next_cursor=following)

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        return self.t.ReadResourceResult(contents=resources.contents(self.t, ctx.state, params.uri))

    async def subscribe(self, ctx: Any, params: Any) -> Any:
        resources.exists(ctx.state, params.uri)
        ctx.state.watched.add(params.uri)
        return self.t.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: Any) -> Any:
        ctx.state.watched.discard(params.uri)
        return self.t.EmptyResult()

    async def list_prompts(self, ctx: Any, params: Any) -> Any:
        found, following = paginate(prompts.listed(self.t, ctx.state), params.cursor, PAGE)
        return self.t.ListPromptsResult(prompts=found, next_cursor=following)

    async def get_prompt(self, ctx: Any, params: Any) -> Any:
        return prompts.filled(self.t, ctx.state, params.name, params.arguments or {})

    async def complete(self, ctx: Any, params: Any) -> Any:
        return prompts.completion(self.t, params)

    async def set_level(self, ctx: Any, params: Any) -> Any:
        return self.t.EmptyResult()  # The runtime keeps the level, and `ctx.log` sends what it lets through.

    async def on_roots_list_changed(self, ctx: Any, params: Any) -> None:
        await asking.roots_changed(ctx)


class WithTasks(Everything):
    """And what a revision that has tasks asks about them."""

    async def get_task(self, ctx: Any, params: Any) -> Any:
        return self.t.GetTaskResult(**tasks.found(ctx.state, params.task_id).told)

    async def get_task_payload(self, ctx: Any, params: Any) -> Any:
        return await tasks.payload(self.t, ctx.state, params.task_id)

    async def list_tasks(self, ctx: Any, params: Any) -> Any:
        return tasks.listed(self.t, ctx.state, params.cursor)

    async def cancel_task(self, ctx: Any, params: Any) -> Any:
        return await tasks.cancelled(self.t, ctx.state, params.task_id)


def everything(revision: ModuleType) -> Any:
    """A server of one revision."""
    t, capabilities = revision.types, dict(CAPABILITIES)
    handlers: type[Everything] = Everything
    if hasattr(t, "CreateTaskResult"):
        handlers = WithTasks
        capabilities["tasks"] = {"requests": {"tools": {"call": {}}}}
    kind: Any = type("Everything", (handlers, revision.Server), {"t": t})
    about = {"name": "everything", "version": "1.0", "instructions": INSTRUCTIONS}
    return kind(**about, capabilities=capabilities, rate_limits=RATES)


if __name__ == "__main__":
    every = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25)
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("transport", nargs="?", choices=("stdio", "http"), default="stdio")
    arguments.add_argument("--port", type=int, default=8000)
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = {"port": chosen.port, "legacy_sse": True} if chosen.transport == "http" else {}
    run(*map(everything, every), transport=chosen.transport, **settings)
