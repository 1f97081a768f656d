"""Streams: what is sent on them, who hears of changes, and how an interrupted one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, STATELESS, Rev, among, server_of, since
from support.http.asgi_client import Answer, web

from mcp_generated.http import HTTPLimits
from mcp_runtime.http.asgi import PartedResponse
from mcp_runtime.transports.http_server.events import InMemoryEventStore
from mcp_runtime.transports.http_server.streams import KeepAliveTimer, SSEStream

PRIMED = since("2025-11-25", HANDSHAKE)
CHANGES = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}}


def counting(rev: Rev, go: asyncio.Event) -> Any:
    """A server whose tool tells its progress, step by step, and goes on when it may."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        for step in range(5):
            await ctx.progress(step + 1)
            if step == 1:
                await go.wait()
        return rev.text("done")

    return server_of(rev, call_tool=call_tool)


def call(rev: Rev, id: int = 1) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": "count", "_meta": {"progressToken": f"t{id}"}})


def steps(answer: Answer) -> list[Any]:
    return [message["params"]["progress"] if "method" in message else message["id"] for message in answer.json_messages]


@among(HANDSHAKE)
@pytest.mark.transport_rule("2025-11-25/07")
async def test_an_interrupted_stream_goes_on_where_it_was(rev: Rev) -> None:
    go = asyncio.Event()
    async with web(rev, counting(rev, go)) as client:
        answer = client.request(body=call(rev))
        await answer.messages(2)
        await answer.leave()
        go.set()
        resumed = await client.answered("GET", headers={"last-event-id": answer.events[-1].id})
        assert steps(resumed) == [3, 4, 5, 1]
        again = await client.answered("GET", headers={"last-event-id": answer.events[-1].id})
        assert steps(again) == [3, 4, 5, 1]


@among(HANDSHAKE)
async def test_only_the_interrupted_stream_is_replayed(rev: Rev) -> None:
    go = asyncio.Event()
    async with web(rev, counting(rev, go)) as client:
        one, two = client.request(body=call(rev, 1)), client.request(body=call(rev, 2))
        await one.messages(2)
        await two.messages(2)
        await one.leave()
        go.set()
        await two.whole()
        resumed = await client.answered("GET", headers={"last-event-id": one.events[-1].id})
        assert (steps(resumed), steps(two)) == ([3, 4, 5, 1], [1, 2, 3, 4, 5, 2])


@among(HANDSHAKE)
async def test_the_streams_of_one_session_are_unknown_to_another(rev: Rev) -> None:
    go = asyncio.Event()
    go.set()
    server = counting(rev, go)
    async with web(rev, server) as mine, web(rev, server) as theirs:
        answer = await mine.answered(body=call(rev))
        theirs.app = mine.app
        await theirs.open()
        for last in (answer.events[0].id, "nothing-1", "garbage"):
            stolen = await theirs.answered("GET", headers={"last-event-id": last})
            assert stolen.status == 400 and stolen.json_messages[:0] == []


@among(PRIMED)
@pytest.mark.transport_rule("2025-11-25/03")
async def test_a_server_may_end_a_connection_and_the_client_comes_back_for_the_answer(rev: Rev) -> None:
    go = asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.close_sse_stream()
        await go.wait()
        return rev.text("later")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=call(rev))
        assert answer.json_messages == [] and answer.events[0].id and b"retry: " in answer.content
        go.set()
        resumed = await client.answered("GET", headers={"last-event-id": answer.events[0].id})
        assert resumed.json_messages[0]["id"] == 1


