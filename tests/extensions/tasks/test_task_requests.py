"""Calls go in that become tasks; how they stand, what they ask and how they end comes out, in memory and over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.servers.jobs import Seen, jobs
from support.task_clients import CAPABILITIES, both, by_hand, plain, start_task, wait_for_status

from mcp_generated import TaskOptions
from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2025_11_25 import Client as OlderClient
from mcp_products.extensions.tasks.server import TaskServerMixin
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError, RemoteJSONRPCError

YES = {"action": "accept", "content": {"yes": True}}


@both
async def test_a_call_becomes_a_task_for_clients_that_know_tasks_alone(over: str) -> None:
    server = jobs(Seen()).server
    async with plain(server, over) as speaking:
        assert (await speaking.call_tool(name="say")).content[0] == t.TextContent(text="xxxx")
        assert server.capabilities["extensions"] == CAPABILITIES["extensions"]
    async with by_hand(server, over) as speaking:
        created = await speaking.call_tool(name="say")
        assert isinstance(created, t.CreateTaskResult)
        assert (created.status, created.ttl_ms, created.poll_interval_ms) == ("working", 600_000, 10)
        done = await wait_for_status(speaking, created.task_id, "completed")
        assert done.result is not None
        assert done.result["content"] == [{"type": "text", "text": "xxxx"}]
        assert done.created_at == created.created_at <= done.last_updated_at


async def test_a_client_of_an_older_revision_is_answered_plainly() -> None:
    async with OlderClient.memory(*server_candidates(jobs(Seen()).server)) as speaking:
        result = await speaking.call_tool(name="say")
        assert [content.type for content in result.content] == ["text"]


@both
async def test_a_task_that_is_needed_refuses_clients_that_know_none(over: str) -> None:
    server = jobs(Seen()).server
    async with plain(server, over) as speaking:
        with pytest.raises(RemoteJSONRPCError) as refused:
            await speaking.call_tool(name="only")
    assert refused.value.code == -32021
    assert refused.value.data == {"requiredCapabilities": {"extensions": CAPABILITIES["extensions"]}}


@both
async def test_a_task_is_there_as_soon_as_it_is_told_of_and_works_until_it_is_done(over: str) -> None:
    seen = Seen()
    async with by_hand(jobs(seen).server, over) as speaking:
        id = await start_task(speaking, "wait")
        task = await speaking.get_task(task_id=id)
        assert (task.status, task.result, task.error, task.input_requests) == ("working", None, None, None)
        seen.let.set()
        assert (await wait_for_status(speaking, id, "completed")).result is not None


@both
async def test_what_a_tool_fails_with_is_a_result_and_what_a_request_fails_with_an_error(over: str) -> None:
    async with by_hand(jobs(Seen()).server, over) as speaking:
        failed = await wait_for_status(speaking, await start_task(speaking, "fail", kind="tool"), "completed", "failed")
        assert failed.result is not None
        assert failed.result["isError"] is True
        refused = await wait_for_status(
            speaking, await start_task(speaking, "fail", kind="refusal"), "completed", "failed"
        )
        assert refused.error is not None
        assert (refused.error.code, refused.error.message, refused.error.data) == (-32050, "no", {"why": "because"})
        assert (refused.status, refused.status_message, refused.result) == ("failed", "no", None)


@both
async def test_a_task_waits_for_all_it_asks_and_takes_answers_in_parts(over: str) -> None:
    async with by_hand(jobs(Seen()).server, over) as speaking:
        id = await start_task(speaking, "confirm_two")
        requests = {}
        while len(requests) < 2:
            requests = (await wait_for_status(speaking, id, "input_required")).input_requests or {}
        one, two = requests
        await speaking.update_task(task_id=id, input_responses={one: YES, "never asked": {"any": "thing"}})
        task = await speaking.get_task(task_id=id)
        assert task.status == "input_required"
        assert list(task.input_requests or {}) == [two]
        await speaking.update_task(task_id=id, input_responses={one: {"action": "cancel"}, two: {"action": "decline"}})
        done = await wait_for_status(speaking, id, "completed")
        assert done.result is not None
        assert done.result["content"][0]["text"] == "accept, decline"


async def test_an_answer_that_is_none_is_refused_and_the_question_stays() -> None:
    async with by_hand(jobs(Seen()).server) as speaking:
        id = await start_task(speaking, "confirm")
        [key] = (await wait_for_status(speaking, id, "input_required")).input_requests or {}
        with pytest.raises(RemoteJSONRPCError, match=f"the response to '{key}' is invalid") as refused:
            await speaking.update_task(task_id=id, input_responses={key: {"action": "perhaps"}})
        assert refused.value.code == -32602
        assert list((await speaking.get_task(task_id=id)).input_requests or {}) == [key]


async def test_no_two_questions_of_a_task_have_the_same_key() -> None:
    keys: list[str] = []
    async with by_hand(jobs(Seen()).server) as speaking:
        id = await start_task(speaking, "confirm", times=3)
        while (task := await wait_for_status(speaking, id, "input_required", "completed")).status == "input_required":
            keys += task.input_requests or {}
            await speaking.update_task(task_id=id, input_responses=dict.fromkeys(task.input_requests or {}, YES))
            assert (await speaking.get_task(task_id=id)).status in ("working", "input_required", "completed")
    assert len(set(keys)) == len(keys) == 3


async def test_what_a_client_has_not_declared_is_not_asked_of_it() -> None:
    async with tasks.Client.memory(jobs(Seen()).server, extensions=[tasks]) as speaking:
        done = await wait_for_status(speaking, await start_task(speaking, "confirm"), "failed", "completed")
        assert done.error is not None
        assert done.error.code == -32021


@both
async def test_questions_before_the_task_are_asked_by_the_call_and_later_ones_by_the_task(over: str) -> None:
    async with by_hand(jobs(Seen()).server, over) as speaking:
        result: Any = await speaking.call_tool(name="first")
        assert isinstance(result, t.InputRequiredResult)
        [key] = result.input_requests or {}
        created = await speaking.call_tool(
            name="first", input_responses={key: t.ElicitResult.model_validate(YES)}, request_state=result.request_state
        )
        assert isinstance(created, t.CreateTaskResult)
        [then] = (await wait_for_status(speaking, created.task_id, "input_required")).input_requests or {}
        await speaking.update_task(task_id=created.task_id, input_responses={then: {"action": "decline"}})
        done = await wait_for_status(speaking, created.task_id, "completed")
        assert done.result is not None
        assert done.result["content"][0]["text"] == "accept, then decline"


async def test_a_task_says_what_it_is_at() -> None:
    seen = Seen()
    async with by_hand(jobs(seen).server) as speaking:
        id = await start_task(speaking, "wait")
        await seen.going.wait()
        assert (await speaking.get_task(task_id=id)).status_message == "waiting"


class ByClass(TaskServerMixin, tasks.Server):
    """The same for people who write classes: the handler says when its call becomes a task."""

    async def call_tool(self, ctx: tasks.Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        is_task = await ctx.as_task(TaskOptions(ttl=5)) if params.name == "long" else False
        if is_task:
            await ctx.status("on its way")
        return t.CallToolResult(content=[t.TextContent(text=f"{params.name}: {is_task}")])


async def test_a_handler_of_a_class_says_when_its_call_becomes_a_task() -> None:
    async with by_hand(ByClass(name="s", version="1")) as speaking:
        assert isinstance(await speaking.call_tool(name="short"), t.CallToolResult)
        done = await wait_for_status(speaking, await start_task(speaking, "long"), "completed")
        assert done.ttl_ms == 5000
        assert done.result is not None
        assert done.result["content"][0]["text"] == "long: True"
    async with plain(ByClass(name="s", version="1")) as speaking:
        assert (await speaking.call_tool(name="long")).content[0] == t.TextContent(text="long: False")


def test_a_server_without_the_extension_cannot_have_tasks() -> None:
    from mcp_generated.v2025_06_18 import Server

    kind = type("Wrong", (TaskServerMixin, Server), {})
    with pytest.raises(LocalError, match="needs the tasks extension"):
        kind(name="s", version="1")


@pytest.mark.long
async def test_a_thousand_calls_at_once_become_a_thousand_tasks() -> None:
    async with by_hand(jobs(Seen()).server) as speaking:
        ids = await asyncio.gather(*(start_task(speaking, "say") for _ in range(1000)))
        assert len(set(ids)) == 1000
        with pytest.raises(RemoteJSONRPCError, match="there are 1000 tasks already") as refused:
            await speaking.call_tool(name="say")
        assert refused.value.code == -32603
