"""Connections that the requests of many clients use: bounded, shared by clients, and held by none that has left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_products.relay.upstream import pool as connection_pool
from mcp_products.relay.upstream.pool import ClientConnections, NoConnectionError


class Connection:
    """A connection that counts who uses it."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_open = True
        self.users = 0


class Pool:
    """A pool of connections that take some steps to open and to close."""

    def __init__(self, limit: int, opening: int = 2, closing: int = 2) -> None:
        self.limit = limit
        self.opening = opening
        self.closing = closing
        self.opened = 0
        self.most = 0
        self.alive = 0
        self.errors: list[Exception] = []
        self.pool: ClientConnections[Connection] = ClientConnections(limit, self.close, lambda item: item.is_open)

    def close(self, connection: Connection) -> asyncio.Task[None] | None:
        if not connection.is_open:
            return None
        connection.is_open = False

        async def closing() -> None:
            await steps(self.closing)
            self.alive -= 1

        return asyncio.get_running_loop().create_task(closing())

    async def open(self, key: str) -> Connection:
        self.alive += 1
        self.most = max(self.most, self.alive)
        try:
            await steps(self.opening)
            if self.errors:
                raise self.errors.pop()
        except BaseException:
            self.alive -= 1
            raise
        self.opened += 1
        return Connection(key)

    async def request(self, client: str, key: str = "key", alone: bool = True, wait: Any = 2) -> str:
        """Use a connection for some steps, or until something has happened."""
        lease = await self.pool.acquire(
            client, key, lambda: self.open(key), lambda _, users: not (alone and users), alone=alone
        )
        connection, has_ended = lease.connection, False
        connection.users += 1
        try:
            assert connection.key == key and not (alone and connection.users > 1)
            await (steps(wait) if isinstance(wait, int) else wait.wait())
            has_ended = True
        finally:
            connection.users -= 1
            self.pool.release(lease, reusable=has_ended)
        return "served"


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("limit", [1, 2])
async def test_a_request_is_cancelled_at_any_wait_and_the_others_are_served(limit: int, alone: bool) -> None:
    pools: list[Pool] = []

    @asynccontextmanager
    async def world() -> AsyncIterator[Any]:
        pool = Pool(limit)
        pools.append(pool)
        yield lambda: pool.request("client", alone=alone)
        assert pool.most <= limit and pool.pool.places.taken == 0
        await pool.pool.close()
        assert pool.alive == 0

    assert await each_wait(world, "served", others=3) >= 3
    assert len(pools) >= 3


async def test_sixteen_slow_requests_of_one_client_leave_connections_to_the_others() -> None:
    pool, go = Pool(16), asyncio.Event()
    slow = [asyncio.create_task(pool.request("greedy", wait=go)) for _ in range(40)]
    await steps(20)
    async with asyncio.timeout(10):
        assert await asyncio.gather(*(pool.request(f"client {number}") for number in range(8))) == ["served"] * 8
    go.set()
    assert await asyncio.gather(*slow) == ["served"] * 40


async def test_requests_that_may_share_wait_for_no_place_where_a_connection_is_open() -> None:
    pool, go = Pool(1), asyncio.Event()
    slow = [asyncio.create_task(pool.request("greedy", alone=False, wait=go)) for _ in range(3)]
    async with asyncio.timeout(10):
        assert await pool.request("other", alone=False) == "served"
    assert pool.opened == 1
    go.set()
    await asyncio.gather(*slow)


async def test_a_request_that_waits_for_a_place_shares_a_connection_that_opens_meanwhile() -> None:
    pool, go, late = Pool(1), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(pool.request("a", "one", wait=go))
    await steps(10)
    waiting = [asyncio.create_task(pool.request(client, "two", alone=False, wait=late)) for client in ("b", "c", "b")]
    await steps(10)
    go.set()
    await first
    await steps(20)
    assert pool.opened == 2 and pool.pool.places.taken == 1
    late.set()
    assert await asyncio.gather(*waiting) == ["served"] * 3 and pool.opened == 2


async def test_who_waits_too_long_learns_whose_limit_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "WAIT_SECONDS", 0.05)
    pool, go = Pool(4), asyncio.Event()
    slow = [asyncio.create_task(pool.request("greedy", wait=go)) for _ in range(2)]
    await steps(10)
    with pytest.raises(NoConnectionError) as raised:
        await pool.request("greedy")
    text = (
        "all connections of the bridge that one client may have, of 4, were in use for 0.05 s: set x to a higher number"
    )
    assert raised.value.describe("the bridge", "x") == text
    slow += [asyncio.create_task(pool.request(client, wait=go)) for client in ("a", "b")]
    await steps(10)
    with pytest.raises(NoConnectionError) as raised:
        await pool.request("c")
    assert raised.value.describe("'old'", "x").startswith("all 4 connections of 'old' were in use for 0.05 s: set x")
    go.set()
    await asyncio.gather(*slow)


async def test_a_failure_to_open_goes_to_those_that_wait_and_the_next_one_opens_another() -> None:
    pool = Pool(2)
    pool.errors = [OSError("no server")]
    outcomes = await asyncio.gather(*(pool.request("a", alone=False) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 3
    assert pool.pool.places.taken == 0
    assert await pool.request("a") == "served"


async def test_a_connection_that_has_ended_is_used_no_more() -> None:
    pool = Pool(2)
    lease = await pool.pool.acquire("a", "key", lambda: pool.open("key"), lambda _, users: True)
    lease.connection.is_open = False
    assert await pool.request("b", alone=False) == "served" and pool.opened == 2
    pool.pool.release(lease)
    assert pool.pool.places.taken == 0


async def test_no_connection_is_lost_whatever_happens_in_any_order() -> None:
    dice, pool = random.Random(11), Pool(5, opening=3, closing=3)
    tasks = list[asyncio.Task[str]]()
    for _ in range(2000):
        if not dice.randrange(10):
            pool.errors.append(OSError("no server"))
        client, key = f"client {dice.randrange(4)}", dice.choice("abc")
        request = pool.request(client, key, alone=bool(dice.randrange(2)), wait=dice.randrange(5))
        tasks.append(asyncio.create_task(request))
        await steps(dice.randrange(4))
        if dice.randrange(2):
            dice.choice(tasks[-20:]).cancel()
    async with asyncio.timeout(30):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {str, OSError, asyncio.CancelledError}
    assert pool.most <= 5 and pool.pool.places.taken == 0
    pool.errors.clear()
    assert await asyncio.gather(*(pool.request(f"other {number}") for number in range(10))) == ["served"] * 10
    await pool.pool.close()
    assert pool.alive == 0
