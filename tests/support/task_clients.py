"""A server goes in; clients of it come out, in memory or over HTTP in process, and words for how its tasks stand."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

import pytest

from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import Client
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.bindings.server import BaseServer
from support.http.in_process import connecting

ClientT = TypeVar("ClientT", bound=BaseClient)

CAPABILITIES: Final[dict[str, Any]] = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
CEILING: Final = 30.0  # Seconds: whatever is waited for, comes much earlier.

both = pytest.mark.parametrize("over", ["memory", "http"])


def client(kind: type[ClientT], server: BaseServer, over: str, **settings: Any) -> ClientT:
    """A client of this kind; the server ends with it."""
    if over == "memory":
        return kind.memory(server, **settings)
    return kind(connecting(server, server.revision), **settings)


def by_hand(server: BaseServer, over: str = "memory", **settings: Any) -> tasks.Client:
    """A client that asks for its tasks itself."""
    return client(tasks.Client, server, over, capabilities=CAPABILITIES, **settings)


def plain(server: BaseServer, over: str = "memory", **settings: Any) -> Client:
    """A client that knows no tasks."""
    return client(Client, server, over, **settings)


async def start_task(speaking: tasks.Client, name: str, **arguments: Any) -> str:
    """The id of the task that a call becomes."""
    created = await speaking.call_tool(name=name, arguments=arguments)
    assert isinstance(created, t.CreateTaskResult), created
    return created.task_id


async def wait_for_status(speaking: tasks.Client, id: str, *statuses: str) -> t.GetTaskResult:
    """How a task stands, once it does so."""
    async with asyncio.timeout(CEILING):
        while (task := await speaking.get_task(task_id=id)).status not in statuses:
            await asyncio.sleep(0)
    return task
