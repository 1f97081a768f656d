"""Calls that wait for a connection to a server which the settings change meanwhile get an error that says so."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.endpoints import STATELESS, Rev, among
from support.http.asgi_client import Web

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
