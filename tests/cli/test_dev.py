"""`mcp-generated dev`: a server that starts again when its files change, and the Inspector beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from support.cli.commands import LIMIT, command_line, listening, mcp_codegen
from support.clients import connect
from support.processes import free_port

from mcp_codegen.cli.apps.running import FileWatcher
from mcp_generated import MCPError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for a process")

SERVER = '''
from mcp_generated import App
from helper import VALUE

app = App("developed")


@app.tool()
def value() -> str:
    """Return the value."""
    return VALUE
'''


def project(folder: Path) -> Path:
    (folder / "server.py").write_text(SERVER)
    (folder / "helper.py").write_text("VALUE = 'one'\n")
    return folder / "server.py"


def value_until(url: str, expected: str) -> str:
    """Call the tool until it returns what is expected: a server that starts again refuses connections meanwhile."""

    async def call() -> str:
        async with connect(url) as client:
            return str((await client.call_tool("value", timeout=10)).content[0].text)  # type: ignore[union-attr]

    deadline, value = time.monotonic() + LIMIT, ""
    while value != expected and time.monotonic() < deadline:
        try:
            value = asyncio.run(call())
        except (MCPError, OSError):
            time.sleep(0.1)
    return value


@pytest.mark.long
def test_it_starts_again_when_a_file_beside_the_server_changes(tmp_path: Path) -> None:
    file, port = project(tmp_path), free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = command_line("dev", file, "--port", str(port), "--no-inspector")
    with listening(command, port, {"PYTHONDONTWRITEBYTECODE": "1"}) as process:
        assert value_until(url, "one") == "one"
        (tmp_path / "helper.py").write_text("VALUE = \n")  # A server that does not start waits for the next change.
        assert process.stderr is not None
        assert any("it starts again when a file changes" in line for line in process.stderr)
        (tmp_path / "helper.py").write_text("VALUE = 'three'\n")
        assert value_until(url, "three") == "three"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
        assert "helper.py changed: the server starts again" in process.stderr.read()
    with pytest.raises(OSError):  # The server has ended too.
        socket.create_connection(("127.0.0.1", port), timeout=1)


@pytest.mark.long
def test_the_inspector_gets_the_url_of_the_server(tmp_path: Path) -> None:
    """A program with the name npx writes its arguments to a file."""
    file, port, written = project(tmp_path), free_port(), tmp_path / "written"
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(f'#!/bin/sh\necho "$@" > {written}.part && mv {written}.part {written}\nexec sleep 1000\n')
    npx.chmod(0o755)
    path = f"{npx.parent}{os.pathsep}{os.environ['PATH']}"
    with listening(command_line("dev", file, "--port", str(port)), port, {"PATH": path}):
        deadline = time.monotonic() + LIMIT
        while not written.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        url = f"http://127.0.0.1:{port}/mcp"
        assert written.read_text() == f"-y @modelcontextprotocol/inspector --transport http --server-url {url}\n"


@pytest.mark.long
def test_without_npx_it_says_so_and_serves(tmp_path: Path) -> None:
    file, port = project(tmp_path), free_port()
    with listening(command_line("dev", file, "--port", str(port)), port, {"PATH": str(tmp_path)}) as process:
        assert value_until(f"http://127.0.0.1:{port}/mcp", "one") == "one"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0 and process.stderr is not None
        assert "the MCP Inspector was not started: npx (Node.js) is not on the PATH" in process.stderr.read()


def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    for words in (("missing.py",), ("server.py", "--watch", "nowhere")):
        project(tmp_path)
        done = mcp_codegen("dev", *words, folder=tmp_path)
        assert done.returncode == 2 and words[-1] in done.stderr and done.stderr.count("\n") == 1


def test_changes_are_seen_below_the_folder_but_not_in_environments(tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.py", "data.txt", ".git/c.py", "venv/pyvenv.cfg", "venv/d.py", "node_modules/e.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    watcher = FileWatcher([tmp_path])
    assert watcher.changes() == []
    for name in ("a.py", "deep/b.py", "data.txt", ".git/c.py", "venv/d.py", "node_modules/e.py", ".env"):
        (tmp_path / name).write_text("changed")
    assert [path.relative_to(tmp_path).as_posix() for path in watcher.changes()] == [".env", "a.py", "deep/b.py"]
    (tmp_path / "a.py").unlink()
    assert watcher.changes() == [tmp_path / "a.py"]
    assert watcher.changes() == []
