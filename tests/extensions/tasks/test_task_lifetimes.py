"""Tasks go in that are cancelled, expire, belong to somebody else or cannot be kept; nothing of them is left over."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import weakref
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from support.clock import settle
from support.project import SERVERS
from support.servers.jobs import Seen, jobs
from support.task_clients import CAPABILITIES, CEILING, both, by_hand, start_task, wait_for_status

from mcp_generated import App, TaskOptions
from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.http import InMemoryStore
from mcp_products.extensions.tasks.store import TERMINAL_STATUSES, InMemoryTaskStore, TaskRecord
from mcp_products.workers.tasks.shared import SharedTasks
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.errors import LocalError, RemoteJSONRPCError

JOBS = str(SERVERS / "jobs.py")


# ---- cancelling ------------------------------------------------------------------------------------------------------


@both
async def test_a_cancelled_task_ends_its_handler(over: str) -> None:
    seen = Seen()
    async with by_hand(jobs(seen).server, over) as speaking:
        id = await start_task(speaking, "wait")
        await seen.going.wait()
        ack = await speaking.cancel_task(task_id=id)
        assert {name for name, value in ack.model_dump().items() if value is not None} == {"_meta", "resultType"}
        cancelled = await wait_for_status(speaking, id, "cancelled")
        assert (cancelled.result, cancelled.error) == (None, None)
        assert seen.ended.is_set()
        await speaking.cancel_task(task_id=id)
        await speaking.update_task(task_id=id, input_responses={})
        assert (await speaking.get_task(task_id=id)).status == "cancelled"


async def test_a_handler_that_goes_on_all_the_same_has_its_result() -> None:
    seen = Seen()
    async with by_hand(jobs(seen).server) as speaking:
        id = await start_task(speaking, "wait", stubborn=True)
        await seen.going.wait()
        await speaking.cancel_task(task_id=id)
        assert (await wait_for_status(speaking, id, "cancelled", "completed")).status == "completed"


async def test_a_task_is_cancelled_before_its_handler_has_begun_and_while_it_asks() -> None:
    async with by_hand(jobs(Seen()).server) as speaking:
        early = await start_task(speaking, "wait")
        await speaking.cancel_task(task_id=early)
        assert (await wait_for_status(speaking, early, "cancelled")).input_requests is None
        asking = await start_task(speaking, "confirm")
        await wait_for_status(speaking, asking, "input_required")
        await speaking.cancel_task(task_id=asking)
        assert (await wait_for_status(speaking, asking, "cancelled")).input_requests is None


async def test_cancelling_and_answering_at_once_leaves_a_task_that_has_ended() -> None:
    seen = Seen()
    async with by_hand(jobs(seen).server) as speaking:
        for _ in range(20):
            id = await start_task(speaking, "confirm")
            [key] = (await wait_for_status(speaking, id, "input_required")).input_requests or {}
            answer = {key: {"action": "accept", "content": {"yes": True}}}
            await asyncio.gather(
                speaking.update_task(task_id=id, input_responses=answer), speaking.cancel_task(task_id=id)
            )
            ended = await wait_for_status(speaking, id, "cancelled", "completed")
            assert (ended.result is not None) == (ended.status == "completed")


async def test_a_call_that_is_cancelled_before_it_is_a_task_leaves_none() -> None:
    seen, store = Seen(), Slow()
    server = jobs(seen, tasks=store).server
    async with by_hand(server) as speaking:
        calling = asyncio.ensure_future(speaking.call_tool(name="wait"))
        await store.adding.wait()
        calling.cancel()
        await asyncio.wait([calling])
        store.let.set()
        assert isinstance(await speaking.call_tool(name="say"), t.CreateTaskResult)
        assert not seen.going.is_set()


# ---- expiring --------------------------------------------------------------------------------------------------------


@both
async def test_a_task_that_expires_ends_its_handler_and_is_found_no_more(over: str) -> None:
    seen = Seen()
    store = InMemoryTaskStore()
    async with by_hand(jobs(seen, TaskOptions(ttl=0.05), tasks=store).server, over) as speaking:
        id = await start_task(speaking, "wait")
        async with asyncio.timeout(CEILING):
            await seen.ended.wait()
        with pytest.raises(RemoteJSONRPCError, match="there is no task") as refused:
            await speaking.get_task(task_id=id)
        assert refused.value.code == -32602


async def test_what_has_expired_makes_room_and_what_one_user_keeps_is_bounded() -> None:
    now = 1000.0
    store = InMemoryTaskStore(max_tasks=3, max_tasks_per_owner=2, clock=lambda: now)
    await store.add(record("a", "ann", created=now))
    await store.add(record("b", "ann", created=now))
    with pytest.raises(LocalError, match="2 of this user"):
        await store.add(record("c", "ann", created=now))
    await store.add(record("d", "bob", created=now))
    with pytest.raises(LocalError, match="there are 3 tasks"):
        await store.add(record("e", "", created=now))
    now += 60
    assert await store.get("a") is None
    await store.add(record("e", "", created=now))
    await store.update(record("a", "ann", created=now))
    assert await store.get("a") is None
    assert len(store) == 1


def of_client(id: str, client: str, status: str) -> TaskRecord:
    """The record of a task of a client without a user."""
    return replace(record(id, "", created=1000.0), client=client, status=status)


@pytest.mark.edges("memory-completed", "memory-input_required", "shared store-working")
@pytest.mark.long
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "working", "input_required"])
@pytest.mark.parametrize("shared", [False, True], ids=["memory", "shared store"])
async def test_tasks_of_one_client_without_a_user_do_not_lock_out_others(status: str, shared: bool) -> None:
    store: Any = InMemoryTaskStore()
    if shared:
        store = SharedTasks(InMemoryStore(), "tasks", tasks.Server.revision, {})
    now = time.time()
    for number in range(1000):
        await store.add(replace(of_client(str(number), "address a", status), created=now))
        await store.update(replace(of_client(str(number), "address a", status), created=now))
    with pytest.raises(LocalError, match="there are 1000 tasks already"):
        await store.add(replace(of_client("more", "address a", "working"), created=now))
    for client in ("address b", "address c"):
        for number in range(20):
            await store.add(replace(of_client(f"{client} {number}", client, "working"), created=now))
    for number in range(20):
        await store.add(replace(record(f"ann {number}", "ann", created=now)))
    has_ended = status in TERMINAL_STATUSES
    assert (await store.get("0") is None) == has_ended, "the oldest that has ended makes room"
    assert await store.get("999") is not None
    for id in ("address b 0", "address c 19", "ann 19"):
        assert await store.get(id) is not None


@both
async def test_the_client_of_a_task_without_a_user_is_its_address_or_its_connection(over: str) -> None:
    made: list[TaskRecord] = []

    class Noting(InMemoryTaskStore):
        async def add(self, record: TaskRecord) -> None:
            made.append(record)
            await super().add(record)

    app = App("tasks", tasks=Noting())

    @app.tool(task=TaskOptions(required=True))
    async def work() -> str:
        return "done"

    async with by_hand(app.server, over) as first, by_hand(app.server, over) as second:
        for client in (first, second):
            await start_task(client, "work")
    one, other = made
    assert one.holder and other.holder
    assert (one.holder == other.holder) == (over == "http"), "an address is one client, whatever it opens"


def record(id: str, owner: str, created: float) -> TaskRecord:
    return TaskRecord(id=id, owner=owner, status="working", created=created, updated=created, ttl=60, poll_interval=1)


@pytest.mark.parametrize(("ttl", "poll"), [(0, 1), (-1, 1), (None, 0)])
def test_a_task_that_is_kept_for_no_time_is_refused(ttl: float | None, poll: float) -> None:
    with pytest.raises(LocalError, match="at least 0.001 seconds"):
        TaskOptions(ttl=ttl, poll_interval=poll)


# ---- users -----------------------------------------------------------------------------------------------------------


def of_users(seen: Seen) -> BaseServer:
    """A server that takes clients by their names."""
    server = jobs(seen).server
    server.principal = lambda ctx: str(ctx.client_info.get("name"))  # type: ignore[method-assign]
    return server


async def test_a_task_is_not_there_for_anybody_but_its_user() -> None:
    seen = Seen()
    server = of_users(seen)
    async with by_hand(server, name="ann") as ann, by_hand(server, name="bob") as bob:
        id = await start_task(ann, "confirm")
        [key] = (await wait_for_status(ann, id, "input_required")).input_requests or {}
        nobody = f"there is no task '{id}'"
        with pytest.raises(RemoteJSONRPCError, match=nobody):
            await bob.get_task(task_id=id)
        with pytest.raises(RemoteJSONRPCError, match=nobody):
            await bob.update_task(task_id=id, input_responses={key: {"action": "decline"}})
        with pytest.raises(RemoteJSONRPCError, match=nobody):
            await bob.cancel_task(task_id=id)
        assert (await ann.get_task(task_id=id)).status == "input_required"
        assert not seen.answers


@both
async def test_nobody_finds_a_task_that_there_is_not(over: str) -> None:
    async with by_hand(jobs(Seen()).server, over) as speaking:
        for call in (
            speaking.get_task(task_id="other"),
            speaking.update_task(task_id="other", input_responses={}),
            speaking.cancel_task(task_id="other"),
        ):
            with pytest.raises(RemoteJSONRPCError) as refused:
                await call
            assert refused.value.code == -32602


async def test_ids_are_long_and_never_the_same() -> None:
    async with by_hand(jobs(Seen()).server) as speaking:
        ids = {await start_task(speaking, "say") for _ in range(50)}
    assert len(ids) == 50
    assert all(len(id) >= 32 for id in ids)


# ---- what is kept ----------------------------------------------------------------------------------------------------


class Slow(InMemoryTaskStore):
    """Takes its time for the first task."""

    def __init__(self) -> None:
        super().__init__()
        self.adding = asyncio.Event()
        self.let = asyncio.Event()

    async def add(self, record: TaskRecord) -> None:
        if not self.adding.is_set():
            self.adding.set()
            await self.let.wait()
        await super().add(record)


class Failing(InMemoryTaskStore):
    """Fails in what it is told to."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    async def add(self, record: TaskRecord) -> None:
        self._fail("add")
        await super().add(record)

    async def get(self, id: str) -> TaskRecord | None:
        self._fail("get")
        return await super().get(id)

    async def update(self, record: TaskRecord) -> None:
        self._fail("update")
        await super().update(record)

    def _fail(self, what: str) -> None:
        if what == self.what:
            raise OSError("secret: the disk is full")


