"""Repeatable tasks of 2025-11-25, whose clients request them with their calls: any worker has their results."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.peers import driven, python_peer
from support.stores.repeatable_server import RepeatableServer, repeatable_server

from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import MCPError

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RepeatableServer]:
    with repeatable_server(tmp_path_factory.mktemp("requested")) as started:
        yield started


async def started(client: Client, tool: str, **arguments: Any) -> str:
    return (await client.call_tool_as_task(tool, arguments, task=t.TaskMetadata())).task.task_id


async def text(client: Client, id: str) -> str:
    """The text of a task's result; a request whose worker was killed is sent again."""
    while True:
        try:
            value: str = (await client.get_task_payload(id, timeout=20)).to_dict()["content"][0]["text"]
            return value
        except MCPError as error:
            assert "there is no task" not in str(error) and "cancelled" not in str(error), error


@pytest.mark.deadline(60)
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_a_client_gets_the_result_of_a_task_whose_worker_was_killed(server: RepeatableServer, tool: str) -> None:
    async with Client.http(server.url) as client:
        id = await started(client, tool, name=f"{tool}-killed", seconds=1)
        [pid] = await server.noted(f"begins {tool}-killed")
        os.kill(pid, signal.SIGKILL)
        assert await text(client, id) == f"{tool}-killed has ended"
        assert len(server.notes(f"begins {tool}-killed")) == 2


async def test_a_cancellation_reaches_the_worker_that_runs_the_task(server: RepeatableServer) -> None:
    async with Client.http(server.url) as client:
        id = await started(client, "wait", name="cancelled", seconds=60)
        [pid] = await server.noted("begins cancelled")
        assert (await client.cancel_task(id)).status == "cancelled"
        assert await server.noted("cancelled cancelled") == [pid]


@pytest.mark.deadline(60)
async def test_a_function_that_fails_is_repeated(server: RepeatableServer) -> None:
    async with Client.http(server.url) as client:
        assert await text(client, await started(client, "fail", name="once", times=1)) == "once has ended"
    assert len(server.notes("begins once")) == 2


@pytest.mark.deadline(90)
async def test_the_official_client_uses_these_tasks(server: RepeatableServer) -> None:
    seen = driven(python_peer("mcp==1.30.0"), "tasks/python_tasks.py", server.url)
    assert seen == {
        "version": "2025-11-25",
        "wait": ["completed", 60_000, "sdk-wait has ended"],
        "block": ["completed", 60_000, "sdk-block has ended"],
        "order": "accept: blue",
        "cancelled": "cancelled",
    }
