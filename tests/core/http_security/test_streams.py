"""Connections that break off while a stream is read, from a server process: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.http.raw_client import (
    ENDPOINTS,
    PARSERS,
    SESSIONS,
    STATELESS_REVISION,
    Answer,
    RawClient,
    Reader,
    Socket,
    address,
    call,
    entered,
    launched,
    opened,
    request,
)
from support.matrices import long_after

endpoints = pytest.mark.parametrize("endpoint", ENDPOINTS)
relays_later = pytest.mark.parametrize("endpoint", long_after(len(PARSERS), ENDPOINTS))
CUTS = 250  # For each endpoint.
STEPS = 12
CHANGES = {"gateway": 4}  # It notifies of a list at most twice a second.


def steps(messages: list[Any]) -> list[Any]:
    return [message["params"]["progress"] if "method" in message else message["id"] for message in messages]


@endpoints
@pytest.mark.long
@pytest.mark.clause("2025-03-26/transports/22", "draft/transports/22", "draft/transports/31")
@pytest.mark.fault("1.4/08")
@pytest.mark.transport_rule("2025-11-25/07")
async def test_a_stream_cut_anywhere_goes_on_without_loss_or_repetition(endpoint: str) -> None:
    client, chance = await opened(address(endpoint)), random.Random(endpoint)
    cuts = number = 0
    while cuts < CUTS:
        number += 1
        reader = Reader(client)
        # A stream of this revision begins with an event that says where to resume, which comes first of all.
        whole = await reader.read(
            client.bytes(call(number, "steps", progress=number, steps=STEPS)), chance.randrange(60, 1500)
        )
        while not whole:
            cuts += 1
            whole = await reader.resume(chance.randrange(1, 1500))
        assert steps(reader.messages) == [*range(1, STEPS + 1), number]
        assert len(set(reader.ids)) == len(reader.ids)


# To a gateway, changes that come together are one.
@pytest.mark.parametrize("endpoint", long_after(len(PARSERS), [*PARSERS, "bridge"]))
@pytest.mark.fault("1.4/08")
@pytest.mark.transport_rule("2025-11-25/05")
async def test_the_standing_stream_cut_anywhere_goes_on_without_loss_or_repetition(endpoint: str) -> None:
    """What a change leads to is told once to each session, however often its stream breaks off."""
    client, chance = await opened(address(endpoint)), random.Random(endpoint)
    reader = Reader(client)
    # All that is told is the same, so the numbers of the events tell whether one was lost.
    for _ in range(30):
        await client.call("change", "change")
    await reader.read(client.bytes(b"", "GET"), 400)
    for _ in range(12):
        await reader.resume(chance.randrange(1, 300))
    for _ in range(10):
        await client.call("change", "change")
    await reader.resume(enough=40)
    assert [int(id.rpartition("-")[2]) for id in reader.ids] == list(range(1, 41))
    assert {message["method"] for message in reader.messages} == {"notifications/tools/list_changed"}


@pytest.mark.edges
@pytest.mark.long
@relays_later
@pytest.mark.deadline(60)
async def test_each_change_after_the_last_one_was_told_comes_once_on_streams_cut_anywhere(endpoint: str) -> None:
    # Once a gateway has served a client without a session, it may tell sessions of one change twice.
    server, where = launched(endpoint)
    try:
        client, chance = await opened(where), random.Random(endpoint)
        reader, changes = Reader(client), CHANGES.get(endpoint, 20)
        await client.call("change", "change")
        await reader.read(client.bytes(b"", "GET"), None, enough=1)
        for number in range(2, changes + 1):
            await client.call("change", "change")
            await reader.resume(chance.randrange(1, 110))  # One event, or a part of it.
            await reader.resume(enough=number)
        assert [int(id.rpartition("-")[2]) for id in reader.ids] == list(range(1, changes + 1))
    finally:
        server.process.kill()
        server.process.wait(20)


@pytest.mark.edges("h11", "httptools")
@endpoints
@pytest.mark.long
@pytest.mark.deadline(60)
@pytest.mark.clause("2025-03-26/transports/32", "draft/transports/32", "draft/transports/28", "draft/transports/29")
@pytest.mark.fault("1.4/05")
@pytest.mark.advisory("CVE-2026-25536")
async def test_a_thousand_clients_that_all_use_one_id_get_their_own_answers(endpoint: str) -> None:
    """One event store for all, which keeps the messages of each; each tenth is cut and resumed.

    CVE-2026-25536: answers that go to another client.
    """
    where = address(endpoint)
    gate = asyncio.Semaphore(32)

    async def client(number: int) -> None:
        async with gate:
            raw = await opened(where)
            reader = Reader(raw)
            body = call(1, "steps", progress=1, steps=3, text=f"for {number}")
            if number % 10:
                await reader.read(raw.bytes(body), None)
            elif not await reader.read(raw.bytes(body), 150 + number % 300):
                await reader.resume()
            assert steps(reader.messages) == [1, 2, 3, 1]
            assert reader.messages[-1]["result"]["content"][0]["text"] == f"for {number}"

    await asyncio.gather(*(client(number) for number in range(1000)))


@endpoints
@pytest.mark.fault("1.4/06", "1.4/07")
@pytest.mark.advisory("CVE-2026-33946", "GHSA-qvqr-5cv7-wh35")
async def test_nobody_resumes_the_stream_of_another(endpoint: str) -> None:
    """CVE-2026-33946: a stream is found only in the session it belongs to, and by no number that could be guessed."""
    where = address(endpoint)
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


@pytest.mark.edges
@pytest.mark.long
@relays_later
async def test_a_server_that_was_killed_knows_no_session_and_serves_new_ones(endpoint: str) -> None:
    server, where = launched(endpoint)
    client = await opened(where)
    connection = await Socket.to(where)
    await connection.write(client.bytes(call(1, "wait")))
    await client.until(waiting=1)
    server.process.kill()
    server.process.wait(20)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await connection.answer()
    again, where = launched(endpoint, int(where.rpartition(":")[2]))
    try:
        assert (await client.request(call(2, "echo"))).status == 404
        assert await (await opened(where)).call(1, "echo", text="new") == "new"
    finally:
        again.process.kill()
        again.process.wait(20)


@relays_later
@pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
async def test_three_mebibytes_pass_in_both_directions(endpoint: str, protocol_version: str) -> None:
    client = await entered(address(endpoint), protocol_version)
    large = "x" * (3 << 20)
    assert await client.call(1, "echo", text=large) == large
    assert len(await client.call(2, "big")) == 3 << 20
    answer = await client.request(call(3, "big"), accept="text/event-stream")
    assert len(answer.json_messages[-1]["result"]["content"][0]["text"]) == 3 << 20
    if client.session is not None:
        reader = Reader(client)
        assert not await reader.read(client.bytes(call(4, "big"), accept="text/event-stream"), 1 << 20)
        await reader.resume()
        assert [len(message["result"]["content"][0]["text"]) for message in reader.messages] == [3 << 20]


@endpoints
@pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/03")
@pytest.mark.transport_rule("2026-07-28/17")
async def test_a_connection_that_is_lost_harms_its_own_call_alone(endpoint: str, protocol_version: str) -> None:
    """CVE-2025-53365: a client that goes away must not end the server. It cancels its call where nothing else does."""
    client = await entered(address(endpoint), protocol_version)
    waiting, cancelled = (await client.status())["waiting"], (await client.status())["cancelled"]
    lost = await Socket.to(client.where)
    await lost.write(client.bytes(call(0, "wait")))
    await client.until(waiting=waiting + 1)
    calls = asyncio.gather(*(client.call(number, "echo", text=str(number)) for number in range(1, 10)))
    lost.cut()
    assert await calls == [str(number) for number in range(1, 10)]
    if protocol_version == STATELESS_REVISION:
        await client.until(waiting=waiting, cancelled=cancelled + 1)
    else:
        assert (await client.status())["waiting"] == waiting + 1
        assert (await client.request(b"", "DELETE")).status == 204
        other = await opened(client.where)
        await other.until(waiting=waiting)


@endpoints
@pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.5/02")
@pytest.mark.advisory("CVE-2025-53365", "GHSA-j975-95f5-7wqh")
async def test_connections_that_are_reset_at_any_time_leave_the_server_well(
    endpoint: str, protocol_version: str
) -> None:
    client, chance = await entered(address(endpoint), protocol_version), random.Random(endpoint + protocol_version)
    for number in range(40):
        data = client.bytes(call(number, "steps", progress=number, steps=20))
        connection = await Socket.to(client.where)
        await connection.write(data[: chance.randrange(1, len(data))])
        connection.cut()
    for number in range(25):
        connection = await Socket.to(client.where)
        await connection.write(client.bytes(call(100 + number, "steps", progress=number, steps=20)))
        await connection.reader.read(chance.randrange(1, 400))
        connection.cut()
    half = await Socket.to(client.where)
    await half.write(client.bytes(call("half", "echo")))
    half.writer.write_eof()
    assert await client.call("well", "echo", text="well") == "well"
    half.cut()


@endpoints
@pytest.mark.fault("1.4/04")
async def test_deleting_a_session_ends_what_it_was_doing(endpoint: str) -> None:
    client = await opened(address(endpoint))
    waiting = (await client.status())["waiting"]
    streams = [await Socket.to(client.where) for _ in range(3)]
    await streams[0].write(client.bytes(call(1, "wait")))
    await streams[1].write(client.bytes(call(2, "wait"), accept="text/event-stream"))
    await streams[2].write(client.bytes(b"", "GET"))
    await client.until(waiting=waiting + 2)
    assert (await client.request(b"", "DELETE")).status == 204
    answers: list[Answer] = [await stream.answer() for stream in streams]
    assert [answer.status for answer in answers] == [404, 200, 200]
    assert answers[0].json["id"] == 1 and not any(answer.json_messages for answer in answers[1:])
    for stream in streams:
        stream.cut()
    await (await opened(client.where)).until(waiting=waiting)


@endpoints
@pytest.mark.fault("1.5/04")
async def test_cancelling_reaches_no_other_session(endpoint: str) -> None:
    mine, theirs = await opened(address(endpoint)), await opened(address(endpoint))
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


@endpoints
@pytest.mark.fault("1.4/10")
@pytest.mark.transport_rule("2026-07-28/12")
async def test_who_listens_without_a_session_hears_first_what_was_agreed(endpoint: str) -> None:
    client = RawClient(address(endpoint), None)
    connection = await Socket.to(client.where)
    params = {"notifications": {"toolsListChanged": True}}
    await connection.write(client.bytes(request("sub", "subscriptions/listen", params)))
    status, headers = await connection.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    (agreed,) = await connection.messages(1)
    assert agreed["method"] == "notifications/subscriptions/acknowledged"
    await client.call(1, "change")
    (message,) = await connection.messages(1)
    assert message["method"] == "notifications/tools/list_changed"
    connection.cut()
