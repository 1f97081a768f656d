"""A client that listens to its tasks goes in; it hears how they stand as soon as that changes, and of nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.servers.jobs import Seen, jobs
from support.task_clients import CAPABILITIES, CEILING, both, client, plain, start_task, wait_for_status

from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import methods
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.errors import RemoteJSONRPCError


class TaskListener(tasks.Client):
    """Notes what it is told of its tasks."""

    statuses: list[t.TaskStatusNotificationParams]
    agreed: asyncio.Future[Any]

    async def on_task_status(self, ctx: Any, params: t.TaskStatusNotificationParams) -> None:
        self.statuses.append(params)

    async def on_subscriptions_acknowledged(
        self, ctx: Any, params: t.SubscriptionsAcknowledgedNotificationParams
    ) -> None:
        self.agreed.set_result(params.notifications.model_dump())


def listening(server: BaseServer, over: str, **settings: Any) -> TaskListener:
    listener = client(TaskListener, server, over, capabilities=CAPABILITIES, **settings)
    listener.statuses = []
    listener.agreed = asyncio.get_running_loop().create_future()
    return listener


@both
async def test_who_listens_hears_of_its_tasks_and_of_no_others(over: str) -> None:
    seen = Seen()
    server = jobs(seen).server
    async with listening(server, over) as listener:
        id, other = await start_task(listener, "wait"), await start_task(listener, "confirm")
        await seen.going.wait()
        listens = tasks.methods.FromClient.SUBSCRIPTIONS_LISTEN
        params = {"notifications": {"taskIds": [id, "nobody's"]}}
        asked = listener._send_request(listens, params, None)  # pyright: ignore[reportPrivateUsage]
        stream = asyncio.ensure_future(asked)
        assert await listener.agreed == {"taskIds": [id]}
        seen.let.set()
        await wait_for_status(listener, id, "completed")
        await listener.cancel_task(task_id=other)
        await wait_for_status(listener, other, "cancelled")
        async with asyncio.timeout(CEILING):
            while not listener.statuses:
                await asyncio.sleep(0)
        assert [(status.task_id, status.status) for status in listener.statuses] == [(id, "completed")]
        task = (await listener.get_task(task_id=id)).model_dump()
        status = listener.statuses[0].model_dump()
        assert status | {"_meta": 0, "resultType": 0} == task | {"_meta": 0, "resultType": 0}
        stream.cancel()


@both
async def test_who_knows_no_tasks_cannot_listen_to_any(over: str) -> None:
    async with plain(jobs(Seen()).server, over) as speaking:
        listens = methods.FromClient.SUBSCRIPTIONS_LISTEN
        with pytest.raises(RemoteJSONRPCError) as refused:
            params = {"notifications": {"taskIds": ["any"]}}
            await speaking._send_request(listens, params, None)  # pyright: ignore[reportPrivateUsage]
        assert refused.value.code == -32021
        assert refused.value.data == {"requiredCapabilities": {"extensions": CAPABILITIES["extensions"]}}
