"""The rules of the transport pages that have sessions, and of the older pair: a row or a test each, with its clause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.clock import LoopClock
from support.endpoints import HANDSHAKE, Rev, among, clause, since
from support.http.asgi_client import Web, web
from support.http.progress import EVENTS, call, ids, served
from support.http.raw_server import Got, Raw, reply, result, serving, text_result

from mcp_runtime.errors import MCPError
from mcp_runtime.session.requests import RequestOptions

SESSIONS = since("2025-03-26", HANDSHAKE)
NAMED = since("2025-06-18", HANDSHAKE)  # The revision is named in a header.
JSON = "application/json"


def both(*numbers: int) -> pytest.MarkDecorator:
    """Clauses that have one number in both pages of the seed documents."""
    return clause(*(f"{page}/transports/{number:02}" for page in ("2025-03-26", "draft") for number in numbers))


# ---- the server, with sessions --------------------------------------------------------------------------------------


@among(SESSIONS)
@both(6, 25)
async def test_one_path_serves_post_and_get_and_says_so_to_others(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=call(rev, loud=False))).status == 200
        listening = client.request("GET", headers={"accept": EVENTS})
        await listening.until(lambda answer: answer.status)
        assert (listening.status, listening.headers["content-type"]) == (200, EVENTS)
        await listening.leave()
        other = await client.answered("PUT", call(rev))
        assert other.status == 405 and {"GET", "POST"} <= set(other.headers["allow"].split(", "))


@among(SESSIONS)
@clause("2025-03-26/transports/09", "draft/transports/09", "2024-11-05/transports/07")
async def test_requests_are_told_apart_by_who_made_them(rev: Rev) -> None:
    app = served(rev).asgi(owner=lambda scope: dict(scope["headers"]).get(b"authorization"))
    client = Web(app, rev)
    hello = {"protocolVersion": rev.id, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    opened = await client.answered(body=rev.request(0, "initialize", hello), headers={"authorization": "a"})
    client.session = opened.headers["mcp-session-id"]
    for who, status in (("a", 200), ("b", 404), (None, 404)):
        answer = await client.answered(body=call(rev, loud=False), headers={"authorization": who})
        assert answer.status == status
    await app.close()


@among(SESSIONS)
@both(13)
async def test_a_body_is_one_message_or_a_batch_where_there_are_batches(rev: Rev) -> None:
    answer_, notification = {"jsonrpc": "2.0", "id": 9, "result": {}}, {"jsonrpc": "2.0", "method": "notifications/x"}
    async with web(rev, served(rev)) as client:
        batch: Any = [call(rev, 1, loud=False), notification]
        assert (await client.answered(body=batch)).status == (200 if rev.id == "2025-03-26" else 400)
        answers: Any = [answer_, {**answer_, "id": 10}]
        assert (await client.answered(body=answers)).status == (202 if rev.id == "2025-03-26" else 400)


@among(SESSIONS)
@both(14)
@pytest.mark.parametrize(
    "body", [{"method": "notifications/initialized"}, {"id": 5, "result": {}}], ids=["told", "answer"]
)
async def test_what_wants_no_answer_is_accepted_with_an_empty_body(rev: Rev, body: dict[str, Any]) -> None:
    async with web(rev, served(rev)) as client:
        answer = await client.answered(body={"jsonrpc": "2.0", **body})
        assert (answer.status, answer.content) == (202, b"")


@among(SESSIONS)
@both(15)
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc":"1.0","method":"x"}', b'{"jsonrpc":"2.0"}'], ids=repr)
async def test_what_is_not_accepted_has_the_status_of_an_error(rev: Rev, body: bytes) -> None:
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=body)).status == 400
        notification = {"jsonrpc": "2.0", "method": "notifications/x"}
        assert (await client.answered(body=notification, headers={"mcp-session-id": "gone"})).status == 404


@among(SESSIONS)
@both(16, 18, 21)
async def test_a_request_is_answered_by_json_or_by_a_stream_that_ends_with_its_answer(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        plain = await client.answered(body=call(rev, loud=False))
        assert (plain.headers["content-type"], plain.json["id"]) == (JSON, 1)
        streamed = await client.answered(body=call(rev, 2))
        assert streamed.headers["content-type"] == EVENTS
        assert ids(streamed) == [2] and streamed.json_messages[-1]["id"] == 2


@among(SESSIONS)
@both(19, 20, 26, 27, 28, 29)
async def test_each_message_goes_to_one_stream_and_to_the_one_it_belongs_to(rev: Rev) -> None:
    go = asyncio.Event()
    server = served(rev, go)
    async with web(rev, server) as client:
        standing = client.request("GET")
        one, two = (client.request(body=call(rev, id, "wait")) for id in (1, 2))
        await one.messages(1)
        await two.messages(1)
        assert not one.task.done() and not two.task.done(), "a stream stays open until its answer is there"
        await server.notify_tool_list_changed()
        await standing.messages(1)
        go.set()
        for id, answer in ((1, one), (2, two)):
            await answer.whole()
            assert ids(answer) == [id] and answer.json_messages[0]["params"]["progressToken"] == f"t{id}"
            assert len(answer.json_messages) == 2
        assert [message["method"] for message in standing.json_messages] == ["notifications/tools/list_changed"]
        await standing.leave()


@among(SESSIONS)
@both(22, 30, 32)
async def test_who_leaves_cancels_nothing_and_hears_on_return_its_own_stream_alone(rev: Rev) -> None:
    go, ended = asyncio.Event(), asyncio.Event()
    async with web(rev, served(rev, go, ended)) as client:
        one, two = (client.request(body=call(rev, id, "wait")) for id in (1, 2))
        await two.messages(1)
        await one.messages(1)
        await one.leave()
        go.set()
        await ended.wait()
        await two.whole()
        resumed = await client.answered("GET", headers={"last-event-id": one.events[-1].id})
        assert ids(resumed) == [1] and ids(two) == [2]
        seen = [event.id for answer in (one, two, resumed) for event in answer.events if event.data]
        assert len(seen) == len(set(seen)) == 4


@among(SESSIONS)
@both(36, 37)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_request_without_its_session_is_bad_and_one_after_its_end_finds_none(rev: Rev, method: str) -> None:
    async with web(rev, served(rev)) as client:
        body = call(rev, loud=False) if method == "POST" else b""
        assert (await client.answered(method, body, {"mcp-session-id": None})).status == 400
        assert (await client.answered("DELETE")).status == 204
        assert (await client.answered(method, body)).status == 404


@among(NAMED)
@clause("draft/transports/43")
@pytest.mark.parametrize("version", ["1999-01-01", "", "garbage"])
async def test_a_revision_that_is_not_served_is_a_bad_request(rev: Rev, version: str) -> None:
    async with web(rev, served(rev)) as client:
        for method in ("POST", "GET", "DELETE"):
            body = call(rev, loud=False) if method == "POST" else b""
            assert (await client.answered(method, body, {"mcp-protocol-version": version})).status == 400


@among(NAMED)
@clause("draft/transports/42")
async def test_a_session_knows_its_revision_where_no_header_says_it(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=call(rev, loud=False), headers={"mcp-protocol-version": None})).status == 200


@among(since("2025-11-25", HANDSHAKE))
@pytest.mark.transport_rule("2025-11-25/01", "2025-11-25/06")
async def test_a_foreign_page_is_forbidden_and_an_event_tells_its_stream(rev: Rev) -> None:
    """2025-11-25: the status is 403, and an event's id says which stream it is of."""
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=call(rev), headers={"origin": "http://evil.example"})).status == 403
        one, two = [await client.answered(body=call(rev, id)) for id in (1, 2)]
        streams = [{event.id.rsplit("-", 1)[0] for event in answer.events} for answer in (one, two)]
        assert all(len(ids) == 1 for ids in streams) and streams[0] != streams[1]


