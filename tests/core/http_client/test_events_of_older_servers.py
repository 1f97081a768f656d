"""Servers that choose 2024-11-05: over HTTP+SSE, only events of the kind `message` are messages; over Streamable HTTP,
which is younger, the client goes on with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.endpoints import HANDSHAKE
from support.http.raw_server import STREAM, Got, Raw, Write, reply, result, run, serving, text, text_result

from mcp_generated import Client, v2024_11_05
from mcp_runtime.http.sse import encode

OPENED = {"capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}


@pytest.mark.parametrize("kind", ["ping", "error", "Message", "message ", "endpoints", "mcp"])
@pytest.mark.parametrize("data", ["answer", "notification", "not JSON", ""])
def test_events_of_other_kinds_are_ignored(kind: str, data: str) -> None:
    events: asyncio.Queue[bytes] = asyncio.Queue()
    logged: list[Any] = []

    async def stream(got: Got, write: Write) -> None:
        await write(STREAM + encode(b"/messages", kind="endpoint"))
        while True:
            await write(await events.get())

    async def opened(got: Got, write: Write) -> None:
        if got.path != "/messages":
            await write(reply(b"", 405))
            return
        await write(reply(b"", 202))
        version = {"protocolVersion": got.body["params"]["protocolVersion"]}
        events.put_nowait(encode(result(got, {**version, **OPENED})))

    async def called(got: Got, write: Write) -> None:
        await write(reply(b"", 202))
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "wrong"}}
        bodies = {"answer": result(got, text_result("wrong")), "notification": json.dumps(log).encode()}
        events.put_nowait(encode(bodies.get(data, data.encode()), kind=kind))
        events.put_nowait(encode(result(got, text_result("right")), kind="message"))

    class Logged(v2024_11_05.Client):
        async def on_log(self, ctx: Any, params: Any) -> None:
            logged.append(params)

    async def test() -> None:
        raw = Raw({"GET": stream, "initialize": opened, "tools/call": called})
        async with serving(raw), Logged.http(raw.url) as client:
            assert text(await client.call_tool(name="x")) == "right"
            assert text(await client.call_tool(name="x")) == "right"
        assert logged == []

    run(test())


OFFERED: list[str | list[str]] = [
    "all",
    ["2024-11-05"],
    *([rev.id, "2024-11-05"] for rev in HANDSHAKE if rev.id != "2024-11-05"),
]


@pytest.mark.parametrize("as_events", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("offered", OFFERED, ids=str)
def test_a_server_of_streamable_http_may_choose_the_version_before_it(
    offered: str | list[str], as_events: bool
) -> None:
    def answer(got: Got, value: dict[str, Any]) -> bytes:
        return STREAM + encode(result(got, value)) if as_events else reply(result(got, value))

    async def opened(got: Got, write: Write) -> None:
        await write(answer(got, {"protocolVersion": "2024-11-05", **OPENED}))

    async def called(got: Got, write: Write) -> None:
        await write(answer(got, text_result("right")))

    async def discovered(got: Got, write: Write) -> None:
        error = {"code": -32601, "message": "no such method"}
        await write(reply(json.dumps({"jsonrpc": "2.0", "id": got.body["id"], "error": error}).encode()))

    async def refused(got: Got, write: Write) -> None:
        await write(reply(b"", 405))

    async def test() -> None:
        answers = {"GET": refused, "initialize": opened, "tools/call": called, "server/discover": discovered}
        raw = Raw(answers)
        async with serving(raw), Client(raw.url, revisions=offered) as client:
            assert client.protocol_version == "2024-11-05"
            assert (await client.call_tool("x")).text == "right"

    run(test())