@among(STATELESS)
async def test_a_connection_that_cannot_be_resumed_is_not_ended_by_a_handler(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.close_sse_stream()
        ctx.close_standalone_sse_stream()
        await asyncio.sleep(0)
        return rev.text("now")

    async with web(rev, server_of(rev, call_tool=call_tool)) as client:
        answer = await client.answered(body=call(rev))
        assert b'"text":"now"' in answer.content


@among(PRIMED)
async def test_a_handler_may_end_the_connection_of_the_stream_of_a_get(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        ctx.close_standalone_sse_stream()
        return rev.text("closed")

    async with web(rev, server_of(rev, call_tool=call_tool), limits=HTTPLimits(retry_interval=120)) as client:
        listening = client.request("GET")
        await client.answered(body=call(rev))
        ended = await listening.whole()
        assert ended.json_messages == [] and b"retry: 120" in ended.content


@among(HANDSHAKE)
async def test_what_belongs_to_no_request_goes_on_the_stream_of_a_get(rev: Rev) -> None:
    server = server_of(rev, capabilities=CHANGES)
    async with web(rev, server) as client:
        await server.notify_tool_list_changed()
        listening = client.request("GET")
        await listening.messages(1)
        await server.notify_resource_list_changed()
        messages = await listening.messages(2)
        assert [message["method"].split("/")[1] for message in messages] == ["tools", "resources"]
        await listening.leave()


@among(HANDSHAKE)
async def test_only_who_watches_a_resource_hears_of_its_changes(rev: Rev) -> None:
    server = server_of(rev, capabilities=CHANGES)
    async with web(rev, server) as client:
        assert (await client.answered(body=rev.request(1, "resources/subscribe", {"uri": "x://1"}))).status == 200
        listening = client.request("GET")
        await server.notify_resource_updated(uri="x://2")
        await server.notify_resource_updated(uri="x://1")
        (message,) = await listening.messages(1)
        assert message["params"]["uri"] == "x://1"
        await client.answered(body=rev.request(2, "resources/unsubscribe", {"uri": "x://1"}))
        await server.notify_resource_updated(uri="x://1")
        await server.notify_tool_list_changed()
        assert (await listening.messages(2))[1]["method"].endswith("tools/list_changed")
        await listening.leave()


@among(HANDSHAKE)
async def test_a_handler_asks_the_client_on_its_own_stream(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        result = await ctx.list_roots()
        return rev.text(result.roots[0].uri)

    async with web(rev, server_of(rev, call_tool=call_tool), client_capabilities={"roots": {}}) as client:
        answer = client.request(body=call(rev))
        (request,) = await answer.messages(1)
        assert request["method"] == "roots/list"
        roots = {"jsonrpc": "2.0", "id": request["id"], "result": {"roots": [{"uri": "file:///a"}]}}
        assert (await client.answered(body=roots)).status == 202
        assert (await answer.messages(2))[1]["result"]["content"][0]["text"] == "file:///a"


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/12")
async def test_who_listens_hears_first_what_was_agreed_and_then_of_that_alone(rev: Rev) -> None:
    server = server_of(rev, capabilities=CHANGES)
    filters = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["x://1"]}
    async with web(rev, server) as client:
        listening = client.request(body=rev.request("sub", "subscriptions/listen", {"notifications": filters}))
        (agreed,) = await listening.messages(1)
        assert agreed["method"] == "notifications/subscriptions/acknowledged"
        del filters["promptsListChanged"]
        assert agreed["params"]["notifications"] == filters
        await server.notify_resource_list_changed()
        await server.notify_resource_updated(uri="x://2")
        await server.notify_resource_updated(uri="x://1")
        await server.notify_tool_list_changed()
        messages = await listening.messages(3)
        assert [message["method"].split("/", 1)[1] for message in messages[1:]] == [
            "resources/updated",
            "tools/list_changed",
        ]
        ids = {message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in messages}
        assert ids == {"sub"}
        await client.app.close()
        ended = (await listening.whole()).json_messages[-1]
        assert ended["id"] == "sub" and ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "sub"


@among(STATELESS)
@pytest.mark.transport_rule("2026-07-28/16")
async def test_streams_of_requests_that_stand_alone_cannot_be_resumed(rev: Rev) -> None:
    go = asyncio.Event()
    go.set()
    async with web(rev, counting(rev, go)) as client:
        answer = await client.answered(body=call(rev))
        assert steps(answer) == [1, 2, 3, 4, 5, 1] and not any(event.id for event in answer.events)


@pytest.mark.parametrize(
    ("max_messages", "max_bytes", "stored"), [(3, 10**6, [8, 9, 10]), (100, 25, [9, 10]), (100, 1, [10])]
)
def test_a_store_keeps_the_latest_messages_within_its_limits(
    max_messages: int, max_bytes: int, stored: list[int]
) -> None:
    store = InMemoryEventStore(max_messages, max_bytes)
    for number in range(1, 11):
        store.add("a", number, b"0123456789")
    assert [number for number, _ in store.after("a", 0)] == stored
    assert [number for number, _ in store.after("a", 9)] == [10]
    assert store.after("a", 10) == [] and store.after("b", 0) == ()
    store.drop("a")
    assert store.after("a", 0) == ()


def test_a_store_keeps_so_much_as_a_whole_and_takes_what_is_too_much_from_who_was_silent_for_longest() -> None:
    store = InMemoryEventStore(max_total_bytes=50)
    for stream in "abc":
        store.add(stream, 1, b"0123456789")
    store.add("a", 2, b"0123456789")
    store.add("c", 2, b"0123456789")
    assert [len(store.after(stream, 0)) for stream in "abc"] == [2, 1, 2]
    store.add("c", 3, b"01234567890123456789")
    assert [store.after(stream, 0) for stream in "ab"] == [[(2, b"0123456789")], ()]
    assert [number for number, _ in store.after("c", 0)] == [1, 2, 3]
    store.add("b", 2, b"0" * 100)
    assert [len(store.after(stream, 0)) for stream in "abc"] == [0, 1, 0], "the last message is kept in any case"
    store.drop("b")
    store.add("a", 3, b"0" * 50)
    store.add("d", 1, b"1")
    assert [len(store.after(stream, 0)) for stream in "abcd"] == [0, 0, 0, 1]


@pytest.mark.parametrize(("resumable", "stored"), [(True, [1, 2, 3]), (False, [])])
async def test_what_was_sent_is_kept_for_those_alone_who_can_come_back_for_it(
    resumable: bool, stored: list[int]
) -> None:
    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            await sent.put(message["body"])

    store, sent, connection = InMemoryEventStore(), asyncio.Queue[bytes](), object()
    stream = SSEStream(store, resumable)
    stream.put(b"1")
    stream.attach(connection)
    sending = asyncio.create_task(stream.pump(connection, PartedResponse(send, ()), KeepAliveTimer()))
    for number in (2, 3):
        await sent.get()
        stream.put(b"%d" % number)
    await sent.get()
    assert not sending.done() and [number for number, _ in store.after(stream.id, 0)] == stored
    stream.finish()
    await sending
    assert sent.empty()
