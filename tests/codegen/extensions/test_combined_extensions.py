"""Two extensions go in, on one client and on one server: both are spoken; what they say differently is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcp_generated.extensions import skills, tasks
from mcp_generated.extensions.skills import types as s
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2025_11_25 import Client as Other
from mcp_generated.v2026_07_28 import Client as Core
from mcp_runtime.errors import LocalError, ProtocolViolationError
from mcp_runtime.protocol.revision import InterimResult, Revision

TASKS, SKILLS = "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/skills"
DECLARED: dict[str, Any] = {"extensions": {TASKS: {}}}
TIMES: dict[str, Any] = {"created_at": "2026", "last_updated_at": "2026", "ttl_ms": None}


class Client(skills.ClientMixin, tasks.Client):
    """Speaks both."""


class Server(skills.ServerMixin, tasks.Server):
    """Serves both."""

    requests = 0

    async def call_tool(self, ctx: tasks.Context, params: t.CallToolRequestParams) -> t.CreateTaskResult:
        return t.CreateTaskResult(task_id="one", status="working", **TIMES)

    async def get_task(self, ctx: tasks.Context, params: t.GetTaskRequestParams) -> t.GetTaskResult:
        self.requests += 1
        return t.GetTaskResult(
            task_id=params.task_id,
            status="working" if self.requests == 1 else "cancelled",
            **{**TIMES, "ttl_ms": 60_000},
        )

    async def list_skills(self, ctx: skills.Context, params: s.PaginatedRequestParams) -> s.ListSkillsResult:
        return s.ListSkillsResult(skills=[])


async def test_one_client_and_one_server_speak_two_extensions() -> None:
    server = Server(name="s", version="1")
    assert set(server.capabilities["extensions"]) == {TASKS, SKILLS}
    async with Client.memory(server, capabilities=DECLARED) as client:
        assert isinstance(await client.call_tool(name="slow"), t.CreateTaskResult)
        for status in ("working", "cancelled"):  # How long a task is kept is not how long an answer about it holds.
            assert (await client.get_task(task_id="one")).status == status
        assert (await client.list_skills()).skills == []


async def test_each_extension_keeps_its_own_gate() -> None:
    async with Client.memory(Server(name="s", version="1")) as client:
        assert (await client.list_skills()).skills == []
        with pytest.raises(ProtocolViolationError, match=TASKS):
            await client.get_task(task_id="one")


async def test_a_mixin_is_added_to_a_client_of_the_core() -> None:
    class SkillsClient(skills.ClientMixin, Core):
        pass

    async with SkillsClient.memory(Server(name="s", version="1")) as client:
        assert (await client.list_skills()).skills == []
        assert "tasks/get" not in client.revision.table("client_to_server")


def test_a_context_of_both_can_do_what_those_of_each_can() -> None:
    assert issubclass(Server.context, (skills.Context, tasks.Context))
    assert hasattr(Server.context, "notify_task_status")


def clash(**changes: Any) -> Revision:
    """The tasks extension, with something else said of its first method, or of the calls that it adds to."""
    method = changes.pop("method", "tasks/get")
    revision = tasks.methods.REVISION
    rows = [replace(row, **changes) if row.method == method else row for row in revision.rows]
    return replace(revision, rows=tuple(rows))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (clash(result=t.CancelTaskResult), "two extensions define the message 'tasks/get' differently"),
        (clash(capability="server.extensions.acme/tasks"), "two extensions define the message 'tasks/get' differently"),
        (
            clash(method="tools/call", interim=(InterimResult(t.CancelTaskResult, "resultType", "task"),)),
            "two extensions define different results of 'tools/call' with resultType = 'task'",
        ),
    ],
)
def test_extensions_that_contradict_each_other_are_refused_where_they_meet(other: Revision, reason: str) -> None:
    class Mixin(skills.ClientMixin):
        revision = other

    with pytest.raises(LocalError, match=reason):
        type("Both", (Mixin, tasks.Client), {})


def test_an_extension_of_another_revision_is_refused() -> None:
    with pytest.raises(LocalError, match="cannot be used with"):
        type("Both", (skills.ClientMixin, Other), {})


def test_what_both_add_to_a_result_may_both_answer_it() -> None:
    further = InterimResult(t.CancelTaskResult, "resultType", "cancelled")
    joined = tasks.methods.REVISION.extended_with(clash(method="tools/call", interim=(further,)))
    row: Any = joined.table("client_to_server")["tools/call"]
    assert {interim.value for interim in row.interim} == {"input_required", "task", "cancelled"}
    assert t.CancelTaskResult in row.result_types and t.CreateTaskResult in row.result_types
