"""The rules of the transport page of 2026-07-28, which knows no sessions: a row or a test each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from behaviour.support import STATELESS, Rev, among

from mcp_runtime.http.heads import Heads
from mcp_runtime.http.origins import Origins
from mcp_runtime.http.rules import Spoken

from .support import BOTH, web
from .test_clauses_http import EVENTS, call, ids, served

MISMATCH, UNSUPPORTED, NO_METHOD = -32020, -32022, -32601
REFUSED: list[Any] = [
    pytest.param({"mcp-protocol-version": None}, 400, None, id="the revision has to be named"),
    pytest.param({"mcp-protocol-version": "2025-11-25"}, 400, MISMATCH, id="the revision is that of the body"),
    pytest.param({"mcp-method": None}, 400, MISMATCH, id="the method has to be repeated"),
    pytest.param({"mcp-method": "tools/list"}, 400, MISMATCH, id="the method is that of the body"),
    pytest.param({"mcp-method": "TOOLS/CALL"}, 400, MISMATCH, id="values of headers have a case"),
    pytest.param({"mcp-name": None}, 400, MISMATCH, id="the name has to be repeated"),
    pytest.param({"mcp-name": "y"}, 400, MISMATCH, id="the name is that of the body"),
    pytest.param({"mcp-name": "=?base64?eQ==?="}, 400, MISMATCH, id="the name is decoded before it is compared"),
    pytest.param({"mcp-name": "=?base64?!?="}, 400, MISMATCH, id="a name that cannot be decoded is no name"),
    pytest.param({"origin": "http://evil.example"}, 403, None, id="a foreign page is forbidden"),
    pytest.param({"accept": "text/html"}, 406, None, id="both kinds of answer have to be taken"),
]
TAKEN: list[Any] = [
    pytest.param({}, id="all is said"),
    pytest.param({"mcp-name": "=?base64?eA==?="}, id="the name may come in its Base64 form"),
    pytest.param({"mcp-param-unknown": "1"}, id="unknown headers of arguments are ignored"),
    pytest.param({"mcp-session-id": "s", "last-event-id": "e-1"}, id="what sessions had is ignored"),
]


@among(STATELESS)
@pytest.mark.parametrize(("headers", "status", "code"), REFUSED)
async def test_a_request_that_breaks_a_rule_runs_nothing(rev: Rev, headers: Any, status: int, code: int | None) -> None:
    ran = asyncio.Event()
    async with web(rev, served(rev, ended=ran)) as client:
        answer = await client.answered(body=call(rev, loud=False), headers=headers)
        assert answer.status == status and not ran.is_set()
        assert code is None or answer.json["error"]["code"] == code


@among(STATELESS)
@pytest.mark.parametrize("headers", TAKEN)
async def test_a_request_that_keeps_the_rules_is_answered(rev: Rev, headers: Any) -> None:
    async with web(rev, served(rev)) as client:
        assert (await client.answered(body=call(rev, loud=False), headers=headers)).status == 200


@among(STATELESS)
async def test_other_bodies_than_requests_and_notifications_are_refused(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        for body in ({"jsonrpc": "2.0", "id": 1, "result": {}}, [call(rev)]):
            sent: Any = body
            assert (await client.answered(body=sent, headers={"mcp-protocol-version": rev.id})).status == 400
        told = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": rev.meta()}}
        answer = await client.answered(body=told)
        assert (answer.status, answer.content) == (202, b"")
        absent = await client.answered(body=rev.request(1, "no/such"))
        assert (absent.status, absent.json["error"]["code"]) == (404, NO_METHOD)
        older = call(rev, loud=False)
        older["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1999-01-01"
        answer = await client.answered(body=older, headers={"mcp-protocol-version": "1999-01-01"})
        assert (answer.status, answer.json["error"]["code"]) == (400, UNSUPPORTED)


@among(STATELESS)
async def test_a_stream_holds_what_belongs_to_its_request_and_ends_with_its_answer(rev: Rev) -> None:
    async with web(rev, served(rev)) as client:
        answer = await client.answered(body=call(rev))
        assert answer.headers["content-type"] == EVENTS and answer.headers["x-accel-buffering"] == "no"
        assert ids(answer) == [1] and "id" in answer.said[-1] and not any(event.id for event in answer.events)


@among(STATELESS)
async def test_a_stranger_cannot_fill_the_memory_for_heads(rev: Rev) -> None:
    heads = Heads(Origins.of(None, None), Spoken.of({rev.id: rev.revision}))
    for number in range(50):
        raw = [(b"host", b"localhost"), (b"accept", BOTH.encode()), (b"x-filler", b"%05d" % number * 1000)]
        assert heads.read("POST", raw).headers["x-filler"]
    assert not heads._seen
