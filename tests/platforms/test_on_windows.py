"""What only Windows has, on Windows itself or under wine: elsewhere it is emulated, in test_emulated_windows.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest
from support.project import ROOT

from mcp_generated import connect

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="this is about Windows")

LIMIT: Final = 120.0
HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
SERVER: Final = """
import subprocess, sys
from mcp_generated import App

app = App("windows")

@app.tool
def show(text: str) -> str:
    print(text)
    return text

@app.tool
def arguments() -> list[str]:
    return sys.argv[1:]

@app.tool
def child() -> int:
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(sleeping, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid

app.run("stdio")
"""
CLIENT: Final = """
import asyncio, os, sys
from mcp_generated import connect

async def main():
    async with connect([sys.executable, sys.argv[1]], env=dict(os.environ)) as client:
        print((await client.call_tool("child")).structured_content["result"], flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A server whose path has a space and an umlaut."""
    folder = tmp_path / "Jürgen Müller"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    return folder / "server.py"


def is_running(pid: int) -> bool:
    """Return whether a process has not ended."""
    import ctypes

    kernel32: Any = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel32.OpenProcess(0x00100000, False, pid)  # SYNCHRONIZE
    if not handle:
        return False
    try:
        return bool(kernel32.WaitForSingleObject(handle, 0) == 0x102)  # WAIT_TIMEOUT
    finally:
        kernel32.CloseHandle(handle)


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended. Raises AssertionError if it does not."""
    deadline = time.monotonic() + LIMIT
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} has not ended"
        time.sleep(0.05)


def message(id: int | None, method: str, params: dict[str, Any]) -> bytes:
    fields = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(fields if id is None else {**fields, "id": id}).encode() + b"\r\n"


def test_a_server_reads_cr_lf_and_writes_lf_in_utf_8(server: Path) -> None:
    call = message(2, "tools/call", {"name": "show", "arguments": {"text": "日本 é\x1a"}})
    lines = [message(1, "initialize", HELLO), message(None, "notifications/initialized", {}), call]
    done = subprocess.run([sys.executable, str(server)], input=b"".join(lines), capture_output=True, timeout=LIMIT)
    assert done.returncode == 0 and b"\r" not in done.stdout
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[1]["result"]["content"][0]["text"] == "日本 é\x1a"
    assert "日本 é\x1a" in done.stderr.decode("utf-8")


@pytest.mark.deadline(60)
@pytest.mark.parametrize("name", ["npx", "npx.cmd"])
async def test_npx_is_found_as_a_batch_file_and_gets_its_arguments(name: str, server: Path) -> None:
    folder = server.parent / "node js"
    folder.mkdir()
    (folder / "npx.cmd").write_text(f'@"{sys.executable}" "%~dp0..\\server.py" %*\r\n', encoding="oem")
    words = ["-y", "@scope/package@latest", "a b", 'say "hi"', "ümläut", "a&b", "^|<>", "C:\\folder\\", ""]
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    async with connect([name, *words], env={**os.environ, "PATH": path}) as client:
        assert (await client.call_tool("arguments")).structured_content == {"result": words}


@pytest.mark.deadline(60)
async def test_what_a_server_has_started_ends_with_its_client(server: Path) -> None:
    async with connect([sys.executable, str(server)], env=dict(os.environ)) as client:
        child = (await client.call_tool("child")).structured_content["result"]
        assert is_running(child)
    wait_for_end(child)


def test_a_client_that_is_killed_takes_its_servers_with_it(server: Path) -> None:
    command = [sys.executable, "-c", CLIENT, str(server)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        child = int(client.stdout.readline())
        assert is_running(child)
        client.kill()
    wait_for_end(child)


def command(*words: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the generator, or one for servers, to its end."""
    line = [sys.executable, "-m", "mcp_codegen", *words]
    env = {**os.environ, **variables}
    return subprocess.run(line, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=env, timeout=LIMIT)


def test_a_server_is_entered_below_appdata_and_the_file_before_is_kept(server: Path, tmp_path: Path) -> None:
    roaming = tmp_path / "App Data ö"
    file = roaming / "Claude" / "claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    before = b'{\r\n  "mcpServers": {"other": {"command": "C:\\\\x.exe"}}\r\n}\r\n'
    file.write_bytes(before)
    done = command("install", str(server), "--host", "claude-desktop", cwd=tmp_path, APPDATA=str(roaming))
    assert done.returncode == 0, done.stdout + done.stderr
    servers = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    assert servers["other"] == {"command": "C:\\x.exe"} and len(servers) == 2
    assert [path.read_bytes() for path in file.parent.iterdir() if path != file] == [before]


def test_config_adds_shows_and_checks_a_server_below_appdata(server: Path, tmp_path: Path) -> None:
    roaming = str(tmp_path / "App Data ö")
    words = ["add", "math", "--env", "PLACE=C:\\Users\\Jürgen", "--", sys.executable, str(server)]
    added = command("config", *words, cwd=tmp_path, APPDATA=roaming)
    assert added.returncode == 0, added.stdout + added.stderr
    file = Path(roaming) / "Claude" / "claude_desktop_config.json"
    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["math"]
    assert (entry["command"], entry["args"]) == (sys.executable, [str(server)])
    assert entry["env"] == {"PLACE": "C:\\Users\\Jürgen"} and b"\r" not in file.read_bytes()
    for name, text in (("show", "math"), ("check", "1 server, no problems")):
        done = command("config", name, cwd=tmp_path, APPDATA=roaming)
        assert done.returncode == 0 and text in done.stdout, done.stdout + done.stderr


def test_a_package_is_written_and_replaced_while_a_process_has_imported_it(tmp_path: Path) -> None:
    written = command("--revision", "2025-11-25", "--output", "own", cwd=tmp_path)
    assert written.returncode == 0, written.stdout + written.stderr
    using = "import own, sys; print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", using], stdin=pipe, stdout=pipe, cwd=tmp_path) as user:
        assert user.stdout is not None
        user.stdout.readline()
        again = command("--revision", "2025-06-18", "--output", "own", cwd=tmp_path)
        user.communicate()
    assert again.returncode == 0, again.stdout + again.stderr
    checked = command("--revision", "2025-06-18", "--output", "own", "--check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert b"\r\n" not in b"".join(path.read_bytes() for path in (tmp_path / "own").rglob("*.py"))
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_workers_are_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    source = "from mcp_generated import App\nif __name__ == '__main__': App('x').run('http', port=0, workers=2)\n"
    (tmp_path / "server.py").write_text(source, encoding="utf-8")
    done = subprocess.run([sys.executable, "server.py"], capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT)
    assert done.returncode != 0 and "store=" in done.stderr, done.stderr
    assert ROOT.name not in done.stdout
