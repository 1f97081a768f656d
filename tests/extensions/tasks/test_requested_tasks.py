"""Tasks of 2025-11-25: the client requests a task with its call, and requests the result later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_generated import App, Context, JSONRPCError, TaskOptions
from mcp_generated.v2025_06_18 import Client as EarlierClient
from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import ProtocolViolationError, RemoteJSONRPCError

RELATED = "io.modelcontextprotocol/related-task"


class Answering(Client):
    """A client that answers with a colour, and notes the requests."""

    seen: list[Any]

    async def on_elicit(self, ctx: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.seen.append(params)
        return t.ElicitResult(action="accept", content={"value": "blue"})


def make_app() -> App:
    app = App("jobs")

    @app.tool(task=TaskOptions(poll_interval=0.05, ttl=60))
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool(task=True)
    async def order(ctx: Context) -> str:
        answers = [await ctx.elicit(question, str) for question in ("What colour?", "And the lining?")]
        return " and ".join(str(getattr(answer, "data", None)) for answer in answers)

    @app.tool(task=True)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    @app.tool(task=True)
    async def refuse() -> str:
        raise JSONRPCError(-32050, "out of paper", {"tray": 2})

    @app.tool(task=TaskOptions(required=True))
    async def only() -> str:
        return "as a task"

    @app.tool
    async def direct() -> str:
        return "at once"

    return app


async def started(client: Client, name: str, ttl: int | None = None, **arguments: Any) -> t.Task:
    task = t.TaskMetadata() if ttl is None else t.TaskMetadata(ttl=ttl)
    return (await client.call_tool_as_task(name, arguments, task=task)).task


def text(result: Any) -> str:
    value: str = result.to_dict()["content"][0]["text"]
    return value


async def test_a_server_declares_tasks_and_which_tools_have_them() -> None:
    async with Client.memory(make_app()) as client:
        declared = client.server.capabilities.to_dict()["tasks"]
        support = {
            tool.name: tool.execution and tool.execution.task_support for tool in (await client.list_tools()).tools
        }
    assert declared == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    others = dict.fromkeys(("add", "order", "wait", "refuse"), "optional")
    assert support == {**others, "only": "required", "direct": None}


async def test_a_client_gets_the_result_of_its_task() -> None:
    async with Client.memory(make_app()) as client:
        task = await started(client, "add", a=1, b=2)
        assert (task.ttl, task.poll_interval) == (60_000, 50)
        result = (await client.get_task_payload(task.task_id)).to_dict()
        assert (result["content"][0]["text"], result["structuredContent"]) == ("3", {"result": 3})
        assert result["_meta"] == {RELATED: {"taskId": task.task_id}}
        assert (await client.get_task(task.task_id)).status == "completed"


@pytest.mark.parametrize("requested,granted", [(5_000, 5_000), (90_000, 60_000)])
async def test_a_client_may_shorten_the_time_to_live(requested: int, granted: int) -> None:
    async with Client.memory(make_app()) as client:
        assert (await started(client, "add", requested, a=1, b=2)).ttl == granted


async def test_input_requests_are_sent_while_the_client_waits_for_the_result() -> None:
    async with Answering.memory(make_app()) as client:
        client.seen = []
        task = await started(client, "order")
        assert text(await client.get_task_payload(task.task_id)) == "blue and blue"
        assert [params.message for params in client.seen] == ["What colour?", "And the lining?"]
        assert all(params.to_dict()["_meta"][RELATED] == {"taskId": task.task_id} for params in client.seen)


async def test_a_cancelled_task_has_no_result() -> None:
    async with Client.memory(make_app()) as client:
        task = await started(client, "wait")
        assert (await client.cancel_task(task.task_id)).status == "cancelled"
        for request in (client.get_task_payload, client.cancel_task):
            with pytest.raises(RemoteJSONRPCError) as caught:
                await request(task.task_id)
            assert caught.value.code == -32602


async def test_the_error_of_a_task_is_that_of_its_call() -> None:
    async with Client.memory(make_app()) as client:
        task = await started(client, "refuse")
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.get_task_payload(task.task_id)
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32050, "out of paper", {"tray": 2})
        assert (await client.get_task(task.task_id)).status == "failed"


async def test_wrong_arguments_fail_the_task() -> None:
    async with Client.memory(make_app()) as client:
        task = await started(client, "add", a="one", b=2)
        assert task.status == "failed"
        assert "invalid arguments" in text(await client.get_task_payload(task.task_id))


async def test_tools_have_tasks_as_they_declare() -> None:
    async with Client.memory(make_app()) as client:
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
        for call in (client.call_tool("only"), started(client, "direct"), started(client, "unknown")):
            with pytest.raises(RemoteJSONRPCError) as caught:
                await call
            assert caught.value.code == -32601
        task = await started(client, "only")
        assert text(await client.get_task_payload(task.task_id)) == "as a task"


async def test_what_the_server_does_not_declare_is_refused() -> None:
    async with Client.memory(make_app()) as client:
        with pytest.raises(ProtocolViolationError, match=r"server\.tasks\.list"):
            await client.list_tasks()
        with pytest.raises(RemoteJSONRPCError, match="there is no task 'none'"):
            await client.get_task("none")
    async with Client.memory(App("plain")) as client:
        assert "tasks" not in client.server.capabilities.to_dict()


async def test_earlier_versions_have_no_tasks() -> None:
    async with EarlierClient.memory(make_app()) as client:
        assert "tasks" not in client.server.capabilities.to_dict()
        assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