async def test_a_task_that_cannot_be_kept_is_not_begun() -> None:
    seen = Seen()
    async with by_hand(jobs(seen, tasks=Failing("add")).server) as speaking:
        with pytest.raises(RemoteJSONRPCError, match="^the task cannot be stored") as refused:
            await speaking.call_tool(name="wait")
        assert refused.value.code == -32603
        assert not seen.going.is_set()


async def test_what_became_of_a_task_is_known_where_it_could_not_be_kept() -> None:
    async with by_hand(jobs(Seen(), tasks=Failing("update")).server) as speaking:
        done = await wait_for_status(speaking, await start_task(speaking, "say"), "completed")
        assert done.result is not None


async def test_a_store_that_finds_nothing_says_nothing_of_why() -> None:
    async with by_hand(jobs(Seen(), tasks=Failing("get")).server) as speaking:
        with pytest.raises(RemoteJSONRPCError, match="^internal error"):
            await speaking.get_task(task_id="any")


async def test_a_task_that_another_process_runs_is_told_of_and_cannot_be_answered() -> None:
    store = InMemoryTaskStore()
    await store.add(TaskRecord(id="far", owner="", status="working", created=0, updated=0, ttl=None, poll_interval=1))
    async with by_hand(jobs(Seen(), tasks=store).server) as speaking:
        assert (await speaking.get_task(task_id="far")).ttl_ms is None
        with pytest.raises(RemoteJSONRPCError, match="runs in another process"):
            await speaking.cancel_task(task_id="far")


