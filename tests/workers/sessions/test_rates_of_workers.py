"""A rate limit that the server declares holds over all workers, not for each of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.stores.failing import FailingStore
from support.stores.homes import FEW_HOMES, open_home, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, RateLimit
from mcp_generated.http import InMemoryStore
from mcp_products.workers.stores.retries import acquire
from mcp_runtime.aio.rates import TokenBucket

ALL_WITH_HTTP = [*HANDSHAKE[1:], *STATELESS]
SLOW = RateLimit(per_second=0.01, burst=4)


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


def limited() -> App:
    app = App("limited", rate_limits={"call_tool": SLOW})

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return app


async def calls(client: Workers, number: int) -> list[bool]:
    """Which of so many calls at the workers in turn were answered; the others were too many."""
    answered: list[bool] = []
    for id in range(number):
        body = client.rev.request(id, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        answer = await client.answered(body=body)
        message = answer.json if answer.content.startswith(b"{") else answer.json_messages[-1]
        if "error" in message:
            assert 0 < message["error"]["data"]["retryAfter"] <= 100, message
        answered.append("result" in message)
    return answered


@among(ALL_WITH_HTTP)
async def test_calls_at_several_workers_are_counted_together(rev: Rev, place: Any) -> None:
    async with workers(rev, limited, place, count=2) as client:
        assert await calls(client, 8) == [True] * 4 + [False] * 4


@among(HANDSHAKE[-1:])
async def test_a_new_session_of_an_address_has_the_rate_of_the_address(rev: Rev, place: Any) -> None:
    async with workers(rev, limited, place, count=2) as client:
        assert await calls(client, 5) == [True] * 4 + [False]
        client.session = None
        await client.open()
        assert await calls(client, 5) == [False] * 5


@among(STATELESS)
async def test_workers_count_for_themselves_while_the_store_cannot_be_reached(
    rev: Rev, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FailingStore()
    async with workers(rev, limited, store, count=2) as client:
        for server in client.servers:
            monkeypatch.setattr(server.server.parts.store, "_seconds", 0.0)  # It does not wait.
        store.outage.is_down = True
        assert await calls(client, 10) == [True] * 8 + [False] * 2
    assert "each worker counts the requests of a client for itself" in caplog.text


# ---- the bucket ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [RateLimit(2, 1), RateLimit(0.5, 3), RateLimit(10, 20)])
async def test_the_bucket_of_all_workers_gives_what_that_of_one_gives(rate: RateLimit) -> None:
    now = [1000.0]
    store, own = InMemoryStore(lambda: now[0]), TokenBucket(rate, lambda: now[0])
    for step in range(200):
        now[0] += (step * 7 % 11) / 16
        expected, wait = own.acquire(), await acquire(store, "key", rate, lambda: now[0])
        assert wait == pytest.approx(expected, abs=1e-6), step


async def test_requests_at_the_same_time_take_no_token_twice(place: Any) -> None:
    stores = [open_home(place) for _ in range(2)]
    waits = await asyncio.gather(*(acquire(store, "rate", SLOW, lambda: 1000.0) for store in stores * 10))
    assert sum(wait == 0.0 for wait in waits) == 4
    for store in stores:
        await store.close()
