"""The limits of tasks hold for all workers of a store, whichever creates the tasks, and whichever drops them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.clock import MovableClock
from support.stores.homes import FEW_HOMES, open_home, place_of
from support.stores.passing import Passing

from mcp_generated import LocalError
from mcp_generated.extensions import tasks
from mcp_products.extensions.tasks.store import InMemoryTaskStore, TaskLimits, TaskRecord
from mcp_products.workers.sessions.worker import Worker
from mcp_products.workers.tasks import shared
from mcp_products.workers.tasks.shared import SharedTasks
from mcp_runtime.aio import clock

LIMITS = TaskLimits(tasks=6, of_user=4)
LONG = {"result": {"text": "x" * (256 << 10)}}  # It counts as two.


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(shared, "LIMITS", LIMITS)
    return place_of(request.param, tmp_path)


@asynccontextmanager
async def three_workers(place: Any, running: Any = None) -> AsyncGenerator[list[SharedTasks]]:
    """The tasks as three workers of one store have them; `running` are the executions of the first one."""
    executions: list[Any] = [running or {}, {}, {}]
    stores = [SharedTasks(open_home(place), "tasks", tasks.Server.revision, of_worker) for of_worker in executions]
    try:
        yield stores
    finally:
        for store in stores:
            await store.worker.close()


def record(id: str, owner: str = "", client: str = "", ttl: float | None = 60) -> TaskRecord:
    now = clock.wall()
    return TaskRecord(
        id=id, owner=owner, client=client, status="working", created=now, updated=now, ttl=ttl, poll_interval=1
    )


async def is_added(store: SharedTasks, new: TaskRecord) -> bool:
    try:
        await store.add(new)
    except LocalError as error:
        assert "tasks already" in str(error)
        return False
    return True


async def test_a_user_has_one_share_at_all_workers(place: Any) -> None:
    async with three_workers(place) as stores:
        added = [await is_added(stores[number % 3], record(str(number), "ann")) for number in range(9)]
        assert added == [True] * 4 + [False] * 5
        assert await is_added(stores[2], record("other", "bob"))


async def test_tasks_that_begin_at_once_do_not_pass_the_limit_together(place: Any) -> None:
    async with three_workers(place) as stores:
        adding = [is_added(stores[number % 3], record(str(number), "ann")) for number in range(12)]
        assert sum(await asyncio.gather(*adding)) == 4


async def test_any_worker_drops_what_has_ended_at_another(place: Any) -> None:
    async with three_workers(place) as stores:
        for number in range(6):
            await stores[number % 3].add(record(str(number), client="address a"))
        assert not await is_added(stores[0], record("more", client="address a"))
        await stores[1].update(replace(record("1", client="address a"), status="completed"))
        assert await is_added(stores[2], record("b", client="address b"))
        assert await stores[0].get("1") is None and await stores[0].get("0") is not None
        assert await stores[1].get("b") is not None


async def test_long_results_count_as_several_tasks(place: Any) -> None:
    async with three_workers(place) as stores:
        for number in range(2):
            new = record(str(number), "ann")
            await stores[number].add(new)
            await stores[number].update(replace(new, status="completed", detail=LONG))
        with pytest.raises(
            LocalError, match="there are 2 tasks already, 2 of this user; those with long results count"
        ):
            await stores[2].add(record("more", "ann"))
        assert await is_added(stores[2], record("b", "bob"))


async def test_long_results_count_in_the_memory_of_one_process_too() -> None:
    store = InMemoryTaskStore(*LIMITS)
    for number in range(2):
        new = record(str(number), "ann")
        await store.add(new)
        await store.update(replace(new, status="failed", detail=LONG))
    with pytest.raises(LocalError, match="long results"):
        await store.add(record("more", "ann"))


async def test_a_long_result_leaves_its_places_when_it_is_dropped(place: Any) -> None:
    async with three_workers(place) as stores:
        for number in range(3):
            new = record(str(number), client="address a")
            await stores[number].add(new)
            await stores[number].update(replace(new, status="completed", detail=LONG))
        assert not await is_added(stores[0], record("more", client="address a"))
        assert await is_added(stores[0], record("b", client="address b"))
        assert await is_added(stores[1], record("c", client="address b"))
        assert not await is_added(stores[0], record("more", client="address a"))


async def test_what_has_expired_takes_no_place(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with three_workers(place) as stores:
        for number in range(4):
            assert await is_added(stores[number % 3], record(str(number), "ann", ttl=60))
        now = clock.wall() + 61
        monkeypatch.setattr(clock, "wall", lambda: now)
        assert await is_added(stores[1], record("more", "ann"))


async def test_the_tasks_of_a_worker_that_has_ended_take_no_place(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def is_alive(worker: Worker, id: str) -> bool:
        return id not in ended

    monkeypatch.setattr(Worker, "is_alive", is_alive)
    async with three_workers(place) as stores:
        for number in range(4):
            assert await is_added(stores[0], record(str(number), "ann", ttl=None))
        assert not await is_added(stores[1], record("more", "ann"))
        ended.append(stores[0].worker.id)
        assert await is_added(stores[1], record("more", "ann"))
        assert await is_added(stores[2], record("again", "ann"))


@pytest.mark.deadline(10**9)  # It is on the clock that the test sets forward.
async def test_a_repeatable_task_that_runs_for_long_can_still_begin_again(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each five minutes a worker stores what runs there again, here one that was created at another worker and one that
    was not."""
    running = {id: SimpleNamespace(record=record(id, ttl=None)) for id in ("here", "elsewhere")}
    async with three_workers(place, running) as stores:
        for id, creator in zip(running, stores, strict=False):
            await creator.add(running[id].record, is_repeatable=True)
            running[id].record = await stores[0].claim(id)
        passing = Passing(place, MovableClock(monkeypatch))
        await passing.quiet(400)

        async def is_alive(worker: Worker, id: str) -> bool:
            return id != stores[0].worker.id

        monkeypatch.setattr(Worker, "is_alive", is_alive)
        for id in ("here", "elsewhere"):
            found = await stores[2].get(id)
            assert found is not None and found.status == "working", id
            assert await stores[2].claim(id) is not None


async def test_the_places_are_taken_again_after_a_loss(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with three_workers(place) as stores:
        for number in range(4):
            await stores[number % 3].add(record(str(number), "ann"))
        Passing(place, MovableClock(monkeypatch)).lose()
        for store in stores:
            await store.worker.look()
        assert not await is_added(stores[0], record("more", "ann"))
        assert await is_added(stores[0], record("other", "bob"))