async def test_a_result_that_is_too_long_is_not_kept() -> None:
    server = jobs(Seen()).server
    async with by_hand(server) as speaking:
        failed = await wait_for_status(
            speaking, await start_task(speaking, "say", length=1024 * 1024), "failed", "completed"
        )
        assert failed.error is not None
        assert failed.error.message == "the result is longer than 1048576 bytes"


async def test_an_error_that_nobody_expected_says_nothing_of_itself() -> None:
    class Breaking(tasks.Server):
        async def call_tool(self, ctx: tasks.Context, params: t.CallToolRequestParams) -> t.CallToolResult:
            await ctx.as_task()
            raise RuntimeError("secret")

    from mcp_products.extensions.tasks.server import TaskServerMixin

    kind: Any = type("TaskedBreaking", (TaskServerMixin, Breaking), {})
    async with by_hand(kind(name="s", version="1")) as speaking:
        failed = await wait_for_status(speaking, await start_task(speaking, "any"), "failed")
        assert failed.error is not None
        assert (failed.error.code, failed.error.message) == (-32603, "internal error")


# ---- the end of the server -------------------------------------------------------------------------------------------


@both
async def test_a_server_that_ends_leaves_none_of_its_tasks_running(over: str) -> None:
    seen, store, before = Seen(), InMemoryTaskStore(), asyncio.all_tasks()
    async with by_hand(jobs(seen, tasks=store).server, over) as speaking:
        waiting, asking = await start_task(speaking, "wait"), await start_task(speaking, "confirm")
        await seen.going.wait()
        await wait_for_status(speaking, asking, "input_required")
    assert seen.ended.is_set()
    async with asyncio.timeout(CEILING):
        while remaining := asyncio.all_tasks() - before:
            await asyncio.wait(remaining)
    for id in (waiting, asking):
        record = await store.get(id)
        assert record is not None
        assert record.status == "failed"
        assert record.detail["error"]["message"] == "the server ended before the task did"


