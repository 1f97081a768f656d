"""Tasks of several workers: any of them serves the requests about a task, whichever runs it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import STATELESS
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context
from mcp_products.workers.sessions import worker

REV = STATELESS[-1]
META = {
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
}


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


def make_app() -> App:
    app = App("tasks")

    @app.tool(task=True)
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool(task=True)
    async def order(ctx: Context) -> str:
        answer = await ctx.elicit("What colour?", str)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @app.tool(task=True)
    async def wait() -> str:
        await asyncio.Event().wait()
        return "never"

    return app


async def sent(client: Workers, at: int, method: str, **params: Any) -> dict[str, Any]:
    """The result or the error of a request to one worker."""
    name = params.get("name", params.get("taskId"))
    body = REV.request(1, method, {**params, "_meta": META})
    response: dict[str, Any] = (await client.answered(body=body, at=at, headers={"mcp-name": name})).json
    return response.get("result") or response["error"]


async def started(client: Workers, at: int, name: str, **arguments: Any) -> str:
    task = await sent(client, at, "tools/call", name=name, arguments=arguments)
    id: str = task["taskId"]
    return id


async def until(client: Workers, at: int, id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (task := await sent(client, at, "tasks/get", taskId=id))["status"] != status:
            await asyncio.sleep(0.01)
    return task


async def test_any_worker_shows_a_task_and_its_result(place: Any) -> None:
    async with workers(REV, make_app, place) as client:
        id = await started(client, 0, "add", a=1, b=2)
        for at in range(3):
            task = await until(client, at, id, "completed")
            assert task["result"]["content"][0]["text"] == "3"
        assert "there is no task" in (await sent(client, 1, "tasks/get", taskId=f"{id}x"))["message"]


async def test_a_client_answers_a_task_at_another_worker(place: Any) -> None:
    async with workers(REV, make_app, place) as client:
        id = await started(client, 0, "order")
        task = await until(client, 1, id, "input_required")
        [key] = task["inputRequests"]
        wrong = await sent(client, 2, "tasks/update", taskId=id, inputResponses={key: {"action": "perhaps"}})
        assert wrong["code"] == -32602 and key in wrong["message"]
        right = {key: {"action": "accept", "content": {"value": "blue"}}, "unknown": {}}
        await sent(client, 2, "tasks/update", taskId=id, inputResponses=right)
        task = await until(client, 1, id, "completed")
        assert task["result"]["content"][0]["text"] == "accept: blue"


async def test_a_client_cancels_a_task_at_another_worker(place: Any) -> None:
    async with workers(REV, make_app, place) as client:
        id = await started(client, 0, "wait")
        await sent(client, 1, "tasks/cancel", taskId=id)
        for at in range(3):
            await until(client, at, id, "cancelled")


async def test_the_task_of_a_killed_worker_has_failed(monkeypatch: pytest.MonkeyPatch, place: Any) -> None:
    monkeypatch.setattr(worker, "_TICK", 0.05)
    monkeypatch.setattr(worker, "_ALIVE_SECONDS", 0.2)
    async with workers(REV, make_app, place) as client:
        id = await started(client, 0, "wait")
        assert (await sent(client, 1, "tasks/get", taskId=id))["status"] == "working"
        monkeypatch.setattr(worker, "_TICK", 3600)  # From its next sign of life on, no worker shows one.
        for at in (1, 2):
            task = await until(client, at, id, "failed")
            assert task["error"]["message"] == "the worker that ran this task has ended"


async def test_the_task_of_another_user_does_not_exist(place: Any) -> None:
    def owner(scope: Any) -> str:
        return dict(scope["headers"]).get(b"x-user", b"alice").decode()

    async with workers(REV, make_app, place, owner=owner) as client:
        id = await started(client, 0, "add", a=1, b=2)
        body = REV.request(1, "tasks/get", {"taskId": id, "_meta": META})
        for at in range(3):
            answer = await client.answered(body=body, at=at, headers={"mcp-name": id, "x-user": "mallory"})
            assert "there is no task" in answer.json["error"]["message"]
