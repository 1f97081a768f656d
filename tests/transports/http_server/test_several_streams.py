"""Several GET streams of one session: each message goes to one of them, and each resumes by itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among, since
from support.http.asgi_client import Answer, web

from mcp_generated import App
from mcp_runtime.transports.http_server.sessions import _MAX_STANDALONE_STREAMS as MAX_STREAMS

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
