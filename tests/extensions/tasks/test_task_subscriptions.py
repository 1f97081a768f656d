"""A client that listens to its tasks goes in; it hears how they stand as soon as that changes, and of nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.servers.jobs import Seen, jobs
from support.task_clients import CEILING, KNOWN, begun, both, client, plain, stands

from mcp_generated.extensions import tasks
from mcp_generated.extensions.tasks import types as t
from mcp_generated.v2026_07_28 import methods
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.errors import RemoteJSONRPCError


class Hearing(tasks.Client):
    """Notes what it is told of its tasks."""

    told: list[t.TaskStatusNotificationParams]
    agreed: asyncio.Future[Any]

    async def on_task_status(self, ctx: Any, params: t.TaskStatusNotificationParams) -> None:
        self.told.append(params)

    async def on_subscriptions_acknowledged(
        self, ctx: Any, params: t.SubscriptionsAcknowledgedNotificationParams
    ) -> None:
        self.agreed.set_result(params.notifications.model_dump())


def listening(server: BaseServer, over: str, **settings: Any) -> Hearing:
    hearing = client(Hearing, server, over, capabilities=KNOWN, **settings)
    hearing.told, hearing.agreed = [], asyncio.get_running_loop().create_future()
    return hearing


@both
async def test_who_listens_hears_of_its_tasks_and_of_no_others(over: str) -> None:
    seen = Seen()
    server = jobs(seen).server
    async with listening(server, over) as hearing:
        id, other = await begun(hearing, "wait"), await begun(hearing, "ask")
        await seen.going.wait()
        listens = tasks.methods.FromClient.SUBSCRIPTIONS_LISTEN
        asked = {"notifications": {"taskIds": [id, "nobody's"]}}
        stream = asyncio.ensure_future(
            hearing._send_request(listens, asked, None)
        )  # pyright: ignore[reportPrivateUsage]
        assert await hearing.agreed == {"taskIds": [id]}
        seen.let.set()
        await stands(hearing, id, "completed")
        await hearing.cancel_task(task_id=other)
        await stands(hearing, other, "cancelled")
        async with asyncio.timeout(CEILING):
            while not hearing.told:
                await asyncio.sleep(0)
        assert [(each.task_id, each.status) for each in hearing.told] == [(id, "completed")]
        found = (await hearing.get_task(task_id=id)).model_dump()
        told = hearing.told[0].model_dump()
        assert told | {"_meta": 0, "resultType": 0} == found | {"_meta": 0, "resultType": 0}
        stream.cancel()


@both
async def test_who_knows_no_tasks_cannot_listen_to_any(over: str) -> None:
    async with plain(jobs(Seen()).server, over) as speaking:
        listens = methods.FromClient.SUBSCRIPTIONS_LISTEN
        with pytest.raises(RemoteJSONRPCError) as refused:
            asked = {"notifications": {"taskIds": ["any"]}}
            await speaking._send_request(listens, asked, None)  # pyright: ignore[reportPrivateUsage]
        assert refused.value.code == -32021
        assert refused.value.data == {"requiredCapabilities": {"extensions": KNOWN["extensions"]}}
