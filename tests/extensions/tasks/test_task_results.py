"""Calls go in that the server answers with tasks; a client that has the extension gives their results."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from support.project import SERVERS
from support.servers.jobs import Seen, jobs
from support.task_clients import CEILING, both, by_hand, client

from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import Client, SyncClient
from mcp_products.extensions.tasks.polling import wait_for_task
from mcp_products.extensions.tasks.store import InMemoryTaskStore, TaskRecord
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.client.core import ClientContext
from mcp_runtime.errors import RemoteError, RemoteJSONRPCError, RequestTimeoutError
from mcp_runtime.session.requests import RequestOptions

JOBS = str(SERVERS / "jobs.py")


class Person(Client):
    """A client with somebody who says yes."""

    messages: list[str]

    async def on_elicit(self, ctx: ClientContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.messages.append(params.message)
        return t.ElicitResult(action="accept", content={"yes": True})


def waiting(server: BaseServer, over: str = "memory", kind: type[Client] = Person, **settings: Any) -> Any:
    """A client that waits for the results of tasks."""
    waiting_client = client(kind, server, over, extensions=[tasks], **settings)
    if isinstance(waiting_client, Person):
        waiting_client.messages = []
    return waiting_client


@both
async def test_the_result_of_a_task_is_that_of_the_call(over: str) -> None:
    async with waiting(jobs(Seen()).server, over) as speaking:
        result = await speaking.call_tool(name="say")
        assert isinstance(result, t.CallToolResult)
        assert result.content == [t.TextContent(text="xxxx")]
        assert (await speaking.call_tool(name="fail", arguments={"kind": "tool"})).is_error is True


@both
async def test_what_a_task_asks_is_answered_once_by_the_handlers_of_the_client(over: str) -> None:
    async with waiting(jobs(Seen()).server, over) as speaking:
        result = await speaking.call_tool(name="confirm", arguments={"times": 3})
        assert result.content == [t.TextContent(text="accept, accept, accept")]
        assert speaking.messages == ["Sure?"] * 3
        assert (await speaking.call_tool(name="confirm_two")).content == [t.TextContent(text="accept, accept")]
        assert sorted(speaking.messages[3:]) == ["One?", "Two?"]


async def test_questions_of_the_call_and_those_of_its_task_are_answered_alike() -> None:
    async with waiting(jobs(Seen()).server) as speaking:
        assert (await speaking.call_tool(name="first")).content == [t.TextContent(text="accept, then accept")]
        assert speaking.messages == ["First?", "Then?"]


async def test_an_error_of_a_task_is_that_of_the_call() -> None:
    async with waiting(jobs(Seen()).server) as speaking:
        with pytest.raises(RemoteJSONRPCError) as refused:
            await speaking.call_tool(name="fail", arguments={"kind": "refusal"})
        assert (refused.value.code, refused.value.message, refused.value.data) == (-32050, "no", {"why": "because"})


@both
async def test_who_stops_waiting_cancels_the_task(over: str) -> None:
    store, elicited = Noting(), asyncio.Event()

    class Thinking(Client):
        async def on_elicit(self, ctx: ClientContext, params: t.ElicitRequestParams) -> t.ElicitResult:
            elicited.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async with waiting(jobs(Seen(), tasks=store).server, over, kind=Thinking) as speaking:
        calling = asyncio.ensure_future(speaking.call_tool(name="confirm"))
        async with asyncio.timeout(CEILING):
            await elicited.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(CEILING):
            await store.cancelled.wait()


async def test_a_call_has_no_longer_than_it_is_given() -> None:
    seen = Seen()
    async with waiting(jobs(seen).server) as speaking:
        with pytest.raises(RequestTimeoutError, match="its task has not ended within 0.1 s"):
            await speaking.call_tool(name="wait", options=RequestOptions(max_timeout=0.1))
        async with asyncio.timeout(CEILING):
            await seen.ended.wait()


async def test_a_task_that_asks_what_nobody_answers_is_cancelled() -> None:
    store = Noting()
    server = jobs(Seen(), tasks=store).server
    async with waiting(server, kind=Client, capabilities={"elicitation": {}}) as speaking:
        with pytest.raises(RemoteError, match="has no handler for it"):
            await speaking.call_tool(name="confirm")
        async with asyncio.timeout(CEILING):
            await store.cancelled.wait()


async def test_a_task_that_somebody_else_cancels_has_no_result() -> None:
    seen, store = Seen(), Noting()
    server = jobs(seen, tasks=store).server
    async with waiting(server) as speaking, by_hand(server) as other:
        calling = asyncio.ensure_future(speaking.call_tool(name="wait"))
        await seen.going.wait()
        await other.cancel_task(task_id=store.ids[0])
        with pytest.raises(RemoteError, match="its task is cancelled: cancelled by the client"):
            await calling


async def test_a_task_that_is_handled_by_hand_can_be_waited_for() -> None:
    async with by_hand(jobs(Seen()).server) as speaking:
        created = await speaking.call_tool(name="say")
        assert isinstance(created, t.CreateTaskResult)
        result = await wait_for_task(speaking, created)
        assert result.content == [t.TextContent(text="xxxx")]


@pytest.mark.long
async def test_results_are_waited_for_over_stdio() -> None:
    settings: dict[str, Any] = {"extensions": [tasks]}
    person = Person.stdio(sys.executable, JOBS, **settings)
    person.messages = []
    async with person as speaking:
        assert (await speaking.call_tool(name="confirm")).content == [t.TextContent(text="accept")]


def test_code_without_a_loop_waits_for_results_as_well() -> None:
    with SyncClient.memory(jobs(Seen()).server, extensions=[tasks]) as speaking:
        assert speaking.call_tool(name="say").content == [t.TextContent(text="xxxx")]


class Noting(InMemoryTaskStore):
    """Notes which tasks there are, and that one was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.cancelled = asyncio.Event()

    async def add(self, record: TaskRecord) -> None:
        self.ids.append(record.id)
        await super().add(record)

    async def update(self, record: TaskRecord) -> None:
        await super().update(record)
        if record.status == "cancelled":
            self.cancelled.set()
