"""A server and its client over stdio, with what each system has of its own: this runs on Linux, macOS and Windows."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_runtime.errors import ConnectionClosedError

SERVER = """
import os, subprocess, sys, time
from mcp_generated import App

app = App("any system")

@app.tool
def arguments() -> list[str]:
    return sys.argv[1:]

@app.tool
def show(text: str) -> str:
    print(text)
    return text

@app.tool
def variables() -> list[str]:
    return sorted(os.environ)

@app.tool
def start_child() -> int:
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE).pid

@app.tool
def die() -> None:
    os._exit(7)

app.run("stdio")
"""

ARGUMENTS = ["plain", "with space", "", '"quoted"', "%PATH%", "a&b", "^|<>", "back\\slash\\", "é 日本"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The server as users start it: by a batch file on Windows, as npx and uvx are, and by a script elsewhere."""
    folder = tmp_path_factory.mktemp("any system")
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    if sys.platform == "win32":
        (folder / "serve.cmd").write_text(f'@"{sys.executable}" "%~dp0server.py" %*\r\n')
        return str(folder / "serve")
    script = folder / "serve"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/server.py" "$@"\n')
    script.chmod(0o755)
    return str(script)


def client_of(program: str, *arguments: str, **settings: Any) -> Any:
    """Return a client of the server, whose interpreter finds our packages."""
    path = os.pathsep.join(filter(None, sys.path))
    return connect([program, *arguments], env={"PYTHONPATH": path}, **settings)


@pytest.mark.long
@pytest.mark.deadline(60)
async def test_calls_arguments_and_text_go_through(program: str) -> None:
    lines: list[str] = []
    async with client_of(program, *ARGUMENTS, stderr=lines.append) as client:
        assert (await client.call_tool("arguments")).structured_content == {"result": ARGUMENTS}
        for text in ("é 日本 😀", "two\r\nlines\n", "x" * 1_000_000):
            assert (await client.call_tool("show", {"text": text})).content[0].text == text
        names = {name.upper() for name in (await client.call_tool("variables")).structured_content["result"]}
    assert "é 日本 😀" in lines
    assert names >= ({"APPDATA", "SYSTEMROOT", "PATH"} if sys.platform == "win32" else {"HOME", "PATH"})


@pytest.mark.long
@pytest.mark.deadline(60)
async def test_a_server_that_dies_fails_the_call_and_leaves_no_thread(program: str) -> None:
    threads = threading.active_count()
    async with client_of(program) as client:
        assert (await client.call_tool("start_child")).structured_content["result"] > 0
        with pytest.raises(ConnectionClosedError, match="exit code 7"):
            await client.call_tool("die")
    assert threading.active_count() <= threads


async def test_a_program_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    for name in ("nothing-of-this-name", str(tmp_path / "nothing.cmd")):
        with pytest.raises(ConnectionClosedError, match="cannot be started"):
            async with client_of(name):
                pass


WAKEUP = """
import signal
from mcp_generated import App

app = App("wakeup")

@app.tool
async def descriptor() -> int:
    number = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(number)
    return number

app.run("stdio")
"""


@pytest.mark.parametrize("mode", ["", "threads"])
async def test_a_signal_wakes_an_event_loop_that_is_about_to_wait(mode: str) -> None:
    """Without a descriptor to write to, a signal that arrives just before the loop waits is handled much later."""
    path = os.pathsep.join(filter(None, sys.path))
    env = {"PYTHONPATH": path, "MCP_STDIO": mode}
    async with connect([sys.executable, "-c", WAKEUP], env=env) as client:
        assert (await client.call_tool("descriptor")).structured_content["result"] >= 0