# ---- the server of the older pair -----------------------------------------------------------------------------------


@clause("2024-11-05/transports/08", "2024-11-05/transports/09", "2024-11-05/transports/10")
@pytest.mark.transport_rule("2026-07-28/36")
async def test_the_older_pair_first_says_where_to_post_and_answers_on_its_stream() -> None:
    rev = HANDSHAKE[0]
    client = Web(served(rev).asgi(path="/mcp", legacy_sse=True), rev)
    stream = client.request("GET", headers={"accept": EVENTS}, path="/sse")
    await stream.until(lambda answer: answer.events)
    first = stream.events[0]
    path, _, query = first.data.decode().partition("?")
    assert first.kind == "endpoint" and path.startswith("/")
    ping = rev.request(1, "ping")
    posted = await client.answered(body=ping, path=path, query_string=query.encode())
    assert posted.status == 202
    await stream.until(lambda answer: len(answer.events) > 1)
    assert b'"id":1' in stream.events[1].data and stream.events[1].kind == "message"
    await stream.leave()
    await client.app.close()


# ---- the client -----------------------------------------------------------------------------------------------------

Seen = Callable[[Rev, list[Got]], bool]


def posts(seen: list[Got]) -> list[Got]:
    return [got for got in seen if got.method == "POST"]


