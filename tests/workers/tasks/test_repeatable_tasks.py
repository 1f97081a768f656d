"""Repeatable tasks: a queue lets any worker run them, and those of a killed worker begin again at another one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from support.stores.repeatable_server import RepeatableServer, repeatable_server

from mcp_generated.extensions import tasks
from mcp_generated.v2026_07_28 import Client

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="workers need POSIX"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RepeatableServer]:
    with repeatable_server(tmp_path_factory.mktemp("repeatable")) as started:
        yield started


@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_any_worker_shows_a_task_and_its_result(server: RepeatableServer, tool: str) -> None:
    id = await server.started(tool, name=f"{tool}-1", seconds=0.1)
    for _ in range(4):
        assert await server.ended(id) == ("completed", f"{tool}-1 has ended")
    assert len(server.notes(f"begins {tool}-1")) == 1


@pytest.mark.deadline(60)
@pytest.mark.parametrize("tool", ["wait", "block"])
async def test_the_task_of_a_killed_worker_begins_again_at_another(server: RepeatableServer, tool: str) -> None:
    id = await server.started(tool, name=f"{tool}-killed", seconds=1)
    [pid] = await server.noted(f"begins {tool}-killed")
    os.kill(pid, signal.SIGKILL)
    assert await server.ended(id) == ("completed", f"{tool}-killed has ended")
    assert len(pids := server.notes(f"begins {tool}-killed")) == 2 and server.notes(f"ends {tool}-killed") == pids[1:]


@pytest.mark.deadline(60)
async def test_a_task_longer_than_its_lease_runs_once(server: RepeatableServer) -> None:
    id = await server.started("wait", name="long", seconds=2.5)
    assert await server.ended(id) == ("completed", "long has ended")
    assert len(server.notes("begins long")) == 1


@pytest.mark.deadline(60)
async def test_the_task_of_a_worker_that_ends_in_order_begins_again(server: RepeatableServer) -> None:
    id = await server.started("wait", name="moved", seconds=1)
    [pid] = await server.noted("begins moved")
    os.kill(pid, signal.SIGTERM)
    assert await server.ended(id) == ("completed", "moved has ended")
    assert server.notes("cancelled moved") == [pid] != server.notes("ends moved")


async def test_a_cancellation_reaches_the_worker_that_runs_the_task(server: RepeatableServer) -> None:
    for number in range(6):  # The call, the task and the cancellation are at any of the workers.
        id = await server.started("wait", name=f"cancelled-{number}", seconds=60)
        [pid] = await server.noted(f"begins cancelled-{number}")
        assert (await server.sent("tasks/cancel", taskId=id))["resultType"] == "complete"
        assert await server.ended(id) == ("cancelled", "cancelled by the client")
        assert await server.noted(f"cancelled cancelled-{number}") == [pid]


@pytest.mark.deadline(60)
async def test_a_task_that_was_cancelled_with_its_worker_dead_does_not_begin_again(server: RepeatableServer) -> None:
    id = await server.started("wait", name="dead", seconds=60)
    [pid] = await server.noted("begins dead")
    os.kill(pid, signal.SIGKILL)
    await server.sent("tasks/cancel", taskId=id)  # No worker knows yet that it is dead.
    await server.ended(await server.started("wait", name="later", seconds=2.5))  # Longer than two leases.
    assert (await server.ended(id), server.notes("begins dead")) == (("cancelled", "cancelled by the client"), [pid])


async def test_a_function_that_fails_is_repeated_as_often_as_declared(server: RepeatableServer) -> None:
    assert await server.ended(await server.started("fail", name="once", times=1)) == ("completed", "once has ended")
    assert len(server.notes("begins once")) == 2


@pytest.mark.deadline(60)
async def test_the_last_failure_is_the_result(server: RepeatableServer) -> None:
    assert await server.ended(await server.started("fail", name="ever", times=9)) == (
        "completed",
        "the tool 'fail' failed",
    )
    assert len(server.notes("begins ever")) == 3


async def test_an_exception_whose_text_the_client_gets_is_a_result(server: RepeatableServer) -> None:
    answer = await server.ended(await server.started("refuse", name="no"))
    assert (answer, len(server.notes("begins no"))) == (("completed", "there is no such thing"), 1)


async def test_wrong_arguments_begin_no_task(server: RepeatableServer) -> None:
    answer = await server.sent("tools/call", name="wait", arguments={"name": 1, "seconds": 0})
    assert answer["isError"] and "invalid arguments" in answer["content"][0]["text"]


async def test_a_client_answers_a_task_at_any_worker(server: RepeatableServer) -> None:
    id = await server.started("order")
    task = await server.until(id, "input_required")
    [key] = task["inputRequests"]
    assert task["statusMessage"] == "waits for a colour"
    wrong = await server.sent("tasks/update", taskId=id, inputResponses={key: {"action": "perhaps"}})
    assert wrong["code"] == -32602
    right = {key: {"action": "accept", "content": {"value": "blue"}}}
    await server.sent("tasks/update", taskId=id, inputResponses=right)
    assert await server.ended(id) == ("completed", "accept: blue")


async def test_a_result_is_stored_for_its_time_to_live(server: RepeatableServer) -> None:
    id = await server.started("expire", name="short")
    assert await server.ended(id) == ("completed", "soon forgotten")
    while "there is no task" not in (await server.sent("tasks/get", taskId=id)).get("message", ""):
        pass
    from redis import Redis

    with Redis.from_url(server.store) as redis:
        assert [key for key in redis.scan_iter("*") if id.encode() in key] == []


async def test_a_client_with_the_extension_gets_the_result_itself(server: RepeatableServer) -> None:
    async with Client.http(server.url, extensions=[tasks]) as client:
        result = await client.call_tool("block", {"name": "plain", "seconds": 0.1}, timeout=20)
    assert result.structured_content == {"result": "plain has ended"}


async def test_a_client_without_the_extension_gets_the_result_of_the_call(server: RepeatableServer) -> None:
    async with Client.http(server.url) as client:
        result = await client.call_tool("wait", {"name": "direct", "seconds": 0.1}, timeout=20)
    assert result.structured_content == {"result": "direct has ended"}


async def test_ended_tasks_leave_nothing_that_stays_for_ever(server: RepeatableServer) -> None:
    from redis import Redis

    lasting: list[set[bytes]] = []
    with Redis.from_url(server.store) as redis:
        for number in range(3):
            await server.ended(await server.started("wait", name=f"left-{number}", seconds=0))
            lasting.append({key for key in redis.scan_iter("*") if redis.ttl(key) == -1})
        assert lasting[0] == lasting[1] == lasting[2]
        streams = [key for key in lasting[0] if redis.type(key) == b"stream"]
        async with asyncio.timeout(5):
            while any(redis.xlen(key) for key in streams):  # The queue forgets a task after its client has the result.
                await asyncio.sleep(0.02)


@pytest.mark.deadline(60)
@pytest.mark.parametrize(("name", "reason"), [("exits", "raised SystemExit"), ("cancels", "cancelled itself")])
async def test_a_function_that_ends_itself_fails_its_task_and_no_worker(
    server: RepeatableServer, name: str, reason: str
) -> None:
    id = await server.started("end", name=name)
    status, message = await server.ended(id)
    assert status == "failed" and reason in message
    [pid] = server.notes(f"begins {name}")
    os.kill(pid, 0)  # Raises ProcessLookupError if the worker has ended.
