"""Envelopes that say little, too much or the wrong thing, on real sockets: each request is answered as its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import Rev
from support.http.raw_client import (
    PARSERS,
    SESSIONS,
    STATELESS_REVISION,
    Answer,
    RawClient,
    Socket,
    address,
    call,
    entered,
    opened,
    posted,
    request,
)
from support.http.sockets import listening

from mcp_generated import App

pytestmark = pytest.mark.parametrize("parser", PARSERS)
both = pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
BATCHES = "2025-03-26"  # The one revision that has them.
META = "io.modelcontextprotocol/"
# JSON-RPC's own, and those that 2026-07-28 defines.
CODES = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}


def error(answer: Answer) -> Any:
    assert answer.status < 500 and "result" not in answer.json
    return answer.json["error"]


def text(answer: Answer) -> str:
    return str(answer.json["result"]["content"][0]["text"])


@both
@pytest.mark.fault("1.2/01", "1.2/02")
async def test_an_error_names_its_request_where_the_id_can_be_read(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    named = {"mcp_method": "tools/call", "mcp_name": "echo"}
    good = call(7, "echo")
    for wrong in ({"jsonrpc": "1.0"}, {"jsonrpc": None}, {"method": 5}, {"method": None}, {"params": 5}):
        body = good | wrong if None not in wrong.values() else _without(good, *wrong)
        answer = await client.request(json.dumps(body).encode(), **named)
        assert answer.json["id"] == 7 and error(answer)["code"] in (-32600, -32602), wrong
    for id in (None, True, 1.5, {}, [1]):
        answer = await client.request(good | {"id": id}, **named)
        assert answer.status == 400 and error(answer)["code"] == -32600 and answer.json.get("id") is None


@both
@pytest.mark.fault("1.2/04")
async def test_a_number_and_its_text_in_flight_together_are_two_ids(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    where = f"{parser} {protocol_version} two kinds"
    bodies = [call(id, "meet", where=where, many=2, text=repr(id)) for id in (1, "1")]
    one, other = await asyncio.gather(*(client.request(body) for body in bodies))
    assert [(answer.json["id"], text(answer)) for answer in (one, other)] == [(1, "1"), ("1", "'1'")]


@both
@pytest.mark.fault("1.2/05")
@pytest.mark.advisory("python-sdk issue 3060")
async def test_an_id_that_is_used_twice_at_once_is_answered_on_each_request_or_refused(
    parser: str, protocol_version: str
) -> None:
    """python-sdk issue 3060: an answer that finds its way by its id alone finds the wrong one."""
    client = await entered(address(parser), protocol_version)
    many, where = 5, f"{parser} {protocol_version} twice"
    meeting = await entered(client.where, protocol_version)
    pending = [asyncio.ensure_future(client.request(call(1, "meet", where=where, many=2, text="first")))]
    await client.call("later", "echo")  # The first is being worked on by now, or about to be.
    pending += [asyncio.ensure_future(client.request(call(1, "echo", text=str(number)))) for number in range(many)]
    answers = [await future for future in pending[1:]]
    assert await meeting.call(2, "meet", where=where, many=2, text="second") == "second"
    assert text(await pending[0]) == "first"
    for number, answer in enumerate(answers):
        assert answer.json["id"] == 1
        assert error(answer)["code"] == -32600 if "error" in answer.json else text(answer) == str(number)
    if protocol_version == STATELESS_REVISION:  # Clients without sessions do not know of each other's ids.
        assert [text(answer) for answer in answers] == [str(number) for number in range(many)]


@both
@pytest.mark.fault("1.2/06", "1.2/07", "1.2/09")
@pytest.mark.transport_rule("2026-07-28/21")
async def test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification(
    parser: str, protocol_version: str
) -> None:
    client = await entered(address(parser), protocol_version)
    methods = ["no/such", "notifications/x", "notifications/initialized", "rpc.discover"]
    if protocol_version == STATELESS_REVISION:
        methods += ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"]
    for id, method in enumerate(methods):
        answer = await client.request(request(id, method))
        assert (answer.json["id"], error(answer)["code"]) == (id, -32601), method
        assert answer.status == (404 if protocol_version == STATELESS_REVISION else 200)


@both
@pytest.mark.fault("1.2/08", "1.2/12")
@pytest.mark.transport_rule("2026-07-28/07")
async def test_what_has_no_id_is_not_answered_and_what_nobody_asked_is_ignored(
    parser: str, protocol_version: str
) -> None:
    client = await entered(address(parser), protocol_version)
    before = (await client.status())["echoed"]
    for notification in (_without(call(1, "echo"), "id"), {"jsonrpc": "2.0", "method": "notifications/x"}):
        answer = await client.request(notification)
        assert (answer.status, answer.body) == (202, b"")
    answers = [{"result": {}}, {"error": {"code": -1, "message": "no"}}]
    for fields in answers * 2:
        answer = await client.request({"jsonrpc": "2.0", "id": 1, **fields})
        # Where a server asks nothing, there is nothing to answer.
        assert answer.status == (202 if protocol_version == SESSIONS else 400)
    assert (await client.status())["echoed"] == before


@pytest.mark.fault("1.2/10", "1.2/11")
async def test_a_batch_is_answered_where_there_are_batches_and_nowhere_else(parser: str) -> None:
    where = address(parser)
    notification = {"jsonrpc": "2.0", "method": "notifications/x"}
    batch: list[Any] = [
        call(1, "echo", text="one"),
        notification,
        call("1", "echo", text="two"),
        5,
        request(3, "no/such"),
    ]
    client = await opened(where, BATCHES)
    answers = {repr(response.get("id")): response for response in (await client.request(batch)).json}
    assert answers["1"]["result"]["content"][0]["text"] == "one" and len(answers) == 4
    assert answers["'1'"]["result"]["content"][0]["text"] == "two"
    assert [answers[id]["error"]["code"] for id in ("None", "3")] == [-32600, -32601]
    assert (await client.request([notification, notification])).status == 202
    assert (await client.request([])).status == 400
    for protocol_version in ("2025-06-18", SESSIONS):
        client = await opened(where, protocol_version)
        before = (await client.status())["echoed"]
        assert error(await client.request(batch))["code"] == -32600
        assert (await client.status())["echoed"] == before


@pytest.mark.fault("1.2/11")
@pytest.mark.transport_rule("2026-07-28/05")
async def test_a_batch_does_not_slip_past_the_headers_that_repeat_its_body(parser: str) -> None:
    client = RawClient(address(parser), None)
    before = (await client.status())["echoed"]
    meta = {f"{META}protocolVersion": STATELESS_REVISION, f"{META}clientCapabilities": {}}
    inner = call(1, "echo") | {"params": {"name": "echo", "_meta": meta}}
    for headers in ({}, {"mcp_method": "tools/list"}, {"mcp_method": "tools/call", "mcp_name": "harmless"}):
        for version in (STATELESS_REVISION, None, BATCHES):
            assert (await client.request([inner], mcp_protocol_version=version, **headers)).status == 400
    assert (await client.status())["echoed"] == before


@pytest.mark.parametrize("protocol_version", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.2/13")
async def test_arguments_of_the_wrong_type_run_nothing(parser: str, protocol_version: str) -> None:
    app, ran = App("typed"), list[Any]()

    @app.tool()
    def add(a: int, b: int = 0) -> int:
        ran.append((a, b))
        return a + b

    async with listening(app.asgi(path="/mcp"), http=parser) as port:
        client = await entered(f"127.0.0.1:{port}", protocol_version)
        for arguments in ({"a": "x"}, {"a": None}, {}, {"a": [1]}, {"a": 1, "b": {}}):
            answer = await client.request(call(1, "add", **arguments))
            assert "error" in answer.json or answer.json["result"]["isError"] is True
        assert ran == []
        assert text(await client.request(call(1, "add", a=1, b=2))) == "3" and ran == [(1, 2)]


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities", "clientInfo"])
@pytest.mark.fault("1.2/15")
async def test_a_request_that_stands_alone_says_all_that_a_session_would_know(parser: str, missing: str) -> None:
    client = RawClient(address(parser), None)
    meta = Rev(STATELESS_REVISION).meta()
    del meta[META + missing]
    body = request(1, "server/discover", {"_meta": meta})
    named: dict[str, str | None] = {"mcp-method": "server/discover", "mcp-protocol-version": STATELESS_REVISION}
    answer = await _as_it_is(client, body, named)
    if missing == "clientInfo":
        assert (
            answer.json["result"]["resultType"] == "complete"
            and STATELESS_REVISION in answer.json["result"]["supportedVersions"]
        )
    else:
        assert answer.status == 400 and error(answer)["code"] == -32602
        assert missing in answer.json["error"]["message"]


@both
@pytest.mark.fault("1.2/16")
async def test_whatever_is_wrong_the_code_is_one_there_is(parser: str, protocol_version: str) -> None:
    client = await entered(address(parser), protocol_version)
    bodies = [
        *(request(1, method) for method in ("no/such", "tools/call", "prompts/get", "resources/read", "initialize")),
        request(1, "resources/read", {"uri": "test://nowhere"}),
        request(1, "prompts/get", {"name": "nobody"}),
        request(1, "completion/complete", {"ref": 5}),
        request(1, "tools/list", {"cursor": 5}),
        call(1, "raise"),
    ]
    seen = set[int]()
    for body in bodies:
        for headers in ({}, {"mcp_method": "other"}, {"mcp_protocol_version": "1999-01-01"}):
            answer = await client.request(body, **headers)
            seen |= {answer.json["error"]["code"]} if "error" in answer.json else set()
    # A session is turned away by HTTP alone where a header is wrong; -32002 and -32042 are those of older revisions.
    assert {-32601, -32602, -32603} < seen <= CODES


def _without(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


async def _as_it_is(client: RawClient, body: dict[str, Any], headers: dict[str, str | None]) -> Answer:
    """Ask with these params and no others."""
    connection = await Socket.to(client.where)
    await connection.write(posted(client.where, body, headers))
    answer = await connection.answer()
    connection.cut()
    return answer
