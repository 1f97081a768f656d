"""A bounded number of places: no client has all of them, those that wait take turns, and none is lost."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_products.relay.upstream.places import FairPlaces


def full(places: FairPlaces, client: str) -> int:
    """Take all places that a client may have; return their number."""
    number = 0
    while places.may_take(client):
        assert places.enter(client).done()
        number += 1
    return number


@pytest.mark.parametrize(
    ("limit", "shares"), [(16, [8, 4, 2, 1, 1, 0]), (3, [1, 1, 1, 0]), (2, [1, 1, 0]), (1, [1, 0])]
)
async def test_a_client_has_half_of_what_others_leave_and_always_one(limit: int, shares: list[int]) -> None:
    places = FairPlaces(limit)
    assert [full(places, f"client {number}") for number in range(len(shares))] == shares


async def test_clients_that_wait_take_turns_whatever_number_of_requests_each_has() -> None:
    places, served = FairPlaces(1), list[str]()

    async def request(client: str) -> None:
        await places.take(client)
        served.append(client)
        await steps(1)
        places.give_back(client)

    await asyncio.gather(*map(request, ["greedy"] * 20 + ["ada", "eve", "ada"]))
    assert served[:7] == ["greedy", "greedy", "ada", "eve", "greedy", "ada", "greedy"]
    assert len(served) == 23 and places.taken == 0


async def test_a_cancelled_request_leaves_its_place_to_the_next_one() -> None:
    def world() -> Any:
        places = FairPlaces(2)
        places.enter("other")

        async def ask() -> str:
            await places.take("client")
            try:
                await steps(2)
            finally:
                places.give_back("client")
            return "served"

        return ask

    assert await each_wait(world, "served", others=4) >= 3


@pytest.mark.long
async def test_no_place_is_lost_or_doubled_whatever_order_things_happen_in() -> None:
    dice, places, having = random.Random(7), FairPlaces(5), 0

    async def request(client: int) -> None:
        nonlocal having
        await places.take(client)
        having += 1
        try:
            assert having <= 5
            await steps(dice.randrange(4))
        finally:
            having -= 1
            places.give_back(client)

    tasks = list[asyncio.Task[None]]()
    for _ in range(3000):
        tasks.append(asyncio.create_task(request(dice.randrange(6))))
        await steps(dice.randrange(3))
        dice.choice(tasks[-20:]).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert places.taken == having == 0 and all(places.enter(client).done() for client in "abcde")
