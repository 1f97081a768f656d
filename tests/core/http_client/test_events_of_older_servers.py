"""The stream of an HTTP+SSE server: only events of the kind `message` are messages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.http.raw_server import STREAM, Got, Raw, Write, reply, result, run, serving, text, text_result

from mcp_generated import v2024_11_05
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
        await write(reply(b"", 202))
        version = {"protocolVersion": got.body["params"]["protocolVersion"]}
        events.put_nowait(encode(result(got, {**version, **OPENED})))

    async def called(got: Got, write: Write) -> None:
        await write(reply(b"", 202))
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "wrong"}}
        bodies = {"answer": result(got, text_result("wrong")), "notification": json.dumps(log).encode()}
        events.put_nowait(encode(bodies.get(data, data.encode()), kind=kind))
        events.put_nowait(encode(result(got, text_result("right")), kind="message"))

    class Client(v2024_11_05.Client):
        async def on_log(self, ctx: Any, params: Any) -> None:
            logged.append(params)

    async def test() -> None:
        raw = Raw({"GET": stream, "initialize": opened, "tools/call": called})
        async with serving(raw), Client.http(raw.url) as client:
            assert text(await client.call_tool(name="x")) == "right"
            assert text(await client.call_tool(name="x")) == "right"
        assert logged == []

    run(test())
