"""Turns to write to a peer that many clients share: a client with many large messages does not delay another's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_products.relay.upstream.places import SendTurns
from mcp_runtime.errors import ConnectionClosedError


class Peer:
    """A peer that reads one message in some steps."""

    def __init__(self) -> None:
        self.turns = SendTurns()
        self.sent = list[str]()
        self.unread = 0
        self.room = asyncio.Event()
        self.room.set()

    async def send(self, client: str) -> str:
        await self.turns.take(client, self.room.wait)  # type: ignore[arg-type]
        assert self.room.is_set(), "two have sent in one turn"
        self.room.clear()
        self.sent.append(client)
        asyncio.get_running_loop().create_task(self.read())
        await steps(1)
        return "sent"

    async def read(self) -> None:
        await steps(3)
        self.room.set()


async def test_a_small_message_waits_for_one_of_each_other_client() -> None:
    peer = Peer()
    greedy = [asyncio.create_task(peer.send("greedy")) for _ in range(50)]
    await steps(2)
    await asyncio.gather(*(peer.send(client) for client in ("ada", "eve")))
    assert peer.sent.count("greedy") <= 3 and {"ada", "eve"} <= set(peer.sent)
    await asyncio.gather(*greedy)
    assert peer.sent.count("greedy") == 50


async def test_who_waits_may_be_cancelled_at_any_wait() -> None:
    def world() -> Any:
        peer = Peer()
        return lambda: peer.send("client")

    assert await each_wait(world, "sent", others=4) >= 2


async def test_a_peer_that_has_ended_is_an_error_of_each_that_waits() -> None:
    turns = SendTurns()

    async def ended() -> None:
        await steps(1)
        raise ConnectionClosedError("ended")

    outcomes = await asyncio.gather(*(turns.take("a", ended) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionClosedError] * 3
    with pytest.raises(ConnectionClosedError):
        await turns.take("b", ended)
