"""The envelope: what is a message and what is not, ids as they came, batches where there are any, further fields."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    hello,
    raw_server,
    server_of,
    wire_to,
)

from mcp_generated import Client
from mcp_runtime.errors import InvalidResponseError, RemoteJSONRPCError
from mcp_runtime.protocol.jsonrpc import (
    ErrorMessage,
    MalformedMessage,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
    decode,
)

BATCHING = [rev for rev in ALL_REVISIONS if rev.id == "2025-03-26"]


def echo(rev: Rev) -> Any:
    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(params.name)

    return server_of(rev, call_tool=call_tool)


def call(rev: Rev, id: Any, name: str) -> dict[str, Any]:
    return rev.request(id, "tools/call", {"name": name})


@clause("2024-11-05/basic/01", "2025-03-26/basic/02", "draft/basic/02", "2024-11-05/messages/01")
@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "m"}, RequestMessage),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}}, RequestMessage),
        ({"jsonrpc": "2.0", "method": "m"}, NotificationMessage),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, ResultMessage),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": ""}}, ErrorMessage),
        ({"jsonrpc": "1.0", "id": 1, "method": "m"}, MalformedMessage),
        ({"id": 1, "method": "m"}, MalformedMessage),
        ({"jsonrpc": 2.0, "id": 1, "method": "m"}, MalformedMessage),
        ({"jsonrpc": "2.0", "id": 1}, MalformedMessage),
        ({"jsonrpc": "2.0"}, MalformedMessage),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, MalformedMessage),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": 5}, MalformedMessage),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": None}, RequestMessage),
        ("text", MalformedMessage),
        (5, MalformedMessage),
        (None, MalformedMessage),
    ],
    ids=str,
)
def test_every_message_is_one_of_four_kinds_or_malformed(message: Any, kind: type[Any]) -> None:
    assert type(decode(json.dumps(message).encode())) is kind


@clause("2025-03-26/basic/03", "draft/basic/03", "2024-11-05/messages/02")
@clause("2025-03-26/basic/04", "draft/basic/04", "2024-11-05/messages/03")
@among(ALL_REVISIONS)
async def test_an_id_is_a_string_or_an_integer_and_never_null(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        for id in (None, True, 1.5, {}, [1]):
            wire.send(call(rev, id, "x"))
            answer = await wire.receive()
            assert answer["error"]["code"] == INVALID_REQUEST and answer.get("id") is None
        for good in (0, -1, 2**53, "", "é"):
            assert (await wire.request(call(rev, good, "x")))["result"]


@clause("2025-03-26/basic/06", "draft/basic/06", "2024-11-05/messages/05")
@among(ALL_REVISIONS)
async def test_the_ids_1_and_text_1_are_two_requests_and_keep_their_type(rev: Rev) -> None:
    met = asyncio.Barrier(2)

    async def call_tool(ctx: Any, params: Any) -> Any:
        await met.wait()
        return rev.text(f"{params.name} {ctx.request_id!r}")

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(call(rev, 1, "number"), call(rev, "1", "text"))
        answers = [await wire.receive(), await wire.receive()]
    texts = {type(answer["id"]): answer["result"]["content"][0]["text"] for answer in answers}
    assert texts == {int: "number 1", str: "text '1'"}


@clause("2025-03-26/basic/05", "draft/basic/05", "2024-11-05/messages/04")
@among(ALL_REVISIONS)
async def test_no_side_uses_an_id_twice_and_one_in_use_is_refused(rev: Rev) -> None:
    tap = Tap(echo(rev))
    async with client_of(rev, tap) as client:
        await asyncio.gather(*(client.call_tool(name=str(number)) for number in range(20)))
        await client.call_tool(name="again")
    ids = [message["id"] for message in tap.sent if "id" in message]
    assert len(ids) == len(set(ids)) == 22
    started, release = asyncio.Event(), asyncio.Event()

    async def call_tool(ctx: Any, params: Any) -> Any:
        started.set()
        await release.wait()
        return rev.text(params.name)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        wire.send(call(rev, 1, "first"))
        await started.wait()
        assert (await wire.request(call(rev, 1, "second")))["error"]["code"] == INVALID_REQUEST
        release.set()
        assert (await wire.receive())["result"]["content"][0]["text"] == "first"


@clause("2025-03-26/basic/05", "draft/basic/05")
@among(HANDSHAKE)
async def test_no_id_is_used_twice_while_a_version_is_negotiated_though_each_answer_comes_twice(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(Client(connect).__aenter__())
    seen: list[Any] = []
    welcome = {"protocolVersion": rev.id, "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
    for answer in ({"error": {"code": METHOD_NOT_FOUND, "message": "no"}}, {"result": welcome}):
        request = await wire.receive()
        seen.append((request["method"], request["id"]))
        for _ in range(2):
            wire.send({"jsonrpc": "2.0", "id": request["id"], **answer})
    client = await opening
    assert [method for method, _ in seen] == ["server/discover", "initialize"]
    assert len({id for _, id in seen}) == 2
    assert client.protocol_version == rev.id
    await client.__aexit__(None, None, None)


@clause("2025-03-26/basic/07", "draft/basic/07", "2024-11-05/messages/06")
@clause("2025-03-26/basic/08", "draft/basic/08", "2024-11-05/messages/07")
@clause("2025-03-26/basic/09", "draft/basic/09", "2025-03-26/basic/10", "draft/basic/10", "2024-11-05/messages/08")
@among(HANDSHAKE)
async def test_an_answer_is_a_result_or_an_error_with_a_code_and_a_message(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    error = {"code": -1, "message": "no"}
    broken: list[dict[str, Any]] = [
        {"result": {"content": []}, "error": error},
        {"error": {}},
        {"error": {"code": "none"}},
        {"error": {"code": 1.5, "message": 2}},
        {"error": ["no"]},
        {"result": None},
    ]
    for answer in broken:
        task = asyncio.create_task(client.call_tool(name="x"))
        request = await wire.receive()
        wire.send({"jsonrpc": "2.0", "id": request["id"]} | answer)
        with pytest.raises(InvalidResponseError):
            await task
    task = asyncio.create_task(client.call_tool(name="x"))
    wire.send({"jsonrpc": "2.0", "id": (await wire.receive())["id"], "error": error})
    with pytest.raises(RemoteJSONRPCError, match="no"):
        await task
    await client.close()


SLOPPY_ERRORS: list[tuple[Any, int, str]] = [
    ({"message": "no"}, INTERNAL_ERROR, "no"),
    ({"code": "none", "message": "no"}, INTERNAL_ERROR, "no"),
    ({"code": 1.5, "message": "no"}, INTERNAL_ERROR, "no"),
    ({"code": True, "message": "no"}, INTERNAL_ERROR, "no"),
    ({"code": "-32000", "message": "no"}, -32000, "no"),
    ({"code": -1}, -1, ""),
    ({"code": -1, "message": None}, -1, ""),
    ("no", INTERNAL_ERROR, "no"),
]


@pytest.mark.parametrize("as_text", [False, True], ids=["number", "text"])
@pytest.mark.parametrize(("error", "code", "text"), SLOPPY_ERRORS, ids=str)
@among(HANDSHAKE)
async def test_what_a_sloppy_server_says_about_an_error_is_read(
    rev: Rev, error: Any, code: int, text: str, as_text: bool
) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="x"))
    id = (await wire.receive())["id"]
    wire.send({"jsonrpc": "2.0", "id": str(id) if as_text else id, "error": error})
    with pytest.raises(RemoteJSONRPCError) as raised:
        await task
    assert (raised.value.code, raised.value.message) == (code, text)
    await client.close()


@clause("2025-03-26/basic/11", "draft/basic/11")
@among(ALL_REVISIONS)
async def test_a_notification_is_never_answered(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        for method in ("nobody/knows", "notifications/cancelled", "tools/call", "notifications/progress"):
            wire.send({"jsonrpc": "2.0", "method": method}, {"jsonrpc": "2.0", "method": method, "params": {"x": []}})
        assert "result" in await wire.request(call(rev, 1, "x"))


@clause("2025-03-26/basic/12", "draft/basic/12", "2024-11-05/messages/09")
@among(HANDSHAKE)
async def test_a_notification_has_no_id(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        await ctx.notify_tool_list_changed()
        await ctx.log("info", "text")
        return rev.text("x")

    tap = Tap(server_of(rev, {"tools": {"listChanged": True}, "logging": {}}, call_tool=call_tool))
    async with client_of(rev, tap, capabilities={"roots": {"listChanged": True}}) as client:
        await client.notify_roots_list_changed()
        await client.call_tool(name="x")
    notifications = [m for m in tap.sent + tap.received if m.get("method", "").startswith("notifications/")]
    assert len(notifications) == 4 and not [message for message in notifications if "id" in message]


@among(ALL_REVISIONS)
async def test_fields_that_the_schema_does_not_name_survive_a_round_trip(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        more = {"com.example/a": params.model_extra["further"], "null": None}
        content = rev.t.TextContent(text="x", strange={"deep": [1, None, "é"]})
        return rev.t.CallToolResult(content=[content], **more)

    async with wire_to(server_of(rev, call_tool=call_tool), opened=rev) as wire:
        further = {"b": [None, {"c": 1.5}]}
        answer = await wire.request(rev.request(1, "tools/call", {"name": "x", "further": further}))
    result = answer["result"]
    assert result["com.example/a"] == further and result["null"] is None and "null" in result
    assert result["content"][0]["strange"] == {"deep": [1, None, "é"]}
    read = rev.t.CallToolResult.model_validate(result)
    assert read.model_dump() == result


@among(ALL_REVISIONS)
async def test_what_is_no_json_is_a_parse_error_and_ends_nothing(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        for nonsense in (b"nonsense", b"{", b'{"a": NaN}', b"\xff\xfe", b'"\xed\xa0\x80"'):
            wire.send(nonsense)
            assert (await wire.receive())["error"]["code"] == PARSE_ERROR
        assert "result" in await wire.request(call(rev, 1, "x"))


@clause("2025-03-26/basic/13")
@among(BATCHING)
async def test_a_batch_is_answered_by_a_batch_without_the_notifications(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        note = {"jsonrpc": "2.0", "method": "nobody/knows"}
        wire.send([call(rev, 1, "a"), note, rev.request(2, "nobody/knows"), rev.request("3", "ping")])
        answers = {answer["id"]: answer for answer in await wire.receive()}
        assert answers[1]["result"]["content"][0]["text"] == "a" and answers["3"]["result"] == {}
        assert answers[2]["error"]["code"] == METHOD_NOT_FOUND and len(answers) == 3
        wire.send([note, note])
        assert "result" in await wire.request(call(rev, 4, "x"))
        wire.send([])
        assert (await wire.receive())["error"]["code"] == INVALID_REQUEST


@clause("2025-03-26/basic/13")
@among(BATCHING)
async def test_a_client_takes_batches_too(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    task = asyncio.create_task(client.call_tool(name="x"))
    request = await wire.receive()
    wire.send([rev.request(1, "ping"), {"jsonrpc": "2.0", "id": request["id"], "result": {"content": []}}])
    assert (await task).content == []
    assert await wire.receive() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    await client.close()


@clause("2025-03-26/lifecycle/03")
@among(BATCHING)
async def test_the_opening_is_never_in_a_batch(rev: Rev) -> None:
    async with wire_to(echo(rev)) as wire:
        wire.send([hello(rev.id, id=1), rev.request(2, "ping")])
        answers = {answer["id"]: answer for answer in await wire.receive()}
        assert answers[1]["error"]["code"] == INVALID_REQUEST and answers[2]["result"] == {}
        assert "result" in await wire.request(hello(rev.id))


@clause("2025-03-26/basic/13")
@among([rev for rev in ALL_REVISIONS if rev not in BATCHING])
async def test_the_other_revisions_have_no_batches(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        wire.send([call(rev, 1, "x")])
        assert (await wire.receive())["error"]["code"] == INVALID_REQUEST
        assert "result" in await wire.request(call(rev, 1, "x"))


@among(ALL_REVISIONS)
async def test_params_that_do_not_fit_are_refused_with_the_place(rev: Rev) -> None:
    async with wire_to(echo(rev), opened=rev) as wire:
        for id, params in enumerate([{"x": 1}, {"name": 5}, {"name": "x", "arguments": []}]):
            answer = await wire.request(rev.request(id, "tools/call", params))
            assert answer["error"]["code"] == INVALID_PARAMS
            assert ("arguments" if "arguments" in params else "name") in answer["error"]["message"]
