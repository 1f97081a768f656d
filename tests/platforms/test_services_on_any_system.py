"""Servers over HTTP and in memory, their end, and files that they share: this runs on Linux, macOS and Windows."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from support.systems import is_wine

from mcp_generated import App, connect

LIMIT: Final = 120.0
ACCEPT: Final = {"accept": "application/json, text/event-stream"}
HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
SIGNALS: Final = ["SIGINT", "SIGBREAK" if sys.platform == "win32" else "SIGTERM"]
SERVER: Final = """
import json, signal, sys, threading
from mcp_generated import App

app = App("any system")

@app.tool
def add(a: int, b: int) -> int:
    return a + b

@app.tool
async def end(number: int) -> str:
    threading.Timer(0.1, signal.raise_signal, [number]).start()  # In another thread, as Windows sends Ctrl-C.
    return "soon"

if __name__ == "__main__":
    app.run(**json.loads(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server in a folder whose name has a space and an umlaut."""
    file = tmp_path_factory.mktemp("Jürgen Müller") / "server.py"
    file.write_text(SERVER, encoding="utf-8")
    return file


@contextmanager
def serving(program: Path, **settings: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server over HTTP at a free port, and yield its URL and its process, which is ended."""
    words = json.dumps({"transport": "http", "port": 0, **settings})
    pipe = subprocess.PIPE
    line = [sys.executable, str(program), words]
    with subprocess.Popen(line, stderr=pipe, text=True, encoding="utf-8", cwd=program.parent) as server:
        assert server.stderr is not None
        try:
            url = next(line.rpartition(" ")[2].strip() for line in server.stderr if "listening at" in line)
            yield url, server
        finally:
            server.kill()


async def test_a_client_calls_a_server_over_http(program: Path) -> None:
    with serving(program) as (url, _):
        async with connect(url) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_a_client_calls_an_app_in_memory() -> None:
    app = App("in memory")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with connect(app) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_clients_that_reset_their_connections_do_not_end_a_server(program: Path) -> None:
    """asyncio's own loop of Windows closes the listening socket: https://github.com/python/cpython/issues/93821"""
    with serving(program) as (url, server):
        port = int(url.rpartition(":")[2].partition("/")[0])
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                rude.sendall(b"POST /mcp HTTP/1.1\r\n")
        async with connect(url) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        server.kill()
        assert server.stderr is not None and "Traceback" not in server.stderr.read()


@pytest.mark.parametrize("name", SIGNALS)
async def test_a_signal_ends_a_server_over_http(program: Path, name: str) -> None:
    with serving(program) as (url, server):
        async with connect(url) as client:
            await client.call_tool("end", {"number": int(getattr(signal, name))})
        server.communicate(timeout=LIMIT)
        assert "Traceback" not in (server.stderr.read() if server.stderr and not server.stderr.closed else "")
    assert server.returncode is not None


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_ends_a_server_over_stdio(program: Path, name: str) -> None:
    number = int(getattr(signal, name))
    call = {"name": "end", "arguments": {"number": number}}
    messages = [("initialize", HELLO, 1), ("notifications/initialized", {}, None), ("tools/call", call, 2)]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(program), "{}"], stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        for method, params, id in messages:
            fields = {"jsonrpc": "2.0", "method": method, "params": params}
            server.stdin.write(json.dumps({**fields, "id": id} if id else fields).encode() + b"\n")
        server.stdin.flush()
        answers = [json.loads(line) for line in server.stdout]  # Its input stays open: the signal ends it.
        assert server.wait(LIMIT) == (128 + number if sys.platform == "win32" else -number)
        assert b"Traceback" not in server.stderr.read()
    assert [answer["id"] for answer in answers] == [1, 2]


async def test_two_processes_share_a_store_in_sqlite(program: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{(tmp_path / 'shared ö.db').as_posix()}"
    with serving(program, store=store) as (first, _), serving(program, store=store) as (second, _):
        async with httpx2.AsyncClient(timeout=LIMIT) as web:

            async def post(url: str, headers: dict[str, str], **fields: Any) -> httpx2.Response:
                return await web.post(url, json={"jsonrpc": "2.0", **fields}, headers={**ACCEPT, **headers})

            opened = await post(first, {}, id=0, method="initialize", params=HELLO)
            session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            assert (await post(first, session, method="notifications/initialized")).status_code == 202
            for url in (second, first, second):
                call = {"name": "add", "arguments": {"a": 1, "b": 2}}
                answer = await post(url, session, id=1, method="tools/call", params=call)
                assert answer.status_code == 200 and '"result":3' in answer.text.replace(" ", ""), answer.text


def command(module: str, *words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the generator, or of servers, to its end."""
    line = [sys.executable, "-m", module, *words]
    env = {**os.environ, **variables}
    return subprocess.run(line, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=env, timeout=LIMIT)


def test_a_package_with_an_open_file_is_replaced_or_stays_whole(tmp_path: Path) -> None:
    """Windows renames no folder with an open file; wine, Linux and macOS do."""
    words = ("--output", "own")
    assert command("mcp_codegen", "--revision", "2025-11-25", *words, cwd=tmp_path).returncode == 0
    with next((tmp_path / "own").rglob("*.py")).open(encoding="utf-8"):
        again = command("mcp_codegen", "--revision", "2025-06-18", *words, cwd=tmp_path)
    replaced = again.returncode == 0
    if sys.platform != "win32" or is_wine():
        assert replaced, again.stderr
    else:
        assert not replaced and "nothing was changed" in again.stderr
    revision = "2025-06-18" if replaced else "2025-11-25"
    checked = command("mcp_codegen", "--revision", revision, *words, "--check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert is_wine() or [path.name for path in tmp_path.iterdir()] == [
        "own"
    ]  # wine keeps the old folder with the file.
