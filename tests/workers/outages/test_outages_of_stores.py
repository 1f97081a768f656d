"""A store that cannot be reached for a moment, loses answers or messages: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, since
from support.http.asgi_client import Answer
from support.stores.failing import FailingStore
from support.stores.shared_workers import Workers, workers

from mcp_generated import App, Context
from mcp_generated.http import StoreUnavailableError
from mcp_products.workers.sessions import worker

NEWEST = HANDSHAKE[-1]
WAIT = 0.1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests wait for the store for a tenth of a second, and workers look after each other often."""
    monkeypatch.setattr(worker, "REQUEST_SECONDS", WAIT)
    monkeypatch.setattr(worker, "_TICK", 0.05)
    monkeypatch.setattr(worker, "_ALIVE_SECONDS", 0.2)


class Server:
    """Servers whose tool reports progress, and goes on when it may."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.contexts: list[Context] = []

    def make(self) -> App:
        app = App("outages")

        @app.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @app.tool
        async def count(ctx: Context) -> str:
            await ctx.report_progress(1)
            await self.go.wait()
            for step in range(2, 5):
                await ctx.report_progress(step)
            return "done"

        @app.tool
        async def order(ctx: Context) -> str:
            answer = await ctx.elicit("What colour?", str)
            return f"{answer.action}: {getattr(answer, 'data', None)}"

        @app.tool
        async def meet(ctx: Context) -> str:
            self.contexts.append(ctx)
            return ""

        @app.tool
        async def remember(ctx: Context) -> str:
            await self.go.wait()
            await ctx.set_state("value", "blue")
            return "done"

        return app


def call(id: int, name: str = "add", rev: Rev = NEWEST) -> dict[str, Any]:
    arguments = {"a": 1, "b": 2} if name == "add" else {}
    return rev.request(id, "tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": f"t{id}"}})


def steps(answer: Answer) -> list[Any]:
    return [message["params"]["progress"] if "method" in message else message["id"] for message in answer.json_messages]


@among(HANDSHAKE)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_request_is_refused_with_503_while_the_store_is_down(rev: Rev, method: str) -> None:
    store = FailingStore()
    async with workers(rev, Server().make, store) as client:
        store.outage.is_down = True
        for at in range(3):
            answer = await client.answered(method, body=call(1, rev=rev) if method == "POST" else b"", at=at)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert (answer.json["error"]["code"], answer.json.get("id")) == (-32603, 1 if method == "POST" else None)
            assert answer.json["error"]["data"] == {"retryAfter": 1}
        store.outage.is_down = False
        for at in range(3):
            assert (await client.answered(body=call(2, rev=rev), at=at)).status == 200


async def test_a_session_is_not_opened_while_the_store_is_down() -> None:
    store = FailingStore()
    async with workers(NEWEST, Server().make, store) as client:
        hello = {"protocolVersion": NEWEST.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        before = client.session
        client.session = None
        store.outage.is_down = True
        refused = await client.answered(body=NEWEST.request(0, "initialize", hello), at=0)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert "mcp-session-id" not in refused.headers
        store.outage.is_down = False
        client.session = before
        assert (await client.answered(body=call(1), at=0)).status == 200


async def test_a_worker_that_has_not_reached_its_store_yet_answers_503() -> None:
    store = FailingStore()
    store.outage.is_down = True
    application = Server().make().asgi(revisions=[NEWEST.id], store=store)
    client = Workers([application], [], NEWEST)
    assert (await client.answered(body=call(1))).status == 503
    store.outage.is_down = False
    await client.open()
    assert (await client.answered(body=call(2))).status == 200
    await application.close()


async def test_a_short_outage_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "REQUEST_SECONDS", 60.0)  # The outage ends long before, on any machine.
    store = FailingStore()
    async with workers(NEWEST, Server().make, store) as client:
        store.outage.is_down = True
        calling = client.request(body=call(1), at=1)
        while not store.outage.refused:
            await asyncio.sleep(0)
        store.outage.is_down = False
        assert (await calling.whole()).status == 200


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_stream_waits_for_its_store(resumed: bool) -> None:
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store) as client:
        first = answer = client.request(body=call(1, "count"), at=0)
        await answer.messages(1)
        if resumed:
            await first.leave()
            answer = client.request("GET", at=1, headers={"last-event-id": first.events[-1].id})
            await answer.until(lambda started: started.status == 200)
        store.outage.is_down = True
        server.go.set()
        await asyncio.sleep(3 * WAIT)
        assert steps(first) == [1] and steps(answer) == ([] if resumed else [1])
        store.outage.is_down = False
        await answer.whole()
        assert steps(answer) == [1, 2, 3, 4, 1][1 if resumed else 0 :]


async def test_a_lost_answer_of_the_store_doubles_no_message() -> None:
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store) as client:
        answer = client.request(body=call(1, "count"), at=0)
        await answer.messages(1)
        store.outage.lost_answers |= {"append", "put"}
        server.go.set()
        await answer.whole()
        assert steps(answer) == [1, 2, 3, 4, 1]
        again = await client.answered("GET", at=1, headers={"last-event-id": answer.events[1].id})
        assert steps(again) == [2, 3, 4, 1]


async def test_a_lost_answer_of_the_store_doubles_no_change() -> None:
    store = FailingStore()
    async with workers(NEWEST, Server().make, store) as client:
        listening = client.request("GET", at=1)
        await listening.until(lambda answer: answer.status == 200)
        for _ in range(3):
            store.outage.lost_answers.add("append")
            await client.servers[0].server.notify_tool_list_changed()
        await listening.messages(3)
        await asyncio.sleep(WAIT)
        assert len(listening.json_messages) == 3
        await listening.leave()


async def test_a_tool_says_that_the_store_is_down() -> None:
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store) as client:
        calling = client.request(body=call(1, "remember"), at=0)
        while not calling.task.done() and not any(app._stateful._counts.total for app in client.applications):
            await asyncio.sleep(0.01)
        store.outage.is_down = True
        server.go.set()
        await calling.whole()
        result = calling.json["result"]
        assert result["isError"] and "the store of this server cannot be reached" in result["content"][0]["text"]


async def open_with_elicitation(client: Workers, rev: Rev = NEWEST) -> None:
    """Open a session of a client that answers requests of the server."""
    capabilities = {"elicitation": {"form": {}, "url": {}} if rev is NEWEST else {}}
    hello = {"protocolVersion": rev.id, "capabilities": capabilities, "clientInfo": {"name": "raw", "version": "1"}}
    client.session = None
    opened = await client.answered(body=rev.request(0, "initialize", hello))
    client.session = opened.headers["mcp-session-id"]
    await client.answered(body={"jsonrpc": "2.0", "method": "notifications/initialized"})


@among(since("2025-06-18", HANDSHAKE))
async def test_an_answer_of_the_client_arrives_without_messages_between_workers(rev: Rev) -> None:
    store = FailingStore()
    async with workers(rev, Server().make, store) as client:
        await open_with_elicitation(client, rev)
        calling = client.request(body=call(1, "order", rev), at=0)
        await calling.messages(1)
        store.outage.drops_messages = True
        result = {"action": "accept", "content": {"value": "blue"}}
        id = calling.json_messages[0]["id"]
        assert (await client.answered(body={"jsonrpc": "2.0", "id": id, "result": result}, at=2)).status == 202
        await calling.whole()
        assert calling.json_messages[-1]["result"]["content"][0]["text"] == "accept: blue"


@among(since("2025-03-26", HANDSHAKE))
async def test_the_call_of_a_killed_worker_fails_where_it_is_resumed(rev: Rev) -> None:
    store, server = FailingStore(), Server()
    async with workers(rev, server.make, store) as client:
        answer = client.request(body=call(7, "count", rev), at=0)
        await answer.messages(1)
        await answer.leave()
        client.applications[0]._shared.worker._ticking.cancel()  # A killed worker shows no sign of life.
        resumed = client.request("GET", at=1, headers={"last-event-id": answer.events[-1].id})
        await resumed.whole()
        [response] = resumed.json_messages
        assert (response["id"], response["error"]["code"]) == (7, -32603)
        assert "the worker that ran this call has ended" in response["error"]["message"]
        again = await client.answered("GET", at=2, headers={"last-event-id": answer.events[-1].id})
        assert again.json_messages == [response]
        assert (await client.answered(body=call(8, rev=rev), at=2)).status == 200


@pytest.mark.parametrize("wait", [WAIT, 15.0], ids=["short", "long"])
async def test_the_call_of_a_killed_worker_fails_whenever_the_store_is_down(
    wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_STREAM_SECONDS", wait)
    await asyncio.gather(*(fail_with_an_outage_after(commands) for commands in range(40)))


async def fail_with_an_outage_after(commands: int) -> None:
    """Resume a stream whose worker is killed, and let the store be down for a while after so many commands."""
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store, 2) as client:
        answer = client.request(body=call(7, "count"), at=0)
        await answer.messages(1)
        await answer.leave()
        client.applications[0]._shared.worker._ticking.cancel()
        last = {"last-event-id": answer.events[-1].id}
        store.outage.falls_at = commands
        resumed = client.request("GET", at=1, headers=last)
        async with asyncio.timeout(10):
            while not store.outage.is_down:
                await asyncio.sleep(0.01)
            await asyncio.sleep(2 * WAIT)
            store.outage.is_down = False
            while not (await resumed.whole()).json_messages:  # It was refused, or ended before its result.
                resumed = client.request("GET", at=1, headers=last)
        [response] = resumed.json_messages
        assert (response["id"], response["error"]["code"]) == (7, -32603), commands


@pytest.mark.parametrize("is_resumed", [True, False], ids=["resumed before", "resumed after"])
async def test_a_call_fails_when_its_stream_could_not_be_stored(
    is_resumed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_STREAM_SECONDS", WAIT)
    monkeypatch.setattr(worker, "_ALIVE_SECONDS", 10)  # The worker shows no sign of life meanwhile.
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store, 2) as client:
        answer = client.request(body=call(7, "count"), at=0)
        await answer.messages(1)
        await answer.leave()
        last = {"last-event-id": answer.events[-1].id}
        resumed = client.request("GET", at=1, headers=last)
        await resumed.until(lambda started: started.status == 200)
        if not is_resumed:
            await resumed.leave()
        store.outage.is_down = True
        server.go.set()
        await asyncio.sleep(5 * WAIT)
        store.outage.is_down = False
        async with asyncio.timeout(5):
            while not (await resumed.whole()).json_messages:
                resumed = client.request("GET", at=1, headers=last)
        [response] = resumed.json_messages
        assert (response["id"], response["error"]["code"]) == (7, -32603)
        assert "the store of this server could not be reached" in response["error"]["message"]


async def test_a_sender_is_told_that_its_message_could_not_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_STREAM_SECONDS", WAIT)
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store, 2) as client:
        await open_with_elicitation(client)
        await client.answered(body=call(1, "meet"), at=0)
        session = server.contexts.pop().session
        store.outage.is_down = True
        with pytest.raises(StoreUnavailableError):
            await session.send_elicit_complete("lost")
        store.outage.is_down = False
        await session.send_elicit_complete("sent")
        listening = client.request("GET", at=1)
        await listening.messages(1)
        assert [message["params"]["elicitationId"] for message in listening.json_messages] == ["sent"]
        await listening.leave()


async def test_a_call_of_a_living_worker_goes_on_however_long_it_takes() -> None:
    store, server = FailingStore(), Server()
    async with workers(NEWEST, server.make, store) as client:
        answer = client.request(body=call(7, "count"), at=0)
        await answer.messages(1)
        await answer.leave()
        resumed = client.request("GET", at=1, headers={"last-event-id": answer.events[-1].id})
        await asyncio.sleep(0.5)
        server.go.set()
        await resumed.whole()
        assert steps(resumed) == [2, 3, 4, 7]
