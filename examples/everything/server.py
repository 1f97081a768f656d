"""A server with every feature of the protocol, for clients of the versions from 2024-11-05 to 2025-11-25.

Run it: `python examples/everything/server.py stdio`, or `… http --port 8000` with the endpoints /mcp and /sse
(HTTP+SSE). There is one class for each version, with all features of that version.
"""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

import client_requests
import prompts
import resources
import tasks
import tools
from connection_state import PAGE, Call, State

from mcp_generated import RateLimit, paginate, run, v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25

INSTRUCTIONS: Final = "Call `echo` first. Notes that `write_note` writes are resources with subscriptions."
CAPABILITIES: Final[Mapping[str, Any]] = {
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
    "tools": {"listChanged": True},
}
RATE_LIMITS: Final = {"call_tool": RateLimit(per_second=20, burst=500), "complete": RateLimit(per_second=20, burst=100)}


class Everything:
    """The handlers for all versions: `t` are the types of the version; its server class is the next base class."""

    t: Any

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[State]:
        """Yield the state of a connection, and cancel its tasks at the end."""
        state = State()
        try:
            yield state
        finally:
            await tasks.end(state)

    async def list_tools(self, ctx: Any, params: Any) -> Any:
        definitions = [tools.definition(self.t, tool) for tool in tools.available(self.t, ctx.state).values()]
        page, next_cursor = paginate(definitions, params.cursor, PAGE)
        return self.t.ListToolsResult(tools=page, next_cursor=next_cursor)

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        call = Call(self.t, ctx, params.arguments or {})
        if getattr(params, "task", None) is not None:
            return tasks.start(call, params.name)
        return await tools.run(call, params.name)

    async def list_resources(self, ctx: Any, params: Any) -> Any:
        page, next_cursor = paginate(resources.definitions(self.t, ctx.state), params.cursor, PAGE)
        return self.t.ListResourcesResult(resources=page, next_cursor=next_cursor)

    async def list_resource_templates(self, ctx: Any, params: Any) -> Any:
        page, next_cursor = paginate(resources.templates(self.t), params.cursor, PAGE)
        return self.t.ListResourceTemplatesResult(resource_templates=page, next_cursor=next_cursor)

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        return self.t.ReadResourceResult(contents=resources.contents(self.t, ctx.state, params.uri))

    async def subscribe(self, ctx: Any, params: Any) -> Any:
        resources.check_exists(ctx.state, params.uri)
        ctx.state.subscribed.add(params.uri)
        return self.t.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: Any) -> Any:
        ctx.state.subscribed.discard(params.uri)
        return self.t.EmptyResult()

    async def list_prompts(self, ctx: Any, params: Any) -> Any:
        page, next_cursor = paginate(prompts.definitions(self.t, ctx.state), params.cursor, PAGE)
        return self.t.ListPromptsResult(prompts=page, next_cursor=next_cursor)

    async def get_prompt(self, ctx: Any, params: Any) -> Any:
        return prompts.render(self.t, ctx.state, params.name, params.arguments or {})

    async def complete(self, ctx: Any, params: Any) -> Any:
        return prompts.completion(self.t, params)

    async def set_level(self, ctx: Any, params: Any) -> Any:
        return self.t.EmptyResult()  # The runtime stores the level, and `ctx.log` applies it.

    async def on_roots_list_changed(self, ctx: Any, params: Any) -> None:
        await client_requests.roots_changed(ctx)


class WithTasks(Everything):
    """The handlers for versions with tasks."""

    async def get_task(self, ctx: Any, params: Any) -> Any:
        return self.t.GetTaskResult(**tasks.find(ctx.state, params.task_id).fields)

    async def get_task_payload(self, ctx: Any, params: Any) -> Any:
        return await tasks.payload(self.t, ctx.state, params.task_id)

    async def list_tasks(self, ctx: Any, params: Any) -> Any:
        return tasks.page(self.t, ctx.state, params.cursor)

    async def cancel_task(self, ctx: Any, params: Any) -> Any:
        return await tasks.cancel(self.t, ctx.state, params.task_id)


def everything(revision: ModuleType) -> Any:
    """Return a server of one version."""
    t, capabilities = revision.types, dict(CAPABILITIES)
    handlers: type[Everything] = Everything
    if hasattr(t, "CreateTaskResult"):
        handlers = WithTasks
        capabilities["tasks"] = {"requests": {"tools": {"call": {}}}}
    server_class: Any = type("Everything", (handlers, revision.Server), {"t": t})
    settings = {"name": "everything", "version": "1.0", "instructions": INSTRUCTIONS}
    return server_class(**settings, capabilities=capabilities, rate_limits=RATE_LIMITS)


if __name__ == "__main__":
    versions = (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25)
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("transport", nargs="?", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = {"port": options.port, "legacy_sse": True} if options.transport == "http" else {}
    run(*map(everything, versions), transport=options.transport, **settings)
