"""The examples of transports as programs, and what they refuse. Their features are tested in tests/core/features."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import unix_socket
from support.peers import started
from support.project import ROOT

from mcp_generated import App, ConnectionClosedError
from mcp_generated.v2026_07_28 import Client

EXAMPLES = ROOT / "examples" / "transports"


def app_named(name: str) -> App:
    app = App(name)

    @app.tool
    def double(text: str) -> str:
        return text * 2

    return app


def call_by_program(script: str, target: str, ready: str) -> str:
    """What the client prints that connects to the server of an example."""
    program = [sys.executable, str(EXAMPLES / script)]
    server = started([*program, target], dict(os.environ), "listening at ")
    try:
        url = server.output.split("listening at ")[1].strip()
        assert url.startswith(ready)
        done = subprocess.run([*program, "client", url], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout
    finally:
        server.process.terminate()
        server.process.wait(30)


@pytest.mark.long
def test_the_programs_talk_over_a_unix_socket(tmp_path: Path) -> None:
    assert call_by_program("unix_socket.py", str(tmp_path / "socket"), str(tmp_path)) == "Hello, Ada!\n"


@pytest.mark.long
def test_the_programs_talk_over_websocket() -> None:
    import_module("websockets")
    assert call_by_program("web_socket.py", "0", "ws://127.0.0.1:") == "Hello, Ada!\n"


async def test_a_unix_socket_is_for_its_user_alone_and_serves_many_clients(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with unix_socket.listening_at(path, [app_named("one")]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        clients = [Client(unix_socket.unix_connector(path), revisions="all") for _ in range(3)]
        for client in clients:
            await client.__aenter__()
        texts = [
            (await client.call_tool("double", {"text": "é\n"})).to_dict()["content"][0]["text"] for client in clients
        ]
        assert texts == ["é\né\n"] * 3
        with pytest.raises(OSError, match="in use"):
            async with unix_socket.listening_at(path, [app_named("two")]):
                pass
        for client in clients:
            await client.close()
    assert not path.exists()
    with pytest.raises(ConnectionClosedError, match="cannot connect"):
        async with Client(unix_socket.unix_connector(path)):
            pass


async def test_the_socket_of_a_server_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    unix_socket._bind(path).close()  # As a process leaves it that is killed.
    assert path.is_socket()
    async with unix_socket.listening_at(path, [app_named("new")]):
        async with Client(unix_socket.unix_connector(path), revisions="all") as client:
            assert client.server.name == "new"


async def test_a_message_that_is_too_long_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "MAX_BYTES", 1 << 16)
    path = tmp_path / "socket"
    async with unix_socket.listening_at(path, [app_named("one")]):
        async with Client(unix_socket.unix_connector(path), revisions="all") as client:
            with pytest.raises(ConnectionClosedError):
                await client.call_tool("double", {"text": "x" * (1 << 17)})
        async with Client(unix_socket.unix_connector(path), revisions="all") as client:
            with pytest.raises(ConnectionClosedError, match="more than 65536 bytes"):
                await client.call_tool("double", {"text": "x" * 40_000})


async def test_a_websocket_of_a_web_page_or_without_the_subprotocol_is_refused() -> None:
    import web_socket
    import websockets

    async with web_socket.listening_at("127.0.0.1", 0, [app_named("one")]) as port:
        url = f"ws://127.0.0.1:{port}"
        with pytest.raises(websockets.exceptions.InvalidStatus, match="403"):
            await websockets.connect(url, origin="http://page.example", subprotocols=["mcp"])
        with pytest.raises(websockets.exceptions.WebSocketException):
            connection = await websockets.connect(url)
            await asyncio.wait_for(connection.recv(), 10)
        async with Client(web_socket.websocket_connector(url), revisions="all") as client:
            assert (await client.call_tool("double", {"text": "a"})).to_dict()["content"][0]["text"] == "aa"
    with pytest.raises(ConnectionClosedError, match="cannot connect"):
        async with Client(web_socket.websocket_connector(url)):
            pass