def after_opening(seen: list[Got]) -> list[Got]:
    return [got for got in seen if got.rpc != "initialize"]


OF_A_CLIENT: list[Any] = [
    pytest.param(lambda rev, seen: all(isinstance(got.body, dict) for got in posts(seen)), id="each message is a POST",
                 marks=both(10, 11)),
    pytest.param(lambda rev, seen: all({JSON, EVENTS} <= set(got.headers["accept"].split(", ")) for got in posts(seen)),
                 id="a POST takes both kinds of answer", marks=both(12)),
    pytest.param(lambda rev, seen: all(EVENTS in got.headers["accept"] for got in seen if got.method == "GET"),
                 id="a GET takes streams", marks=both(24)),
    pytest.param(lambda rev, seen: all(got.headers["mcp-session-id"] == "s-1" for got in after_opening(seen)),
                 id="all that follows names the session", marks=both(35)),
    pytest.param(lambda rev, seen: seen[-1].method == "DELETE", id="the session is deleted at the end", marks=both(39)),
    pytest.param(lambda rev, seen: "notifications/cancelled" in [got.rpc for got in seen],
                 id="a call is cancelled by saying so", marks=both(23)),
    pytest.param(lambda rev, seen: rev not in NAMED or all(got.headers["mcp-protocol-version"] == rev.id
                                                           for got in after_opening(seen)),
                 id="all that follows names the revision that was agreed",
                 marks=clause("draft/transports/40", "draft/transports/41")),
]  # fmt: skip


@among(SESSIONS)
@pytest.mark.parametrize("holds", OF_A_CLIENT)
async def test_what_a_client_sends(rev: Rev, holds: Seen) -> None:
    clock, started = LoopClock(), asyncio.Event()

    async def slow(got: Got, write: Any) -> None:
        if got.body["params"]["name"] == "slow":
            started.set()
            await write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: \n\n")
            await asyncio.Event().wait()
        await write(reply(result(got, text_result("done"))))

    raw = Raw({"tools/call": slow})
    async with serving(raw), rev.package.Client.http(raw.url) as client:
        assert (await client.call_tool(name="quick")).content[0].text == "done"
        slow_call = asyncio.create_task(client.call_tool(name="slow", options=RequestOptions(timeout=5)))
        await started.wait()
        clock.forward(5)
        with pytest.raises(MCPError):
            await slow_call
        async with asyncio.timeout(10):
            while not raw.requests_of("notifications/cancelled") or not raw.requests_of("GET"):
                await asyncio.sleep(0.01)
    assert started.is_set() and holds(rev, raw.seen), [(got.rpc, got.headers) for got in raw.seen]


@among(SESSIONS)
@both(17)
@pytest.mark.parametrize("kind", [JSON, EVENTS])
async def test_a_client_takes_both_kinds_of_answer(rev: Rev, kind: str) -> None:
    async def answer(got: Got, write: Any) -> None:
        data = result(got, text_result("done"))
        await write(reply(data if kind == JSON else b"data: " + data + b"\n\n", kind=kind))

    raw = Raw({"tools/call": answer})
    async with serving(raw), rev.package.Client.http(raw.url) as client:
        assert (await client.call_tool(name="x")).content[0].text == "done"


@among(SESSIONS)
@both(38)
async def test_a_client_whose_session_is_gone_opens_another_without_its_id(rev: Rev) -> None:
    raw = Raw()

    async def not_found(got: Got, write: Any) -> None:
        if got.headers["mcp-session-id"] == "s-1":
            raw.session = "s-2"
            return await write(reply(b"", 404))
        await write(reply(result(got, text_result("done"))))

    raw.answers["tools/call"] = not_found
    async with serving(raw), rev.package.Client.http(raw.url) as client:
        assert (await client.call_tool(name="x")).content[0].text == "done"
    assert ["mcp-session-id" in got.headers for got in raw.requests_of("initialize")] == [False, False]
