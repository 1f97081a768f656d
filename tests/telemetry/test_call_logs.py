"""DEBUG shows connections, calls and errors with times on both sides, and nothing of it runs without DEBUG."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.observed_clients import CELLS, observed_client

from mcp_generated import App, JSONRPCError
from mcp_runtime.server.service import ServerDispatcher
from mcp_runtime.session.session import Session

TIME = re.compile(r"\d+\.\d ms")


def failing() -> App:
    app = App("failing", version="2")

    @app.tool
    async def refuse(password: str) -> str:
        raise JSONRPCError(-32000, "closed today")

    @app.tool
    async def fail(password: str) -> str:
        raise OSError("details")

    return app


@among(ALL_REVISIONS)
async def test_both_sides_log_connections_calls_and_errors_with_times(
    rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcp_runtime")
    async with rev.package.Client.memory(failing(), name="tester") as client:
        await client.call_tool("fail", {"password": "hunter2"})
        with pytest.raises(Exception, match="closed today"):
            await client.call_tool("refuse", {"password": "hunter2"})
    lines: dict[str, list[str]] = {
        side: [TIME.sub("T", r.getMessage()) for r in caplog.records if r.name == f"mcp_runtime.{side}.calls"]
        for side in ("client", "server")
    }
    client_lines, server_lines = lines["client"], lines["server"]
    for expected in (
        f"connected to failing with {rev.id} in T",
        "tools/call 'fail' begins",
        "tools/call 'fail' has an error result after T",
        "tools/call 'refuse' failed after T: RemoteJSONRPCError: closed today (code -32000)",
        "disconnected from failing after T: by this client",
    ):
        assert client_lines.count(expected) == 1, client_lines
    for expected in (
        "tester: tools/call 'fail' begins",
        "tester: tools/call 'fail' has an error result after T",
        "tester: tools/call 'refuse' failed after T: JSONRPCError: closed today",
        *(() if rev.stateless else (f"tester 0 has connected with {rev.id}", "tester has disconnected after T")),
    ):
        assert server_lines.count(expected) == 1, server_lines
    assert "hunter2" not in caplog.text


@CELLS
async def test_the_client_logs_over_each_transport(transport: str, rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_runtime.client.calls")
    async with observed_client(transport, rev) as client:
        await client.list_tools()
    lines = [TIME.sub("T", record.getMessage()) for record in caplog.records]
    assert f"connected to observed with {rev.id} in T" in lines
    assert "tools/list has a result after T" in lines
    assert lines[-1] == "disconnected from observed after T: by this client"


async def test_nothing_of_it_runs_without_debug(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    """The classes that log are not used at all."""
    caplog.set_level(logging.INFO, "mcp_runtime")
    sessions: list[type[Any]] = []
    dispatchers: list[type[Any]] = []
    session_init, dispatcher_init = Session.__init__, ServerDispatcher.__init__
    monkeypatch.setattr(
        Session, "__init__", lambda self, *a, **k: (sessions.append(type(self)), session_init(self, *a, **k))[1]
    )
    monkeypatch.setattr(
        ServerDispatcher, "__init__", lambda self, *a: (dispatchers.append(type(self)), dispatcher_init(self, *a))[1]
    )
    for rev in ALL_REVISIONS:
        async with asyncio.timeout(10), rev.package.Client.memory(failing()) as client:
            await client.list_tools()
    assert set(sessions) == {Session} and set(dispatchers) == {ServerDispatcher}
