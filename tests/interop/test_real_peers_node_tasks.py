"""Calls that take their time, with the official everything server: progress, cancellation, and tasks on both sides."""

from __future__ import annotations

import asyncio

import pytest
from support.peer_drivers.our_client import Everything, converse, text
from support.peer_drivers.our_client import transport as transport  # Runs each test in all ways.

from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.session.requests import Progress, RequestOptions

pytestmark = pytest.mark.long


def test_progress_reaches_the_callback() -> None:
    async def conversation(client: Everything) -> None:
        seen: list[Progress] = []
        result = await client.call_tool(
            name="trigger-long-running-operation",
            arguments={"duration": 0.3, "steps": 3},
            options=RequestOptions(on_progress=seen.append),
        )
        assert text(result) == "Long running operation completed. Duration: 0.3 seconds, Steps: 3."
        assert seen == [Progress(1, 3), Progress(2, 3), Progress(3, 3)]

    converse(conversation)


def test_progress_gives_a_call_more_time() -> None:
    async def conversation(client: Everything) -> None:
        arguments = {"duration": 2, "steps": 8}
        options = RequestOptions(timeout=1, max_timeout=20, on_progress=lambda progress: None)
        result = await client.call_tool(name="trigger-long-running-operation", arguments=arguments, options=options)
        assert text(result).startswith("Long running operation completed.")

    converse(conversation)


def test_a_call_that_is_given_up_harms_no_other() -> None:
    async def conversation(client: Everything) -> None:
        began = asyncio.Event()
        arguments = {"duration": 30, "steps": 300}
        options = RequestOptions(on_progress=lambda progress: began.set())
        long = asyncio.create_task(
            client.call_tool(name="trigger-long-running-operation", arguments=arguments, options=options)
        )
        await asyncio.wait_for(began.wait(), 10)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        with pytest.raises(RequestTimeoutError):
            await client.call_tool(
                name="trigger-long-running-operation", arguments=arguments, options=RequestOptions(timeout=0.2)
            )
        assert text(await client.call_tool(name="echo", arguments={"message": "still here"})) == "Echo: still here"

    converse(conversation)


def test_a_tool_runs_as_a_task_and_asks_the_user_on_its_way() -> None:
    async def conversation(client: Everything) -> None:
        client.filled = {"interpretation": "snake"}
        arguments = {"topic": "python", "ambiguous": True}
        created = await client.call_tool_as_task(
            name="simulate-research-query", arguments=arguments, task=t.TaskMetadata(ttl=60_000)
        )
        task_id = created.task.task_id
        assert created.task.status == "working"
        assert task_id in [task.task_id async for task in client.iter_tasks()]
        payload = await client.get_task_payload(task_id=task_id)
        result = t.CallToolResult.model_validate(payload.model_dump())
        assert text(result).startswith("# Research Report: python (snake)")
        assert payload.meta == {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
        assert (await client.get_task(task_id=task_id)).status == "completed"
        [request] = client.requests
        assert "python" in request.message
        assert request.meta is not None
        assert request.meta.model_dump()["io.modelcontextprotocol/related-task"] == {"taskId": task_id}

    converse(conversation)


def test_a_task_is_cancelled() -> None:
    async def conversation(client: Everything) -> None:
        created = await client.call_tool_as_task(
            name="simulate-research-query", arguments={"topic": "rain"}, task=t.TaskMetadata()
        )
        assert (await client.cancel_task(task_id=created.task.task_id)).status == "cancelled"
        assert (await client.get_task(task_id=created.task.task_id)).status == "cancelled"
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.get_task(task_id="none")
        assert caught.value.code == -32602

    converse(conversation)


@pytest.mark.parametrize("tool", ["trigger-sampling-request-async", "trigger-elicitation-request-async"])
def test_the_client_runs_what_it_is_asked_as_a_task(tool: str) -> None:
    async def conversation(client: Everything) -> None:
        client.filled = {"name": "Ada", "favoriteColor": "Blue"}
        arguments = {"prompt": "hi"} if "sampling" in tool else {}
        output = text(await client.call_tool(name=tool, arguments=arguments))
        assert output.startswith("[COMPLETED]")
        [request] = client.requests
        assert request.task is not None and request.task.ttl

    converse(conversation)
