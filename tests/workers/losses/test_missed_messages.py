"""What clients are told after a loss of the store, of messages that they may have missed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.clock import MovableClock
from support.stores.conversations import LISTS, NEWEST, UPDATED, Servers, Talk, listening, open_session, told_of, within
from support.stores.homes import FEW_HOMES, place_of
from support.stores.passing import Passing
from support.stores.shared_workers import workers

from mcp_generated import App, Context
from mcp_generated.http import StoreUnavailableError

pytestmark = pytest.mark.deadline(10**9)  # It is on the clock that the tests set forward.

ONCE = Counter([*LISTS, UPDATED])


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


class Later:
    """Servers that send messages of a session when the test says so, after their results."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []

    def make(self) -> App:
        app = App("later")

        @app.tool
        async def keep(ctx: Context) -> str:
            self.contexts.append(ctx)
            return "kept"

        @app.prompt
        def greet() -> str:
            return "Say hello."

        return app


@pytest.mark.parametrize("names_event", [True, False], ids=["with the last id", "without it"])
@pytest.mark.parametrize("at", [0, 1])
async def test_a_client_that_was_away_is_told_what_it_may_have_missed(
    at: int, names_event: bool, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing, servers = Passing(place, MovableClock(monkeypatch)), Servers()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        talk = Talk(client, servers)
        stream = await listening(talk)
        assert await talk.ask("resources/subscribe", at=0, uri="data://one") == {}
        await client.servers[0].server.notify_tool_list_changed()
        await stream.messages(1)
        headers = {"last-event-id": stream.events[-1].id} if names_event else {}
        await stream.leave()
        await passing.turns()
        passing.lose()
        await passing.quiet(4.0)
        again = client.request("GET", at=at, headers=headers)
        await within(again.until(lambda _: told_of(again) >= ONCE))
        await passing.quiet(4.0)
        told, again_id = told_of(again), again.events[-1].id
        assert told == ONCE, "each once"
        await again.leave()
        last = client.request("GET", at=1 - at, headers={"last-event-id": again_id})
        await last.until(lambda started: started.status == 200)
        await passing.quiet(4.0)
        assert told_of(last) == Counter()
        await last.leave()


async def test_a_client_whose_connection_ends_among_these_messages_gets_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It resumes after the first one, and cannot say how far it has got: it is told everything again."""
    place = place_of("memory", Path())
    passing, servers = Passing(place, MovableClock(monkeypatch)), Servers()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        stream = await listening(Talk(client, servers))
        passing.lose()
        await passing.quiet(4.0)
        await within(stream.messages(3))
        await stream.leave()
        [first] = [event.id for event in stream.events if event.data][:1]
        again = client.request("GET", at=0, headers={"last-event-id": first})
        await within(again.messages(3))
        assert told_of(again) == Counter(LISTS)
        await again.leave()


async def test_messages_that_nobody_had_read_are_named_in_the_warning(
    place: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    passing, servers = Passing(place, MovableClock(monkeypatch)), Later()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        talk = Talk(client, Servers())
        await talk.ask("tools/call", at=0, name="keep", arguments={})
        [ctx] = servers.contexts
        stream = await listening(talk)
        await ctx.session.send_elicit_complete("read")
        await within(stream.messages(1))
        await stream.leave()
        await passing.turns()
        for text in ("one", "two"):
            await ctx.session.send_elicit_complete(text)
        passing.lose()
        await passing.quiet(4.0)

        def said_by_workers() -> list[str]:
            return [record.getMessage() for record in caplog.records if "has lost its past" in record.message]

        await talk.until(lambda: len(said_by_workers()) == 2)
        said = said_by_workers()
        assert sorted("2 notifications/elicitation/complete" in text for text in said) == [False, True], said
        assert sorted(text.endswith("read them: none") for text in said) == [False, True], said


async def test_a_message_comes_once_though_the_store_has_lost_that_it_was_sent(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes back to where it has the message, and not how far the stream was. The client has forgotten it."""
    passing, servers = Passing(place, MovableClock(monkeypatch)), Later()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        talk = Talk(client, Servers())
        await talk.ask("tools/call", at=0, name="keep", arguments={})
        [ctx] = servers.contexts
        await (await listening(talk)).leave()
        await ctx.session.send_elicit_complete("one")
        await passing.turns()
        passing.keep()
        stream = client.request("GET", at=0)
        await within(stream.messages(1))
        await stream.leave()
        passing.go_back()
        again = client.request("GET", at=0)
        await again.until(lambda started: started.status == 200)
        await ctx.session.send_elicit_complete("two")
        [message] = await within(again.messages(1))
        assert message["params"]["elicitationId"] == "two"
        await again.leave()


async def test_a_request_that_the_client_had_not_read_fails_with_the_reason(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing, servers = Passing(place, MovableClock(monkeypatch)), Later()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        await Talk(client, Servers()).ask("tools/call", at=0, name="keep", arguments={})
        asking = asyncio.ensure_future(servers.contexts[0].session.list_roots())
        await passing.turns()
        passing.lose()
        await passing.quiet(4.0)
        with pytest.raises(StoreUnavailableError, match="lost the request before the client had read it"):
            await within(asking)


@pytest.mark.parametrize("open_seconds", [55.0, 115.0], ids=["until just before the first look", "the second"])
async def test_a_session_whose_connection_has_just_ended_outlives_a_loss(
    open_seconds: float, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker looks every minute which sessions it may forget, and has known this one to be in use until now."""
    passing, servers = Passing(place, MovableClock(monkeypatch)), Servers()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        stream = await listening(Talk(client, servers))
        await passing.quiet(open_seconds)
        await stream.leave()
        await passing.quiet(15.0)
        passing.lose()
        again = client.request("GET", at=1)
        await within(again.until(lambda _: again.status))
        assert again.status == 200


async def test_a_call_that_the_store_has_just_lost_is_resumed(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is stored, and the call is not: nobody has noticed the loss yet."""
    passing, servers = Passing(place, MovableClock(monkeypatch)), Servers()
    async with workers(NEWEST, servers.make, place, 2) as client:
        await open_session(client)
        await passing.quiet(4.0)
        passing.keep()
        call = client.request("POST", NEWEST.request(7, "tools/call", {"name": "order", "arguments": {}}), at=0)
        await within(call.messages(1))
        await passing.quiet(4.0)  # Both workers have shown a sign of life since.
        passing.go_back()
        resumed = client.request("GET", at=1, headers={"last-event-id": call.events[-1].id})
        await within(resumed.until(lambda _: resumed.status))
        assert resumed.status == 200, resumed.content
        answer = {"action": "accept", "content": {"value": "blue"}}
        body = {"jsonrpc": "2.0", "id": call.json_messages[-1]["id"], "result": answer}
        assert (await within(client.answered("POST", body, at=1))).status == 202
        await within(resumed.messages(1))
        assert resumed.json_messages[-1]["result"]["content"][0]["text"] == "accept"
