"""Tasks whose functions cancel themselves, or raise what is no Exception: they fail, and say why."""

from __future__ import annotations

import asyncio
import sys

import pytest
from support.task_clients import both, by_hand, start_task, wait_for_status

from mcp_generated import App, RemoteJSONRPCError, TaskOptions
from mcp_generated.v2025_11_25 import Client as EarlierClient
from mcp_generated.v2025_11_25 import types as t

ITSELF = "the function of the task has cancelled itself"
ENDINGS = {
    "cancels": ITSELF,
    "cancels and returns": ITSELF,
    "cancels and raises": "the function of the task has raised GeneratorExit",
    "raises cancelled": ITSELF,
    "waits for what is cancelled": ITSELF,
    "exits": "the function of the task has raised SystemExit",
    "ends a generator": "the function of the task has raised GeneratorExit",
}
each = pytest.mark.parametrize("kind", ENDINGS)


def app_of_endings() -> App:
    app = App("ends")

    @app.tool(task=TaskOptions(ttl=600, poll_interval=0.01))
    async def end(kind: str) -> str:
        """End in one way or another."""
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        match kind:
            case "cancels":
                task.cancel()
                await asyncio.sleep(0)
            case "cancels and returns":
                task.cancel()
            case "cancels and raises":
                task.cancel()
                raise GeneratorExit
            case "raises cancelled":
                raise asyncio.CancelledError
            case "waits for what is cancelled":
                other = asyncio.ensure_future(asyncio.Event().wait())
                other.cancel()
                await other
            case "exits":
                sys.exit(3)
            case "ends a generator":
                raise GeneratorExit
        return "done"

    @app.tool(task=TaskOptions(ttl=600, poll_interval=0.01))
    def exit_in_thread() -> str:
        """Exit in a worker thread."""
        sys.exit(3)

    return app


@both
@each
async def test_a_task_fails_with_the_reason(over: str, kind: str) -> None:
    async with by_hand(app_of_endings().server, over) as client:
        failed = await wait_for_status(client, await start_task(client, "end", kind=kind), "failed", "completed")
        assert failed.status == "failed" and failed.error is not None
        assert (failed.error.code, failed.error.message) == (-32603, ENDINGS[kind])
        fine = await wait_for_status(client, await start_task(client, "end", kind="not"), "completed")
        assert fine.result is not None, "the server goes on"


@both
async def test_a_plain_function_that_exits_fails_its_task(over: str) -> None:
    async with by_hand(app_of_endings().server, over) as client:
        failed = await wait_for_status(client, await start_task(client, "exit_in_thread"), "failed")
        assert failed.error is not None and "SystemExit" in failed.error.message


@each
async def test_a_requested_task_fails_with_the_reason(kind: str) -> None:
    async with EarlierClient.memory(app_of_endings()) as client:
        id = (await client.call_tool_as_task("end", {"kind": kind}, task=t.TaskMetadata())).task.task_id
        with pytest.raises(RemoteJSONRPCError, match=ENDINGS[kind]):
            await client.get_task_payload(id)
        task = await client.get_task(id)
        assert (task.status, task.status_message) == ("failed", ENDINGS[kind])
