"""A request that is JSON, and that the parser does not read: who sent it gets the error by its id, at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, INVALID_REQUEST, PARSE_ERROR, Rev, among, server_of, wire_to

from mcp_runtime.protocol.jsonrpc import MalformedMessage, decode

UNREAD = {
    "too deep": "[" * 300 + "]" * 300,
    "objects too deep": '{"a":' * 300 + "1" + "}" * 300,
    "half a pair": r'"a\ud83dz"',
    "half a pair at the end": r'"\ud83d"',
    "the second half": r'"\udc00"',
    "two first halves": r'"\ud83d\ud83d"',
    "many digits": "9" * 5000,
}
FORMS = {
    "id first": '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"a":%s}}',
    "id last": '{"jsonrpc":"2.0","method":"tools/call","params":{"a":%s},"id":%s}',
}


def request(form: str, id: int | str, value: str) -> bytes:
    shown = json.dumps(id)
    return (FORMS[form] % ((value, shown) if form == "id last" else (shown, value))).encode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", UNREAD)
def test_json_that_is_not_read_is_an_invalid_request_with_its_id(form: str, kind: str) -> None:
    for id in (0, 7, "a-1"):
        message = decode(request(form, id, UNREAD[kind]))
        assert isinstance(message, MalformedMessage)
        assert (message.code, message.id, message.is_response) == (INVALID_REQUEST, id, False)
        assert "JSON that cannot be read here" in message.message


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_json_is_a_parse_error_without_an_id(form: str) -> None:
    for value in ("01", "'a'", r'"\uzzzz"', r'"\ud8"', "[1,]"):
        message = decode(request(form, 7, value))
        assert isinstance(message, MalformedMessage)
        assert (message.code, message.id) == (PARSE_ERROR, None), value


@among(ALL_REVISIONS)
@pytest.mark.parametrize("kind", ["too deep", "half a pair"])
async def test_a_client_gets_the_answer_to_its_request(rev: Rev, kind: str) -> None:
    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult(tools=[])

    async with wire_to(server_of(rev, list_tools=list_tools), opened=rev) as wire:
        wire.send(request("id first", 7, UNREAD[kind]))
        answer = await wire.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, INVALID_REQUEST)
        assert "result" in await wire.request(rev.request(8, "tools/list", {}))
