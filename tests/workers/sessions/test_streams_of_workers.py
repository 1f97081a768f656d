"""Streams that several workers share: resumed anywhere, with nothing lost and nothing doubled; changes reach all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, since
from support.http.asgi_client import Answer
from support.stores.held_store import HeldStores
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context
from mcp_generated.http import HTTPLimits
from mcp_products.workers.sessions import sessions as local_replicas

NEWEST = HANDSHAKE[-1:]
LONG = 1000.0  # Seconds between two keep-alive comments: not within a test.
PRIMED = since("2025-11-25", HANDSHAKE)


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


class Steps:
    """Servers whose tool reports its progress, and goes on when it may."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    def make(self) -> App:
        app = App("steps")

        @app.tool
        async def count(ctx: Context) -> str:
            for step in range(5):
                await ctx.report_progress(step + 1)
                if step == 1:
                    await self.go.wait()
            return "done"

        @app.tool
        async def leave(ctx: Context) -> str:
            await ctx.close_sse_stream()
            await self.go.wait()
            return "done"

        @app.tool
        async def leave_later(ctx: Context) -> str:
            await ctx.report_progress(1)
            await self.go.wait()
            await ctx.close_sse_stream()
            await ctx.report_progress(2)
            return "done"

        return app


def call(rev: Rev, id: int, name: str = "count") -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name, "_meta": {"progressToken": f"t{id}"}})


def steps(answer: Answer) -> list[Any]:
    return [message["params"]["progress"] if "method" in message else message["id"] for message in answer.json_messages]


def last_id(answer: Answer) -> dict[str, str | None]:
    return {"last-event-id": answer.events[-1].id}


async def listening_at(client: Workers, at: int, **named: Any) -> Answer:
    answer = client.request("GET", at=at, **named)
    await answer.until(lambda started: started.status == 200)
    return answer


@among(HANDSHAKE)
async def test_an_interrupted_stream_goes_on_at_another_worker(rev: Rev, place: Any) -> None:
    server = Steps()
    async with workers(rev, server.make, place) as client:
        answer = client.request(body=call(rev, 1), at=0)
        await answer.messages(2)
        await answer.leave()
        resumed = await listening_at(client, 1, headers=last_id(answer))
        await resumed.leave()
        third = await listening_at(client, 2, headers=last_id(answer))
        server.go.set()
        await third.whole()
        assert (steps(answer), steps(third)) == ([1, 2], [3, 4, 5, 1])
        again = await client.answered("GET", at=1, headers=last_id(answer))
        assert steps(again) == [3, 4, 5, 1]
        rest = await client.answered("GET", at=0, headers={"last-event-id": again.events[-2].id})
        assert steps(rest) == [1]


@among(NEWEST)
async def test_a_new_connection_at_another_worker_replaces_the_first(rev: Rev, place: Any) -> None:
    server = Steps()
    async with workers(rev, server.make, place) as client:
        answer = client.request(body=call(rev, 1), at=0)
        await answer.messages(2)
        resumed = await listening_at(client, 1, headers=last_id(answer))
        await answer.whole()
        back = await listening_at(client, 0, headers=last_id(answer))
        await resumed.whole()
        server.go.set()
        await back.whole()
        assert (steps(answer), steps(resumed), steps(back)) == ([1, 2], [], [3, 4, 5, 1])


@among(HANDSHAKE)
@pytest.mark.parametrize("at", [0, 1], ids=["same worker", "other worker"])
@pytest.mark.parametrize("ending", ["stays", "leaves"])
async def test_a_stream_is_taken_over_while_its_messages_are_being_stored(
    rev: Rev, place: Any, at: int, ending: str
) -> None:
    """At whatever point of the store: the first connection stores them, and may lose the stream meanwhile."""
    for point in range(40):
        server, stores = Steps(), HeldStores()
        async with workers(rev, server.make, place, opened=stores.open, limits=HTTPLimits(keep_alive=LONG)) as client:
            answer = client.request(body=call(rev, 1), at=0)
            await answer.messages(2)
            last = last_id(answer)
            stores[0].hold(point)
            server.go.set()
            is_held = await within(0.05, stores[0].reached.wait())
            resumed = client.request("GET", at=at, headers=last)
            await within(0.05, resumed.until(lambda started: started.status == 200))
            leaving = asyncio.create_task(answer.leave()) if ending == "leaves" else None
            await asyncio.sleep(0.01)
            stores[0].go.set()
            await resumed.whole()
            assert steps(resumed) == [3, 4, 5, 1], point
            await (leaving or answer.leave())
            assert steps(answer) == [1, 2, 3, 4, 5, 1][: len(steps(answer))], point
        if not is_held:
            break
    assert 1 < point < 39


