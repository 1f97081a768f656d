"""The clauses of the transport pages that a server keeps, one row for each, on real sockets and in each revision.

Those that a client keeps are in core/http_server/test_session_clauses.py; the later pages' own rules in
tests/proofs.toml.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.http.raw_client import PARSERS, SESSIONS, RawClient, Socket, address, call, opened, posted, request

from mcp_products.hosting.run import serve_with_uvicorn
from mcp_runtime.http.sse import SSEDecoder

TWO = ("2025-03-26", "draft")


def row(number: int, test: Any, revisions: tuple[str, ...] = TWO) -> Any:
    """A clause that has the same number in these revisions, and what proves it."""
    clauses = [f"{revision}/transports/{number:02}" for revision in revisions]
    return pytest.param(test, marks=pytest.mark.clause(*clauses), id=f"{number:02}-{test.__name__}")


async def one_path_serves_post_and_get(client: RawClient) -> None:
    assert (await client.request(call(1, "echo"))).status == 200
    stream = await _listening(client)
    stream.cut()
    refused = await client.request(b"", "PUT")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST, DELETE")


async def notifications_and_answers_get_202_and_no_body(client: RawClient) -> None:
    for body in ({"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 9, "result": {}}):
        answer = await client.request(body)
        assert (answer.status, answer.body) == (202, b"")


async def what_is_not_accepted_gets_an_error_status(client: RawClient) -> None:
    for body in (b"{", {"jsonrpc": "2.0", "method": 5}, {"id": 1}):
        assert 400 <= (await client.request(body)).status < 500
    assert (await client.request({"jsonrpc": "2.0", "method": "x"}, mcp_session_id="gone")).status == 404


async def a_request_is_answered_by_a_stream_or_by_json(client: RawClient) -> None:
    plain = await client.request(call(1, "echo"))
    stream = await client.request(call(2, "steps", progress=2, steps=1))
    assert [answer.headers["content-type"] for answer in (plain, stream)] == ["application/json", "text/event-stream"]


async def a_stream_has_what_is_about_its_request_then_its_answer_then_ends(client: RawClient) -> None:
    one, two = await asyncio.gather(*(client.request(call(id, "steps", progress=id, steps=9)) for id in (1, 2)))
    for id, answer in ((1, one), (2, two)):  # `ask` reads to the end of the stream.
        assert [message["params"]["progressToken"] for message in answer.json_messages[:-1]] == [id] * 9
        assert answer.json_messages[-1]["id"] == id


async def a_get_gives_a_stream_of_what_belongs_to_no_request(client: RawClient) -> None:
    stream = await _listening(client)
    answers = [await client.request(call(1, "change")), await client.request(call(2, "echo"))]
    (message,) = await stream.messages(1)
    assert "id" not in message and message["method"] == "notifications/tools/list_changed"
    assert [answer.json["id"] for answer in answers] == [1, 2]
    stream.cut()


async def a_message_goes_on_one_stream_only(client: RawClient) -> None:
    first = await _listening(client)
    second = await _listening(client)
    await client.call(1, "change")
    assert len(await second.messages(1)) == 1
    await client.call(2, "echo")  # Had the other stream got the message too, it would have it by now.
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await first.messages(1)
    first.cut()
    second.cut()


async def ids_of_events_are_unique_in_a_session(client: RawClient) -> None:
    answers = [await client.request(call(id, "steps", progress=id, steps=9)) for id in range(5)]
    ids = [event.id for answer in answers for event in answer.events if event.data]
    assert len(ids) == 50 == len(set(ids)) and all(ids)


async def a_session_id_is_visible_ascii_that_nobody_can_guess(client: RawClient) -> None:
    ids = {str((await opened(client.where)).session) for _ in range(10)}
    assert len(ids) == 10 and all(len(id) >= 32 and all("!" <= character <= "~" for character in id) for id in ids)


async def a_request_that_names_no_session_is_a_bad_one(client: RawClient) -> None:
    assert (await client.request(call(1, "echo"), mcp_session_id=None)).status == 400


async def without_a_version_the_one_that_was_agreed_holds(client: RawClient) -> None:
    assert (await client.request(call(1, "echo"), mcp_protocol_version=None)).status == 200


async def only_this_machine_is_listened_to(client: RawClient) -> None:
    assert inspect.signature(serve_with_uvicorn).parameters["host"].default == "127.0.0.1"


async def the_older_transport_sends_its_endpoint_first(client: RawClient) -> None:
    listening = await Socket.to(client.where)
    await listening.write(posted(client.where, b"", {":path": "/sse", "accept": "text/event-stream"}, "GET"))
    assert (await listening.head())[0] == 200
    (first,) = SSEDecoder().feed(await listening.chunk())
    assert first.kind == "endpoint"
    path = first.data.decode()
    assert path.startswith("/messages?")
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    connection = await Socket.to(client.where)
    await connection.write(posted(client.where, request(1, "initialize", hello), {":path": path}))
    assert (await connection.answer()).status == 202
    (answer,) = await listening.messages(1)
    assert (answer["id"], answer["result"]["protocolVersion"]) == (1, "2024-11-05")
    listening.cut()
    connection.cut()


async def _listening(client: RawClient) -> Socket:
    stream = await Socket.to(client.where)
    await stream.write(client.bytes(b"", "GET", accept="text/event-stream"))
    assert (await stream.head())[0] == 200
    if client.revision == SESSIONS:
        await stream.chunk()  # The event that says where to resume.
    return stream


OF_SERVERS = [
    row(6, one_path_serves_post_and_get),
    row(8, only_this_machine_is_listened_to),
    row(14, notifications_and_answers_get_202_and_no_body),
    row(15, what_is_not_accepted_gets_an_error_status),
    row(16, a_request_is_answered_by_a_stream_or_by_json),
    *(row(n, a_stream_has_what_is_about_its_request_then_its_answer_then_ends) for n in (18, 19, 20, 21)),
    *(row(n, a_get_gives_a_stream_of_what_belongs_to_no_request) for n in (25, 26, 27)),
    *(row(n, a_message_goes_on_one_stream_only) for n in (28, 29)),
    row(30, ids_of_events_are_unique_in_a_session),
    *(row(n, a_session_id_is_visible_ascii_that_nobody_can_guess) for n in (33, 34)),
    row(36, a_request_that_names_no_session_is_a_bad_one),
    row(42, without_a_version_the_one_that_was_agreed_holds, ("draft",)),
    row(6, only_this_machine_is_listened_to, ("2024-11-05",)),
    *(row(n, the_older_transport_sends_its_endpoint_first, ("2024-11-05",)) for n in (8, 9, 10)),
]


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("protocol_version", ["2025-03-26", "2025-06-18", SESSIONS])
@pytest.mark.parametrize("test", OF_SERVERS)
async def test_a_server_keeps_the_clause(
    test: Callable[[RawClient], Awaitable[None]], protocol_version: str, parser: str
) -> None:
    await test(await opened(address(parser), protocol_version))
