"""A process that starts while its store cannot be reached says so at once, is alive, and serves when it can."""

from __future__ import annotations

import asyncio
import logging

import pytest
from support.endpoints import HANDSHAKE
from support.processes import free_port
from support.stores.failing import FailingStore
from support.stores.shared_workers import Workers

from mcp_generated import App

NEWEST = HANDSHAKE[-1]


async def status(client: Workers, path: str) -> int:
    return (await client.answered("GET", path=path)).status


async def test_a_process_is_alive_while_its_store_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    store.outage.is_down = True
    application = App("late").asgi(revisions=[NEWEST.id], store=store, health_path="/healthz", ready_path="/readyz")
    client = Workers([application], [], NEWEST)
    await application.open()  # As the lifespan of its ASGI server does.
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ["the store cannot be reached yet, and requests get 503 until it can: the store is down"]
    assert (await status(client, "/healthz"), await status(client, "/readyz")) == (200, 503)
    store.outage.is_down = False
    async with asyncio.timeout(10):
        while await status(client, "/readyz") != 200:
            await asyncio.sleep(0.01)
    await client.open()
    assert client.session is not None
    await application.close()


async def test_the_reason_is_that_of_redis(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("redis", reason="redis-py is not installed (pip install redis)")
    application = App("late").asgi(store=f"redis://127.0.0.1:{free_port()}", health_path="/healthz")
    await application.open()
    [said] = [record.message for record in caplog.records if "cannot be reached yet" in record.message]
    assert "Redis: " in said and "Connect call failed" in said
    assert await status(Workers([application], [], NEWEST), "/healthz") == 200
    await application.close()
