"""How sessions end that workers share, what a worker that leaves does, and what HTTP+SSE and keys need."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among
from support.http.asgi_client import Answer
from support.stores.homes import FEW_HOMES, open_home, place_of
from support.stores.shared_workers import workers

from mcp_generated import App, Context, LocalError
from mcp_generated.http import HTTPLimits, InMemoryStore
from mcp_products.workers.sessions.endpoint import SharedKeys
from mcp_products.workers.sessions.worker import Worker

NEWEST = HANDSHAKE[-1]
OLDEST = HANDSHAKE[0]
DAY = 86_400.0


@pytest.fixture(params=FEW_HOMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return place_of(request.param, tmp_path)


def make_app() -> App:
    app = App("ends")

    @app.tool
    async def order(ctx: Context) -> str:
        await ctx.report_progress(1)
        answer = await ctx.elicit("What colour?", str)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def wait(a: int, b: int) -> str:
        WAITING.append(None)
        await asyncio.Event().wait()
        return "never"

    return app


WAITING: list[None] = []


def call(rev: Rev, id: int, name: str = "add", **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {"a": 1, "b": 2}, "_meta": {"progressToken": id}}
    return rev.request(id, "tools/call", params)


@pytest.mark.long
async def test_an_unused_session_ends_at_all_workers_and_a_used_one_does_not(place: Any) -> None:
    limits = HTTPLimits(session_idle_timeout=0.4)
    async with workers(NEWEST, make_app, place, limits=limits) as client:
        for id in range(1, 13):
            await asyncio.sleep(0.1)
            assert (await client.answered(body=call(NEWEST, id))).status == 200
        listening = client.request("GET", at=1)
        await asyncio.sleep(1)
        assert (await client.answered(body=call(NEWEST, 20))).status == 200
        await listening.leave()
        statuses = {200}
        while 200 in statuses:
            await asyncio.sleep(0.6)
            statuses = {(await client.answered(body=call(NEWEST, 30 + at), at=at)).status for at in range(3)}
        assert statuses == {404}


async def test_a_session_without_a_second_request_ends_soon(place: Any) -> None:
    async with workers(NEWEST, make_app, place, limits=HTTPLimits(handshake_timeout=0.2)) as client:
        hello = {"protocolVersion": NEWEST.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        client.session = None
        opened = await client.answered(body=NEWEST.request(0, "initialize", hello), at=0)
        client.session = opened.headers["mcp-session-id"]
        await asyncio.sleep(0.5)
        assert (await client.answered(body=call(NEWEST, 1), at=1)).status == 404


@among([HANDSHAKE[-1], HANDSHAKE[1]])
async def test_a_session_whose_client_never_says_that_it_is_initialized_lives_on(rev: Rev, place: Any) -> None:
    async with workers(rev, make_app, place, limits=HTTPLimits(handshake_timeout=0.2)) as client:
        hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        client.session = None
        opened = await client.answered(body=rev.request(0, "initialize", hello), at=0)
        client.session = opened.headers["mcp-session-id"]
        for number, at in enumerate((1, 2, 0, 1), start=1):
            answer = await client.answered(body=call(rev, number), at=at)
            assert answer.status == 200 and answer.json["result"]["content"][0]["text"] == "3"
            await asyncio.sleep(0.3)


@among([HANDSHAKE[-1], HANDSHAKE[1]])
async def test_a_deleted_session_closes_its_streams_at_other_workers(rev: Rev, place: Any) -> None:
    async with workers(rev, make_app, place) as client:
        listening = client.request("GET", at=1)
        await listening.until(lambda answer: answer.status == 200)
        assert (await client.answered("DELETE", at=2)).status == 204
        await listening.whole()
        assert (await client.answered("GET", at=1)).status == 404


async def test_a_worker_that_leaves_hands_its_streams_over(place: Any) -> None:
    async with workers(NEWEST, make_app, place) as client:
        listening = client.request("GET", at=0)
        await listening.until(lambda answer: answer.events)
        client.applications[0].hand_over()
        await listening.whole()
        resumed = client.request("GET", at=1, headers={"last-event-id": listening.events[0].id})
        await resumed.until(lambda answer: answer.status == 200)
        await client.servers[2].server.notify_tool_list_changed()
        await resumed.messages(1)
        last = await client.answered(body=call(NEWEST, 1), at=0)
        assert (last.status, last.headers["connection"]) == (200, "close")
        await resumed.leave()


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
async def test_a_call_that_a_worker_cannot_end_fails_and_the_session_goes_on(place: Any, accept: str) -> None:
    async with workers(NEWEST, make_app, place) as client:
        calling = client.request(body=call(NEWEST, 1, "wait"), at=0, headers={"accept": accept})
        while not WAITING:
            await asyncio.sleep(0.01)
        WAITING.clear()
        await client.applications[0].close()
        await calling.whole()
        response = calling.json if calling.headers["content-type"] == "application/json" else calling.json_messages[-1]
        assert (response["id"], response["error"]["code"]) == (1, -32603)
        assert "shutting down" in response["error"]["message"]
        assert (await client.answered(body=call(NEWEST, 2), at=1)).status == 200


async def test_probes_say_whether_a_worker_serves(place: Any) -> None:
    async with workers(NEWEST, make_app, place, health_path="/healthz", ready_path="/readyz") as client:

        async def probe(path: str) -> int:
            return (await client.answered("GET", at=0, path=path)).status

        assert [await probe("/healthz"), await probe("/readyz")] == [200, 200]
        client.applications[0].hand_over()
        assert [await probe("/healthz"), await probe("/readyz")] == [200, 503]


class DeafStore(InMemoryStore):
    """A store that cannot be reached."""

    async def get(self, key: str) -> bytes | None:
        from mcp_generated.http import StoreUnavailableError

        raise StoreUnavailableError("no store")


async def test_a_worker_without_its_store_is_not_ready() -> None:
    application = make_app().asgi(store=DeafStore(), ready_path="/readyz")
    scope = {"type": "http", "method": "GET", "path": "/readyz", "headers": [], "query_string": b""}
    answer = await Answer(application, scope, b"").whole()
    assert answer.status == 503
    await application.close()


# ---- HTTP+SSE of 2024 ------------------------------------------------------------------------------------------------


async def test_posts_of_http_sse_reach_the_worker_with_the_stream(place: Any) -> None:
    def owner(scope: Any) -> str:
        return dict(scope["headers"]).get(b"x-user", b"alice").decode()

    async with workers(OLDEST, make_app, place, legacy_sse=True, owner=owner) as client:
        client.session = None
        stream = client.request("GET", at=0, path="/sse")
        await stream.until(lambda answer: answer.events)
        path, _, query = stream.events[0].data.decode().partition("?")

        async def post(at: int, body: dict[str, Any], **headers: str) -> int:
            more = {"path": path, "query_string": query.encode(), "headers": headers}
            return (await client.answered(body=body, at=at, **more)).status

        hello = {"protocolVersion": OLDEST.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        assert await post(1, OLDEST.request(0, "initialize", hello)) == 202
        await stream.until(lambda answer: len(answer.events) == 2)
        assert await post(2, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        assert await post(0, call(OLDEST, 1)) == 202
        assert await post(1, call(OLDEST, 2), **{"x-user": "mallory"}) == 404
        await stream.until(lambda answer: len(answer.events) == 3)
        assert json.loads(stream.events[2].data)["result"]["content"][0]["text"] == "3"
        await client.servers[1].server.notify_tool_list_changed()
        await stream.until(lambda answer: len(answer.events) == 4)
        await stream.leave()


# ---- keys ------------------------------------------------------------------------------------------------------------


async def test_workers_have_the_same_keys_and_a_new_one_each_day(place: Any) -> None:
    stores, now = [open_home(place) for _ in range(3)], [1e9]
    keys = [SharedKeys(Worker(store, "keys"), lambda: now[0]) for store in stores]
    first = await asyncio.gather(*(item.read() for item in keys))
    assert len(first[0]) == 1 and first == [first[0]] * 3 and len(first[0][0]) == 32
    now[0] += DAY + 1
    second = await keys[1].read()
    assert second[0] == first[0][0] and len(second) == 2, "a new key does not encrypt before all workers have it"
    now[0] += 1000
    third = await keys[2].read()
    assert third == [second[1], second[0]]
    now[0] += 3 * DAY
    for _ in range(3):
        now[0] += DAY
        last = await keys[0].read()
    assert len(last) == 3 and first[0][0] not in last
    for store in stores:
        await store.close()


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda app: app.asgi(store="mongodb://host"), r"asgi\(\): store='mongodb' is unknown"),
        (lambda app: App("x", store="redis:"), r"App\(\): store='redis:' is unknown"),
        (lambda app: app.run("http", store=3), r"run\(\): store must be"),
        (lambda app: app.run("http", workers=0), r"run\(\): workers must be a whole number from 1"),
        (lambda app: app.asgi(health_path="healthz"), r"asgi\(\): health_path must be a path"),
        (lambda app: asyncio.run(app.run_async("http", workers=2)), r'write run\("http", workers=…\)'),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(run: Any, expected: str) -> None:
    with pytest.raises(LocalError, match=expected):
        run(make_app())


async def test_an_event_store_beside_a_store_is_refused() -> None:
    from mcp_generated.http import InMemoryEventStore

    with pytest.raises(LocalError, match="leave out event_store="):
        make_app().asgi(store=InMemoryStore(), event_store=InMemoryEventStore())
