"""A handler that no longer waits for input: its task works again, and the request is no longer shown or resolved."""

from __future__ import annotations

import asyncio
from typing import Any

from support.servers.jobs import SOON, form
from support.task_clients import both, by_hand, start_task, wait_for_status

from mcp_generated import App, Context

YES: Any = {"action": "accept", "content": {"yes": True}}


def app_of(give_up: asyncio.Event, release: asyncio.Event, requests: int) -> App:
    """An app with a tool that makes so many requests, abandons the first, and ends when it is released."""
    app = App("abandons")

    @app.tool(task=SOON)
    async def confirm(ctx: Context) -> str:
        waiting = [asyncio.create_task(ctx.elicit(form(str(number)))) for number in range(requests)]
        await give_up.wait()
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        results = [(await other).action for other in waiting[1:]]
        await release.wait()
        return ", ".join(results) or "nobody"

    return app


@both
async def test_a_task_works_again_when_its_only_request_is_abandoned(over: str) -> None:
    give_up, release = asyncio.Event(), asyncio.Event()
    async with by_hand(app_of(give_up, release, 1).server, over) as client:
        id = await start_task(client, "confirm")
        [key] = (await wait_for_status(client, id, "input_required")).input_requests or {}
        give_up.set()
        task = await wait_for_status(client, id, "working")
        assert not task.input_requests
        await client.update_task(task_id=id, input_responses={key: YES})  # It comes too late, and changes nothing.
        assert (await client.get_task(task_id=id)).status == "working"
        release.set()
        done = await wait_for_status(client, id, "completed")
        assert done.result is not None and done.result["content"][0]["text"] == "nobody"


@both
async def test_the_other_requests_of_a_task_stay_open(over: str) -> None:
    give_up, release = asyncio.Event(), asyncio.Event()
    release.set()
    async with by_hand(app_of(give_up, release, 2).server, over) as client:
        id = await start_task(client, "confirm")
        keys: list[str] = []
        while len(keys) < 2:
            keys = list((await wait_for_status(client, id, "input_required")).input_requests or {})
        give_up.set()
        async with asyncio.timeout(10):
            while list((await client.get_task(task_id=id)).input_requests or {}) != keys[1:]:
                await asyncio.sleep(0)
        await client.update_task(task_id=id, input_responses={keys[1]: YES})
        done = await wait_for_status(client, id, "completed")
        assert done.result is not None and done.result["content"][0]["text"] == "accept"