@pytest.mark.long
async def test_a_server_over_stdio_ends_while_its_tasks_run() -> None:
    errors: list[str] = []
    async with tasks.Client.stdio(sys.executable, JOBS, capabilities=CAPABILITIES, stderr=errors.append) as speaking:
        id = await start_task(speaking, "wait")
        assert (await wait_for_status(speaking, id, "working")).status == "working"
        done = await wait_for_status(speaking, await start_task(speaking, "say"), "completed")
        assert done.result is not None
    assert not errors


class Brought:
    """What the context of a call has, such as its arguments."""


@both
async def test_a_task_that_has_ended_keeps_nothing_of_the_context_of_its_call(over: str) -> None:
    """Its timers, which run until it expires, kept the arguments of the call: up to 8 MiB for each task."""
    brought: ContextVar[Brought] = ContextVar("brought")
    kept: list[weakref.ref[Brought]] = []
    app = jobs(Seen())

    @app.middleware
    async def bring(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
        if name == "call_tool":
            brought.set(it := Brought())
            kept.append(weakref.ref(it))
            del it
        return await call_next(ctx, params)

    async with by_hand(app.server, over) as speaking:
        ids = [await start_task(speaking, "say") for _ in range(3)]
        for id in ids:
            await wait_for_status(speaking, id, "completed")
        await settle()
        gc.collect()
        assert [ref() for ref in kept[:2]] == [None, None], "the last call may still be at its end"
