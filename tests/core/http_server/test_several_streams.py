"""Several GET streams of one session: each message goes to one of them, and each resumes by itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, since
from support.http.asgi_client import Answer, web

from mcp_generated import App, Context
from mcp_runtime.transports.http_server.sessions import _MAX_STANDALONE_STREAMS as MAX_STREAMS

CHANGED = "notifications/tools/list_changed"
ONE_STREAM = pytest.mark.clause("2025-03-26/transports/29", "draft/transports/29")


def changing() -> Any:
    """Return an app that declares changes of its tools, without capabilities by hand."""
    app = App("changing")

    @app.tool
    def noop() -> str:
        return ""

    return app


async def change(app: Any, count: int) -> None:
    for _ in range(count):
        await app.server.notify_tool_list_changed()


async def opened(*answers: Answer) -> None:
    """Wait until the streams have begun."""
    for answer in answers:
        await answer.until(lambda started: started.status == 200)


def numbers(answer: Answer) -> list[int]:
    """Return the numbers of the messages on their stream."""
    return [int(event.id.rpartition("-")[2]) for event in answer.events if event.data]


def stream_of(answer: Answer) -> str:
    return answer.events[0].id.rpartition("-")[0]


@ONE_STREAM
@among(since("2025-03-26", HANDSHAKE))
async def test_each_message_goes_to_one_of_the_streams(rev: Rev) -> None:
    app = changing()
    async with web(rev, app) as client:
        first, second = client.request("GET"), client.request("GET")
        await opened(first, second)
        await change(app, 3)
        await second.messages(3)
        assert first.json_messages == []
        await second.leave()
        await change(app, 2)
        await first.messages(2)
        assert (len(first.json_messages), len(second.json_messages)) == (2, 3)
        await first.leave()


@among(since("2025-03-26", HANDSHAKE))
async def test_each_stream_resumes_by_itself(rev: Rev) -> None:
    app = changing()
    async with web(rev, app) as client:
        first = client.request("GET")
        await opened(first)
        await change(app, 2)
        await first.messages(2)
        second = client.request("GET")
        await opened(second)
        await change(app, 3)
        await second.messages(3)
        assert stream_of(first) != stream_of(second)
        await first.leave()
        await second.leave()
        ids = {
            name: [event.id for event in answer.events if event.data] for name, answer in (("1", first), ("2", second))
        }
        again = client.request("GET", headers={"last-event-id": ids["1"][0]})
        other = client.request("GET", headers={"last-event-id": ids["2"][0]})
        await again.messages(1)
        await other.messages(2)
        assert (numbers(again), numbers(other)) == ([2], [2, 3])
        assert (stream_of(again), stream_of(other)) == (stream_of(first), stream_of(second))
        await again.leave()
        await other.leave()


@among(since("2025-03-26", HANDSHAKE))
async def test_messages_without_a_connection_wait_for_the_next_one(rev: Rev) -> None:
    app = changing()
    async with web(rev, app) as client:
        first, second = client.request("GET"), client.request("GET")
        await opened(first, second)
        await first.leave()
        await second.leave()
        await change(app, 2)
        third, fourth = client.request("GET"), client.request("GET")
        await opened(third, fourth)
        await third.messages(2)
        assert (len(third.json_messages), fourth.json_messages) == (2, [])
        await third.leave()
        await fourth.leave()


@among(since("2025-11-25", HANDSHAKE))
async def test_too_many_streams_replace_the_first_connections(rev: Rev) -> None:
    async with web(rev, changing()) as client:
        answers = [client.request("GET") for _ in range(MAX_STREAMS)]
        await opened(*answers)
        extra = client.request("GET")
        await answers[0].whole()
        await opened(extra)
        assert not any(answer.task.done() for answer in answers[1:])
        for answer in (*answers[1:], extra):
            await answer.leave()


def working() -> App:
    """Return an app whose tool logs, reports progress and changes what its session sees."""
    app = App("working")

    @app.tool
    async def work(ctx: Context) -> str:
        await ctx.info("half")
        await ctx.report_progress(1, 2)
        await ctx.disable_components(names={"other"})
        return "done"

    @app.tool
    def other() -> str:
        return ""

    return app


def call(number: int) -> dict[str, Any]:
    return {"name": "work", "arguments": {}, "_meta": {"progressToken": f"token {number}"}}


@among(since("2025-03-26", HANDSHAKE))
async def test_what_a_call_sends_is_on_its_own_stream_or_on_one_of_the_others(rev: Rev) -> None:
    async with web(rev, working()) as client:
        streams = [client.request("GET") for _ in range(3)]
        await opened(*streams)
        calls = [client.request(body=rev.request(number, "tools/call", call(number))) for number in (1, 2)]
        for number, answer in enumerate(calls, 1):
            *before, response = (await answer.whole()).json_messages
            assert response["id"] == number and response["result"]["content"][0]["text"] == "done"
            assert [
                message["params"].get("data", message["params"].get("progressToken")) for message in before[:2]
            ] == [
                "half",
                f"token {number}",
            ]
        await streams[-1].messages(len(calls))
        changes = [message["method"] for stream in streams for message in stream.json_messages]
        assert changes == [CHANGED] * len(calls), "a change goes to only one stream"
        assert not any(message.get("method") == CHANGED for answer in calls for message in answer.json_messages)
        for stream in streams:
            await stream.leave()
