"""Envelopes that say little, too much or the wrong thing, on real sockets: each request is answered as its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import Rev
from support.http.raw_client import (
    STATELESS_REVISION,
    PARSERS,
    SESSIONS,
    Answer,
    Socket,
    RawClient,
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
both = pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
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
async def test_an_error_names_its_request_where_the_id_can_be_read(parser: str, spoken: str) -> None:
    way = await entered(address(parser), spoken)
    named = {"mcp_method": "tools/call", "mcp_name": "echo"}
    good = call(7, "echo")
    for wrong in ({"jsonrpc": "1.0"}, {"jsonrpc": None}, {"method": 5}, {"method": None}, {"params": 5}):
        body = good | wrong if None not in wrong.values() else _without(good, *wrong)
        answer = await way.request(json.dumps(body).encode(), **named)
        assert answer.json["id"] == 7 and error(answer)["code"] in (-32600, -32602), wrong
    for id in (None, True, 1.5, {}, [1]):
        answer = await way.request(good | {"id": id}, **named)
        assert answer.status == 400 and error(answer)["code"] == -32600 and answer.json.get("id") is None


@both
@pytest.mark.fault("1.2/04")
async def test_a_number_and_its_text_in_flight_together_are_two_ids(parser: str, spoken: str) -> None:
    way = await entered(address(parser), spoken)
    where = f"{parser} {spoken} two kinds"
    bodies = [call(id, "meet", where=where, many=2, text=repr(id)) for id in (1, "1")]
    one, other = await asyncio.gather(*(way.request(body) for body in bodies))
    assert [(each.json["id"], text(each)) for each in (one, other)] == [(1, "1"), ("1", "'1'")]


@both
@pytest.mark.fault("1.2/05")
@pytest.mark.advisory("python-sdk issue 3060")
async def test_an_id_that_is_used_twice_at_once_is_answered_on_each_request_or_refused(
    parser: str, spoken: str
) -> None:
    """python-sdk issue 3060: an answer that finds its way by its id alone finds the wrong one."""
    way = await entered(address(parser), spoken)
    many, where = 5, f"{parser} {spoken} twice"
    meeting = await entered(way.where, spoken)
    asked = [asyncio.ensure_future(way.request(call(1, "meet", where=where, many=2, text="first")))]
    await way.call("later", "echo")  # The first is being worked on by now, or about to be.
    asked += [asyncio.ensure_future(way.request(call(1, "echo", text=str(number)))) for number in range(many)]
    said = [await each for each in asked[1:]]
    assert await meeting.call(2, "meet", where=where, many=2, text="second") == "second"
    assert text(await asked[0]) == "first"
    for number, answer in enumerate(said):
        assert answer.json["id"] == 1
        assert error(answer)["code"] == -32600 if "error" in answer.json else text(answer) == str(number)
    if spoken == STATELESS_REVISION:  # Clients without sessions do not know of each other's ids.
        assert [text(each) for each in said] == [str(number) for number in range(many)]


@both
@pytest.mark.fault("1.2/06", "1.2/07", "1.2/09")
@pytest.mark.transport_rule("2026-07-28/21")
async def test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification(
    parser: str, spoken: str
) -> None:
    way = await entered(address(parser), spoken)
    methods = ["no/such", "notifications/x", "notifications/initialized", "rpc.discover"]
    if spoken == STATELESS_REVISION:
        methods += ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "initialize"]
    for id, method in enumerate(methods):
        answer = await way.request(request(id, method))
        assert (answer.json["id"], error(answer)["code"]) == (id, -32601), method
        assert answer.status == (404 if spoken == STATELESS_REVISION else 200)


@both
@pytest.mark.fault("1.2/08", "1.2/12")
@pytest.mark.transport_rule("2026-07-28/07")
async def test_what_has_no_id_is_not_answered_and_what_nobody_asked_is_ignored(parser: str, spoken: str) -> None:
    way = await entered(address(parser), spoken)
    before = (await way.status())["echoed"]
    for told in (_without(call(1, "echo"), "id"), {"jsonrpc": "2.0", "method": "notifications/x"}):
        answer = await way.request(told)
        assert (answer.status, answer.body) == (202, b"")
    answers = [{"result": {}}, {"error": {"code": -1, "message": "no"}}]
    for said in answers * 2:
        answer = await way.request({"jsonrpc": "2.0", "id": 1, **said})
        # Where a server asks nothing, there is nothing to answer.
        assert answer.status == (202 if spoken == SESSIONS else 400)
    assert (await way.status())["echoed"] == before


@pytest.mark.fault("1.2/10", "1.2/11")
async def test_a_batch_is_answered_where_there_are_batches_and_nowhere_else(parser: str) -> None:
    where = address(parser)
    told = {"jsonrpc": "2.0", "method": "notifications/x"}
    batch: list[Any] = [call(1, "echo", text="one"), told, call("1", "echo", text="two"), 5, request(3, "no/such")]
    way = await opened(where, BATCHES)
    answers = {repr(each.get("id")): each for each in (await way.request(batch)).json}
    assert answers["1"]["result"]["content"][0]["text"] == "one" and len(answers) == 4
    assert answers["'1'"]["result"]["content"][0]["text"] == "two"
    assert [answers[id]["error"]["code"] for id in ("None", "3")] == [-32600, -32601]
    assert (await way.request([told, told])).status == 202
    assert (await way.request([])).status == 400
    for spoken in ("2025-06-18", SESSIONS):
        way = await opened(where, spoken)
        before = (await way.status())["echoed"]
        assert error(await way.request(batch))["code"] == -32600
        assert (await way.status())["echoed"] == before


@pytest.mark.fault("1.2/11")
@pytest.mark.transport_rule("2026-07-28/05")
async def test_a_batch_does_not_slip_past_the_headers_that_repeat_its_body(parser: str) -> None:
    way = RawClient(address(parser), None)
    before = (await way.status())["echoed"]
    meta = {f"{META}protocolVersion": STATELESS_REVISION, f"{META}clientCapabilities": {}}
    inner = call(1, "echo") | {"params": {"name": "echo", "_meta": meta}}
    for headers in ({}, {"mcp_method": "tools/list"}, {"mcp_method": "tools/call", "mcp_name": "harmless"}):
        for version in (STATELESS_REVISION, None, BATCHES):
            assert (await way.request([inner], mcp_protocol_version=version, **headers)).status == 400
    assert (await way.status())["echoed"] == before


@pytest.mark.parametrize("spoken", [SESSIONS, STATELESS_REVISION])
@pytest.mark.fault("1.2/13")
async def test_arguments_of_the_wrong_type_run_nothing(parser: str, spoken: str) -> None:
    app, ran = App("typed"), list[Any]()

    @app.tool()
    def add(a: int, b: int = 0) -> int:
        ran.append((a, b))
        return a + b

    async with listening(app.asgi(path="/mcp"), http=parser) as port:
        way = await entered(f"127.0.0.1:{port}", spoken)
        for arguments in ({"a": "x"}, {"a": None}, {}, {"a": [1]}, {"a": 1, "b": {}}):
            answer = await way.request(call(1, "add", **arguments))
            assert "error" in answer.json or answer.json["result"]["isError"] is True
        assert ran == []
        assert text(await way.request(call(1, "add", a=1, b=2))) == '{"result":3}' and ran == [(1, 2)]


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities", "clientInfo"])
@pytest.mark.fault("1.2/15")
async def test_a_request_that_stands_alone_says_all_that_a_session_would_know(parser: str, missing: str) -> None:
    way = RawClient(address(parser), None)
    meta = Rev(STATELESS_REVISION).meta()
    del meta[META + missing]
    body = request(1, "server/discover", {"_meta": meta})
    named: dict[str, str | None] = {"mcp-method": "server/discover", "mcp-protocol-version": STATELESS_REVISION}
    answer = await _as_it_is(way, body, named)
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
async def test_whatever_is_wrong_the_code_is_one_there_is(parser: str, spoken: str) -> None:
    way = await entered(address(parser), spoken)
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
            answer = await way.request(body, **headers)
            seen |= {answer.json["error"]["code"]} if "error" in answer.json else set()
    # A session is turned away by HTTP alone where a header is wrong; -32002 and -32042 are those of older revisions.
    assert {-32601, -32602, -32603} < seen <= CODES


def _without(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


async def _as_it_is(way: RawClient, body: dict[str, Any], headers: dict[str, str | None]) -> Answer:
    """Ask with these params and no others."""
    connection = await Socket.to(way.where)
    await connection.write(posted(way.where, body, headers))
    answer = await connection.answer()
    connection.cut()
    return answer
