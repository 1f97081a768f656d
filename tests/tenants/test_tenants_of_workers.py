"""The limits of a tenant hold over all workers, and what a worker that has died held is free again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.clock import MovableClock, settle
from support.endpoints import HANDSHAKE, STATELESS, Rev, among
from support.stores.failing import FailingStore
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, RateLimit
from mcp_generated.http import InMemoryStore
from mcp_generated.tenants import Limits, Tenants
from mcp_products.tenants.accounts import Accounts, Tenant
from mcp_runtime.errors import JSONRPCError

FEW = RateLimit(per_second=0.01, burst=4)


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


def limited(**limits: Any) -> App:
    app = App("limited", tenant=Tenants(by=lambda request: "acme", limits=Limits(**limits)))

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    return app


async def calls(client: Workers, number: int) -> list[bool]:
    """Which of so many calls at the workers in turn were answered; the others were above the limit."""
    answered: list[bool] = []
    for id in range(number):
        body = client.rev.request(id, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        answer = await client.answered(body=body)
        message = answer.json if answer.content.startswith(b"{") else answer.json_messages[-1]
        if "error" in message:
            assert message["error"]["data"]["limit"] in ("calls", "cost", "bytes"), message
        answered.append("result" in message)
    return answered


@pytest.mark.parametrize("limit", ["calls", "cost"])
@among([*HANDSHAKE[1:], *STATELESS])
async def test_calls_at_several_workers_are_counted_together(rev: Rev, limit: str, place: Any) -> None:
    async with workers(rev, lambda: limited(**{limit: FEW}), place, count=2) as client:
        assert await calls(client, 7) == [True] * 4 + [False] * 3


async def refused(work: Any) -> str | None:
    """The limit that refuses something; None if it is admitted."""
    try:
        await work
    except JSONRPCError as error:
        data: Any = error.data
        return str(data["limit"])
    return None


def tenant(store: Any, **limits: int) -> Tenant:
    return Tenant("acme", Limits(**limits), "app:tenant acme", store)


@pytest.mark.parametrize("limit", ["sessions", "subscriptions"])
async def test_what_one_worker_holds_counts_at_the_other(limit: str) -> None:
    store = InMemoryStore()
    one, other, acme = Accounts(), Accounts(), tenant(store, **{limit: 2})
    await one.hold(acme, limit, "first")
    await other.hold(acme, limit, "second")
    assert await refused(one.hold(acme, limit, "third")) == limit
    await other.set_held(acme, limit, "second", 0)
    assert await refused(one.hold(acme, limit, "third")) is None
    assert await refused(other.hold(acme, limit, "fourth")) == limit
    one.drop_later(acme, limit, "third")
    await settle()
    assert await refused(other.hold(acme, limit, "fourth")) is None


async def test_calls_at_once_of_all_workers_are_one_number() -> None:
    store = InMemoryStore()
    one, other, acme = Accounts(), Accounts(), tenant(store, at_once=3)
    await one.begin(acme, {}, True)
    await other.begin(acme, {}, True)
    await one.begin(acme, {}, True)
    assert await refused(other.begin(acme, {}, True)) == "at_once"
    await one.end(acme, {}, True)
    assert await refused(other.begin(acme, {}, True)) is None
    assert await refused(one.begin(acme, {}, True)) == "at_once"


@pytest.mark.deadline(600)
async def test_what_a_worker_holds_counts_as_long_as_the_worker_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = MovableClock(monkeypatch), InMemoryStore()
    living, dead, new, acme = Accounts(), Accounts(), Accounts(), tenant(store, sessions=2, at_once=2)
    for worker in (living, dead):
        await worker.hold(acme, "sessions", worker.worker)
        await worker.begin(acme, {}, True)
    vars(dead)["_timer"].cancel()  # Nothing of it goes on.
    for _ in range(9):
        clock.forward(20.5)
        await settle()
    assert await refused(new.hold(acme, "sessions", "new")) is None, "the place of the dead one is free"
    assert await refused(new.hold(acme, "sessions", "another")) == "sessions", "that of the living one is not"
    assert await refused(new.begin(acme, {}, True)) is None
    assert await refused(new.begin(acme, {}, True)) == "at_once"


async def test_many_calls_of_many_workers_are_counted_exactly() -> None:
    store, acme = InMemoryStore(), Tenant("acme", Limits(calls=RateLimit(0.001, burst=50)), "app:tenant acme", None)
    acme.store = store
    outcomes = await asyncio.gather(
        *(refused(worker.begin(acme, {"calls": 1.0}, True)) for worker in [Accounts() for _ in range(4)] * 25)
    )
    assert outcomes.count(None) == 50
    assert outcomes.count("calls") == 50


async def test_workers_count_for_themselves_while_the_store_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    store, acme = FailingStore(), Tenant("acme", Limits(calls=RateLimit(0.001, burst=2)), "app:tenant acme", None)
    acme.store = store
    store.outage.is_down = True
    workers = Accounts(), Accounts()
    outcomes = [await refused(worker.begin(acme, {"calls": 1.0}, True)) for worker in workers * 3]
    assert outcomes == [None] * 4 + ["calls"] * 2
    assert "each worker counts the requests of a tenant for itself" in caplog.text
