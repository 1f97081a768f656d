"""What the official Python client, version 1, sees of the tasks of a server at a URL, as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

LIMIT = 40.0  # Seconds for all of it.


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"value": "blue"})


async def main(url: str) -> None:
    with anyio.fail_after(LIMIT):
        async with streamable_http_client(url) as (read, write, _):
            async with ClientSession(read, write, elicitation_callback=elicit) as session:
                opened = await session.initialize()
                print(json.dumps({**await seen(session.experimental), "version": opened.protocolVersion}))


async def seen(tasks: Any) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for tool in ("wait", "block"):
        created = (await tasks.call_tool_as_task(tool, {"name": f"sdk-{tool}", "seconds": 0.3}, ttl=60_000)).task
        polled = [status.status async for status in tasks.poll_task(created.taskId)]
        done[tool] = [polled[-1], created.ttl, await result(tasks, created.taskId)]
    created = (await tasks.call_tool_as_task("order", {})).task
    done["order"] = await result(tasks, created.taskId)
    created = (await tasks.call_tool_as_task("wait", {"name": "sdk-cancelled", "seconds": 60})).task
    done["cancelled"] = (await tasks.cancel_task(created.taskId)).status
    return done


async def result(tasks: Any, id: str) -> str:
    text: str = (await tasks.get_task_result(id, types.CallToolResult)).content[0].text
    return text


anyio.run(main, *sys.argv[1:])
