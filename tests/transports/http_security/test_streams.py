"""Connections that break off while a stream is read, from a server of its own process: nothing is lost, nothing twice."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.http.raw_client import (
    STATELESS_REVISION,
    PARSERS,
    SESSIONS,
    Answer,
    Reader,
    Socket,
    RawClient,
    address,
    call,
    entered,
    launched,
    opened,
    request,
)

pytestmark = pytest.mark.parametrize("parser", PARSERS)
CUTS = 250  # For each parser; two of them make five hundred.
STEPS = 12


def steps(said: list[Any]) -> list[Any]:
    return [each["params"]["progress"] if "method" in each else each["id"] for each in said]


@pytest.mark.long
@pytest.mark.clause("2025-03-26/transports/22", "draft/transports/22", "draft/transports/31")
@pytest.mark.fault("1.4/08")
@pytest.mark.transport_rule("2025-11-25/07")
async def test_a_stream_cut_anywhere_goes_on_without_loss_or_repetition(parser: str) -> None:
    way, chance = await opened(address(parser)), random.Random(parser)
    cuts = number = 0
    while cuts < CUTS:
        number += 1
        reader = Reader(way)
        # A stream of this revision begins with an event that says where to resume, which comes first of all.
        whole = await reader.read(
            way.bytes(call(number, "steps", progress=number, steps=STEPS)), chance.randrange(60, 1500)
        )
        while not whole:
            cuts += 1
            whole = await reader.resume(chance.randrange(1, 1500))
        assert steps(reader.messages) == [*range(1, STEPS + 1), number]
        assert len(set(reader.ids)) == len(reader.ids)


@pytest.mark.fault("1.4/08")
@pytest.mark.transport_rule("2025-11-25/05")
async def test_the_standing_stream_cut_anywhere_goes_on_without_loss_or_repetition(parser: str) -> None:
    """What a change leads to is told once to each session, however often its stream breaks off."""
    way, chance = await opened(address(parser)), random.Random(parser)
    reader = Reader(way)
    # All that is told is the same, so the numbers of the events tell whether one was lost.
    for _ in range(30):
        await way.call("change", "change")
    await reader.read(way.bytes(b"", "GET"), 400)
    for _ in range(12):
        await reader.resume(chance.randrange(1, 300))
    for _ in range(10):
        await way.call("change", "change")
    await reader.resume(enough=40)
    assert [int(id.rpartition("-")[2]) for id in reader.ids] == list(range(1, 41))
    assert {each["method"] for each in reader.messages} == {"notifications/tools/list_changed"}


@pytest.mark.long
@pytest.mark.deadline(60)
@pytest.mark.clause("2025-03-26/transports/32", "draft/transports/32", "draft/transports/28", "draft/transports/29")
@pytest.mark.fault("1.4/05")
@pytest.mark.advisory("CVE-2026-25536")
async def test_a_thousand_clients_that_all_use_one_id_get_their_own_answers(parser: str) -> None:
    """One event store for all, which keeps what was said to each; each tenth is cut and resumed. CVE-2026-25536: answers that go to another client."""
    where = address(parser)
    gate = asyncio.Semaphore(32)

    async def client(number: int) -> None:
        async with gate:
            way = await opened(where)
            reader = Reader(way)
            body = call(1, "steps", progress=1, steps=3, text=f"for {number}")
            if number % 10:
                await reader.read(way.bytes(body), None)
            elif not await reader.read(way.bytes(body), 150 + number % 300):
                await reader.resume()
            assert steps(reader.messages) == [1, 2, 3, 1]
            assert reader.messages[-1]["result"]["content"][0]["text"] == f"for {number}"

    await asyncio.gather(*(client(number) for number in range(1000)))


@pytest.mark.fault("1.4/06", "1.4/07")
@pytest.mark.advisory("CVE-2026-33946", "GHSA-qvqr-5cv7-wh35")
async def test_nobody_resumes_the_stream_of_another(parser: str) -> None:
    """CVE-2026-33946: a stream is found only in the session it belongs to, and by no number that could be guessed."""
    where = address(parser)
    mine, theirs = await opened(where), await opened(where)
    reader = Reader(mine)
    await reader.read(mine.bytes(call(1, "steps", progress=1, steps=2)), None)
    stream = reader.last.rpartition("-")[0]
    for last in (reader.last, f"{stream}-0", f"{stream}-999999999999999", f"{stream}--1", "-1", "garbage", "x" * 4096):
        answer = await theirs.request(b"", "GET", last_event_id=last)
        assert answer.status == 400 and b"steps" not in answer.body
    assert len(stream) >= 20
    other = Reader(mine)
    await other.read(mine.bytes(call(2, "steps", progress=2, steps=2)), None)
    assert other.last.rpartition("-")[0][:6] != stream[:6]


async def test_a_server_that_was_killed_knows_no_session_and_serves_new_ones(parser: str) -> None:
    server, where = launched(parser)
    way = await opened(where)
    connection = await Socket.to(where)
    await connection.write(way.bytes(call(1, "wait")))
    await way.until(waiting=1)
    server.process.kill()
    server.process.wait(20)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await connection.answer()
    again, where = launched(parser, int(where.rpartition(":")[2]))
    try:
        assert (await way.request(call(2, "echo"))).status == 404
        assert await (await opened(where)).call(1, "echo", text="new") == "new"
    finally:
        again.process.kill()
        again.process.wait(20)


@pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
async def test_three_mebibytes_pass_in_both_directions(parser: str, spoken: str) -> None:
    way = await entered(address(parser), spoken)
    large = "x" * (3 << 20)
    assert await way.call(1, "echo", text=large) == large
    assert len(await way.call(2, "big")) == 3 << 20
    answer = await way.request(call(3, "big"), accept="text/event-stream")
    assert len(answer.json_messages[-1]["result"]["content"][0]["text"]) == 3 << 20
    if way.session is not None:
        reader = Reader(way)
        assert not await reader.read(way.bytes(call(4, "big"), accept="text/event-stream"), 1 << 20)
        await reader.resume()
        assert [len(each["result"]["content"][0]["text"]) for each in reader.messages] == [3 << 20]


@pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/03")
@pytest.mark.transport_rule("2026-07-28/17")
async def test_a_connection_that_is_lost_harms_its_own_call_alone(parser: str, spoken: str) -> None:
    """CVE-2025-53365: a client that goes away must not end the server. It cancels its call where nothing else does."""
    way = await entered(address(parser), spoken)
    waiting, cancelled = (await way.status())["waiting"], (await way.status())["cancelled"]
    lost = await Socket.to(way.where)
    await lost.write(way.bytes(call(0, "wait")))
    await way.until(waiting=waiting + 1)
    calls = asyncio.gather(*(way.call(number, "echo", text=str(number)) for number in range(1, 10)))
    lost.cut()
    assert await calls == [str(number) for number in range(1, 10)]
    if spoken == STATELESS_REVISION:
        await way.until(waiting=waiting, cancelled=cancelled + 1)
    else:
        assert (await way.status())["waiting"] == waiting + 1
        assert (await way.request(b"", "DELETE")).status == 204
        other = await opened(way.where)
        await other.until(waiting=waiting)


@pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/02")
@pytest.mark.advisory("CVE-2025-53365", "GHSA-j975-95f5-7wqh")
async def test_connections_that_are_reset_at_any_time_leave_the_server_well(parser: str, spoken: str) -> None:
    way, chance = await entered(address(parser), spoken), random.Random(parser + spoken)
    for number in range(40):
        data = way.bytes(call(number, "steps", progress=number, steps=20))
        connection = await Socket.to(way.where)
        await connection.write(data[: chance.randrange(1, len(data))])
        connection.cut()
    for number in range(25):
        connection = await Socket.to(way.where)
        await connection.write(way.bytes(call(100 + number, "steps", progress=number, steps=20)))
        await connection.reader.read(chance.randrange(1, 400))
        connection.cut()
    half = await Socket.to(way.where)
    await half.write(way.bytes(call("half", "echo")))
    half.writer.write_eof()
    assert await way.call("well", "echo", text="well") == "well"
    half.cut()


@pytest.mark.fault("1.4/04")
async def test_deleting_a_session_ends_what_it_was_doing(parser: str) -> None:
    way = await opened(address(parser))
    waiting = (await way.status())["waiting"]
    streams = [await Socket.to(way.where) for _ in range(3)]
    await streams[0].write(way.bytes(call(1, "wait")))
    await streams[1].write(way.bytes(call(2, "wait"), accept="text/event-stream"))
    await streams[2].write(way.bytes(b"", "GET"))
    await way.until(waiting=waiting + 2)
    assert (await way.request(b"", "DELETE")).status == 204
    answers: list[Answer] = [await each.answer() for each in streams]
    assert [each.status for each in answers] == [404, 200, 200]
    assert answers[0].json["id"] == 1 and not any(each.json_messages for each in answers[1:])
    for each in streams:
        each.cut()
    await (await opened(way.where)).until(waiting=waiting)


@pytest.mark.fault("1.5/04")
async def test_cancelling_reaches_no_other_session(parser: str) -> None:
    mine, theirs = await opened(address(parser)), await opened(address(parser))
    before = await mine.status()
    connection = await Socket.to(mine.where)
    await connection.write(mine.bytes(call(7, "wait")))
    await mine.until(waiting=before["waiting"] + 1)
    stop: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert (await theirs.request(stop)).status == 202
    assert (await theirs.status())["cancelled"] == before["cancelled"]
    assert (await mine.request(stop)).status == 202
    await mine.until(waiting=before["waiting"], cancelled=before["cancelled"] + 1)
    answer = await connection.answer()
    assert (answer.status, answer.body) == (200, b"")  # Who has cancelled wants no answer, but the request ends.
    connection.cut()


@pytest.mark.fault("1.4/10")
@pytest.mark.transport_rule("2026-07-28/12")
async def test_who_listens_without_a_session_hears_first_what_was_agreed(parser: str) -> None:
    way = RawClient(address(parser), None)
    connection = await Socket.to(way.where)
    wanted = {"notifications": {"toolsListChanged": True}}
    await connection.write(way.bytes(request("sub", "subscriptions/listen", wanted)))
    status, headers = await connection.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    (agreed,) = await connection.messages(1)
    assert agreed["method"] == "notifications/subscriptions/acknowledged"
    await way.call(1, "change")
    (heard,) = await connection.messages(1)
    assert heard["method"] == "notifications/tools/list_changed"
    connection.cut()
