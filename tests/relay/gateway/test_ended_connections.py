"""What happens to calls of a server that the settings change meanwhile."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, STATELESS, Rev, among
from support.http.asgi_client import Web
from support.http.in_process import served_in_process
from support.http.raw_server import Got, Raw, Write, discover, reply, result, serving, text_result

from mcp_generated import Gateway


@among(STATELESS)
async def test_a_call_whose_connection_is_ended_by_a_reload_gets_an_error_with_its_reason(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream: dict[str, Any] = {"url": f"http://127.0.0.1:{port}/mcp", "prefix": ""}
    gateway = Gateway({"upstreams": {"silent": upstream}})
    app = gateway.app.asgi()
    caplog.set_level(logging.ERROR)
    call = Web(app, rev).request(body=rev.request(1, "resources/read", {"uri": "note://a"}))
    await begun.wait()
    upstream["headers"] = {"x-other": "1"}
    gateway.reload()
    answer = await call.whole()
    assert "'silent': the connection was ended" in answer.json["error"]["message"]
    assert not [record for record in caplog.records if record.exc_info]
    await app.close()
    server.close()


@among(ALL_REVISIONS[1:])
@pytest.mark.parametrize("is_gone", [True, False], ids=["removed", "changed"])
async def test_a_call_that_runs_ends_before_its_connection_does(rev: Rev, is_gone: bool) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(got: Got, write: Write) -> None:
        begun.set()
        await goes_on.wait()
        await write(reply(result(got, {**text_result("usual"), "resultType": "complete"})))

    async def listed(got: Got, write: Write) -> None:
        fields = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await write(reply(result(got, {"tools": [{"name": "x", "inputSchema": {"type": "object"}}], **fields})))

    raw = Raw({"tools/list": listed, "server/discover": discover, "tools/call": slow})
    async with serving(raw):
        upstreams: dict[str, Any] = {"shop": {"url": raw.url}, "other": {"url": raw.url}}
        gateway = Gateway({"upstreams": upstreams})
        async with (
            served_in_process(gateway.app.asgi()) as port,
            rev.package.Client.http(f"http://127.0.0.1:{port}/mcp") as client,
        ):
            call = asyncio.ensure_future(client.call_tool(name="shop_x"))
            await begun.wait()
            if is_gone:
                del upstreams["shop"]
            else:
                upstreams["shop"] = {"url": raw.url, "idle": 30}
            gateway.reload()
            await client.list_tools()
            goes_on.set()
            assert (await call).content[0].text == "usual"
