"""Uses the app with a client of a revision of this project, in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions
from support.clients import connect
from support.endpoints import ALL_REVISIONS
from support.feature_cells.cells import Cell

WAIT = 10.0  # Seconds for a notification.


def client_class(rev: Any, logs: list[Any]) -> Any:
    """Return a class of clients that answer what a server requests."""
    t = rev.t

    async def on_logging_message(self: Any, ctx: Any, params: Any) -> None:
        logs.append([params.level, params.data, params.logger])

    async def on_create_message(self: Any, ctx: Any, params: Any) -> Any:
        content = params.messages[-1].content
        text = content.text.upper() if '"good"' not in str(params.system_prompt) else '{"good": true}'
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text=text), model="parrot")

    async def on_list_roots(self: Any, ctx: Any, params: Any) -> Any:
        return t.ListRootsResult(roots=[t.Root(uri="file:///work", name="work")])

    async def on_elicit(self: Any, ctx: Any, params: Any) -> Any:
        if "decline" in params.message:
            return t.ElicitResult(action="decline")
        is_form = getattr(params, "mode", None) != "url"
        return t.ElicitResult(action="accept", **({"content": {"name": "Ada", "guests": 3}} if is_form else {}))

    members = {handler.__name__: handler for handler in (on_logging_message, on_create_message, on_list_roots)}
    if hasattr(t, "ElicitResult"):
        members["on_elicit"] = on_elicit
    return type("Answering", (rev.package.Client,), members)


async def use(cell: Cell, target: list[str], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the client receives for the steps."""
    rev = next(rev for rev in ALL_REVISIONS if rev.id == cell.revision)
    logs: list[Any] = []
    settings: dict[str, Any] = {}
    if rev.id >= "2025-11-25":
        settings["capabilities"] = {"elicitation": {"form": {}, "url": {}}}
    where: Any = target if cell.transport == "stdio" else target[0]
    async with connect(where, client=client_class(rev, logs), revisions=[rev.id], **settings) as client:
        outcomes: list[dict[str, Any]] = []
        for step in steps:
            outcomes.append(await outcome(client, step, logs))
        return outcomes


async def outcome(client: Any, step: dict[str, Any], logs: list[Any]) -> dict[str, Any]:
    """Return what the client receives for a step: a result or an error, log messages, progress and changes."""
    logs.clear()
    progress: list[Any] = []
    changes: list[str] = []
    try:
        async with noted(client, changes, step.get("changes", [])):
            result = await done(client, step, progress)
            async with asyncio.timeout(WAIT):
                while len(logs) < step.get("logs", 0):
                    await asyncio.sleep(0.001)
    except RemoteJSONRPCError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return {"result": result, "logs": list(logs), "progress": progress, "changes": changes}


@asynccontextmanager
async def noted(client: Any, changes: list[str], expected: list[str]) -> AsyncGenerator[None]:
    """Note the lists that change until all expected ones have."""
    if not expected:
        yield
        return
    async with client.listen(tool_list_changed=True, resource_list_changed=True, prompt_list_changed=True) as stream:
        yield
        async with asyncio.timeout(WAIT):
            while not {*expected} <= {*changes}:
                changes.append((await anext(stream)).method.split("/")[1])


async def done(client: Any, step: dict[str, Any], progress: list[Any]) -> Any:
    """Return the result of a step as JSON."""
    match step["op"]:
        case "call":
            options = RequestOptions(meta=step["meta"] or {})
            if step.get("progress"):
                options = replace(
                    options, on_progress=lambda value: progress.append([value.progress, value.total, value.message])
                )
            return wire(await client.call_tool(name=step["name"], arguments=step["arguments"], options=options))
        case "read":
            return wire(await client.read_resource(step["uri"]))
        case "prompt":
            return wire(await client.get_prompt(step["name"], step["arguments"]))
        case "complete":
            ref = {"type": "ref/prompt", "name": step["prompt"]}
            result = await client.complete(ref, {"name": step["name"], "value": step["value"]})
            return wire(result)["completion"]
        case "level":
            return wire(await client.set_level(step["level"])) if hasattr(client, "set_level") else {}
        case "server":
            server = wire(client.server)
            return server.get("serverInfo") or server["_meta"]["io.modelcontextprotocol/serverInfo"]
        case kind:
            items = {"templates": "resource_templates"}.get(kind, kind)
            return [wire(item) async for item in getattr(client, f"iter_{items}")()]


def wire(value: Any) -> Any:
    """Return a value as it is on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


def stdio_command(program: str) -> list[str]:
    """Return a command that starts a program with the packages of this process."""
    path = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={path}"] if path else []), sys.executable, program, "stdio"]