async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Return True if something happens soon."""
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True


@among(PRIMED)
async def test_a_stream_is_resumed_elsewhere_before_its_first_message(rev: Rev, place: Any) -> None:
    server = Steps()
    async with workers(rev, server.make, place) as client:
        answer = await client.answered(body=call(rev, 1, "leave"), at=0)
        assert answer.json_messages == [] and answer.events[0].id
        resumed = await listening_at(client, 2, headers=last_id(answer))
        server.go.set()
        await resumed.whole()
        assert steps(resumed) == [1]


@among(PRIMED)
async def test_a_handler_closes_the_connection_that_another_worker_has(rev: Rev, place: Any) -> None:
    server = Steps()
    async with workers(rev, server.make, place) as client:
        answer = client.request(body=call(rev, 1, "leave_later"), at=0)
        await answer.messages(1)
        await answer.leave()
        resumed = await listening_at(client, 1, headers=last_id(answer))
        server.go.set()
        await resumed.whole()
        rest = await client.answered("GET", at=2, headers=last_id(answer))
        assert steps(rest) == [2, 1]


@among(NEWEST)
async def test_the_streams_of_other_sessions_are_not_resumed(rev: Rev, place: Any) -> None:
    server = Steps()
    server.go.set()
    async with workers(rev, server.make, place) as client:
        answer = await client.answered(body=call(rev, 1), at=0)
        client.session = None
        await client.open()
        for at in range(3):
            assert (await client.answered("GET", at=at, headers=last_id(answer))).status == 400
        invented = {"last-event-id": f"{answer.events[0].id[:8]}99_0123456789abcdef-1"}
        assert (await client.answered("GET", at=1, headers=invented)).status == 400


# ---- changes ---------------------------------------------------------------------------------------------------------


def make_changing() -> App:
    app = App("changing")

    @app.tool
    async def noop() -> str:
        return ""

    @app.tool
    async def log(ctx: Context) -> str:
        await ctx.session.send_log_message("error", "from the session")
        return ""

    return app


async def change(client: Workers, at: int) -> None:
    await client.servers[at].server.notify_tool_list_changed()


def methods(answer: Answer) -> list[str]:
    return [message["method"].rpartition("/")[2] for message in answer.json_messages]


@among(HANDSHAKE)
async def test_a_change_at_one_worker_reaches_the_clients_of_all(rev: Rev, place: Any) -> None:
    async with workers(rev, make_changing, place) as client:
        sessions, answers = [client.session], [await listening_at(client, 0)]
        for at in (1, 2):
            client.session = None
            await client.open()
            sessions.append(client.session)
            answers.append(await listening_at(client, at))
        for at in range(3):
            await change(client, at)
        for answer in answers:
            await answer.messages(3)
            assert methods(answer) == ["list_changed"] * 3
        for answer in answers:
            await answer.leave()


@among(since("2025-03-26", HANDSHAKE))
async def test_changes_wait_for_a_client_without_a_stream_and_come_once(rev: Rev, place: Any) -> None:
    async with workers(rev, make_changing, place) as client:
        await change(client, 0)
        await change(client, 1)
        first = await listening_at(client, 2)
        await first.messages(2)
        await first.leave()
        second = await listening_at(client, 1)
        await change(client, 0)
        await second.messages(1)
        await second.leave()
        await change(client, 2)
        resumed = await listening_at(client, 0, headers=last_id(first))
        await resumed.messages(2)
        await resumed.leave()
        last = await listening_at(client, 2)
        await change(client, 2)
        await last.messages(1)
        await last.leave()
        assert [len(answer.json_messages) for answer in (first, second, resumed, last)] == [2, 1, 2, 1]


@among(since("2025-03-26", HANDSHAKE))
async def test_a_second_get_at_another_worker_replaces_the_first(rev: Rev, place: Any) -> None:
    async with workers(rev, make_changing, place) as client:
        first = await listening_at(client, 0)
        await change(client, 1)
        await first.messages(1)
        second = await listening_at(client, 1)
        await first.whole()
        await change(client, 2)
        await second.messages(1)
        assert (len(first.json_messages), len(second.json_messages)) == (1, 1)
        await second.leave()


@among(PRIMED)
async def test_a_session_that_was_forgotten_gets_all_of_its_next_streams(
    rev: Rev, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_replicas, "_UNUSED_SECONDS", 0.05)
    server = Steps()
    server.go.set()
    async with workers(rev, server.make, place, count=1) as client:
        first = await client.answered(body=call(rev, 1))
        ids = {first.events[0].id}
        for number in (2, 3):
            while client.applications[0]._stateful.session_count:
                await asyncio.sleep(0.02)
            answer = await client.answered(body=call(rev, number))
            assert steps(answer) == [1, 2, 3, 4, 5, number]
            resumed = await client.answered("GET", headers={"last-event-id": answer.events[0].id})
            assert steps(resumed) == [1, 2, 3, 4, 5, number] and answer.events[0].id not in ids
            ids.add(answer.events[0].id)


@among(STATELESS)
async def test_a_subscription_gets_the_changes_of_all_workers(rev: Rev, place: Any) -> None:
    async with workers(rev, make_changing, place) as client:
        params = {"notifications": {"toolsListChanged": True}}
        streams = [client.request(body=rev.request(at, "subscriptions/listen", params), at=at) for at in range(3)]
        for stream in streams:
            await stream.messages(1)
        for at in range(3):
            await change(client, at)
        for stream in streams:
            await stream.messages(4)
            assert methods(stream) == ["acknowledged"] + ["list_changed"] * 3
            await stream.leave()


@among(STATELESS)
async def test_the_rounds_of_a_request_are_served_by_several_workers(rev: Rev, place: Any) -> None:
    def make() -> App:
        app = App("rounds")

        @app.tool
        async def order(ctx: Context) -> str:
            answer = await ctx.elicit("What colour?", str)
            return f"{answer.action}: {getattr(answer, 'data', None)}"

        return app

    async with workers(rev, make, place) as client:
        params: dict[str, Any] = {"name": "order", "arguments": {}}
        declared = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}}
        first = (await client.answered(body=rev.request(1, "tools/call", params | declared), at=0)).json["result"]
        [key] = first["inputRequests"]
        responses = {key: {"action": "accept", "content": {"value": "blue"}}}
        params |= {"inputResponses": responses, "requestState": first["requestState"]}
        second = await client.answered(body=rev.request(2, "tools/call", params | declared), at=2)
        assert second.json["result"]["content"][0]["text"] == "accept: blue"
