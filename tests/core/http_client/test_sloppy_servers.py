"""Servers that do not keep to the letter, as many that somebody wrote by hand: what can be understood is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoints import HANDSHAKE, Rev, among
from support.http.raw_server import STREAM, Got, Raw, Write, always, reply, result, run, serving, text_result

from mcp_generated import App, Client
from mcp_runtime.errors import HTTPStatusError
from mcp_runtime.http.sse import encode

NO_METHOD = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "no such method"}}).encode()
REFUSALS = {
    "400": reply(b"", 400),
    "an error": reply(NO_METHOD, 400),
    "an error, 200": reply(NO_METHOD, 200),
    "404": reply(b"", 404),
    "405": reply(b"", 405),
    "500": reply(b"oops", 500, "text/plain"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@among(HANDSHAKE)
def test_a_server_may_refuse_to_hear_that_the_client_is_initialized(rev: Rev, refusal: str) -> None:
    async def test() -> None:
        raw = Raw({"notifications/initialized": always(REFUSALS[refusal])}, session=None)
        async with serving(raw), Client(raw.url, revisions=[rev.id]) as client:
            assert (await client.call_tool("x")).text == "usual"
            async with Client(App.proxy(raw.url)) as proxied:
                assert (await proxied.call_tool("x")).text == "usual"
        assert len(raw.requests_of("notifications/initialized")) == 2

    run(test())


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_token_for_it_is_not_connected(status: int) -> None:
    async def test() -> None:
        raw = Raw({"notifications/initialized": always(reply(b"", status))}, session=None)
        async with serving(raw):
            with pytest.raises(HTTPStatusError, match=str(status)):
                await Client(raw.url, revisions="handshake").__aenter__()

    run(test())


@pytest.mark.parametrize("as_events", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("status", [200, 201])
@among(HANDSHAKE)
def test_an_answer_may_repeat_the_number_of_its_request_as_a_text(rev: Rev, status: int, as_events: bool) -> None:
    def answer(got: Got, value: Any) -> bytes:
        got.body["id"] = str(got.body["id"])
        if as_events:
            return STREAM.replace(b"200", b"%d" % status) + encode(result(got, value))
        return reply(result(got, value), status)

    async def called(got: Got, write: Write) -> None:
        await write(answer(got, text_result("right")))

    async def test() -> None:
        raw = Raw({"tools/call": called})
        async with serving(raw), Client(raw.url, revisions=[rev.id]) as client:
            assert (await client.call_tool("x")).text == "right"

    run(test())


@pytest.mark.parametrize("cursor", ["", "more"])
@among(HANDSHAKE)
def test_a_list_whose_server_ignores_cursors_has_each_tool_once(rev: Rev, cursor: str) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in "ab"]

    async def listed(got: Got, write: Write) -> None:
        await write(reply(result(got, {"tools": tools, "nextCursor": cursor})))

    async def test() -> None:
        raw = Raw({"tools/list": listed})
        async with serving(raw), Client(raw.url, revisions=[rev.id]) as client:
            assert [tool.name for tool in await client.list_tools()] == ["a", "b"]
            assert [tool.name async for tool in client.iter_tools()] == ["a", "b"]

    run(test())
