"""What is sent to many clients: one that does not read delays neither the sender nor the others."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from support.cancelled_steps import each_wait, steps

from mcp_generated import v2025_11_25
from mcp_runtime.aio import fan_out
from mcp_runtime.aio.fan_out import FanOut
from mcp_runtime.errors import ConnectionClosedError
from mcp_runtime.server.subscriptions import SubscriptionBus


class Client:
    """A client that reads, or does not until it is told to."""

    def __init__(self, reads: bool = True) -> None:
        self.got: list[int] = []
        self.reads = asyncio.Event()
        if reads:
            self.reads.set()

    async def take(self, message: int) -> None:
        self.got.append(message)
        await self.reads.wait()


async def test_all_clients_get_all_messages_in_order_while_one_does_not_read() -> None:
    out, stuck, others = FanOut(), Client(reads=False), [Client() for _ in range(5)]
    for message in range(20):
        await out.send_all((client, partial(client.take, message)) for client in (stuck, *others))
    assert [client.got for client in others] == [list(range(20))] * 5
    assert stuck.got == list(range(20))


async def test_a_sender_waits_once_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "_PATIENCE", 1000.0)
    out, stuck = FanOut(), Client(reads=False)
    sending = asyncio.create_task(out.send(stuck, stuck.take(0)))
    await steps(5)
    assert not sending.done()
    async with asyncio.timeout(10):
        for message in range(1, 10):
            await out.send(stuck, stuck.take(message))
            await out.send_all([(stuck, partial(stuck.take, -message))])
    stuck.reads.set()
    await sending
    assert len(stuck.got) == 19 and [message for message in stuck.got if message >= 0] == list(range(10))


@pytest.mark.parametrize("together", [False, True])
async def test_what_waits_for_a_client_is_bounded_and_goes_on_when_it_reads(
    together: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fan_out, "_PATIENCE", 0.0)
    out, stuck = FanOut(), Client(reads=False)

    async def send(message: int) -> None:
        if together:
            await out.send_all([(stuck, partial(stuck.take, message))])
        else:
            await out.send(stuck, stuck.take(message))

    for message in range(1000):
        await send(message)
    await steps(2)
    assert stuck.got == list(range(64))
    assert [record.getMessage() for record in caplog.records] == [
        "a client does not read what it is sent: further notifications are left out until it does"
    ]
    stuck.reads.set()
    await steps(5)
    await send(1000)
    assert stuck.got[-1] == 1000


async def test_a_message_to_one_client_goes_out_before_what_follows_it() -> None:
    out, client = FanOut(), Client()
    sending = out.send(client, client.take(1))
    with pytest.raises(StopIteration):
        sending.send(None)  # Without a turn of the event loop.
    assert client.got == [1]


@pytest.mark.parametrize("error", [ConnectionClosedError("gone"), ValueError("a fault")])
async def test_one_that_fails_harms_no_other(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    out, other = FanOut(), Client()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    await out.send_all([("a", fail), (other, partial(other.take, 1)), ("b", fail)])
    await steps(2)
    assert other.got == [1]
    warned = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert len(warned) == (2 if isinstance(error, ValueError) else 0)


async def test_a_sender_is_cancelled_at_any_wait_and_the_messages_go_on() -> None:
    def world() -> Any:
        out, client = FanOut(), Client()

        async def take() -> None:
            await steps(2)
            client.got.append(1)

        async def ask() -> str:
            await out.send_all([(client, take), ("other", take)])
            return "sent"

        return ask

    assert await each_wait(world, "sent") >= 1


async def test_a_change_reaches_all_subscribers_while_one_does_not_read() -> None:
    bus = SubscriptionBus()
    stuck, others = Subscriber(reads=False), [Subscriber() for _ in range(3)]
    for subscriber in (stuck, *others):
        bus.subscribe(subscriber)
    row = next(row for row in v2025_11_25.methods.REVISION.rows if row.name == "on_tool_list_changed")
    async with asyncio.timeout(10):
        for _ in range(300):
            await bus.publish(row, {})
    assert [len(subscriber.got) for subscriber in others] == [300] * 3


class Subscriber(Client):
    """A subscriber to all changes."""

    def wants(self, row: Any, params: Any) -> bool:
        return True

    async def notify(self, row: Any, params: Any) -> None:
        await self.take(1)
