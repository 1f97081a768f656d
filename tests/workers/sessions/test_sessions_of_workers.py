"""Sessions that several workers share: any worker serves any request of any session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, since
from support.stores.homes import FEW_HOMES, place_of
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context

NEWEST = HANDSHAKE[-1:]


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


def call(rev: Rev, id: int, name: str, **arguments: Any) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": f"t{id}"}})


def result_of(message: Any) -> str:
    text: str = message["result"]["content"][0]["text"]
    return text


def make_app() -> App:
    app = App("shared")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.session_id} {ctx.client_info['name']}"

    @app.tool
    async def remember(ctx: Context, value: str) -> str:
        await ctx.set_state("value", value)
        return value

    @app.tool
    async def recall(ctx: Context) -> str:
        return str(await ctx.get_state("value"))

    @app.tool
    async def hide(ctx: Context) -> str:
        await ctx.disable_components(names={"secret"})
        return "hidden"

    @app.tool
    async def secret() -> str:
        return "secret"

    @app.tool
    async def speak(ctx: Context) -> str:
        await ctx.debug("a detail")
        await ctx.error("a problem")
        return "done"

    @app.resource("data://one")
    def one() -> str:
        return "1"

    return app


@among(HANDSHAKE)
async def test_a_session_is_served_by_all_workers(rev: Rev, place: Any) -> None:
    async with workers(rev, make_app, place) as client:
        for id in range(1, 7):
            answer = await client.answered(body=call(rev, id, "add", a=id, b=1))
            assert result_of(answer.json) == str(id + 1)
        seen = {result_of((await client.answered(body=call(rev, id, "who"))).json) for id in range(7, 10)}
        assert seen == {f"{client.session} raw"}


@among(HANDSHAKE)
async def test_a_deleted_session_has_ended_everywhere_at_once(rev: Rev, place: Any) -> None:
    async with workers(rev, make_app, place) as client:
        for at in range(3):
            assert (await client.answered(body=call(rev, 1 + at, "add", a=1, b=1), at=at)).status == 200
        assert (await client.answered("DELETE", at=1)).status == 204
        statuses = [(await client.answered(body=call(rev, 9, "add", a=1, b=1), at=at)).status for at in (0, 1, 2)]
        assert (statuses, (await client.answered("DELETE", at=2)).status) == ([404] * 3, 404)


@among(NEWEST)
async def test_the_session_of_another_user_is_no_session(rev: Rev, place: Any) -> None:
    def owner(scope: Any) -> str:
        return dict(scope["headers"]).get(b"x-user", b"alice").decode()

    async with workers(rev, make_app, place, owner=owner) as client:
        body = call(rev, 1, "add", a=1, b=1)
        for at in (0, 1):
            assert (await client.answered(body=body, at=at, headers={"x-user": "mallory"})).status == 404
            assert (await client.answered("DELETE", at=at, headers={"x-user": "mallory"})).status == 404
            assert (await client.answered(body=body, at=at)).status == 200


@among(HANDSHAKE)
async def test_what_a_request_sets_holds_at_the_next_worker(rev: Rev, place: Any) -> None:
    async with workers(rev, make_app, place) as client:
        level = rev.request(1, "logging/setLevel", {"level": "error"})
        assert "result" in (await client.answered(body=level, at=0)).json
        answer = await client.answered(body=call(rev, 2, "speak"), at=1)
        assert [message["params"]["data"] for message in answer.json_messages[:-1]] == ["a problem"]
        await client.answered(body=call(rev, 3, "remember", value="blue"), at=2)
        assert result_of((await client.answered(body=call(rev, 4, "recall"), at=0)).json) == "blue"
        hidden = await client.answered(body=call(rev, 5, "hide"), at=1)
        assert hidden.status == 200
        listed = (await client.answered(body=rev.request(6, "tools/list"), at=2)).json["result"]["tools"]
        assert {"secret", "add"} & {tool["name"] for tool in listed} == {"add"}


@among(HANDSHAKE)
async def test_a_state_that_a_session_had_before_is_stored_again(rev: Rev, place: Any) -> None:
    messages_at = {"error": ["a problem"], "debug": ["a detail", "a problem"]}
    async with workers(rev, make_app, place) as client:
        for number, level in enumerate(("error", "debug", "error", "error", "debug", "debug", "error")):
            for uses in range(2):  # The second request finds the state that the first one has looked at.
                await client.answered(body=call(rev, 100 + uses, "add", a=1, b=1), at=number % 3)
            await client.answered(body=rev.request(number, "logging/setLevel", {"level": level}), at=number % 3)
            for at in ((number + 1) % 3, (number + 2) % 3, number % 3):
                answer = await client.answered(body=call(rev, 50 + number, "speak"), at=at)
                assert [message["params"]["data"] for message in answer.json_messages[:-1]] == messages_at[level]


async def test_changes_at_two_workers_at_once_are_both_stored(place: Any) -> None:
    rev = HANDSHAKE[-1]
    async with workers(rev, make_app, place, 4) as client:
        uris = [f"data://{number}" for number in range(8)]
        for at in range(4):
            await client.answered(body=rev.request(f"w{at}", "ping"), at=at)
        answers = [
            client.request(body=rev.request(number, "resources/subscribe", {"uri": uri}), at=number % 4)
            for number, uri in enumerate(uris)
        ]
        for answer in answers:
            assert (await answer.whole()).status == 200
        listening = client.request("GET", at=2)
        await listening.until(lambda answer: answer.status == 200)
        for uri in uris:
            await client.servers[1].server.notify_resource_updated(uri=uri)
        messages = await listening.messages(8)
        assert [message["params"]["uri"] for message in messages] == uris
        await listening.leave()


def make_talkative() -> App:
    app = App("talkative")

    @app.tool
    async def order(ctx: Context) -> str:
        answer = await ctx.session.send_ping() if False else await ctx.elicit("What colour?", str)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @app.tool
    async def sleep(ctx: Context) -> str:
        await ctx.report_progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            CANCELLED.append(ctx.session_id)
            raise
        return "never"

    return app


CANCELLED: list[str | None] = []


async def opened(client: Workers, rev: Rev, capabilities: dict[str, Any]) -> None:
    hello = {"protocolVersion": rev.id, "capabilities": capabilities, "clientInfo": {"name": "raw", "version": "1"}}
    client.session = None
    answer = await client.answered(body=rev.request(0, "initialize", hello))
    client.session = answer.headers["mcp-session-id"]
    await client.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"})


@among(since("2025-06-18", HANDSHAKE))
async def test_a_request_to_the_client_is_answered_at_another_worker(rev: Rev, place: Any) -> None:
    async with workers(rev, make_talkative, place) as client:
        await opened(client, rev, {"elicitation": {}})
        calling = client.request(body=call(rev, 1, "order"), at=0)
        await calling.until(lambda answer: answer.json_messages)
        request = calling.json_messages[0]
        result = {"action": "accept", "content": {"value": "blue"}}
        answer = await client.answered(body={"jsonrpc": "2.0", "id": request["id"], "result": result}, at=2)
        assert answer.status == 202
        await calling.whole()
        assert result_of(calling.json_messages[-1]) == "accept: blue"


@among(HANDSHAKE)
async def test_a_cancellation_reaches_the_worker_of_the_handler(rev: Rev, place: Any) -> None:
    CANCELLED.clear()
    async with workers(rev, make_talkative, place) as client:
        calling = client.request(body=call(rev, 7, "sleep"), at=1)
        await calling.until(lambda answer: answer.json_messages)
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await client.answered(body=body, at=2)).status == 202
        await calling.whole()
        assert [client.session] == CANCELLED and len(calling.json_messages) == 1
