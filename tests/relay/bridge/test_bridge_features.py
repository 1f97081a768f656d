"""Cancellation, subscriptions and tasks through a bridge, where both sides have sessions, none, or one of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_command, with_our_packages

from mcp_generated import RemoteJSONRPCError
from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2025_11_25 import types as t

APP = """
import asyncio, sys
from mcp_generated import App, Context

app = App("app")

@app.tool
async def wait(ctx: Context, file: str) -> str:
    open(file, "w").write("started")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        open(file, "w").write("cancelled")
        raise
    return "done"

@app.tool
async def change(ctx: Context) -> str:
    await ctx.notify_resource_updated("note://a")
    return "changed"

@app.resource("note://a")
def note() -> str:
    return "a"

app.run(revisions=[sys.argv[1]])
"""
TASKS = """
from mcp_generated.v2025_11_25 import Server, types as t

class Tasks(Server):
    state = "working"

    def call_tool(self, ctx, params):
        task = dict(task_id="t1", status="working", created_at=NOW, last_updated_at=NOW, ttl=params.task.ttl)
        return t.CreateTaskResult(task=t.Task(**task))

    def get_task(self, ctx, params):
        return t.GetTaskResult(task_id=params.task_id, status=self.state, created_at=NOW, last_updated_at=NOW, ttl=9)

    def get_task_payload(self, ctx, params):
        return t.GetTaskPayloadResult.model_validate({"content": [{"type": "text", "text": "the result"}]})

    def cancel_task(self, ctx, params):
        self.state = "cancelled"
        ended = dict(created_at=NOW, last_updated_at=NOW, ttl=9)
        return t.CancelTaskResult(task_id=params.task_id, status="cancelled", **ended)

NOW = "2026-01-01T00:00:00Z"
tasks = {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
Tasks(name="tasks", version="1", capabilities=tasks).run()
"""
SIDES = [
    ("2025-11-25", "2025-11-25"),
    ("2025-06-18", "2026-07-28"),
    ("2026-07-28", "2025-11-25"),
    ("2026-07-28", "2026-07-28"),
]


def bridge(program: str, *words: str) -> list[str]:
    """Return the command of a bridge to a program."""
    return bridge_command(*with_our_packages(sys.executable, "-c", program, *words))


async def written(file: Path, content: str) -> None:
    """Wait until a file has a content."""
    async with asyncio.timeout(20):
        while not file.exists() or file.read_text(encoding="utf-8") != content:
            await asyncio.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize(("down", "up"), SIDES)
async def test_cancellation_and_changes_of_resources_pass(down: str, up: str, tmp_path: Path) -> None:
    file = tmp_path / "state"
    async with connect(bridge(APP, up), revisions=[down]) as client:
        call = asyncio.ensure_future(client.call_tool("wait", {"file": str(file)}))
        await written(file, "started")
        call.cancel()
        await written(file, "cancelled")
        async with client.listen(resource_updated=["note://a"]) as changes:
            await client.call_tool("change", {})
            async with asyncio.timeout(20):
                assert (await anext(changes)).params.uri == "note://a"


@pytest.mark.long
async def test_tasks_of_2025_11_25_pass_and_an_older_client_has_none() -> None:
    command = bridge(TASKS)
    async with Client.stdio(*command) as client:
        task = (await client.call_tool_as_task("any", {}, task=t.TaskMetadata(ttl=9))).task
        assert (task.task_id, task.status, task.ttl) == ("t1", "working", 9)
        assert (await client.get_task("t1")).status == "working"
        payload: Any = (await client.get_task_payload("t1")).model_dump()
        assert payload["content"][0]["text"] == "the result"
        assert (await client.cancel_task("t1")).status == "cancelled"
        assert (await client.get_task("t1")).status == "cancelled"
    async with connect(command, revisions=["2025-06-18"]) as older:
        assert "tasks" not in older.server.to_dict()["capabilities"]
        with pytest.raises(RemoteJSONRPCError):
            await older.call_tool("any", {})
